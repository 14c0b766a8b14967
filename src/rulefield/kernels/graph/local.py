"""Local search on a labeling: one node at a time, rules included."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def improve(net, scores, labels, sweeps, price):
    """Give each node in turn its best label while the others keep theirs, until nothing changes; returns the value.

    ``labels`` (uint64) is changed in place. On the way a broken hard rule or a forbidden pair costs ``price``, so
    that a labeling that breaks some is repaired; the value is ``-inf`` if it is not.
    """
    n = len(net.node_at) - 1
    for _ in range(sweeps):
        changed = False
        for v in range(n):
            begin = np.int64(net.node_at[v])
            best, pick = value_at(net, scores, labels, v, np.int64(labels[v]), price), np.int64(labels[v])
            for y in range(np.int64(net.node_at[v + 1]) - begin):
                if scores.unary[begin + y] == -np.inf or y == np.int64(labels[v]):
                    continue
                other = value_at(net, scores, labels, v, y, price)
                if other > best:
                    best, pick = other, y
            if pick != np.int64(labels[v]):
                labels[v] = pick
                changed = True
        if not changed:
            break
    return total_value(net, scores, labels)


@kernel
def run(net, f, labels, v, y):
    """Return the final state of automaton f under ``labels``, with node v (if >= 0) labeled y."""
    state = np.int64(0)
    row = np.int64(net.delta_at[f])
    size = np.int64(net.n_states[f])
    for p in range(net.automaton_ptr[f], net.automaton_ptr[f + 1]):
        node = np.int64(net.pos_node[p])
        label = y if node == v else np.int64(labels[node])
        letter = np.int64(net.letter[np.int64(net.letter_at[p]) + label])
        state = np.int64(net.delta[row + letter * size + state])
    return state


@kernel
def value_at(net, scores, labels, v, y, price):
    """Sum up what depends on node v when it has label y; nothing costs more than ``price``."""
    begin = np.int64(net.node_at[v])
    size = np.int64(net.node_at[v + 1]) - begin
    value = max(scores.unary[begin + y], -price)
    for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
        other = net.inc_other[k]
        z = np.int64(labels[other])
        if k < net.inc_mid[v]:
            place = z * size + y
        else:
            place = y * (np.int64(net.node_at[other + 1]) - np.int64(net.node_at[other])) + z
        value += max(scores.pairwise[np.int64(net.inc_pair[k]) + place], -price)
    for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
        f = net.pos_automaton[net.at_pos[k]]
        value += max(scores.final[np.int64(net.final_at[f]) + run(net, f, labels, v, y)], -price)
    return value


@kernel
def total_value(net, scores, labels):
    """Score of a labeling with the final scores of all automata."""
    value = 0.0
    for v in range(len(net.node_at) - 1):
        begin = np.int64(net.node_at[v])
        size = np.int64(net.node_at[v + 1]) - begin
        y = np.int64(labels[v])
        value += scores.unary[begin + y]
        for k in range(net.inc_ptr[v], net.inc_mid[v]):
            z = np.int64(labels[net.inc_other[k]])
            value += scores.pairwise[np.int64(net.inc_pair[k]) + z * size + y]
    for f in range(len(net.n_states)):
        value += scores.final[np.int64(net.final_at[f]) + run(net, f, labels, -1, 0)]
    return value
