"""Sums over all labelings of a chain: partition functions and marginals.

The recursion keeps its messages as logarithms but sums in linear space: m exponentials and m
logarithms a token around one matrix-vector product, instead of m^2 exponentials. A sum that comes out so small
that terms may have underflowed is taken again in log space, so the result is right for any finite scores
and any pattern of ``-inf``. Shapes are those of :mod:`rulefield.kernels.chain.viterbi`.
"""

import numpy as np

from rulefield.kernels.chain.viterbi import ONE, ZERO
from rulefield.kernels.jit import kernel

# A sum of m terms below the smallest normal number (2e-308) is then wrong by less than one part in 10^50.
SAFE_SUM = 1e-250


@kernel
def highest(values):
    """Return the largest entry, ``-inf`` of none."""
    best = -np.inf
    for i in range(np.uint64(values.shape[0])):
        best = values[i] if values[i] > best else best
    return best


@kernel
def log_sum(values):
    """Return log(sum(exp(values))), ``-inf`` where all entries are."""
    top = highest(values)
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(np.uint64(values.shape[0])):
        total += np.exp(values[i] - top)
    return top + np.log(total)


@kernel
def exponentials(pairwise):
    """Return tops (k,), the largest entry of each matrix (0 where all are forbidden), and exp(pairwise - tops)."""
    count, m, _ = pairwise.shape
    tops, powers = np.zeros(count), np.empty_like(pairwise)
    for k in range(count):
        top = -np.inf
        for a in range(m):
            top = max(top, highest(pairwise[k, a]))
        tops[k] = top if top > -np.inf else 0.0
        for a in range(m):
            for b in range(m):
                powers[k, a, b] = np.exp(pairwise[k, a, b] - tops[k])
    return tops, powers


@kernel
def flip(pairwise):
    """Return the matrices transposed, indexed [to, from]."""
    count, m, _ = pairwise.shape
    flipped = np.empty_like(pairwise)  # loops, because numpy's transpose takes seconds to compile
    for k in range(count):
        for a in range(m):
            for b in range(m):
                flipped[k, b, a] = pairwise[k, a, b]
    return flipped


@kernel
def lower(row):
    """Subtract the largest entry from the row and return it; a row of ``-inf`` stays as it is."""
    top = highest(row)
    if top > -np.inf:
        for i in range(np.uint64(row.shape[0])):
            row[i] -= top
    return top


@kernel
def advance_sum(previous, steps, powers, top_step, row, work, current):
    """Set current[to] = row[to] + log sum over from of exp(previous[from] + steps[from, to]).

    ``previous`` has a largest entry of 0 (or is all ``-inf``); ``work`` is scratch of (m,).
    """
    m = np.uint64(row.shape[0])
    for to in range(m):
        current[to] = 0.0
    for label in range(m):
        base = np.exp(previous[label])
        if base > 0.0:
            for to in range(m):
                current[to] += base * powers[label, to]
    for to in range(m):
        if current[to] > SAFE_SUM:
            current[to] = row[to] + top_step + np.log(current[to])
        elif row[to] == -np.inf:
            current[to] = -np.inf
        else:
            for label in range(m):
                work[label] = previous[label] + steps[label, to]
            current[to] = row[to] + log_sum(work)


@kernel
def forward_sum(unary, pairwise, powers, tops, alpha):
    """Fill alpha[t, y], the log of the sum over labelings of 0..t that end in y; return the log partition function.

    Every row is lowered to a maximum of 0, so that long chains and large scores lose no digits. Needs n > 0.
    """
    n, m = np.uint64(unary.shape[0]), np.uint64(unary.shape[1])
    shared = pairwise.shape[0] == 1
    work = np.empty(unary.shape[1])
    for y in range(m):
        alpha[ZERO, y] = unary[ZERO, y]
    total = lower(alpha[ZERO])
    for t in range(ONE, n):
        k = ZERO if shared else t - ONE
        advance_sum(alpha[t - ONE], pairwise[k], powers[k], tops[k], unary[t], work, alpha[t])
        total += lower(alpha[t])
    return total + log_sum(alpha[n - ONE])


@kernel
def backward_sum(unary, flipped, powers, tops, beta):
    """Fill beta[t, y], the log of the sum over labelings of t + 1.. given y at t, rows lowered to 0. Needs n > 0.

    ``flipped`` and ``powers`` are indexed [to, from]: walking back is walking forward along transposed steps. Returns the
    log partition function.
    """
    n, m = np.uint64(unary.shape[0]), np.uint64(unary.shape[1])
    shared = flipped.shape[0] == 1
    inside, work, nothing = np.empty(unary.shape[1]), np.empty(unary.shape[1]), np.zeros(unary.shape[1])
    for y in range(m):
        beta[n - ONE, y] = 0.0
    total = 0.0
    for step in range(ONE, n):
        t = n - ONE - step
        k = ZERO if shared else t
        for y in range(m):
            inside[y] = unary[t + ONE, y] + beta[t + ONE, y]
        total += lower(inside)
        advance_sum(inside, flipped[k], powers[k], tops[k], nothing, work, beta[t])
        total += lower(beta[t])
    for y in range(m):
        inside[y] = unary[ZERO, y] + beta[ZERO, y]
    return total + log_sum(inside)


@kernel
def node_marginals(alpha, beta, node):
    """Set node[t] = softmax(alpha[t] + beta[t]); ``node`` may be ``alpha``."""
    m = np.uint64(alpha.shape[1])
    for t in range(np.uint64(alpha.shape[0])):
        for y in range(m):
            node[t, y] = alpha[t, y] + beta[t, y]
        lower(node[t])
        total = 0.0
        for y in range(m):
            node[t, y] = np.exp(node[t, y])
            total += node[t, y]
        for y in range(m):
            node[t, y] /= total


@kernel
def edge_marginals(unary, pairwise, alpha, beta, edge):
    """Fill edge (n - 1, m, m) with P(y_t = a, y_{t+1} = b) from the messages of a feasible chain."""
    n, m = np.uint64(unary.shape[0]), np.uint64(unary.shape[1])
    shared = pairwise.shape[0] == 1
    for t in range(ONE, n):
        k = ZERO if shared else t - ONE
        here = edge[t - ONE]
        for a in range(m):
            for b in range(m):
                here[a, b] = alpha[t - ONE, a] + pairwise[k, a, b] + unary[t, b] + beta[t, b]
        flat = here.ravel()
        total = log_sum(flat)
        for i in range(m * m):
            flat[i] = np.exp(flat[i] - total)


@kernel
def sums_batch(unary, pairwise, offsets, node, log_partition):
    """Fill log_partition (n_chains,) and, where ``node`` has rows, node (n_tokens, m) with P(y_t = y).

    Chains as in ``viterbi_batch``. Where a chain is infeasible (``-inf``) its marginals are 0. O(n_tokens m^2) time.
    """
    longest = 0
    for i in range(log_partition.shape[0]):
        longest = max(longest, offsets[i + 1] - offsets[i])
    alpha, beta = np.empty((longest, unary.shape[1])), np.empty((longest, unary.shape[1]))
    shared = pairwise.shape[0] == 1
    tops, powers = exponentials(pairwise)
    flipped, back_powers = flip(pairwise), flip(powers)
    for i in range(log_partition.shape[0]):
        first, stop = offsets[i], offsets[i + 1]
        if first == stop:
            log_partition[i] = 0.0
            continue
        n = stop - first
        a, b = (0, 1) if shared else (first, max(first, stop - 1))
        scores = unary[first:stop]
        log_partition[i] = forward_sum(scores, pairwise[a:b], powers[a:b], tops[a:b], alpha[:n])
        if node.shape[0] == 0:
            continue
        if log_partition[i] == -np.inf:
            node[first:stop] = 0.0
            continue
        backward_sum(scores, flipped[a:b], back_powers[a:b], tops[a:b], beta[:n])
        node_marginals(alpha[:n], beta[:n], node[first:stop])


@kernel
def messages(unary, pairwise, alpha, beta):
    """Fill alpha and beta (n, m) as the two sums do; return the log partition function. Needs n > 0."""
    tops, powers = exponentials(pairwise)
    total = forward_sum(unary, pairwise, powers, tops, alpha)
    backward_sum(unary, flip(pairwise), flip(powers), tops, beta)
    return total
