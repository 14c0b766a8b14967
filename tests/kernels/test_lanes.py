"""Eight lanes at once do what numpy does to eight numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rulefield.kernels.jit import kernel
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
    where_positive8,
)


@kernel
def all_operations(a, b, out):
    at = np.uint64(1)  # not aligned
    x, y = load8(a, at), load8(b, at)
    store8(out[0], np.uint64(0), add8(x, y))
    store8(out[1], np.uint64(0), mul8(x, y))
    store8(out[2], np.uint64(0), fma8(x, y, fill8(3.0)))
    store8(out[3], np.uint64(0), max8(x, y))
    store8(out[4], np.uint64(0), least_positive8(x, y))
    store8(out[5], np.uint64(0), where_positive8(x, y))
    return sum8(x), highest8(x), lowest8(x)


@kernel
def exponentials(x):
    for i in range(np.uint64(0), np.uint64(x.size), np.uint64(8)):
        store8(x, i, exp8(load8(x, i)))


@pytest.mark.parametrize("seed", range(5))
def test_operations(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=10), rng.normal(size=10)
    a[3] = 0.0
    out = np.empty((6, 8))
    total, highest, lowest = all_operations(a, b, out)
    x, y = a[1:9], b[1:9]
    assert_array_equal(out[0], x + y)
    assert_array_equal(out[1], x * y)
    assert_allclose(out[2], x * y + 3.0, rtol=1e-15)
    assert_array_equal(out[3], np.maximum(x, y))
    assert_array_equal(out[4], np.where((x > 0) & (x < y), x, y))
    assert_array_equal(out[5], np.where(x > 0, y, 0.0))
    assert_allclose(total, x.sum())
    assert highest == x.max()
    assert lowest == x.min()


def test_exp_to_the_last_bits():
    x = np.concatenate([np.random.default_rng(0).uniform(-690, 690, size=7991), np.linspace(-2, 2, 9)])
    y = x.copy()
    exponentials(y)
    assert_allclose(y, np.exp(x), rtol=5e-16)
