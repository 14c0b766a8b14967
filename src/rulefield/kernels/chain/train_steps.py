"""Multiplying by the matrix of transition factors T = exp(weights), 0 where forbidden, dense or sparse.

Most transitions of many labels were never seen and have no weight: their factor is 1. Then T = base + (a few
entries), and a product costs one sum and the entries: v T (j) = base sum_i v(i) + sum over entries (i, j) of v(i)
(T(i, j) - base). Where labels follow a strict scheme most factors are 0, and base = 0. The subtraction may cancel;
a result that is small beside the sum is taken again from the full matrix, so that its relative error stays below
1e-12.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.train_rows import EIGHT, ONE, SIXTEEN, TWENTY_FOUR, ZERO, total
from rulefield.kernels.jit import kernel, overload, piece
from rulefield.kernels.lanes import fill8, fma8, load8, store8

CANCELLED = 1e-4
TWO = np.uint64(2)


class DenseSteps(NamedTuple):
    """Transition factors as full matrices, flat, rows padded: ``forward`` is [from, to], ``backward`` [to, from]."""

    forward: np.ndarray
    backward: np.ndarray


class SparseSteps(NamedTuple):
    """Transition factors as the entries that differ from ``base``, by source and by target, and in full.

    The entries of source i are ``by_from_ptr[i] : by_from_ptr[i + 1]``, with target ``to`` and ``from_excess`` = T - base;
    those of target j likewise.
    """

    base: float
    forward: np.ndarray
    backward: np.ndarray
    by_from_ptr: np.ndarray
    to: np.ndarray
    from_excess: np.ndarray
    by_to_ptr: np.ndarray
    source: np.ndarray
    to_excess: np.ndarray


@piece
def times_matrix(v, at, matrix, m, out, out_at, width):
    """Set out[out_at : out_at + width] = v[at : at + m] @ matrix, the matrix flat with rows of ``width``."""
    b = ZERO
    while b + TWENTY_FOUR <= width:  # three sums at once: none waits for itself
        x, y, z = fill8(0.0), fill8(0.0), fill8(0.0)
        r = b
        for i in range(m):
            factor = fill8(v[at + i])
            x = fma8(factor, load8(matrix, r), x)
            y = fma8(factor, load8(matrix, r + EIGHT), y)
            z = fma8(factor, load8(matrix, r + SIXTEEN), z)
            r += width
        store8(out, out_at + b, x)
        store8(out, out_at + b + EIGHT, y)
        store8(out, out_at + b + SIXTEEN, z)
        b += TWENTY_FOUR
    while b < width:
        x = fill8(0.0)
        r = b
        for i in range(m):
            x = fma8(fill8(v[at + i]), load8(matrix, r), x)
            r += width
        store8(out, out_at + b, x)
        b += EIGHT


@piece
def times_sparse(v, at, base, ptr, index, excess, full, m, out, out_at, width):
    """Set out[j] = base x total of v + sum over the entries k of j of v[index[k]] x excess[k]."""
    everything = base * total(v, at, width)
    low = CANCELLED * everything
    for j in range(m):
        a = everything
        for k in range(ptr[j], ptr[j + ONE]):
            a += v[at + np.uint64(index[k])] * excess[k]
        if a < low:
            a = 0.0
            for i in range(m):
                a += v[at + i] * full[j * width + i]
        out[out_at + j] = a
    for j in range(m, width):
        out[out_at + j] = 0.0


def add_edges(n, m, width, alpha, v, weight, steps, out):
    """Add weight x sum_t alpha_{t-1}(i) v_t(j) to ``out``: all (i, j), rows padded; or the entries by source only.

    Times T(i, j) that is the expected number of steps i to j.
    """


@piece
def dense_forward(v, at, steps, m, out, out_at, width):
    """Set out[j] = sum_i v[i] T(i, j)."""
    times_matrix(v, at, steps.forward, m, out, out_at, width)


@piece
def dense_backward(v, at, steps, m, out, out_at, width):
    """Set out[i] = sum_j T(i, j) v[j]."""
    times_matrix(v, at, steps.backward, m, out, out_at, width)


@piece
def sparse_forward(v, at, steps, m, out, out_at, width):
    """Set out[j] = sum_i v[i] T(i, j)."""
    times_sparse(
        v, at, steps.base, steps.by_to_ptr, steps.source, steps.to_excess, steps.backward, m, out, out_at, width
    )


@piece
def sparse_backward(v, at, steps, m, out, out_at, width):
    """Set out[i] = sum_j T(i, j) v[j]."""
    times_sparse(
        v, at, steps.base, steps.by_from_ptr, steps.to, steps.from_excess, steps.forward, m, out, out_at, width
    )


@overload(add_edges)
def _add_edges(n, m, width, alpha, v, weight, steps, out):
    def dense(n, m, width, alpha, v, weight, steps, out):
        add_outer(n, m, width, alpha, v, weight, out)

    def sparse(n, m, width, alpha, v, weight, steps, out):
        add_entries(n, m, width, alpha, v, weight, steps.by_from_ptr, steps.to, out)

    return dense if steps.instance_class is DenseSteps else sparse


@piece
def add_entries(n, m, width, alpha, v, weight, ptr, to, out):
    """Add weight x sum_{t>0} alpha_{t-1}(i) v_t(to[k]) to out[k] for the entries k of every source i."""
    for t in range(ONE, n):
        at = t * width
        for i in range(m):
            x = weight * alpha[at - width + i]
            for k in range(ptr[i], ptr[i + ONE]):
                out[k] += x * v[at + np.uint64(to[k])]


@kernel
def add_outer(n, m, width, alpha, v, weight, out):
    """Add weight x sum_{t>0} alpha_{t-1} (outer product) v_t to out, flat, rows padded."""
    for i in range(ZERO, m, TWO):  # two rows at once
        for b in range(ZERO, width, EIGHT):
            x, y = fill8(0.0), fill8(0.0)
            for t in range(ONE, n):
                after, before = load8(v, t * width + b), (t - ONE) * width + i
                x = fma8(fill8(alpha[before]), after, x)
                y = fma8(fill8(alpha[before + ONE]), after, y)
            o = i * width + b
            store8(out, o, fma8(fill8(weight), x, load8(out, o)))
            if i + ONE < m:
                store8(out, o + width, fma8(fill8(weight), y, load8(out, o + width)))
