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
    store8,
    sum8,
)

EIGHT = np.uint64(8)
ZERO = np.uint64(0)
ONE = np.uint64(1)


@piece
def score_rows(weights, rows, values, value_step, first, last, bias, out, at, width):
    """Set out[at : at + width] = bias + sum over k in first..last of values[k] x the row of weights at rows[k]."""
    for b in range(ZERO, width, EIGHT):
        a = load8(bias, b)
        for k in range(first, last):
            a = fma8(fill8(values[k * value_step]), load8(weights, np.uint64(rows[k]) + b), a)
        store8(out, at + b, a)


@piece
def spread_rows(gradient, rows, values, value_step, first, last, d, at, width):
    """Transpose of :func:`score_rows`: add values[k] x d[at : at + width] to the row of the gradient at rows[k]."""
    for b in range(ZERO, width, EIGHT):
        x = load8(d, at + b)
        for k in range(first, last):
            r = np.uint64(rows[k]) + b
            store8(gradient, r, fma8(fill8(values[k * value_step]), x, load8(gradient, r)))


@piece
def score_pairs(weights, address, label, values, value_step, first, last, out, at):
    """Add values[k] x weights[address[k]] to out[at + label[k]] for k in first..last."""
    for k in range(first, last):
        out[at + np.uint64(label[k])] += values[k * value_step] * weights[address[k]]


@piece
def spread_pairs(gradient, address, label, values, value_step, first, last, d, at):
    """Transpose of :func:`score_pairs`."""
    for k in range(first, last):
        gradient[address[k]] += values[k * value_step] * d[at + np.uint64(label[k])]


@piece
def spread_own_pairs(gradient, begin, address, label, values, value_step, first, last, d, at):
    """As :func:`spread_pairs`, into a gradient that holds the addresses from ``begin`` on only."""
    for k in range(first, last):
        gradient[np.uint64(address[k]) - begin] += values[k * value_step] * d[at + np.uint64(label[k])]


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
