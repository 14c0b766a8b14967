"""Multiplying by the matrix of transition factors exp(weights), 0 where forbidden."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.chain.train_rows import EIGHT, ONE, SIXTEEN, TWENTY_FOUR, ZERO
from rulefield.kernels.jit import piece
from rulefield.kernels.lanes import fill8, fma8, load8, store8

TWO = np.uint64(2)


class StepFactors(NamedTuple):
    """Transition factors as full matrices, flat, rows padded: ``forward`` is [from, to], ``backward`` [to, from]."""

    forward: np.ndarray
    backward: np.ndarray


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
