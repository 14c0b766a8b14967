"""Sums over segmentations: log partition functions and expected parts. O(n m (max_length + m)).

Shapes as in :mod:`rulefield.kernels.segments.best`. Sums over the label before are matrix-vector products, as in
:mod:`rulefield.kernels.chain.sums`, and are taken again in log space if they come out too small to trust.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.sums import SAFE_SUM, advance_sum, exponentials, flip, highest, log_sum
from rulefield.kernels.jit import kernel
from rulefield.kernels.segments.best import ending_segments, longest_of

# exp of less is below 1e-19: a thousand of them change no digit of a sum that holds a 1
NEGLIGIBLE = -45.0


class SegmentSteps(NamedTuple):
    """Scores of neighbors [left, right], less their maximum ``top``, as powers; ``flipped`` is [right, left]."""

    top: float
    powers: np.ndarray
    flipped: np.ndarray


class Scratch(NamedTuple):
    """Work space: enter and alpha (longest + 1, m), inside and tail (max_length, m), and four rows (m,)."""

    enter: np.ndarray
    alpha: np.ndarray
    inside: np.ndarray
    tail: np.ndarray
    run: np.ndarray
    total: np.ndarray
    work: np.ndarray
    nothing: np.ndarray


@kernel
def sum_forward(scores, steps, begin, n, scratch):
    """Fill the logarithms of the sums behind ``fill_forward``'s maxima; return the log partition function. n > 0."""
    enter, alpha, inside, run, total = scratch.enter, scratch.alpha, scratch.inside, scratch.run, scratch.total
    m = np.uint64(run.shape[0])
    for y in range(m):
        enter[0, y] = 0.0
    for t in range(n):
        rows = ending_segments(scores, begin, begin + t, run, inside, scratch.tail)
        for y in range(m):
            run[y], total[y] = -np.inf, 0.0
        for d in range(rows):
            for y in range(m):
                inside[d, y] += enter[t - d, y]
                run[y] = inside[d, y] if inside[d, y] > run[y] else run[y]
        for d in range(rows):
            for y in range(m):
                below = inside[d, y] - run[y]
                if below > NEGLIGIBLE:
                    total[y] += np.exp(below)
        for y in range(m):
            alpha[t, y] = run[y] + np.log(total[y]) if total[y] > 0.0 else -np.inf
        top = highest(alpha[t])
        for y in range(m):
            run[y] = alpha[t, y] - top if top > -np.inf else -np.inf
        advance_sum(run, scores.pairwise, steps.powers, steps.top, scratch.nothing, scratch.work, enter[t + 1])
        for y in range(m):
            enter[t + 1, y] += top
    return log_sum(alpha[n - 1])


@kernel
def neighbors_backward(scores, steps, before, after, share, last, pairwise, scratch):
    """Spread the chance ``share`` (m,) that a segment of each label begins over the labels before it.

    ``before`` is the row alpha of the last token before, ``after`` the row ``enter`` of the segment's first token.
    Adds to ``last`` (m,) and ``pairwise`` (m, m).
    """
    powers, flipped, odds, ratio, total = steps.powers, steps.flipped, scratch.run, scratch.work, scratch.total
    m = np.uint64(share.shape[0])
    top = highest(before)
    if top == -np.inf:
        return
    for y in range(m):
        ratio[y], total[y] = 0.0, 0.0
    for label in range(m):
        odds[label] = np.exp(before[label] - top)
        for y in range(m):
            ratio[y] += odds[label] * powers[label, y]
    for y in range(m):
        reach, ratio[y] = ratio[y], 0.0
        if share[y] > 0.0 and reach > SAFE_SUM:
            ratio[y] = share[y] / reach
            for label in range(m):
                total[label] += flipped[y, label] * ratio[y]
        elif share[y] > 0.0:
            for label in range(m):
                p = share[y] * np.exp(before[label] + scores.pairwise[label, y] - after[y])
                pairwise[label, y] += p
                last[label] += p
    for label in range(m):
        last[label] += odds[label] * total[label]
        if odds[label] > 0.0:
            for y in range(m):
                pairwise[label, y] += odds[label] * powers[label, y] * ratio[y]


@kernel
def sum_backward(scores, steps, begin, n, scratch, weight, counts):
    """Add ``weight`` x the expected parts of one feasible sequence to ``counts`` (its token rows come in as 0).

    The sums are walked back as conditional probabilities (which segment ended here, which label came before it),
    the reverse mode of ``sum_forward``: all numbers lie in [0, weight], so that nothing cancels or overflows.
    """
    enter, alpha, inside = scratch.enter, scratch.alpha, scratch.inside
    m = np.uint64(scratch.run.shape[0])
    total = log_sum(alpha[n - 1])
    for y in range(m):
        counts.last[begin + n - 1, y] = weight * np.exp(alpha[n - 1, y] - total)
    for step in range(n):
        t = n - 1 - step
        e = begin + t
        if step > 0:
            share, last = counts.first[e + 1], counts.last[e]
            neighbors_backward(scores, steps, alpha[t], enter[t + 1], share, last, counts.pairwise, scratch)
        for y in range(m):
            later = 0.0 if step == 0 else counts.token[e + 1, y] - counts.first[e + 1, y]
            counts.token[e, y] = max(0.0, later) + counts.last[e, y]
        rows = ending_segments(scores, begin, e, scratch.run, inside, scratch.tail)
        for d in range(rows):
            for y in range(m):
                share_y = counts.last[e, y]
                below = enter[t - d, y] + inside[d, y] - alpha[t, y]
                p = share_y * np.exp(below) if share_y > 0.0 and below > NEGLIGIBLE else 0.0
                inside[d, y] = p
                counts.first[e - d, y] += p
                counts.length[d, y] += p
        for k in range(scores.span_ptr[e], scores.span_ptr[e + 1]):
            d = scores.span_length[k] - 1
            if d < rows:
                for y in range(m):
                    counts.span[k, y] += inside[d, y]


@kernel
def segment_sums_batch(scores, offsets, weight, counts, log_partition):
    """Fill log_partition (n_sequences,) and, if ``counts`` has token rows, the expected parts of all sequences.

    ``counts`` comes in as zeros; ``weight`` (n_sequences,) scales the counts of a sequence. Infeasible sequences have
    ``-inf`` and count nothing.
    """
    longest, m = longest_of(offsets), scores.role.shape[2]
    pairwise = scores.pairwise.reshape(1, m, m)
    tops, powers = exponentials(pairwise)
    steps = SegmentSteps(tops[0], powers[0], flip(powers)[0])
    scratch = Scratch(
        np.empty((longest + 1, m)),
        np.empty((longest + 1, m)),
        np.empty(scores.length.shape),
        np.empty(scores.length.shape),
        np.empty(m),
        np.empty(m),
        np.empty(m),
        np.zeros(m),
    )
    for i in range(log_partition.shape[0]):
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        log_partition[i] = 0.0
        if n > 0:
            log_partition[i] = sum_forward(scores, steps, begin, n, scratch)
            if counts.token.shape[0] > 0 and log_partition[i] > -np.inf and weight[i] > 0.0:
                sum_backward(scores, steps, begin, n, scratch, weight[i], counts)
