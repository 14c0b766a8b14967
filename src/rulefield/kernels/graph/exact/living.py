"""What is left of a network when labels are forbidden, as tables: the problem that variable elimination reads."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel


class Tables(NamedTuple):
    """Scores of open nodes: a sum of tables. Labels of node i are ``label[label_at[i] : label_at[i + 1]]`` (the network's).

    Table t is over ``scope[scope_ptr[t] : scope_ptr[t + 1]]`` and begins at ``at[t]`` of ``values``, the last node's label
    running fastest. ``node`` holds the network's number of each open node, ``only`` the label of each node of the network
    that has a single one, ``constant`` what these are worth.
    """

    node: np.ndarray
    only: np.ndarray
    label_at: np.ndarray
    label: np.ndarray
    scope_ptr: np.ndarray
    scope: np.ndarray
    at: np.ndarray
    values: np.ndarray
    constant: float


@kernel
def living_tables(net, unary, pairwise, final, most):
    """Cut a network down to its living labels (score above -inf).

    There is no table (``at`` is empty) where a node has no label, or tables would have more than ``most`` entries.
    """
    n = len(net.node_at) - 1
    number, only, node, label_at, label = living_labels(net, unary)
    scope_ptr, scope, at = lay_out(net, number, label_at, label, most)
    if label_at[0] < 0 or at[-1] > most:
        return Tables(node, only, label_at, label, scope_ptr, scope, at[:0], np.zeros(0), -np.inf)
    values = np.zeros(at[-1])
    constant = 0.0
    table = len(node)
    for v in range(n):
        begin = np.int64(net.node_at[v])
        i = number[v]
        if i < 0:
            constant += unary[begin + only[v]]
        else:
            for a in range(label_at[i], label_at[i + 1]):
                values[at[i] + a - label_at[i]] += unary[begin + label[a]]
        for k in range(net.inc_mid[v], net.inc_ptr[v + 1]):
            w = np.int64(net.inc_other[k])
            wide = np.int64(net.node_at[w + 1]) - np.int64(net.node_at[w])
            pair, j = np.int64(net.inc_pair[k]), number[w]
            if i < 0 and j < 0:
                constant += pairwise[pair + only[v] * wide + only[w]]
            elif i < 0:
                for b in range(label_at[j], label_at[j + 1]):
                    values[at[j] + b - label_at[j]] += pairwise[pair + only[v] * wide + label[b]]
            elif j < 0:
                for a in range(label_at[i], label_at[i + 1]):
                    values[at[i] + a - label_at[i]] += pairwise[pair + label[a] * wide + only[w]]
            else:
                here = at[table]
                for a in range(label_at[i], label_at[i + 1]):
                    for b in range(label_at[j], label_at[j + 1]):
                        values[here] = pairwise[pair + label[a] * wide + label[b]]
                        here += 1
                table += 1
    for f in range(len(net.n_states)):
        worth, size = spell_rule(net, final, f, number, only, label_at, label, values, at[table])
        if size:
            table += 1
        else:
            constant += worth
    return Tables(node, only, label_at, label, scope_ptr, scope, at, values, constant)


@kernel
def living_labels(net, unary):
    """Numbers of open nodes (-1: a single label), single labels, open nodes, their labels; ``label_at[0]`` -1: none."""
    n = len(net.node_at) - 1
    number, only = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    node, label_at = np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    label = np.empty(len(unary), np.int64)
    opened, filled = 0, 0
    for v in range(n):
        begin = np.int64(net.node_at[v])
        before = filled
        for y in range(np.int64(net.node_at[v + 1]) - begin):
            if unary[begin + y] > -np.inf:
                label[filled] = y
                filled += 1
        if filled == before:
            label_at[0] = -1
            break
        if filled == before + 1:
            only[v] = label[before]
            filled = before
        else:
            number[v], node[opened] = opened, v
            opened += 1
            label_at[opened] = filled
    return number, only, node[:opened], label_at[: opened + 1], label[:filled]


@kernel
def lay_out(net, number, label_at, label, most):
    """Scopes of all tables (a node's own first, then edges, then rules) and where they begin, until these are too many.

    A rule's are the nodes that matter to it: whose living labels it tells apart.
    """
    n, opened = len(number), len(label_at) - 1
    room = opened + 2 * len(net.inc_other) + len(net.pos_node)
    scope, scope_ptr = (
        np.empty(room, np.int64),
        np.zeros(opened + len(net.inc_other) + len(net.n_states) + 1, np.int64),
    )
    at = np.zeros(len(scope_ptr), np.int64)
    for i in range(opened):
        scope[i], scope_ptr[i + 1] = i, i + 1
        at[i + 1] = at[i] + label_at[i + 1] - label_at[i]
    t = opened
    for v in range(n):
        for k in range(net.inc_mid[v], net.inc_ptr[v + 1]):
            i, j = number[v], number[np.int64(net.inc_other[k])]
            if i >= 0 and j >= 0:
                p = scope_ptr[t]
                scope[p], scope[p + 1] = i, j
                scope_ptr[t + 1] = p + 2
                at[t + 1] = at[t] + (label_at[i + 1] - label_at[i]) * (label_at[j + 1] - label_at[j])
                t += 1
    for f in range(len(net.n_states)):
        p, entries = scope_ptr[t], 1
        for q in range(net.automaton_ptr[f], net.automaton_ptr[f + 1]):
            i = number[np.int64(net.pos_node[q])]
            if matters(net, q, i, label_at, label):
                scope[p] = i
                entries = min(most + 1, entries * (label_at[i + 1] - label_at[i]))
                p += 1
        if p > scope_ptr[t]:
            scope_ptr[t + 1], at[t + 1] = p, at[t] + entries
            t += 1
        if at[t] > most:
            break
    return scope_ptr[: t + 1], scope[: scope_ptr[t]], at[: t + 1]


@kernel
def matters(net, q, i, label_at, label):
    """Whether the living labels of open node ``i`` (-1: not open) are different letters at place ``q`` of a rule."""
    if i < 0:
        return False
    begin = np.int64(net.letter_at[q])
    first = net.letter[begin + label[label_at[i]]]
    differs = False
    for a in range(label_at[i] + 1, label_at[i + 1]):
        differs |= net.letter[begin + label[a]] != first
    return differs


@kernel
def spell_rule(net, final, f, number, only, label_at, label, values, here):
    """Write the table of rule ``f``; returns its worth where no open node matters to it, and its entries (0: none).

    Reading is commutative: nodes that do not matter are read first, once. From entry to entry only the states behind the
    first digit that changed are read again: O(nodes + entries).
    """
    begin, end = np.int64(net.automaton_ptr[f]), np.int64(net.automaton_ptr[f + 1])
    size, row, worth_at = np.int64(net.n_states[f]), np.int64(net.delta_at[f]), np.int64(net.final_at[f])
    place, digit = np.empty(end - begin, np.int64), np.zeros(end - begin, np.int64)
    states = np.zeros(end - begin + 1, np.int64)
    n = 0
    for q in range(begin, end):
        v = np.int64(net.pos_node[q])
        i = number[v]
        if matters(net, q, i, label_at, label):
            place[n] = q
            n += 1
        else:
            y = only[v] if i < 0 else label[label_at[i]]
            letter = np.int64(net.letter[np.int64(net.letter_at[q]) + y])
            states[0] = np.int64(net.delta[row + letter * size + states[0]])
    if n == 0:
        return final[worth_at + states[0]], 0
    entries, changed = 0, 0
    while changed >= 0:
        for d in range(changed, n):
            y = label[label_at[number[np.int64(net.pos_node[place[d]])]] + digit[d]]
            letter = np.int64(net.letter[np.int64(net.letter_at[place[d]]) + y])
            states[d + 1] = np.int64(net.delta[row + letter * size + states[d]])
        values[here + entries] = final[worth_at + states[n]]
        entries += 1
        changed = n - 1
        while changed >= 0:
            i = number[np.int64(net.pos_node[place[changed]])]
            digit[changed] += 1
            if digit[changed] < label_at[i + 1] - label_at[i]:
                break
            digit[changed] = 0
            changed -= 1
    return 0.0, entries
