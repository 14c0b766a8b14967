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

ALONE, OPENS, CLOSES, INSIDE = 0, 4, 6, 8
"""Kinds of nodes of a type: of a token alone in its segment (plus same type before, plus twice same type after), at its
begin (plus same type before), at its end (plus same type after), inside of one that began d tokens before (plus d)."""


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

    -1 if no segment of more than one token does.
    """
    n, m = leave.shape
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    furthest = np.full((n, m), -1, np.int64)
    for e in range(n):
        rows = ending_segments(scores, 0, e, run, whole, tail)
        for d in range(1, rows):
            for y in range(m):
                if enter[e - d, y] + whole[d, y] + leave[e, y] > threshold:
                    furthest[e - d, y] = e
    return furthest


class Seen(NamedTuple):
    """What decides whether a node or an arc is made: best scores (n, m) of ``fill_backward``, furthest ends."""

    enter: np.ndarray
    leave: np.ndarray
    alone: np.ndarray
    longer: np.ndarray
    furthest: np.ndarray
    threshold: float
    split: int
    """2 if token labels depend on the segments beside theirs, else 1."""


class SegmentNodes(NamedTuple):
    """Nodes in the order of layers: token label, type, kind, score, score of the best path."""

    label: np.ndarray
    type: np.ndarray
    kind: np.ndarray
    own: np.ndarray
    reach: np.ndarray


class Arcs(NamedTuple):
    """Arcs in the order of their nodes."""

    to: np.ndarray
    score: np.ndarray


@piece
def put(nodes, i, numbers, y, kind, label, own, first):
    """Write node i and its number, which ``numbers`` (m, kinds) holds for its layer; return the number of nodes so far."""
    numbers[y, kind] = i
    nodes.label[i], nodes.type[i], nodes.kind[i] = label, y, kind
    nodes.own[i], nodes.reach[i] = own, own if first else -np.inf
    return i + 1


@piece
def make_layer(here, rows, whole, tail, seen, base, extra, spelling, nodes, count, numbers):
    """Make the nodes of a layer that are on a segmentation that beats the threshold; return the number of nodes so far."""
    n, m = seen.leave.shape
    lefts, rights = seen.split if here > 0 else 1, seen.split if here < n - 1 else 1
    for y in range(m):
        for kind in range(INSIDE + rows):
            numbers[y, kind] = -1
        single = seen.enter[here, y] + seen.alone[here, y] > seen.threshold
        for before in range(lefts):
            for after in range(rights):
                word = spelling[SINGLE, y, before, after]
                if single and extra[here, word] > -np.inf:
                    own = base[SINGLE, here, y] + tail[0, y] + extra[here, word]
                    count = put(nodes, count, numbers, y, ALONE + before + 2 * after, word, own, here == 0)
            word = spelling[OPENING, y, before, 0]
            if seen.furthest[here, y] >= 0 and extra[here, word] > -np.inf:
                own = base[OPENING, here, y] + extra[here, word]
                count = put(nodes, count, numbers, y, OPENS + before, word, own, here == 0)
        ends, word = False, spelling[MIDDLE, y, 0, 0]
        for d in range(1, rows):
            ends = ends or seen.enter[here - d, y] + whole[d, y] + seen.leave[here, y] > seen.threshold
            if seen.furthest[here - d, y] > here:
                own = base[MIDDLE, here, y] + extra[here, word]
                count = put(nodes, count, numbers, y, INSIDE + d, word, own, False)
        for after in range(rights):
            word = spelling[CLOSING, y, 0, after]
            if ends and extra[here, word] > -np.inf:
                own = base[CLOSING, here, y] + extra[here, word]
                count = put(nodes, count, numbers, y, CLOSES + after, word, own, False)
    return count


@piece
def join(nodes, i, j, score, arcs, count):
    """Lead an arc from node i to node j: ``score`` and what j scores; return the number of arcs so far."""
    score += nodes.own[j]
    arcs.to[count], arcs.score[count] = j, score
    nodes.reach[j] = max(nodes.reach[j], nodes.reach[i] + score)
    return count + 1


@piece
def go_on(i, here, rows, whole, tail, seen, nodes, numbers, arcs, count):
    """Make the arcs of a segment that is open at the token before ``here``: it stays open, or ends here."""
    y, kind = nodes.type[i], nodes.kind[i]
    d = kind - INSIDE + 1 if kind >= INSIDE else 1
    if d < rows:
        if numbers[y, INSIDE + d] >= 0:
            count = join(nodes, i, numbers[y, INSIDE + d], 0.0, arcs, count)
        ends = seen.enter[here - d, y] + whole[d, y] + seen.leave[here, y] > seen.threshold
        for after in range(2):
            j = numbers[y, CLOSES + after]
            if ends and j >= 0:
                count = join(nodes, i, j, tail[d, y], arcs, count)
    return count


@piece
def begin(i, here, pairwise, seen, nodes, numbers, arcs, count):
    """Make the arcs from a segment that ended to those that begin ``here``."""
    y, kind = nodes.type[i], nodes.kind[i]
    following = kind // 2 if kind < OPENS else kind - CLOSES
    for z in range(len(pairwise)):
        same, step = 1 if y == z and seen.split == 2 else 0, pairwise[y, z]
        if step == -np.inf or same != following:
            continue
        if nodes.reach[i] + step + seen.alone[here, z] > seen.threshold:
            for after in range(2):
                j = numbers[z, ALONE + same + 2 * after]
                if j >= 0:
                    count = join(nodes, i, j, step, arcs, count)
        j = numbers[z, OPENS + same]
        if j >= 0 and nodes.reach[i] + step + seen.longer[here, z] > seen.threshold:
            count = join(nodes, i, j, step, arcs, count)
    return count


@kernel
def segment_lattice(scores, base, extra, spelling, split, enter, leave, alone, longer, threshold, limit):
    """Return the lattice of all segmentations whose score beats ``threshold``, and whether it has at most ``limit`` nodes.

    Parameters
    ----------
    scores : RoleScores
        If the token label of a role depends on the neighbors, with the better one's ``extra``.
    base : ndarray, shape (4, n, m)
        Scores of roles without ``extra``.
    extra : ndarray, shape (n, labels)
        Added for the token label of a node; ``-inf`` forbids.
    spelling : ndarray of int64, shape (4, m, 2, 2)
        Token labels, as in :class:`rulefield.problem.segments.Spelling`.
    split : int
        2 if they depend on the neighbors, else 1.
    enter, leave, alone, longer : ndarray
        Of ``fill_forward`` and ``fill_backward``.
    """
    n, m = leave.shape
    furthest = furthest_ends(scores, enter, leave, threshold)
    seen = Seen(enter, leave, alone, longer, furthest, threshold, split)
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    room = 1 + INSIDE * n * m
    for t in range(n):
        for y in range(m):
            room += max(0, furthest[t, y] - t)
    layer, arc_ptr = np.zeros(n + 1, np.int64), np.zeros(room, np.int64)
    label, kinds, types = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    nodes = SegmentNodes(label, types, kinds, np.empty(room), np.empty(room))
    arcs = Arcs(np.empty(4096, np.int64), np.empty(4096))
    numbers = np.empty((m, INSIDE + len(tail)), np.int64)
    count = drawn = 0
    for here in range(n):  # nodes of a layer, then the arcs that lead to it from the layer before
        rows = ending_segments(scores, 0, here, run, whole, tail)
        count = make_layer(here, rows, whole, tail, seen, base, extra, spelling, nodes, count, numbers)
        layer[here + 1] = count
        if count > limit:
            break
        before = layer[here - 1] if here > 0 else 0
        while drawn + (layer[here] - before) * (3 * m + 3) >= len(arcs.to):
            arcs = Arcs(doubled(arcs.to), doubled(arcs.score))
        for i in range(before, layer[here]):
            if nodes.reach[i] > -np.inf:
                if OPENS <= nodes.kind[i] < CLOSES or nodes.kind[i] >= INSIDE:
                    drawn = go_on(i, here, rows, whole, tail, seen, nodes, numbers, arcs, drawn)
                else:
                    drawn = begin(i, here, scores.pairwise, seen, nodes, numbers, arcs, drawn)
            arc_ptr[i + 1] = drawn
    for i in range(layer[n - 1], count):
        arc_ptr[i + 1] = drawn
    found = Lattice(
        layer,
        label[:count],
        nodes.reach[:count],
        np.empty(count),
        arc_ptr[: count + 1],
        arcs.to[:drawn],
        arcs.score[:drawn],
    )
    return count <= limit, found
