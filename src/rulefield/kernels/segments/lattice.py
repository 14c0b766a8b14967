"""Segmentations as a lattice: one node per token on every path, so that rules read a segmentation as they read a chain.

A node of layer t is a token label together with what of the segment is still open: its type and, before its last
token, where it began. Segments that end at a token meet again in one node, so that the lattice has O(n m max_length)
nodes and O(n m (max_length + m)) arcs, and only those on a path that beats a threshold are made.
"""

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.segments.best import CLOSING, MIDDLE, OPENING, SINGLE, ending_segments


@kernel
def fill_backward(scores, leave, alone, longer):
    """Fill the best scores of what is still to come, each (n, m).

    ``leave``: after a segment of type y that ends at t; ``alone`` and ``longer``: from t on, where a segment of one token,
    or of several, begins there.
    """
    n, m = leave.shape
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    for t in range(n):
        for y in range(m):
            longer[t, y] = -np.inf
            leave[t, y] = 0.0 if t == n - 1 else -np.inf
    for back in range(n):
        e = n - 1 - back
        for y in range(m if e < n - 1 else 0):
            for z in range(m):
                value = scores.pairwise[y, z] + max(alone[e + 1, z], longer[e + 1, z])
                leave[e, y] = value if value > leave[e, y] else leave[e, y]
        rows = ending_segments(scores, 0, e, run, whole, tail)
        for y in range(m):
            alone[e, y] = whole[0, y] + leave[e, y]
        for d in range(1, rows):
            for y in range(m):
                value = whole[d, y] + leave[e, y]
                longer[e - d, y] = value if value > longer[e - d, y] else longer[e - d, y]


@kernel
def furthest_ends(scores, enter, leave, threshold):
    """Return the last token (n, m) of the longest segment from t on whose best segmentation beats the threshold.

    -1 where no segment of more than one token does.
    """
    n, m = leave.shape
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    furthest = np.full((n, m), -1, np.int64)
    for e in range(n):
        rows = ending_segments(scores, 0, e, run, whole, tail)
        for d in range(1, rows):
            for y in range(m):
                value = enter[e - d, y] + whole[d, y] + leave[e, y]
                if value > threshold and value > -np.inf:
                    furthest[e - d, y] = e
    return furthest


@kernel
def segment_lattice(scores, base, extra, spelling, enter, leave, alone, longer, threshold, limit):
    """Return the lattice of all segmentations whose score beats ``threshold``, and whether it has at most ``limit`` nodes.

    Parameters
    ----------
    scores : RoleScores
        Where the token label of a role depends on the neighbours, with the better one's ``extra``.
    base : ndarray, shape (4, n, m)
        Scores of roles without ``extra``.
    extra : ndarray, shape (n, labels)
        Added for the token label of a node; ``-inf`` forbids.
    spelling : ndarray of int64, shape (4, m, 2, 2)
        Token labels, as in :class:`rulefield.problem.segments.Spelling`.
    enter, leave, alone, longer : ndarray
        Of ``fill_forward`` and ``fill_backward``.
    """
    n, m = leave.shape
    split_left = split_right = 1
    for y in range(m):
        for role in range(4):
            for flag in range(2):
                if spelling[role, y, 0, flag] != spelling[role, y, 1, flag]:
                    split_left = 2
                if spelling[role, y, flag, 0] != spelling[role, y, flag, 1]:
                    split_right = 2
    furthest = furthest_ends(scores, enter, leave, threshold)
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    room, arc_room = 1024, 4096
    layer = np.zeros(n + 1, np.int64)
    label, kind, start = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    role_of, after_of = np.empty(room, np.int64), np.empty(room, np.int64)
    own, reach = np.empty(room), np.empty(room)
    arc_ptr = np.zeros(room + 1, np.int64)
    arc_to, arc_score = np.empty(arc_room, np.int64), np.empty(arc_room)
    nodes = arcs = 0
    # numbers of the nodes of the next layer: alone [y, before, after], opening [y, before], closing [y, after],
    # and of an open segment of type y that began at s: open_node[s, y]
    alone_node, opening_node = np.full((m, 2, 2), -1, np.int64), np.full((m, 2), -1, np.int64)
    closing_node, open_node = np.full((m, 2), -1, np.int64), np.full((n, m), -1, np.int64)
    done = True
    for t in range(-1, n):
        # arcs of layer t lead to layer t + 1, whose nodes are made first
        rows = 0
        if t + 1 < n:
            rows = ending_segments(scores, 0, t + 1, run, whole, tail)
            here = t + 1
            most = nodes + m * (8 + rows)
            if most >= room:
                while most >= room:
                    label, kind, start = doubled(label), doubled(kind), doubled(start)
                    role_of, after_of = doubled(role_of), doubled(after_of)
                    own, reach, arc_ptr = doubled(own), doubled(reach), doubled(arc_ptr)
                    room *= 2
            for y in range(m):
                for before in range(2):
                    opening_node[y, before] = closing_node[y, before] = -1
                    for after in range(2):
                        alone_node[y, before, after] = -1
                single = enter[here, y] + alone[here, y]
                for before in range(split_left if here > 0 else 1):
                    for after in range(split_right if here < n - 1 else 1):
                        word = spelling[SINGLE, y, before, after]
                        if single > threshold and extra[here, word] > -np.inf and single > -np.inf:
                            alone_node[y, before, after] = nodes
                            label[nodes], kind[nodes], start[nodes] = word, y, here
                            role_of[nodes], after_of[nodes] = SINGLE, after
                            own[nodes] = base[SINGLE, here, y] + tail[0, y] + extra[here, word]
                            reach[nodes] = own[nodes] if here == 0 else -np.inf
                            nodes += 1
                    word = spelling[OPENING, y, before, 0]
                    if furthest[here, y] >= 0 and extra[here, word] > -np.inf:
                        opening_node[y, before] = nodes
                        label[nodes], kind[nodes], start[nodes] = word, y, here
                        role_of[nodes], after_of[nodes] = OPENING, 0
                        own[nodes] = base[OPENING, here, y] + extra[here, word]
                        reach[nodes] = own[nodes] if here == 0 else -np.inf
                        nodes += 1
                ends = False
                for d in range(1, rows):
                    s = here - d
                    value = enter[s, y] + whole[d, y] + leave[here, y]
                    ends = ends or (value > threshold and value > -np.inf)
                    if furthest[s, y] > here:
                        open_node[s, y] = nodes
                        label[nodes], kind[nodes], start[nodes] = spelling[MIDDLE, y, 0, 0], y, s
                        role_of[nodes], after_of[nodes] = MIDDLE, 0
                        own[nodes] = base[MIDDLE, here, y] + extra[here, label[nodes]]
                        reach[nodes] = -np.inf
                        nodes += 1
                for after in range(split_right if here < n - 1 else 1):
                    word = spelling[CLOSING, y, 0, after]
                    if ends and extra[here, word] > -np.inf:
                        closing_node[y, after] = nodes
                        label[nodes], kind[nodes], start[nodes] = word, y, -1
                        role_of[nodes], after_of[nodes] = CLOSING, after
                        own[nodes] = base[CLOSING, here, y] + extra[here, word]
                        reach[nodes] = -np.inf
                        nodes += 1
            layer[here + 1] = nodes
            if nodes > limit:
                done = False
                break
        if t < 0:
            continue
        for i in range(layer[t], layer[t + 1]):
            y, s, role = kind[i], start[i], role_of[i]
            if t + 1 == n or reach[i] == -np.inf:
                arc_ptr[i + 1] = arcs
                continue
            if arcs + 4 * m + 4 >= arc_room:
                while arcs + 4 * m + 4 >= arc_room:
                    arc_to, arc_score = doubled(arc_to), doubled(arc_score)
                    arc_room *= 2
            if role in (OPENING, MIDDLE):
                j = open_node[s, y]
                if furthest[s, y] > t + 1 and j >= 0:
                    arc_to[arcs], arc_score[arcs] = j, own[j]
                    reach[j] = max(reach[j], reach[i] + own[j])
                    arcs += 1
                d = t + 1 - s
                value = enter[s, y] + whole[d, y] + leave[t + 1, y] if d < rows else -np.inf
                for after in range(2):
                    j = closing_node[y, after]
                    if j >= 0 and value > threshold and value > -np.inf:
                        arc_to[arcs], arc_score[arcs] = j, own[j] + tail[d, y]
                        reach[j] = max(reach[j], reach[i] + arc_score[arcs])
                        arcs += 1
            else:
                for z in range(m):
                    step = scores.pairwise[y, z]
                    same = 1 if y == z else 0
                    if step == -np.inf or (split_right == 2 and after_of[i] != same):
                        continue
                    before = same if split_left == 2 else 0
                    if reach[i] + step + alone[t + 1, z] > threshold:
                        for after in range(2):
                            j = alone_node[z, before, after]
                            if j >= 0:
                                arc_to[arcs], arc_score[arcs] = j, step + own[j]
                                reach[j] = max(reach[j], reach[i] + arc_score[arcs])
                                arcs += 1
                    j = opening_node[z, before]
                    if j >= 0 and reach[i] + step + longer[t + 1, z] > threshold:
                        arc_to[arcs], arc_score[arcs] = j, step + own[j]
                        reach[j] = max(reach[j], reach[i] + arc_score[arcs])
                        arcs += 1
            arc_ptr[i + 1] = arcs
    ahead = np.empty(nodes)
    found = Lattice(layer, label[:nodes], reach[:nodes], ahead, arc_ptr[: nodes + 1], arc_to[:arcs], arc_score[:arcs])
    return done, found


@kernel
def charge(lattice, tables, classes, m, rates):
    """Return a lattice that charges ``rates`` (counters,) for what each counter collects; ``inf`` forbids.

    ``ahead`` is left unfilled. O(arcs + n m x counters with a rate + arcs x those of them that count steps).
    """
    layer, label, arc_ptr, arc_to = lattice.layer, lattice.label, lattice.arc_ptr, lattice.arc_to
    n = len(layer) - 1
    node, edge = tables.node, tables.edge
    reach, score = np.full(len(label), -np.inf), lattice.arc_score.copy()
    price = np.zeros((n, m))
    for c in range(len(rates)):
        if rates[c] == 0.0:
            continue
        row = classes[tables.counter_rule[c]]
        for t in range(n):
            at = (tables.first_at[c] if t == 0 else tables.node_at[c]) + np.int64(row[t]) * m
            for here in range(m):
                if node[at + here] != 0:
                    price[t, here] += rates[c] * node[at + here]
        edge_at = tables.edge_at[c]
        for t in range(1, n if edge_at >= 0 else 0):
            cell = edge_at + np.int64(row[t]) * m * m
            for i in range(layer[t - 1], layer[t]):
                for a in range(arc_ptr[i], arc_ptr[i + 1]):
                    gain = edge[cell + label[i] * m + label[arc_to[a]]]
                    if gain != 0:
                        score[a] -= rates[c] * gain
    for i in range(layer[1]):
        reach[i] = lattice.reach[i] - price[0, label[i]]
    for t in range(1, n):
        for i in range(layer[t - 1], layer[t]):
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                score[a] -= price[t, label[arc_to[a]]]
                if reach[i] + score[a] > reach[arc_to[a]]:
                    reach[arc_to[a]] = reach[i] + score[a]
    return Lattice(layer, label, reach, lattice.ahead.copy(), arc_ptr, arc_to, score)
