"""Best labelings of chains: Viterbi and the k best.

Shapes shared by all chain kernels: ``unary`` (n, m) float64; ``pairwise`` (k, m, m) float64 indexed
[from, to], where k is 1 (all steps share it) or at least n - 1 and entry t scores the step from t to
t + 1. ``-inf`` forbids. Loop indices are unsigned, which spares the compiler the test for negative ones.
"""

import numpy as np

from rulefield.kernels.jit import kernel, piece

ONE = np.uint64(1)
ZERO = np.uint64(0)


@piece
def advance_max(previous, steps, row, current):
    """Set current[to] = row[to] + max over from of previous[from] + steps[from, to].

    The maximum runs over whole rows of ``steps``: the inner loop is contiguous, so it becomes vector code.
    """
    m = np.uint64(row.shape[0])
    for to in range(m):
        current[to] = -np.inf
    for label in range(m):
        base = previous[label]
        if base == -np.inf:
            continue
        for to in range(m):
            value = base + steps[label, to]
            current[to] = value if value > current[to] else current[to]
    for to in range(m):
        current[to] += row[to]


@kernel
def forward_max(unary, pairwise, alpha):
    """Fill alpha[t, y], the best score of labels 0..t that end in y."""
    n, m = np.uint64(unary.shape[0]), np.uint64(unary.shape[1])
    shared = pairwise.shape[0] == 1
    for y in range(m):
        alpha[ZERO, y] = unary[ZERO, y]
    for t in range(ONE, n):
        step = ZERO if shared else t - ONE
        advance_max(alpha[t - ONE], pairwise[step], unary[t], alpha[t])


@piece
def best_predecessor(previous, steps, to):
    """Return the first label that maximizes previous[label] + steps[label, to]."""
    best, where = -np.inf, ZERO
    for label in range(np.uint64(previous.shape[0])):
        value = previous[label] + steps[label, to]
        if value > best:
            best, where = value, label
    return where


@kernel
def trace_back(pairwise, alpha, last, labels):
    """Complete ``labels[: last]`` with the best way to reach ``labels[last]``.

    No back pointers are kept: the maximum is taken again along the one path that needs it, from the same
    sums, so ties break the same way (toward the label with the lowest number).
    """
    shared = pairwise.shape[0] == 1
    for t in range(last, ZERO, -1):
        now = np.uint64(t)
        step = ZERO if shared else now - ONE
        labels[now - ONE] = best_predecessor(alpha[now - ONE], pairwise[step], np.uint64(labels[now]))


@kernel
def viterbi(unary, pairwise, alpha, labels):
    """Fill ``labels`` (n,) with a best labeling and return its score, ``-inf`` where all are forbidden.

    ``alpha`` is work space of at least (n, m). O(n m^2) time.
    """
    n = np.uint64(unary.shape[0])
    if n == ZERO:
        return 0.0
    forward_max(unary, pairwise, alpha)
    last = n - ONE
    best = -np.inf
    labels[:] = 0
    for y in range(np.uint64(unary.shape[1])):
        if alpha[last, y] > best:
            best = alpha[last, y]
            labels[last] = y
    if best > -np.inf:
        trace_back(pairwise, alpha, last, labels)
    return best


@kernel
def viterbi_batch(unary, pairwise, offsets, labels, scores):
    """Decode the chains of tokens ``offsets[i] : offsets[i + 1]``; fill labels (n_tokens,) and scores (n_chains,).

    With one ``pairwise`` per step, entry t scores the step from token t to t + 1 of the concatenation (the entry
    at the last token of a chain is not read).
    """
    longest = 0
    for i in range(scores.shape[0]):
        longest = max(longest, offsets[i + 1] - offsets[i])
    alpha = np.empty((longest, unary.shape[1]))
    shared = pairwise.shape[0] == 1
    for i in range(scores.shape[0]):
        first, stop = offsets[i], offsets[i + 1]
        steps = pairwise if shared else pairwise[first : max(first, stop - 1)]
        scores[i] = viterbi(unary[first:stop], steps, alpha, labels[first:stop])


@kernel
def labeling_scores(unary, pairwise, offsets, labels, scores):
    """Fill scores (n_chains,) with the score of the given labeling of every chain."""
    shared = pairwise.shape[0] == 1
    for i in range(scores.shape[0]):
        total = 0.0
        for t in range(offsets[i], offsets[i + 1]):
            total += unary[t, labels[t]]
            if t > offsets[i]:
                total += pairwise[0 if shared else t - 1, labels[t - 1], labels[t]]
        scores[i] = total
