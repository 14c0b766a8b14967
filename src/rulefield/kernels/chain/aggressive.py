"""Epochs of passive-aggressive learning and of AROW: decode, and step as far as the mistake asks for."""

import numpy as np

from rulefield.kernels.chain.margin import decode, gather, path_score, step
from rulefield.kernels.jit import kernel


@kernel
def margin_missed(data, state, work, i, score):
    """By how much the decoded labeling of sequence i beats the gold one; its scores are in ``work``."""
    first, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    steps = state.steps if work.stack.shape[0] == 0 else work.stack[: n - 1]
    return score - path_score(work.unary[:n], steps, data.gold[first : first + n])


@kernel
def passive_aggressive_epoch(data, table, state, work, order, gold, elapsed, variant, c, sensitive):
    """Visit the sequences of ``order``; return the sum of their losses.

    ``variant`` 0, 1, 2 is PA, PA-I, PA-II; ``elapsed`` counts the sequences visited before.
    """
    whole = np.ones(1)
    total = 0.0
    for s in range(order.shape[0]):
        i = order[s]
        elapsed += 1.0
        score, wrong = decode(data, table, state, i, work)
        if wrong == 0:
            continue
        loss = margin_missed(data, state, work, i, score) + (np.sqrt(wrong) if sensitive else 1.0)
        total += loss
        path = work.path[: data.offsets[i + 1] - data.offsets[i]]
        count, norm = gather(data, table, i, path, gold, whole, state, work.share)
        if norm == 0.0:  # no weight tells the two labelings apart
            continue
        size = loss / norm
        if variant == 1:
            size = min(c, size)
        elif variant == 2:
            size = loss / (norm + 0.5 / c)
        step(table, state, count, -size, elapsed)
    return total


@kernel
def arow_epoch(data, table, state, work, order, gold, variance, gamma):
    """Visit the sequences of ``order``; return the sum of their losses. ``variance`` (size,) falls where weights move."""
    whole = np.ones(1)
    total = 0.0
    for s in range(order.shape[0]):
        i = order[s]
        score, wrong = decode(data, table, state, i, work)
        if wrong == 0:
            continue
        loss = margin_missed(data, state, work, i, score) + wrong
        total += loss
        path = work.path[: data.offsets[i + 1] - data.offsets[i]]
        count, _ = gather(data, table, i, path, gold, whole, state, work.share)
        spread = gamma
        for j in range(count):
            spread += state.moved[j] * state.moved[j] * variance[state.touched[j]]
        for j in range(count):
            position, value = state.touched[j], state.moved[j]
            state.moved[j] = variance[position] * value
            variance[position] = 1.0 / (1.0 / variance[position] + value * value / gamma)
        step(table, state, count, -loss / spread, 0.0)
    return total
