"""Segmentations: the best one, and the parts of a given one. O(n m (max_length + m)).

Sequences lie one after the other; sequence i has tokens ``offsets[i] : offsets[i + 1]``. Shapes are those of
:class:`rulefield.problem.segments.SegmentPotentials`; ``-inf`` forbids. The segments that end at a token are walked
from the shortest to the longest while token scores add up, so that each costs O(1) whatever its length.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.sums import highest
from rulefield.kernels.chain.viterbi import advance_max
from rulefield.kernels.jit import kernel


class Parts(NamedTuple):
    """Scores of the parts of segmentations or, in the same shapes, how often parts are expected.

    token, first, last (n_tokens, m); length (max_length, m); pairwise (m, m); span (n_spans, m), where the spans that
    end at token e are ``span_ptr[e] : span_ptr[e + 1]`` and have ``span_length`` tokens.
    """

    token: np.ndarray
    first: np.ndarray
    last: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    span: np.ndarray
    span_ptr: np.ndarray
    span_length: np.ndarray


COUNTED = ("token", "first", "last", "length", "pairwise", "span")


@kernel
def ending_segments(parts, begin, e, run, inside):
    """Fill inside[d, y] with the score of the segment of d + 1 tokens with label y that ends at token e.

    ``begin`` is the sequence's first token, ``run`` (m,) scratch. Returns the number of rows filled.
    """
    m = np.uint64(run.shape[0])
    rows = min(parts.length.shape[0], e - begin + 1)
    for y in range(m):
        run[y] = parts.last[e, y]
    for d in range(rows):
        s = e - d
        for y in range(m):
            run[y] += parts.token[s, y]
            inside[d, y] = run[y] + parts.first[s, y] + parts.length[d, y]
    for k in range(parts.span_ptr[e], parts.span_ptr[e + 1]):
        d = parts.span_length[k] - 1
        if d < rows:
            for y in range(m):
                inside[d, y] += parts.span[k, y]
    return rows


@kernel
def best_segments(parts, begin, stop, enter, alpha, run, inside, opens, labels):
    """Fill opens (n,) and labels (n,) of one sequence with a best segmentation; return its score.

    ``opens[t]`` is 1 where a segment begins; ``labels[t]`` is the label of the segment that holds t. ``enter`` and
    ``alpha`` (n + 1, m): best scores of the tokens before t with a segment of label y to begin, or ended, there.
    """
    n, m = stop - begin, run.shape[0]
    if n == 0:
        return 0.0
    nothing = np.zeros(m)
    for y in range(m):
        enter[0, y] = 0.0
    for t in range(n):
        rows = ending_segments(parts, begin, begin + t, run, inside)
        for y in range(m):
            alpha[t, y] = -np.inf
        for d in range(rows):
            for y in range(m):
                value = enter[t - d, y] + inside[d, y]
                alpha[t, y] = value if value > alpha[t, y] else alpha[t, y]
        advance_max(alpha[t], parts.pairwise, nothing, enter[t + 1])
    score = highest(alpha[n - 1])
    if score == -np.inf:
        return score
    label = np.argmax(alpha[n - 1])
    t = n - 1
    while t >= 0:
        rows = ending_segments(parts, begin, begin + t, run, inside)
        d = 0
        while enter[t - d, label] + inside[d, label] != alpha[t, label]:
            d += 1
        for s in range(t - d, t + 1):
            labels[s], opens[s] = label, s == t - d
        t -= d + 1
        if t >= 0:
            before = 0
            while alpha[t, before] + parts.pairwise[before, label] != enter[t + 1, label]:
                before += 1
            label = before
    return score


@kernel
def best_segments_batch(parts, offsets, opens, labels, scores):
    """Decode every sequence: fill opens and labels (n_tokens,) and scores (n_sequences,)."""
    longest, m = longest_of(offsets), parts.token.shape[1]
    enter, alpha = np.empty((longest + 1, m)), np.empty((longest + 1, m))
    run, inside = np.empty(m), np.empty(parts.length.shape)
    for i in range(scores.shape[0]):
        begin, stop = offsets[i], offsets[i + 1]
        scores[i] = best_segments(
            parts, begin, stop, enter, alpha, run, inside, opens[begin:stop], labels[begin:stop]
        )


@kernel
def longest_of(offsets):
    """Return the length of the longest sequence."""
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@kernel
def gold_parts_batch(parts, offsets, opens, labels, weight, counts, scores):
    """Fill scores (n_sequences,) of given segmentations and subtract ``weight`` x their parts from ``counts``."""
    for i in range(scores.shape[0]):
        begin, stop = offsets[i], offsets[i + 1]
        scores[i] = 0.0
        length = 0
        for t in range(begin, stop):
            y = labels[t]
            length = 1 if opens[t] else length + 1
            scores[i] += parts.token[t, y]
            counts.token[t, y] -= weight[i]
            if opens[t]:
                scores[i] += parts.first[t, y]
                counts.first[t, y] -= weight[i]
                if t > begin:
                    scores[i] += parts.pairwise[labels[t - 1], y]
                    counts.pairwise[labels[t - 1], y] -= weight[i]
            if t == stop - 1 or opens[t + 1]:
                scores[i] += parts.last[t, y]
                counts.last[t, y] -= weight[i]
                if length > parts.length.shape[0]:
                    scores[i] = -np.inf
                    continue
                scores[i] += parts.length[length - 1, y]
                counts.length[length - 1, y] -= weight[i]
                for k in range(parts.span_ptr[t], parts.span_ptr[t + 1]):
                    if parts.span_length[k] == length:
                        scores[i] += parts.span[k, y]
                        counts.span[k, y] -= weight[i]
