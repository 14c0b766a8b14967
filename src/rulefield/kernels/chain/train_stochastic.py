"""One sequence at a time: stochastic gradient steps on the packed weights.

Weights are kept as scale x vector, so that the decay of all weights by the L2 penalty is one multiplication and a
step costs the entries of one sequence. Sums are those of :mod:`rulefield.kernels.chain.train`, under the same watch
over underflow.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.train import LOWEST_FACTOR, forbid_ends, keep_allowed, score_sequence, sum_sequence
from rulefield.kernels.chain.train_rows import EIGHT, ONE, ZERO, spread_pairs
from rulefield.kernels.chain.train_steps import DenseSteps, add_outer
from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lanes import exp8, fill8, fma8, highest8, load8, max8, mul8, prefetch, store8

LARGEST_WEIGHT = 46.0
LINE = np.uint64(16)  # entries of four bytes in a line of the cache


class Walk(NamedTuple):
    """The moving weights, each kind divided by the scale, and 0/1 masks of those that exist; rows padded.

    ``state`` and ``state_mask`` are work spaces; ``step``, ``step_mask`` (has a weight) and ``step_allowed`` are
    flat matrices [from, to].
    """

    state: np.ndarray
    state_mask: np.ndarray
    step: np.ndarray
    step_mask: np.ndarray
    step_allowed: np.ndarray
    start: np.ndarray
    start_mask: np.ndarray
    may_start: np.ndarray
    end: np.ndarray
    end_mask: np.ndarray
    may_end: np.ndarray


class Schedule(NamedTuple):
    """Step number t has length rate / (1 + rate x decay x t); all weights then shrink by 1 - length x shrink."""

    rate: float
    decay: float
    shrink: float


@piece
def step_factors(step, allowed, scale, m, width, forward, backward):
    """Fill forward = allowed x exp(scale x step) and its transpose; return the largest exponent in size."""
    top = fill8(0.0)
    for o in range(ZERO, m * width, EIGHT):
        x = mul8(fill8(scale), load8(step, o))
        top = max8(top, max8(x, mul8(x, fill8(-1.0))))
        store8(forward, o, mul8(load8(allowed, o), exp8(max8(fill8(-100.0), x))))
    for i in range(m):
        for j in range(m):
            backward[j * width + i] = forward[i * width + j]
    return highest8(top)


@piece
def add_masked_rows(weights, mask, rows, values, value_step, first, last, d, at, width):
    """Add values[k] x d[at : at + width] to the row of weights at rows[k], where the mask is 1."""
    for b in range(ZERO, width, EIGHT):
        x = load8(d, at + b)
        for k in range(first, last):
            r = np.uint64(rows[k]) + b
            y = mul8(fill8(values[k * value_step]), load8(mask, r))
            store8(weights, r, fma8(y, x, load8(weights, r)))


@piece
def known_score(n, width, token, gold, scale, walk, e):
    """Return the score of the known labels without the best scores of the tokens, from their factors e."""
    score = 0.0
    for t in range(n):
        y = np.uint64(gold[token + t])
        score += np.log(e[t * width + y])
        if t > ZERO:
            score += scale * walk.step[np.uint64(gold[token + t - ONE]) * width + y]
    return score


@piece
def known_minus_expected(n, width, token, gold, d, pull):
    """Turn d (marginals) into indicator - marginals and add the known steps to ``pull``."""
    for o in range(ZERO, n * width, EIGHT):
        store8(d, o, mul8(load8(d, o), fill8(-1.0)))
    for t in range(n):
        y = np.uint64(gold[token + t])
        d[t * width + y] += 1.0
        if t > ZERO:
            pull[np.uint64(gold[token + t - ONE]) * width + y] += 1.0


@piece
def move(first, n, m, width, packed, walk, length, d, pull):
    """Add length x d to the weights of the features of every token, and length x pull to those of steps."""
    for o in range(ZERO, n * width, EIGHT):
        store8(d, o, mul8(load8(d, o), fill8(length)))
    for t in range(n):
        token, at = first + t, t * width
        r, r_end = packed.row_ptr[token], packed.row_ptr[token + ONE]
        p, p_end = packed.pair_ptr[token], packed.pair_ptr[token + ONE]
        step = packed.value_step
        add_masked_rows(walk.state, walk.state_mask, packed.rows, packed.row_values, step, r, r_end, d, at, width)
        spread_pairs(
            walk.state, ZERO, ZERO, packed.pairs, packed.pair_label, packed.pair_values, step, p, p_end, d, at
        )
    tail = (n - ONE) * width
    for y in range(m):
        walk.start[y] += d[y] * walk.start_mask[y]
        walk.end[y] += d[tail + y] * walk.end_mask[y]
    for o in range(ZERO, m * width, EIGHT):
        x = mul8(load8(pull, o), load8(walk.step_mask, o))
        store8(walk.step, o, fma8(fill8(length), x, load8(walk.step, o)))


@piece
def fetch_lists(order, position, offsets, packed):
    """Have the lists of the next sequence, and the pointers of the one after it, brought into the cache."""
    n = np.uint64(order.size)
    if position + ONE + ONE < n:
        token = offsets[order[position + ONE + ONE]]
        prefetch(packed.row_ptr, token)
        prefetch(packed.pair_ptr, token)
    if position + ONE < n:
        i = order[position + ONE]
        token, end = offsets[i], offsets[i + ONE]
        for k in range(packed.row_ptr[token], packed.row_ptr[end], LINE):
            prefetch(packed.rows, k)
        for k in range(packed.pair_ptr[token], packed.pair_ptr[end], LINE):
            prefetch(packed.pairs, k)
            prefetch(packed.pair_label, k)


@kernel
def walk_sequences(order, begin, m, offsets, weight, partial, allowed, gold, packed, walk, scale, count, schedule):
    """Take one step for each sequence of ``order`` from position ``begin`` on.

    Returns (position, scale, count, loss): loss sums -log p(labels) before each step; position is that of a sequence that
    needs log space, which the caller must take, or the length of ``order``.
    """
    width = np.uint64(walk.start.size)
    longest = ZERO
    for i in order:
        longest = max(longest, offsets[i + ONE] - offsets[i])
    size = longest * width
    nothing, beta, inverse = np.zeros(width), np.empty(width), np.empty(longest)
    e, alpha, d = np.empty(size), np.empty(size), np.empty(size)
    clamped = np.empty(size if allowed.shape[0] > 0 else ZERO)
    alpha_2, d_2 = np.empty(clamped.size), np.empty(clamped.size)
    forward, backward, pull = np.zeros(m * width), np.zeros(m * width), np.zeros(m * width)
    steps = DenseSteps(forward, backward)
    loss = 0.0
    for position in range(begin, np.uint64(order.size)):
        i = order[position]
        token = offsets[i]
        n = offsets[i + ONE] - token
        if n == ZERO or weight[i] == 0.0:
            continue
        fetch_lists(order, position, offsets, packed)
        largest = step_factors(walk.step, walk.step_allowed, scale, m, width, forward, backward)
        _, lowest = score_sequence(token, n, m, packed, walk.state, scale, walk, False, nothing, e)
        if largest > LARGEST_WEIGHT or lowest < LOWEST_FACTOR:
            return position, scale, count, loss
        known = 0.0 if partial[i] else known_score(n, width, token, gold, scale, walk, e)
        forbid_ends(n, walk, e)
        if partial[i]:
            keep_allowed(n, m, width, token, allowed, e, clamped)
        log_sum = sum_sequence(n, m, width, e, steps, 1.0, alpha, d, inverse, beta)
        if partial[i]:
            known = sum_sequence(n, m, width, clamped, steps, 1.0, alpha_2, d_2, inverse, beta)
        if np.isnan(log_sum) or np.isnan(known):
            return position, scale, count, loss
        pull[:] = 0.0
        add_outer(n, m, width, alpha, e, -1.0, pull)
        if partial[i]:
            add_outer(n, m, width, alpha_2, clamped, 1.0, pull)
        for o in range(ZERO, m * width, EIGHT):
            store8(pull, o, mul8(load8(pull, o), load8(forward, o)))
        if partial[i]:
            for o in range(ZERO, n * width, EIGHT):
                store8(d, o, fma8(fill8(-1.0), load8(d, o), load8(d_2, o)))
        else:
            known_minus_expected(n, width, token, gold, d, pull)
        loss += weight[i] * (log_sum - known)
        length = schedule.rate / (1.0 + schedule.rate * schedule.decay * count)
        scale *= 1.0 - length * schedule.shrink
        move(token, n, m, width, packed, walk, length * weight[i] / scale, d, pull)
        count += 1.0
    return np.uint64(order.size), scale, count, loss
