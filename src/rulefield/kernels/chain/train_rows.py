"""Scores and gradients of one token from its packed features, eight labels at a time.

Labels are padded to a multiple of eight (``width``). A token's features are packed in two lists: *rows* (addresses
of padded rows of weights, for features with many labels) and *pairs* (address and label of single weights, for
features with few). See :mod:`rulefield.learning.chain.packing`.
"""

import numpy as np

from rulefield.kernels.jit import piece
from rulefield.kernels.lanes import (
    add8,
    exp8,
    fill8,
    fma8,
    highest8,
    least_positive8,
    load8,
    lowest8,
    max8,
    mul8,
    prefetch,
    store8,
    sum8,
)

ZERO = np.uint64(0)
ONE = np.uint64(1)
EIGHT = np.uint64(8)
SIXTEEN = np.uint64(16)
TWENTY_FOUR = np.uint64(24)
AHEAD = np.uint64(40)
"""Entries ahead whose weights are fetched: two to four tokens, as long as memory outside the nearest caches takes to answer.
Without it an evaluation waits for a fifth of its time, and for more the larger the data. The loops are written out, since a
piece called inside of them counts references and takes nearly twice as long."""


@piece
def score_rows(weights, rows, values, value_step, first, last, bias, out, at, width):
    """Set out[at : at + width] = bias + sum over k in first..last of values[k] x the row of weights at rows[k]."""
    b = ZERO
    while b + TWENTY_FOUR <= width:  # three vectors of a row while it is at hand
        x, y, z = load8(bias, b), load8(bias, b + EIGHT), load8(bias, b + SIXTEEN)
        for k in range(first, last):
            if k + AHEAD < np.uint64(rows.size):
                soon = np.uint64(rows[k + AHEAD]) + b
                prefetch(weights, soon)
                prefetch(weights, soon + EIGHT)
                prefetch(weights, soon + SIXTEEN)
            r, value = np.uint64(rows[k]) + b, fill8(values[k * value_step])
            x = fma8(value, load8(weights, r), x)
            y = fma8(value, load8(weights, r + EIGHT), y)
            z = fma8(value, load8(weights, r + SIXTEEN), z)
        store8(out, at + b, x)
        store8(out, at + b + EIGHT, y)
        store8(out, at + b + SIXTEEN, z)
        b += TWENTY_FOUR
    while b < width:
        x = load8(bias, b)
        for k in range(first, last):
            if k + AHEAD < np.uint64(rows.size):
                prefetch(weights, np.uint64(rows[k + AHEAD]) + b)
            x = fma8(fill8(values[k * value_step]), load8(weights, np.uint64(rows[k]) + b), x)
        store8(out, at + b, x)
        b += EIGHT


@piece
def spread_rows(gradient, rows, values, value_step, first, last, d, at, width):
    """Transpose of :func:`score_rows`: add values[k] x d[at : at + width] to the row of the gradient at rows[k]."""
    b = ZERO
    while b + TWENTY_FOUR <= width:
        x, y, z = load8(d, at + b), load8(d, at + b + EIGHT), load8(d, at + b + SIXTEEN)
        for k in range(first, last):
            if k + AHEAD < np.uint64(rows.size):
                soon = np.uint64(rows[k + AHEAD]) + b
                prefetch(gradient, soon)
                prefetch(gradient, soon + EIGHT)
                prefetch(gradient, soon + SIXTEEN)
            r, value = np.uint64(rows[k]) + b, fill8(values[k * value_step])
            store8(gradient, r, fma8(value, x, load8(gradient, r)))
            store8(gradient, r + EIGHT, fma8(value, y, load8(gradient, r + EIGHT)))
            store8(gradient, r + SIXTEEN, fma8(value, z, load8(gradient, r + SIXTEEN)))
        b += TWENTY_FOUR
    while b < width:
        x = load8(d, at + b)
        for k in range(first, last):
            if k + AHEAD < np.uint64(rows.size):
                prefetch(gradient, np.uint64(rows[k + AHEAD]) + b)
            r = np.uint64(rows[k]) + b
            store8(gradient, r, fma8(fill8(values[k * value_step]), x, load8(gradient, r)))
        b += EIGHT


@piece
def score_pairs(weights, address, label, values, value_step, first, last, out, at):
    """Add values[k] x weights[address[k]] to out[at + label[k]] for k in first..last."""
    for k in range(first, last):
        if k + AHEAD < np.uint64(address.size):
            prefetch(weights, np.uint64(address[k + AHEAD]))
        out[at + np.uint64(label[k])] += values[k * value_step] * weights[address[k]]


@piece
def spread_pairs(gradient, n_shared, gap, address, label, values, value_step, first, last, d, at):
    """Transpose of :func:`score_pairs`, into a gradient without the ``gap`` addresses after the first ``n_shared``."""
    for k in range(first, last):
        if k + AHEAD < np.uint64(address.size):
            soon = np.uint64(address[k + AHEAD])
            prefetch(gradient, soon - (gap if soon >= n_shared else ZERO))
        place = np.uint64(address[k])
        gradient[place - (gap if place >= n_shared else ZERO)] += values[k * value_step] * d[at + np.uint64(label[k])]


@piece
def total(v, at, width):
    """Sum of v[at : at + width], in a fixed order."""
    a = load8(v, at)
    for o in range(at + EIGHT, at + width, EIGHT):
        a = add8(a, load8(v, o))
    return sum8(a)


@piece
def exp_below_best(x, at, width):
    """Replace the row x by exp(x - best); return the best and the smallest exponential."""
    a = load8(x, at)
    for o in range(at + EIGHT, at + width, EIGHT):
        a = max8(load8(x, o), a)
    best = highest8(a)
    shift, low = fill8(-best), fill8(1.0)
    for o in range(at, at + width, EIGHT):
        # exp(-140) is below every bound that is watched; clipping there keeps exp8 in its range
        e = exp8(max8(add8(load8(x, o), shift), fill8(-140.0)))
        low = least_positive8(e, low)
        store8(x, o, e)
    return best, lowest8(low)


@piece
def scale_by(v, at, width, factor):
    """Multiply v[at : at + width] (>= 0) by ``factor``; return the smallest positive product, at most 1."""
    low, f = fill8(1.0), fill8(factor)
    for o in range(at, at + width, EIGHT):
        a = mul8(load8(v, o), f)
        low = least_positive8(a, low)
        store8(v, o, a)
    return lowest8(low)
