"""Forward-backward over the product of several label sets without the product's transition matrix.

A joint state s holds one label a task (mixed radix, last task fastest), S states in all. The score of a step s -> s'
is a sum of one transition score a task plus a score for few listed pairs of joint states. The sum over s then
factors: multiply the message by each task's transition matrix along its own axis, O(S * sum of m_k) instead of
O(S^2), and correct it for the listed pairs, whose factor exp(w) - 1 is usually sparse.

Everything runs in probability space with one scale a token. Where a scale leaves the range of float64 the sequence is
reported (log partition NaN), and the caller takes the dense path in log space.
"""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def _along(a, E, m, post, out):
    """out[p, j', q] = sum_j a[p, j, q] E[j, j'], with E flat (m * m)."""
    size = np.uint64(len(a))
    m, post = np.uint64(m), np.uint64(post)
    block = m * post
    for i in range(size):
        out[i] = 0.0
    for p in range(size // block):
        base = p * block
        for j in range(m):
            for k in range(m):
                e = E[j * m + k]
                if e != 0.0:
                    for q in range(post):
                        out[base + k * post + q] += a[base + j * post + q] * e


@kernel
def _along_last(a, E, m, out):
    """``_along`` for the last task (post = 1): the inner loop runs over labels."""
    size, m = np.uint64(len(a)), np.uint64(m)
    for p in range(size // m):
        base = p * m
        for k in range(m):
            out[base + k] = 0.0
        for j in range(m):
            x = a[base + j]
            if x != 0.0:
                for k in range(m):
                    out[base + k] += x * E[j * m + k]


@kernel
def _step(a, E, start, sizes, post, skip, spare, out):
    """Multiply by every task's matrix but ``skip``'s; the result is in ``out``."""
    out[:] = a
    for k in range(len(sizes)):
        if k == skip:
            continue
        spare[:] = out
        if post[k] == 1:
            _along_last(spare, E[start[k] : start[k + 1]], sizes[k], out)
        else:
            _along(spare, E[start[k] : start[k + 1]], sizes[k], post[k], out)


@kernel
def _add_edges(left, right, E, m, post, out):
    """out[j, j'] += E[j, j'] * sum over the other tasks of left[p, j, q] right[p, j', q]."""
    size = np.uint64(len(left))
    m, post = np.uint64(m), np.uint64(post)
    block = m * post
    for p in range(size // block):
        base = p * block
        for j in range(m):
            for k in range(m):
                total = 0.0
                for q in range(post):
                    total += left[base + j * post + q] * right[base + k * post + q]
                out[j * m + k] += E[j * m + k] * total


@kernel
def joint_sums(psi, offsets, chains, weight, sizes, E, pair_from, pair_to, pair_factor, node, edges, pairs, totals):
    """Log partition functions, marginals and expected counts of many sequences.

    Parameters
    ----------
    psi : (n_tokens, S) log-scores of joint states, starts and ends included; -inf forbids
    offsets : (n_sequences + 1,)
    chains : (n,) int64, the sequences to do
    weight : (n_sequences,) factor of each sequence in ``edges`` and ``pairs``
    sizes : (K,) labels of each task, int64
    E : (sum of m_k ** 2,) exp(transition scores) of all tasks, row-major, one after the other
    pair_from, pair_to : (P,) listed pairs of joint states
    pair_factor : (2, P) product of E over tasks times (exp(w) - 1), and times exp(w)
    node : (n_tokens, S) receives P(state); may have 0 rows where only totals are wanted
    edges : (sum of m_k ** 2,) receives expected transitions, summed
    pairs : (P,) receives expected listed pairs, summed
    totals : (n_sequences,) log partition functions; -inf: all forbidden; NaN: out of range
    """
    K, S = len(sizes), psi.shape[1]
    start = np.zeros(K + 1, np.int64)
    post = np.ones(K, np.int64)
    for k in range(K):
        start[k + 1] = start[k] + sizes[k] * sizes[k]
    for k in range(K - 2, -1, -1):
        post[k] = post[k + 1] * sizes[k + 1]
    back = np.empty(len(E))
    for k in range(K):
        for i in range(sizes[k]):
            for j in range(sizes[k]):
                back[start[k] + j * sizes[k] + i] = E[start[k] + i * sizes[k] + j]
    longest = 1
    for i in chains:
        longest = max(longest, offsets[i + 1] - offsets[i])
    e, alpha = np.empty((longest, S)), np.empty((longest, S))
    scale = np.empty(longest)
    beta, right, spare, moved = np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    want = node.shape[0] > 0
    for i in chains:
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        if n == 0:
            totals[i] = 0.0
            continue
        total, good = 0.0, True
        for t in range(n):
            top = -np.inf
            for s in range(S):
                top = max(top, psi[first + t, s])
            if top == -np.inf:
                total, good = -np.inf, False
                break
            for s in range(S):
                e[t, s] = np.exp(psi[first + t, s] - top)
            if t == 0:
                alpha[0] = e[0]
            else:
                _step(alpha[t - 1], E, start, sizes, post, -1, spare, moved)
                for p in range(len(pair_from)):
                    moved[pair_to[p]] += alpha[t - 1, pair_from[p]] * pair_factor[0, p]
                for s in range(S):
                    alpha[t, s] = max(0.0, moved[s]) * e[t, s]
            c = 0.0
            for s in range(S):
                c += alpha[t, s]
            if not (1e-250 < c < 1e250):
                total, good = np.nan, False
                break
            scale[t] = c
            total += top + np.log(c)
            for s in range(S):
                alpha[t, s] /= c
        totals[i] = total
        if not good or not want:
            continue
        w = weight[i]
        beta[:] = 1.0
        for t in range(n - 1, -1, -1):
            for s in range(S):
                node[first + t, s] = alpha[t, s] * beta[s]
            if t == 0:
                break
            for s in range(S):
                right[s] = e[t, s] * beta[s] / scale[t]
            for p in range(len(pair_from)):
                flow = alpha[t - 1, pair_from[p]] * right[pair_to[p]] * w
                pairs[p] += flow * pair_factor[1, p]
                change = flow * pair_factor[0, p]
                rest_from, rest_to = pair_from[p], pair_to[p]
                for k in range(K - 1, -1, -1):
                    a, b = rest_from % sizes[k], rest_to % sizes[k]
                    rest_from //= sizes[k]
                    rest_to //= sizes[k]
                    edges[start[k] + a * sizes[k] + b] += change
            for k in range(K):
                _step(alpha[t - 1], E, start, sizes, post, k, spare, moved)
                for s in range(S):
                    moved[s] *= w
                _add_edges(
                    moved, right, E[start[k] : start[k + 1]], sizes[k], post[k], edges[start[k] : start[k + 1]]
                )
            _step(right, back, start, sizes, post, -1, spare, beta)
            for p in range(len(pair_from)):
                beta[pair_from[p]] += right[pair_to[p]] * pair_factor[0, p]
            for s in range(S):
                beta[s] = max(0.0, beta[s])
