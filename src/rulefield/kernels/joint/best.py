"""Best paths over the product of several label sets without the product's transition matrix.

The maximum factors as the sum does (:mod:`rulefield.kernels.joint.sums`): where a step scores one transition per task,
maximize along one task's axis after the other, O(S * sum of m_k) instead of O(S^2) per token. Nothing but the forward
messages is kept; on the way back the best predecessor of one state is looked up among all S.
"""

import numpy as np

from rulefield.kernels.jit import kernel, piece

ZERO, ONE = np.uint64(0), np.uint64(1)


@piece
def best_along(a, T, T_at, m, post, out):
    """out[p, j', q] = max over j of a[p, j, q] + T[j, j']; T flat (m * m) from T_at on, out as long as a (p m q).

    Both loops run over neighbors in memory, so that they become vector code.
    """
    size = np.uint64(len(a))
    for s in range(size):
        out[s] = -np.inf
    if post == ONE:
        for p in range(ZERO, size, m):
            for j in range(m):
                x, row = a[p + j], T_at + j * m
                if x == -np.inf:
                    continue
                for k in range(m):
                    value = x + T[row + k]
                    out[p + k] = value if value > out[p + k] else out[p + k]
        return
    for p in range(ZERO, size, m * post):
        for j in range(m):
            source, row = p + j * post, T_at + j * m
            for k in range(m):
                x = T[row + k]
                if x == -np.inf:
                    continue
                target = p + k * post
                for q in range(post):
                    value = x + a[source + q]
                    out[target + q] = value if value > out[target + q] else out[target + q]


@piece
def advance(a, T, sizes, spare, out):
    """out[s'] = max over s of a[s] + the scores of the step s -> s', task by task; ``spare`` (S,) is overwritten."""
    K, post, at = np.uint64(len(sizes)), np.uint64(len(a)), ZERO
    source, target, other = a, out, spare
    if K % np.uint64(2) == ZERO:
        target, other = spare, out
    for k in range(K):
        m = sizes[k]
        post //= m
        best_along(source, T, at, m, post, target)
        at += m * m
        source, target, other = target, other, target


@piece
def best_before(a, T, sizes, state, steps):
    """Return the first s that maximizes a[s] + the scores of the step s -> ``state``; ``steps`` (S,) is overwritten."""
    K, S = np.uint64(len(sizes)), np.uint64(len(a))
    rest, at, block = state, np.uint64(len(T)), ONE
    steps[ZERO] = 0.0
    for back in range(K):  # the last task is fastest: what is there so far repeats for each label before it
        m = sizes[K - ONE - back]
        at -= m * m
        to, rest = rest % m, rest // m
        for up in range(m):
            j = m - ONE - up
            x = T[at + j * m + to]
            for q in range(block):
                steps[j * block + q] = x + steps[q]
        block *= m
    best, where = -np.inf, ZERO
    for s in range(S):
        value = a[s] + steps[s]
        if value > best:
            best, where = value, s
    return where


@kernel
def joint_best_paths(psi, offsets, sizes, T, states, scores):
    """Fill ``states`` (n_tokens,) with the best joint states of every chain, ``scores`` (n_chains,) with their scores.

    Parameters
    ----------
    psi : (n_tokens, S) log-scores; -inf forbids
    offsets : (n_chains + 1,) uint64
    sizes : (K,) labels of each task, uint64
    T : (sum of m_k ** 2,) transition scores [from, to] of all tasks, one after the other
    """
    S, longest = np.uint64(psi.shape[1]), ONE
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    alpha, spare = np.empty((longest, S)), np.empty(S)
    for i in range(len(offsets) - 1):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        scores[i] = 0.0
        if n == ZERO:
            continue
        for s in range(S):
            alpha[ZERO, s] = psi[first, s]
        for t in range(ONE, n):
            advance(alpha[t - ONE], T, sizes, spare, alpha[t])
            for s in range(S):
                alpha[t, s] += psi[first + t, s]
        best, state = -np.inf, ZERO
        for s in range(S):
            if alpha[n - ONE, s] > best:
                best, state = alpha[n - ONE, s], s
        scores[i] = best
        states[first + n - ONE] = state
        for back in range(ONE, n):
            t = n - ONE - back
            state = best_before(alpha[t], T, sizes, state, spare)
            states[first + t] = state


@kernel
def joint_max_marginals(psi, sizes, T, flipped, out):
    """Fill ``out`` (n, S) with the best score of any path of one chain through each state at each token.

    ``flipped`` holds the transposes of ``T``.
    """
    n, S = np.uint64(psi.shape[0]), np.uint64(psi.shape[1])
    ahead, after, spare = np.empty(S), np.empty(S), np.empty(S)
    for s in range(S):
        out[ZERO, s] = psi[ZERO, s]
    for t in range(ONE, n):
        advance(out[t - ONE], T, sizes, spare, out[t])
        for s in range(S):
            out[t, s] += psi[t, s]
    for s in range(S):
        ahead[s] = psi[n - ONE, s]
    for back in range(ONE, n):
        t = n - ONE - back
        advance(ahead, flipped, sizes, spare, after)
        for s in range(S):
            out[t, s] += after[s]
            ahead[s] = after[s] + psi[t, s]
