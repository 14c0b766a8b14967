r"""Probabilities of segments of chains without rules: one pass forward and one backward give all of them.

Messages are probabilities, not logarithms: with :math:`c_t` the sum of the forward row t before it is divided by it (Rabiner
1989, section V.A), :math:`a_t(y) b_t(y) = P(y_t = y)`. A chain whose scores lie too far apart for that is only marked: the
rows of its marginals do not add up to one.
"""

import numpy as np

from rulefield.kernels.chain.sums import SAFE_SUM, exponentials, flip, highest
from rulefield.kernels.chain.viterbi import viterbi
from rulefield.kernels.jit import kernel, piece

ROUNDING = 1e-9
"""Largest error of a row of marginals that is right."""


@kernel
def scaled_messages(unary, powers, flipped, tops, inside, forward, backward, scale):
    """Fill forward and backward messages (n, m), scales (n,) and exp(unary - its largest entry); return the log sum.

    -inf if no labeling is possible; NaN if the sums are not exact.
    """
    n, m = unary.shape
    shared = powers.shape[0] == 1
    total = 0.0
    for t in range(n):
        top = highest(unary[t])
        if top == -np.inf:
            return -np.inf
        for y in range(m):
            inside[t, y] = np.exp(unary[t, y] - top)
            forward[t, y] = 0.0 if t > 0 else inside[t, y]
        if t > 0:
            k = 0 if shared else t - 1
            total += tops[k]
            for label in range(m):
                base = forward[t - 1, label]
                for y in range(m):
                    forward[t, y] += base * powers[k, label, y]
            for y in range(m):
                forward[t, y] *= inside[t, y]
        scale[t] = 0.0
        for y in range(m):
            scale[t] += forward[t, y]
        if not scale[t] > SAFE_SUM:
            return np.nan
        for y in range(m):
            forward[t, y] /= scale[t]
        total += top + np.log(scale[t])
    for y in range(m):
        backward[n - 1, y] = 1.0
    for t in range(n - 2, -1, -1):
        k = 0 if shared else t
        for y in range(m):
            backward[t, y] = 0.0
        for label in range(m):
            base = inside[t + 1, label] * backward[t + 1, label] / scale[t + 1]
            for y in range(m):
                backward[t, y] += base * flipped[k, label, y]
        marginals = 0.0
        for y in range(m):
            marginals += forward[t, y] * backward[t, y]
        if not abs(marginals - 1.0) < ROUNDING:
            return np.nan
    return total


@kernel
def segment_probability(powers, inside, forward, backward, scale, first, last, kind, starts, type_of, reach, ahead):
    """Return the probability that tokens ``first`` to ``last`` are one segment of type ``kind``, neither longer nor shorter.

    ``starts`` (m + 1, m) and ``type_of`` (m,) are a level of a table of segments; ``reach`` and ``ahead`` are scratch (m,).
    """
    n, m = inside.shape
    shared = powers.shape[0] == 1
    for y in range(m):
        reach[y] = 0.0
        if type_of[y] != kind:
            continue
        if first == 0:
            reach[y] = forward[0, y] if starts[m, y] else 0.0
            continue
        k = 0 if shared else first - 1
        for before in range(m):
            if starts[before, y]:
                reach[y] += forward[first - 1, before] * powers[k, before, y]
        reach[y] *= inside[first, y] / scale[first]
    for t in range(first + 1, last + 1):
        k = 0 if shared else t - 1
        for y in range(m):
            ahead[y] = 0.0
            if type_of[y] != kind:
                continue
            for before in range(m):
                if reach[before] > 0.0 and not starts[before, y]:
                    ahead[y] += reach[before] * powers[k, before, y]
            ahead[y] *= inside[t, y] / scale[t]
        for y in range(m):
            reach[y] = ahead[y]
    total = 0.0
    for y in range(m):
        if reach[y] == 0.0:
            continue
        if last == n - 1:
            total += reach[y]
            continue
        k = 0 if shared else last
        for after in range(m):
            if type_of[after] < 0 or starts[y, after]:
                mass = powers[k, y, after] * inside[last + 1, after] * backward[last + 1, after]
                total += reach[y] * mass / scale[last + 1]
    return min(1.0, total)


@kernel
def best_labels(unary, pairwise, alpha, labels):
    """Fill the best labels of a chain; return their score, summed along them."""
    if viterbi(unary, pairwise, alpha, labels) == -np.inf:
        return -np.inf
    shared = pairwise.shape[0] == 1
    score = unary[0, labels[0]]
    for t in range(1, unary.shape[0]):
        score += unary[t, labels[t]] + pairwise[0 if shared else t - 1, labels[t - 1], labels[t]]
    return score


@piece
def list_segments(labels, begin, starts, type_of, outside, found, first, last, kind, level, open_at):
    """List the segments of a labeling from number ``found`` on, by start, then level; return how many there are by then."""
    depth, n, m = type_of.shape[0], labels.size, type_of.shape[1]
    for d in range(depth):
        open_at[d] = -1
    for t in range(n):
        before, now = (m if t == 0 else labels[t - 1]), labels[t]
        for d in range(depth):
            if type_of[d, now] < 0:
                open_at[d] = -1
            elif starts[d, before, now]:
                open_at[d] = -1
                if type_of[d, now] != outside:
                    first[found], kind[found], level[found] = begin + t, type_of[d, now], d
                    open_at[d] = found
                    found += 1
            if open_at[d] >= 0:
                last[open_at[d]] = begin + t
    return found


@kernel
def largest_magnitude(scores):
    """Return the largest magnitude of scores, those that forbid aside."""
    largest = 0.0
    for k in range(scores.size):
        size = abs(scores[k])
        largest = size if largest < size < np.inf else largest
    return largest


@kernel
def read_chains(
    unary, pairwise, offsets, starts, type_of, outside, sums,
    score, largest, total, pointer, first, last, kind, level, chance,
):  # fmt: skip
    """Label chains (as in ``viterbi_batch``), list the segments, and work out probabilities; return the number of segments.

    Fills the score of each chain's best labels, the largest magnitude of its scores of a token and a step, and if ``sums``
    the log sum over all labelings and the probabilities of segments; the log sum is NaN, and these are not filled, if a
    chain's scores lie too far apart. ``outside`` is a type whose segments are not listed. Segments ``pointer[i] :
    pointer[i + 1]`` belong to chain i; ``first`` and ``last`` count tokens of all chains. Needs room for as many segments
    as there are tokens times levels.
    """
    longest, m = 0, unary.shape[1]
    for i in range(score.size):
        longest = max(longest, offsets[i + 1] - offsets[i])
    alpha, labels, open_at = np.empty((longest, m)), np.empty(longest, np.int64), np.empty(type_of.shape[0], np.int64)
    inside, forward, backward = np.empty((longest, m)), np.empty((longest, m)), np.empty((longest, m))
    scale, reach, ahead = np.empty(longest), np.empty(m), np.empty(m)
    shared, found, largest_step = pairwise.shape[0] == 1, 0, largest_magnitude(pairwise.ravel())
    tops, powers = exponentials(pairwise if sums else pairwise[:0])
    flipped = flip(powers)
    for i in range(score.size):
        begin, stop = offsets[i], offsets[i + 1]
        n = stop - begin
        pointer[i], score[i], largest[i] = found, 0.0, largest_step
        if sums:
            total[i] = 0.0
        if n == 0:
            continue
        own, steps = unary[begin:stop], pairwise if shared else pairwise[begin : max(begin, stop - 1)]
        largest[i] += largest_magnitude(own.ravel())
        score[i] = best_labels(own, steps, alpha, labels[:n])
        if score[i] > -np.inf:
            found = list_segments(
                labels[:n], begin, starts, type_of, outside, found, first, last, kind, level, open_at
            )
        if not sums:
            continue
        a, b = (0, 1) if shared else (begin, max(begin, stop - 1))
        total[i] = scaled_messages(
            own, powers[a:b], flipped[a:b], tops[a:b], inside[:n], forward[:n], backward[:n], scale[:n]
        )
        for s in range(pointer[i], found if total[i] > -np.inf else pointer[i]):
            chance[s] = segment_probability(
                powers[a:b], inside[:n], forward[:n], backward[:n], scale[:n], first[s] - begin, last[s] - begin, kind[s],
                starts[level[s]], type_of[level[s]], reach, ahead,
            )  # fmt: skip
    pointer[score.size] = found
    return found
