"""Dual ascent of the structured SVM over labelings already found: no inference, only sparse vectors."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def ascend(w, order, example, begin, end, index, value, loss, alpha, C, scratch, n_passes, n_steps, tolerance):
    """Raise the dual of the structured SVM over its cached planes by pairwise Frank-Wolfe steps.

    The dual is -|w|^2 / 2 + sum_p C alpha_p loss_p with w = sum_p C alpha_p psi_p and, for each example, alpha on the
    simplex over its planes. A step moves mass from the worst plane in use to the best one, with exact line search.
    Planes of example i are ``order[example[i]] : order[example[i + 1]]``; plane p holds ``index, value[begin[p] : end[p]]``.
    ``scratch`` (n_parameters,) comes in and goes out as zeros. Returns the sum of the examples' gaps of the last pass.
    """
    n_examples = np.uint64(example.shape[0] - 1)
    one = np.uint64(1)
    score = np.empty(order.shape[0], dtype=np.float64)
    total = 0.0
    for _ in range(n_passes):
        total = 0.0
        for i in range(n_examples):
            for step in range(n_steps):
                best, worst = -np.inf, np.inf
                best_at, worst_at = np.uint64(0), np.uint64(0)
                mean = 0.0
                for k in range(example[i], example[i + one]):
                    p = order[k]
                    dot = 0.0
                    for q in range(begin[p], end[p]):
                        dot += value[q] * w[index[q]]
                    score[k] = C * (loss[p] - dot)
                    mean += alpha[p] * score[k]
                    if score[k] > best:
                        best, best_at = score[k], p
                    if alpha[p] > 0.0 and score[k] < worst:
                        worst, worst_at = score[k], p
                if step == 0:
                    total += best - mean
                if best - worst <= tolerance:
                    break
                _move(w, index, value, begin, end, alpha, best_at, worst_at, best - worst, C, scratch)
        if total <= tolerance * n_examples:
            break
    return total


@kernel
def _move(w, index, value, begin, end, alpha, best, worst, gap, C, scratch):
    """Move mass from plane ``worst`` to plane ``best`` by the step that maximizes the dual."""
    for q in range(begin[best], end[best]):
        scratch[index[q]] += value[q]
    for q in range(begin[worst], end[worst]):
        scratch[index[q]] -= value[q]
    norm = 0.0
    for p in (best, worst):
        for q in range(begin[p], end[p]):
            norm += scratch[index[q]] * value[q] * (1.0 if p == best else -1.0)
    gamma = alpha[worst]
    if norm > 0.0:
        gamma = min(gamma, gap / (C * C * norm))
    for p in (best, worst):
        for q in range(begin[p], end[p]):
            k = index[q]
            w[k] += C * gamma * scratch[k]
            scratch[k] = 0.0
    if gamma == alpha[worst]:
        alpha[best] += gamma
        alpha[worst] = 0.0
    else:
        alpha[best] += gamma
        alpha[worst] -= gamma
