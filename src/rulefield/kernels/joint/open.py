"""Forward-backward over the joint states that annotation leaves open: few per token, so dense steps between them are cheap.

Everything runs in probability space with one scale per token. Where a scale leaves the range of float64 the sequence is
reported (log partition NaN), and the caller takes the dense path in log space.
"""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def open_state_sums(psi, offsets, chains, weight, P, node, steps, totals):
    """Log partition functions, marginals and expected steps of some sequences.

    Parameters
    ----------
    psi : (n_tokens, S) log-scores of joint states; -inf forbids, and costs nothing
    offsets : (n_sequences + 1,) uint64
    chains : (n,) uint64, the sequences to do
    weight : (n_sequences,) factor of each sequence in ``steps``
    P : (S, S) exp(scores of steps)
    node : (n_tokens, S) receives P(state)
    steps : (S, S) receives expected steps, summed
    totals : (n_sequences,) log partition functions; -inf: all forbidden; NaN: out of range
    """
    S = np.uint64(psi.shape[1])
    one = np.uint64(1)
    longest = one
    for i in chains:
        longest = max(longest, offsets[i + one] - offsets[i])
    count = np.empty(longest, np.uint64)
    state = np.empty((longest, S), np.uint32)
    e, alpha = np.empty((longest, S)), np.empty((longest, S))
    scale = np.empty(longest)
    beta, right = np.empty(S), np.empty(S)
    for i in chains:
        first, n = offsets[i], offsets[i + one] - offsets[i]
        total, good = 0.0, True
        for t in range(n):
            top, found = -np.inf, np.uint64(0)
            for s in range(S):
                x = psi[first + t, s]
                if x > -np.inf:
                    state[t, found] = s
                    e[t, found] = x
                    found += one
                    top = max(top, x)
            count[t] = found
            if found == np.uint64(0):
                total, good = -np.inf, False
                break
            for a in range(found):
                e[t, a] = np.exp(e[t, a] - top)
            if t == np.uint64(0):
                for a in range(found):
                    alpha[t, a] = e[t, a]
            else:
                before = t - one
                for a in range(found):
                    alpha[t, a] = 0.0
                for b in range(count[before]):
                    x, row = alpha[before, b], P[state[before, b]]
                    for a in range(found):
                        alpha[t, a] += x * row[state[t, a]]
                for a in range(found):
                    alpha[t, a] *= e[t, a]
            c = 0.0
            for a in range(found):
                c += alpha[t, a]
            if not (1e-250 < c < 1e250):
                total, good = np.nan, False
                break
            scale[t] = c
            total += top + np.log(c)
            for a in range(found):
                alpha[t, a] /= c
        totals[i] = total
        if not good:
            continue
        w = weight[i]
        for a in range(S):
            beta[a] = 1.0
        for back in range(n):
            t = n - one - back
            for a in range(count[t]):
                node[first + t, state[t, a]] = alpha[t, a] * beta[a]
            if t == np.uint64(0):
                break
            before = t - one
            for a in range(count[t]):
                right[a] = e[t, a] * beta[a] / scale[t]
            for b in range(count[before]):
                s, x, total = state[before, b], alpha[before, b] * w, 0.0
                row, out = P[s], steps[s]
                for a in range(count[t]):
                    flow = row[state[t, a]] * right[a]
                    total += flow
                    out[state[t, a]] += x * flow
                beta[b] = total
