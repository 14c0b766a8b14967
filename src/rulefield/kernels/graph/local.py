"""Local search on a labeling: one node at a time, rules included; and the best mixture of two labelings."""

import numpy as np

from rulefield.kernels.arrays import overwrite
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


@kernel
def place_in_pair(net, v, k, y, z):
    """Place of the pair score of label y at v and label z at its k-th incidence's other node."""
    other = net.inc_other[k]
    if k < net.inc_mid[v]:
        wide = np.int64(net.node_at[v + 1]) - np.int64(net.node_at[v])
        return np.int64(net.inc_pair[k]) + z * wide + y
    wide = np.int64(net.node_at[other + 1]) - np.int64(net.node_at[other])
    return np.int64(net.inc_pair[k]) + y * wide + z


@kernel
def value_near(net, unary, pairwise, final, labels, v, group, number):
    """Sum up what node v adds: its score, its edges (inside a group from the earlier end only), its rules' share."""
    begin = np.int64(net.node_at[v])
    y = np.int64(labels[v])
    value = unary[begin + y]
    for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
        w = np.int64(net.inc_other[k])
        if group[w] == number and k < net.inc_mid[v]:
            continue
        value += pairwise[place_in_pair(net, v, k, y, np.int64(labels[w]))]
    for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
        p = net.at_pos[k]
        f = net.pos_automaton[p]
        first = True
        for q in range(net.automaton_ptr[f], p):
            first = first and group[np.int64(net.pos_node[q])] != number
        if first:
            value += final[np.int64(net.final_at[f]) + run(net, f, labels, -1, 0)]
    return value


@kernel
def cross(net, unary, pairwise, final, labels, other):
    """Take over from ``other`` each connected group of differing nodes that is worth more; ``labels`` in place.

    Groups that share no edge and no rule are independent, so this is the best of all 2^groups mixtures.
    """
    n = len(net.node_at) - 1
    group = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    trial = labels.copy()
    for root in range(n):
        if labels[root] == other[root] or group[root] >= 0:
            continue
        queue[0] = root
        group[root] = root
        head, filled = 0, 1
        while head < filled:
            v = queue[head]
            head += 1
            for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
                w = np.int64(net.inc_other[k])
                if labels[w] != other[w] and group[w] < 0:
                    group[w] = root
                    queue[filled] = w
                    filled += 1
            for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
                f = net.pos_automaton[net.at_pos[k]]
                for q in range(net.automaton_ptr[f], net.automaton_ptr[f + 1]):
                    w = np.int64(net.pos_node[q])
                    if labels[w] != other[w] and group[w] < 0:
                        group[w] = root
                        queue[filled] = w
                        filled += 1
        before, after = 0.0, 0.0
        for k in range(filled):
            before += value_near(net, unary, pairwise, final, labels, queue[k], group, root)
        for k in range(filled):
            trial[queue[k]] = other[queue[k]]
        for k in range(filled):
            after += value_near(net, unary, pairwise, final, trial, queue[k], group, root)
        for k in range(filled):
            if not after > before:
                trial[queue[k]] = labels[queue[k]]
    overwrite(labels, trial)
