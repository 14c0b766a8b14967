"""Segmentations as a lattice: one node per token on every path, so that rules read a segmentation as they read a chain.

A node of layer t is a token label together with what of the segment is still open: its type and, before its last
token, where it began. Segments that end at a token meet again in one node, so that the lattice has O(n m max_length)
nodes and O(n m (max_length + m)) arcs, and only those on a path that beats a threshold are made.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel, piece
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


class Seen(NamedTuple):
    """What decides whether a node or an arc is made: ``enter``, ``leave``, ``alone``, ``longer`` (n, m), furthest ends."""

    enter: np.ndarray
    leave: np.ndarray
    alone: np.ndarray
    longer: np.ndarray
    furthest: np.ndarray
    threshold: float
    split_left: int
    split_right: int
    """2 where the token label of a role depends on the segment before, or after; else 1."""


class LatticeNodes(NamedTuple):
    """Nodes in the order of layers: token label, type, first token, role, whether the same type follows, score, best path."""

    label: np.ndarray
    kind: np.ndarray
    start: np.ndarray
    role: np.ndarray
    after: np.ndarray
    own: np.ndarray
    reach: np.ndarray
    arc_ptr: np.ndarray


class Numbers(NamedTuple):
    """Nodes of the next layer, -1 where there is none; ``open``: of a segment of type y that began at s."""

    alone: np.ndarray
    """Shape (m, 2, 2): type, same type before, same type after."""
    opening: np.ndarray
    """Shape (m, 2): type, same type before."""
    closing: np.ndarray
    """Shape (m, 2): type, same type after."""
    open: np.ndarray
    """Shape (n, m)."""


class Arcs(NamedTuple):
    """Arcs in the order of their nodes."""

    to: np.ndarray
    score: np.ndarray


@piece
def splits(spelling):
    """Return 2 or 1 for each side: whether any token label depends on the segment there."""
    left = right = 1
    for y in range(spelling.shape[1]):
        for role in range(4):
            for flag in range(2):
                if spelling[role, y, 0, flag] != spelling[role, y, 1, flag]:
                    left = 2
                if spelling[role, y, flag, 0] != spelling[role, y, flag, 1]:
                    right = 2
    return left, right


@piece
def put(nodes, i, label, y, start, role, after, own, reach):
    """Write node i."""
    nodes.label[i], nodes.kind[i], nodes.start[i] = label, y, start
    nodes.role[i], nodes.after[i] = role, after
    nodes.own[i], nodes.reach[i] = own, reach


@piece
def make_layer(here, rows, whole, tail, seen, base, extra, spelling, nodes, count, numbers):
    """Make the nodes of a layer that are on a segmentation that beats the threshold; returns the number of nodes so far."""
    n, m = seen.leave.shape
    rights = seen.split_right if here < n - 1 else 1
    for y in range(m):
        for before in range(2):
            numbers.opening[y, before] = numbers.closing[y, before] = -1
            for after in range(2):
                numbers.alone[y, before, after] = -1
        single = seen.enter[here, y] + seen.alone[here, y]
        for before in range(seen.split_left if here > 0 else 1):
            for after in range(rights):
                word = spelling[SINGLE, y, before, after]
                if single > seen.threshold and extra[here, word] > -np.inf and single > -np.inf:
                    numbers.alone[y, before, after] = count
                    own = base[SINGLE, here, y] + tail[0, y] + extra[here, word]
                    put(nodes, count, word, y, here, SINGLE, after, own, own if here == 0 else -np.inf)
                    count += 1
            word = spelling[OPENING, y, before, 0]
            if seen.furthest[here, y] >= 0 and extra[here, word] > -np.inf:
                numbers.opening[y, before] = count
                own = base[OPENING, here, y] + extra[here, word]
                put(nodes, count, word, y, here, OPENING, 0, own, own if here == 0 else -np.inf)
                count += 1
        ends = False
        for d in range(1, rows):
            s = here - d
            value = seen.enter[s, y] + whole[d, y] + seen.leave[here, y]
            ends = ends or (value > seen.threshold and value > -np.inf)
            if seen.furthest[s, y] > here:
                numbers.open[s, y] = count
                word = spelling[MIDDLE, y, 0, 0]
                put(nodes, count, word, y, s, MIDDLE, 0, base[MIDDLE, here, y] + extra[here, word], -np.inf)
                count += 1
        for after in range(rights):
            word = spelling[CLOSING, y, 0, after]
            if ends and extra[here, word] > -np.inf:
                numbers.closing[y, after] = count
                put(nodes, count, word, y, -1, CLOSING, after, base[CLOSING, here, y] + extra[here, word], -np.inf)
                count += 1
    return count


@piece
def join(nodes, i, j, score, arcs, count):
    """Lead an arc from node i to node j; returns the number of arcs so far."""
    arcs.to[count], arcs.score[count] = j, score
    nodes.reach[j] = max(nodes.reach[j], nodes.reach[i] + score)
    return count + 1


@piece
def go_on(i, here, rows, whole, tail, seen, nodes, numbers, arcs, count):
    """Make the arcs of a segment that is open at the token before ``here``: it stays open, or ends here."""
    y, s = nodes.kind[i], nodes.start[i]
    j = numbers.open[s, y]
    if seen.furthest[s, y] > here and j >= 0:
        count = join(nodes, i, j, nodes.own[j], arcs, count)
    d = here - s
    value = seen.enter[s, y] + whole[d, y] + seen.leave[here, y] if d < rows else -np.inf
    for after in range(2):
        j = numbers.closing[y, after]
        if j >= 0 and value > seen.threshold and value > -np.inf:
            count = join(nodes, i, j, nodes.own[j] + tail[d, y], arcs, count)
    return count


@piece
def begin(i, here, pairwise, seen, nodes, numbers, arcs, count):
    """Make the arcs from a segment that ended to those that begin ``here``."""
    y = nodes.kind[i]
    for z in range(len(pairwise)):
        step = pairwise[y, z]
        same = 1 if y == z else 0
        if step == -np.inf or (seen.split_right == 2 and nodes.after[i] != same):
            continue
        before = same if seen.split_left == 2 else 0
        if nodes.reach[i] + step + seen.alone[here, z] > seen.threshold:
            for after in range(2):
                j = numbers.alone[z, before, after]
                if j >= 0:
                    count = join(nodes, i, j, step + nodes.own[j], arcs, count)
        j = numbers.opening[z, before]
        if j >= 0 and nodes.reach[i] + step + seen.longer[here, z] > seen.threshold:
            count = join(nodes, i, j, step + nodes.own[j], arcs, count)
    return count


@piece
def first_nodes(room):
    """Return room for nodes."""
    return LatticeNodes(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room),
        np.empty(room),
        np.zeros(room + 1, np.int64),
    )


@piece
def with_room(nodes, needed):
    """Return the nodes with room for ``needed``."""
    while needed >= len(nodes.label):
        nodes = LatticeNodes(
            doubled(nodes.label),
            doubled(nodes.kind),
            doubled(nodes.start),
            doubled(nodes.role),
            doubled(nodes.after),
            doubled(nodes.own),
            doubled(nodes.reach),
            doubled(nodes.arc_ptr),
        )
    return nodes


@kernel
def segment_lattice(scores, base, extra, spelling, enter, leave, alone, longer, threshold, limit):
    """Return the lattice of all segmentations whose score beats ``threshold``, and whether it has at most ``limit`` nodes.

    Parameters
    ----------
    scores : RoleScores
        Where the token label of a role depends on the neighbors, with the better one's ``extra``.
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
    split_left, split_right = splits(spelling)
    furthest = furthest_ends(scores, enter, leave, threshold)
    seen = Seen(enter, leave, alone, longer, furthest, threshold, split_left, split_right)
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    layer = np.zeros(n + 1, np.int64)
    nodes, arcs = first_nodes(1024), Arcs(np.empty(4096, np.int64), np.empty(4096))
    numbers = Numbers(
        np.full((m, 2, 2), -1, np.int64),
        np.full((m, 2), -1, np.int64),
        np.full((m, 2), -1, np.int64),
        np.full((n, m), -1, np.int64),
    )
    count = drawn = 0
    done = True
    for here in range(n + 1):  # nodes of a layer, then the arcs that lead to it from the layer before
        rows = 0
        if here < n:
            rows = ending_segments(scores, 0, here, run, whole, tail)
            nodes = with_room(nodes, count + m * (8 + rows))
            count = make_layer(here, rows, whole, tail, seen, base, extra, spelling, nodes, count, numbers)
            layer[here + 1] = count
            if count > limit:
                done = False
                break
        for i in range(layer[here - 1] if here > 0 else 0, layer[here]):
            if here < n and nodes.reach[i] > -np.inf:
                while drawn + 4 * m + 4 >= len(arcs.to):
                    arcs = Arcs(doubled(arcs.to), doubled(arcs.score))
                if nodes.role[i] in (OPENING, MIDDLE):
                    drawn = go_on(i, here, rows, whole, tail, seen, nodes, numbers, arcs, drawn)
                else:
                    drawn = begin(i, here, scores.pairwise, seen, nodes, numbers, arcs, drawn)
            nodes.arc_ptr[i + 1] = drawn
    reach, arc_ptr = nodes.reach[:count], nodes.arc_ptr[: count + 1]
    found = Lattice(layer, nodes.label[:count], reach, np.empty(count), arc_ptr, arcs.to[:drawn], arcs.score[:drawn])
    return done, found
