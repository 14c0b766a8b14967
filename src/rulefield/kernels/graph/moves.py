"""Large moves: the best labels of a forest of nodes at once, while all other nodes keep theirs.

A set of nodes that induces a forest is labeled exactly by dynamic programming, so a move never makes a labeling worse
and changes many nodes together, where moves of one node are stuck (tree moves, as [Hamze04] use them to sample).
A rule is read at one node of the forest at most.
"""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.graph.local import run
from rulefield.kernels.jit import kernel


@kernel
def root_of(parent, v):
    """Root of v in a union-find forest, halving paths."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@kernel
def grow_forest(net, order, union, chosen, used):
    """Take nodes in ``order`` as long as they close no loop and share no rule; ``chosen`` (n,) is filled."""
    n = len(net.node_at) - 1
    chosen[:] = False
    used[:] = False
    for v in range(n):
        union[v] = v
    for step in range(n):
        v = order[step]
        if net.node_at[v + 1] - net.node_at[v] < 2:
            continue
        free = True
        for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
            free = free and not used[net.pos_automaton[net.at_pos[k]]]
        for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
            if not free:
                break
            w = np.int64(net.inc_other[k])
            if not chosen[w]:
                continue
            root = root_of(union, w)
            for j in range(net.inc_ptr[v], k):
                u = np.int64(net.inc_other[j])
                if chosen[u] and root_of(union, u) == root:
                    free = False
                    break
        if not free:
            continue
        chosen[v] = True
        for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
            used[net.pos_automaton[net.at_pos[k]]] = True
        for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
            w = np.int64(net.inc_other[k])
            if chosen[w]:
                union[root_of(union, w)] = root_of(union, v)


@kernel
def walk_forest(net, chosen, order, up):
    """Nodes of the forest, parents first, in ``order``; ``up`` is each one's incidence to its parent (-1 at roots)."""
    n = len(net.node_at) - 1
    seen = np.zeros(n, np.bool_)
    filled = 0
    for root in range(n):
        if not chosen[root] or seen[root]:
            continue
        seen[root] = True
        order[filled] = root
        up[root] = -1
        head = filled
        filled += 1
        while head < filled:
            v = order[head]
            head += 1
            for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
                w = np.int64(net.inc_other[k])
                if chosen[w] and not seen[w]:
                    seen[w] = True
                    for j in range(net.inc_ptr[w], net.inc_ptr[w + 1]):
                        if net.inc_other[j] == v:
                            up[w] = j
                    order[filled] = w
                    filled += 1
    return filled


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
def move_forest(net, unary, pairwise, final, chosen, order, up, count, belief, back, labels):
    """Label the nodes of a forest as well as can be, given the labels of all others; in place."""
    for step in range(count):
        v = order[step]
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        for y in range(end - begin):
            belief[begin + y] = unary[begin + y]
        for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
            w = np.int64(net.inc_other[k])
            if chosen[w]:
                continue
            z = np.int64(labels[w])
            for y in range(end - begin):
                belief[begin + y] += pairwise[place_in_pair(net, v, k, y, z)]
        for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
            f = net.pos_automaton[net.at_pos[k]]
            for y in range(end - begin):
                belief[begin + y] += final[np.int64(net.final_at[f]) + run(net, f, labels, v, y)]
    for step in range(count - 1, -1, -1):
        v = order[step]
        if up[v] < 0:
            continue
        parent = np.int64(net.inc_other[up[v]])
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        above, size = np.int64(net.node_at[parent]), np.int64(net.node_at[parent + 1]) - np.int64(net.node_at[parent])
        send = np.int64(net.inc_send[up[v]])
        for z in range(size):
            best, pick = -np.inf, np.int64(labels[v])
            for y in range(end - begin):
                value = belief[begin + y] + pairwise[place_in_pair(net, v, up[v], y, z)]
                if value > best:
                    best, pick = value, y
            belief[above + z] += best
            back[send + z] = pick
    for step in range(count):
        v = order[step]
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        if up[v] >= 0:
            parent = np.int64(net.inc_other[up[v]])
            labels[v] = back[np.int64(net.inc_send[up[v]]) + np.int64(labels[parent])]
            continue
        best, pick = belief[begin + np.int64(labels[v])], np.int64(labels[v])
        for y in range(end - begin):
            if belief[begin + y] > best:
                best, pick = belief[begin + y], y
        labels[v] = pick


@kernel
def move_forests(net, unary, pairwise, final, orders, labels):
    """Make one move for each order of the nodes (rows of ``orders``), in place; ``labels`` must be allowed."""
    n = len(net.node_at) - 1
    union, order, up = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    chosen, used = np.empty(n, np.bool_), np.empty(len(net.n_states), np.bool_)
    belief, back = np.empty(len(unary)), np.empty(np.int64(net_size(net)), np.uint32)
    for row in range(len(orders)):
        grow_forest(net, orders[row], union, chosen, used)
        count = walk_forest(net, chosen, order, up)
        move_forest(net, unary, pairwise, final, chosen, order, up, count, belief, back, labels)


@kernel
def net_size(net):
    """Entries of all messages along edges."""
    total = 0
    for v in range(len(net.node_at) - 1):
        size = np.int64(net.node_at[v + 1]) - np.int64(net.node_at[v])
        total += size * (np.int64(net.inc_ptr[v + 1]) - np.int64(net.inc_ptr[v]))
    return total


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
