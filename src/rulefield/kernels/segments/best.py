"""The best segmentation of a sequence. O(n m (max_length + m)).

Sequences lie one after the other; sequence i has tokens ``offsets[i] : offsets[i + 1]``. ``-inf`` forbids. The segments
that end at a token are walked from the shortest to the longest while token scores add up, so that each costs O(1)
whatever its length.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.sums import highest
from rulefield.kernels.chain.viterbi import advance_max
from rulefield.kernels.jit import kernel

MIDDLE, OPENING, CLOSING, SINGLE = 0, 1, 2, 3


class RoleScores(NamedTuple):
    """Scores of segments of m types, token by token, as in :class:`rulefield.problem.segments.SegmentParts`.

    role (4, n_tokens, m): of a token in the middle of a segment, opening it, closing it, and alone in it.
    """

    role: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    span: np.ndarray
    span_ptr: np.ndarray
    span_length: np.ndarray


@kernel
def ending_segments(scores, begin, e, run, whole, tail):
    """Score the segments that end at token e: ``whole[d, y]`` that of d + 1 tokens with type y, all included.

    ``tail[d, y]`` is what its length and its spans are worth. ``begin`` is the sequence's first token, ``run`` (m,)
    scratch. Returns the number of rows filled.
    """
    role, length = scores.role, scores.length
    m = np.uint64(run.shape[0])
    rows = min(length.shape[0], e - begin + 1)
    for d in range(rows):
        for y in range(m):
            tail[d, y] = length[d, y]
    for k in range(scores.span_ptr[e], scores.span_ptr[e + 1]):
        d = scores.span_length[k] - 1
        if d < rows:
            for y in range(m):
                tail[d, y] += scores.span[k, y]
    for y in range(m):
        run[y] = role[CLOSING, e, y]
        whole[0, y] = role[SINGLE, e, y] + tail[0, y]
    for d in range(1, rows):
        opening, middle = role[OPENING, e - d], role[MIDDLE, e - d]
        for y in range(m):
            whole[d, y] = run[y] + opening[y] + tail[d, y]
            run[y] += middle[y]
    return rows


@kernel
def fill_forward(scores, begin, n, enter, alpha, run, whole, tail):
    """Fill enter and alpha (n + 1, m); return the best score.

    Best scores of the tokens before t with a segment of type y to begin at t, and of those up to t with one ended there.
    """
    m = np.uint64(run.shape[0])
    nothing = np.zeros(m)
    for y in range(m):
        enter[0, y] = 0.0
    for t in range(n):
        rows = ending_segments(scores, begin, begin + t, run, whole, tail)
        for y in range(m):
            alpha[t, y] = -np.inf
        for d in range(rows):
            for y in range(m):
                value = enter[t - d, y] + whole[d, y]
                alpha[t, y] = value if value > alpha[t, y] else alpha[t, y]
        advance_max(alpha[t], scores.pairwise, nothing, enter[t + 1])
    return highest(alpha[n - 1]) if n > 0 else 0.0


@kernel
def best_segments(scores, begin, stop, enter, alpha, run, whole, tail, opens, types):
    """Fill opens (n,) and types (n,) of one sequence with a best segmentation; return its score.

    ``opens[t]`` is 1 where a segment begins; ``types[t]`` is the type of the segment that holds t. ``enter`` and
    ``alpha`` are those of :func:`fill_forward`.
    """
    n = stop - begin
    score = fill_forward(scores, begin, n, enter, alpha, run, whole, tail)
    if score == -np.inf or n == 0:
        return score
    kind = np.argmax(alpha[n - 1])
    t = n - 1
    while t >= 0:
        ending_segments(scores, begin, begin + t, run, whole, tail)
        d = 0
        while enter[t - d, kind] + whole[d, kind] != alpha[t, kind]:
            d += 1
        for s in range(t - d, t + 1):
            types[s], opens[s] = kind, s == t - d
        t -= d + 1
        if t >= 0:
            before = 0
            while alpha[t, before] + scores.pairwise[before, kind] != enter[t + 1, kind]:
                before += 1
            kind = before
    return score


@kernel
def best_segments_batch(scores, offsets, opens, types, totals):
    """Decode every sequence: fill opens and types (n_tokens,) and totals (n_sequences,)."""
    longest, m = longest_of(offsets), scores.role.shape[2]
    enter, alpha = np.empty((longest + 1, m)), np.empty((longest + 1, m))
    run, whole, tail = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
    for i in range(totals.shape[0]):
        begin, stop = offsets[i], offsets[i + 1]
        totals[i] = best_segments(
            scores, begin, stop, enter, alpha, run, whole, tail, opens[begin:stop], types[begin:stop]
        )


@kernel
def longest_of(offsets):
    """Return the length of the longest sequence."""
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest
