"""Likelihood of labeled chains and its gradient, for one shard of the data.

Each sequence is scored, summed forward and backward, and spread into the gradient while it is in the cache. Sums
are in probability space, every step scaled to a total of 1. That is exact to rounding as long as no product
underflows, which is watched: with step factors in [1e-20, 1e20] (the caller sees to it), label factors above 1e-60
and forward probabilities that are 0 or above 1e-200, no product and no quotient comes near 1e-308. A sequence that
breaks a bound adds nothing here; it is marked for the caller, who takes it in log space.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.train_rows import (
    EIGHT,
    ONE,
    ZERO,
    exp_below_best,
    scale_by,
    score_pairs,
    score_rows,
    spread_pairs,
    spread_rows,
    total,
)
from rulefield.kernels.chain.train_steps import (
    DenseSteps,
    add_edges,
    dense_backward,
    dense_forward,
    sparse_backward,
    sparse_forward,
)
from rulefield.kernels.jit import kernel, overload, piece
from rulefield.kernels.lanes import fill8, load8, mul8, prefetch, store8, where_positive8

FAR = np.uint64(2048)  # entries of the lists: the machine itself does not look beyond a page
LOWEST_FACTOR = 1e-60
LOWEST_FORWARD = 1e-200
SMALL, LARGE = 1e-15, 1e200  # a product between them stands one more factor


class Packed(NamedTuple):
    """Features of all tokens, packed: see :mod:`rulefield.learning.chain.packing`.

    ``given`` (n_tokens, m) are scores from elsewhere to add; no rows where there are none.
    """

    row_ptr: np.ndarray
    rows: np.ndarray
    row_values: np.ndarray
    pair_ptr: np.ndarray
    pairs: np.ndarray
    pair_label: np.ndarray
    pair_values: np.ndarray
    given: np.ndarray
    value_step: np.uint64


class Ends(NamedTuple):
    """Scores of starting and ending with each label (0 where forbidden), 0/1 masks of what is permitted; padded."""

    start: np.ndarray
    end: np.ndarray
    may_start: np.ndarray
    may_end: np.ndarray


class Gradient(NamedTuple):
    """Where a shard adds its expected counts; ``state`` has the first ``n_shared`` places and, after a gap, its own."""

    state: np.ndarray
    n_shared: np.uint64
    gap: np.uint64
    steps: np.ndarray
    start: np.ndarray
    end: np.ndarray


@kernel
def score_sequence(first, n, m, packed, weights, scale, ends, in_order, nothing, x):
    """Fill x (n rows of padded width) with label factors exp(score - best score of the row); padding repeats label 0.

    Scores are ``scale`` times sums of weights; ``in_order`` says that the next sequence in memory is the next one to be
    scored. Returns the sum of the best scores, and the smallest factor.
    """
    width = np.uint64(nothing.size)
    step = packed.value_step
    peaks = 0.0
    lowest = 1.0
    for t in range(n):
        token, at = first + t, t * width
        bias = ends.start if t == ZERO else nothing
        r, r_end = packed.row_ptr[token], packed.row_ptr[token + ONE]
        p, p_end = packed.pair_ptr[token], packed.pair_ptr[token + ONE]
        if in_order:
            prefetch(packed.row_ptr, token + FAR)
            prefetch(packed.pair_ptr, token + FAR)
            prefetch(packed.rows, r + FAR)
            prefetch(packed.pairs, p + FAR)
            prefetch(packed.pair_label, p + FAR)
        score_rows(weights, packed.rows, packed.row_values, step, r, r_end, bias, x, at, width)
        score_pairs(weights, packed.pairs, packed.pair_label, packed.pair_values, step, p, p_end, x, at)
        if t + ONE == n:
            for y in range(m):
                x[at + y] += ends.end[y]
        for o in range(at, at + width, EIGHT):
            store8(x, o, mul8(fill8(scale), load8(x, o)))
        if packed.given.shape[0] > 0:
            for y in range(m):
                x[at + y] += packed.given[token, y]
        for y in range(m, width):
            x[at + y] = x[at]
        peak, low = exp_below_best(x, at, width)
        lowest = low if low < lowest else lowest
        peaks += peak
    return peaks, lowest


@piece
def forbid_ends(n, ends, e):
    """Set the factors of labels that may not start, or end, a sequence to 0."""
    width = np.uint64(ends.start.size)
    last = (n - ONE) * width
    for y in range(width):
        e[y] *= ends.may_start[y]
        e[last + y] *= ends.may_end[y]


@piece
def keep_allowed(n, m, width, token, allowed, e, clamped):
    """Fill ``clamped`` with the factors e, 0 for labels that are not allowed at their token."""
    for t in range(n):
        for y in range(m):
            clamped[t * width + y] = e[t * width + y] * allowed[token + t, y]
        for y in range(m, width):
            clamped[t * width + y] = 0.0


@piece
def sum_both_ways(n, m, width, e, forward, backward, steps, weight, alpha, d, inverse, beta):
    """Forward and backward sums of one sequence from its label factors ``e``.

    Fills alpha (normalized), d = weight x marginals, and turns e into v_t = e_t beta_t / c_t, so that the
    probability of a step is alpha_{t-1}(i) T(i, j) v_t(j). Returns sum of log c_t, or NaN where a bound of
    underflow is broken.
    """
    for y in range(width):
        alpha[y] = e[y]
    result, product = 0.0, 1.0
    for t in range(n):
        at = t * width
        if t > ZERO:
            forward(alpha, at - width, steps, m, alpha, at, width)
            for o in range(at, at + width, EIGHT):
                store8(alpha, o, mul8(load8(alpha, o), load8(e, o)))
        c = total(alpha, at, width)
        if not c > 0.0:
            return np.nan
        inverse[t] = 1.0 / c
        if scale_by(alpha, at, width, inverse[t]) < LOWEST_FORWARD:
            return np.nan
        product *= c
        if product < SMALL or product > LARGE:  # one logarithm for many sums; each is above 1e-280
            result += np.log(product)
            product = 1.0
    result += np.log(product)
    for y in range(width):
        beta[y] = 1.0
    for back in range(n):
        t = n - ONE - back
        at = t * width
        c = inverse[t]
        for o in range(at, at + width, EIGHT):
            # where the past cannot reach, the future may be anything, even too large to hold
            a = load8(alpha, o)
            b = where_positive8(a, load8(beta, o - at))
            store8(d, o, mul8(fill8(weight), mul8(a, b)))
            store8(e, o, mul8(load8(e, o), mul8(b, fill8(c))))
        if t > ZERO:
            backward(e, at, steps, m, beta, ZERO, width)
    return result


def sum_sequence(n, m, width, e, steps, weight, alpha, d, inverse, beta):
    """:func:`sum_both_ways` with the products that fit the form of ``steps``; each form is compiled when it is met."""


@overload(sum_sequence)
def _sum_sequence(n, m, width, e, steps, weight, alpha, d, inverse, beta):
    def dense(n, m, width, e, steps, weight, alpha, d, inverse, beta):
        return sum_both_ways(n, m, width, e, dense_forward, dense_backward, steps, weight, alpha, d, inverse, beta)

    def sparse(n, m, width, e, steps, weight, alpha, d, inverse, beta):
        return sum_both_ways(n, m, width, e, sparse_forward, sparse_backward, steps, weight, alpha, d, inverse, beta)

    return dense if steps.instance_class is DenseSteps else sparse


@piece
def spread_sequence(first, n, packed, d, gradient):
    """Add the rows of d to the gradient of the features of every token."""
    width = np.uint64(gradient.start.size)
    step = packed.value_step
    for t in range(n):
        token, at = first + t, t * width
        r, r_end = packed.row_ptr[token], packed.row_ptr[token + ONE]
        p, p_end = packed.pair_ptr[token], packed.pair_ptr[token + ONE]
        spread_rows(gradient.state, packed.rows, packed.row_values, step, r, r_end, d, at, width)
        spread_pairs(
            gradient.state, gradient.n_shared, gradient.gap, packed.pairs, packed.pair_label, packed.pair_values, step,
            p, p_end, d, at,
        )  # fmt: skip
    last = (n - ONE) * width
    for y in range(width):
        gradient.start[y] += d[y]
        gradient.end[y] += d[last + y]


@kernel
def train_shard(first, last, m, offsets, weight, partial, allowed, packed, weights, ends, steps, gradient, odd):
    """Sum over sequences first..last of weight x (log Z - log Z of what the labels allow), gradient added in place.

    Where ``partial[i]`` is 0 the second term is left to the caller (it is linear). ``odd[i]`` is set to 1 for
    sequences that need log space; they add nothing.
    """
    width = np.uint64(gradient.start.size)
    longest = ZERO
    for i in range(first, last):
        longest = max(longest, offsets[i + ONE] - offsets[i])
    size = longest * width
    nothing, beta, inverse = np.zeros(width), np.empty(width), np.empty(longest)
    e, alpha, d = np.empty(size), np.empty(size), np.empty(size)
    clamped = np.empty(size if allowed.shape[0] > 0 else ZERO)
    alpha_2, d_2 = np.empty(clamped.size), np.empty(clamped.size)
    value = 0.0
    for i in range(first, last):
        token = offsets[i]
        n = offsets[i + ONE] - token
        if n == ZERO or weight[i] == 0.0:
            continue
        peaks, lowest = score_sequence(token, n, m, packed, weights, 1.0, ends, True, nothing, e)
        if lowest < LOWEST_FACTOR:
            odd[i] = 1
            continue
        forbid_ends(n, ends, e)
        if partial[i]:
            keep_allowed(n, m, width, token, allowed, e, clamped)
        log_sum = sum_sequence(n, m, width, e, steps, weight[i], alpha, d, inverse, beta)
        known = -peaks
        if partial[i]:
            known = sum_sequence(n, m, width, clamped, steps, weight[i], alpha_2, d_2, inverse, beta)
        if np.isnan(log_sum) or np.isnan(known):
            odd[i] = 1
            continue
        value += weight[i] * (log_sum - known)
        add_edges(n, m, width, alpha, e, weight[i], steps, gradient.steps)
        if partial[i]:
            add_edges(n, m, width, alpha_2, clamped, -weight[i], steps, gradient.steps)
            for y in range(n * width):
                d[y] -= d_2[y]
        spread_sequence(token, n, packed, d, gradient)
    return value
