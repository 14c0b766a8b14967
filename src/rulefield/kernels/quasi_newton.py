"""The two passes of L-BFGS over its history: inner products with new vectors, and a linear combination.

Both walk through blocks of columns that stay in the cache, so that every stored vector is read once per pass.
"""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lanes import fill8, fma8, load8, mul8, store8, sum8

BLOCK = np.uint64(2048)
EIGHT = np.uint64(8)
SIXTEEN = np.uint64(16)
ZERO = np.uint64(0)


@kernel
def history_products(history, n_rows, n, first, last, a, b, c, out):
    """Set out[r] = (history[r] . a, history[r] . b, history[r] . c) over columns first..last.

    ``history`` is flat with rows of length n. Sums are taken in a fixed order.
    """
    out[:] = 0.0
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        whole = begin + (end - begin) // EIGHT * EIGHT
        for r in range(n_rows):
            at = r * n
            x, y, z = fill8(0.0), fill8(0.0), fill8(0.0)
            for j in range(begin, whole, EIGHT):
                h = load8(history, at + j)
                x = fma8(h, load8(a, j), x)
                y = fma8(h, load8(b, j), y)
                z = fma8(h, load8(c, j), z)
            sx, sy, sz = sum8(x), sum8(y), sum8(z)
            for j in range(whole, end):
                sx += history[at + j] * a[j]
                sy += history[at + j] * b[j]
                sz += history[at + j] * c[j]
            out[r, 0] += sx
            out[r, 1] += sy
            out[r, 2] += sz


@kernel
def combine_history(history, n_rows, n, first, last, coefficient, scale, g, out):
    """Set out = scale x g + sum_r coefficient[r] x history[r] over columns first..last."""
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        whole = begin + (end - begin) // EIGHT * EIGHT
        for j in range(begin, whole, EIGHT):
            store8(out, j, mul8(load8(g, j), fill8(scale)))
        for j in range(whole, end):
            out[j] = scale * g[j]
        for r in range(n_rows):
            at = r * n
            w = coefficient[r]
            if w == 0.0:
                continue
            for j in range(begin, whole, EIGHT):
                store8(out, j, fma8(load8(history, at + j), fill8(w), load8(out, j)))
            for j in range(whole, end):
                out[j] += w * history[at + j]


@kernel
def dot(a, b):
    """Inner product, in a fixed order; one thread, where a BLAS would wake several for a few microseconds."""
    n = np.uint64(a.size)
    whole = n // SIXTEEN * SIXTEEN
    x, y = fill8(0.0), fill8(0.0)
    for j in range(ZERO, whole, SIXTEEN):
        x = fma8(load8(a, j), load8(b, j), x)
        y = fma8(load8(a, j + EIGHT), load8(b, j + EIGHT), y)
    total = sum8(x) + sum8(y)
    for j in range(whole, n):
        total += a[j] * b[j]
    return total


@kernel
def step_products(theta, old_theta, gradient, old_gradient):
    """With s = theta - old_theta and y = gradient - old_gradient: (s . y, s . s, y . y), without storing s and y."""
    n = np.uint64(theta.size)
    whole = n // EIGHT * EIGHT
    minus = fill8(-1.0)
    x, y, z = fill8(0.0), fill8(0.0), fill8(0.0)
    for j in range(ZERO, whole, EIGHT):
        a = fma8(minus, load8(old_theta, j), load8(theta, j))
        b = fma8(minus, load8(old_gradient, j), load8(gradient, j))
        x, y, z = fma8(a, b, x), fma8(a, a, y), fma8(b, b, z)
    along, step, change = sum8(x), sum8(y), sum8(z)
    for j in range(whole, n):
        a_1, b_1 = theta[j] - old_theta[j], gradient[j] - old_gradient[j]
        along += a_1 * b_1
        step += a_1 * a_1
        change += b_1 * b_1
    return along, step, change
