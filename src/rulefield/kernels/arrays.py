"""Vectors in kernels, by loops: they compile much faster than numpy's slices and calls do."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def overwrite(target, source):
    """Copy a vector onto the beginning of another."""
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def doubled(array):
    """Return a vector with twice the room."""
    bigger = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        bigger[i] = array[i]
    return bigger


@kernel
def sort_up(array, size):
    """Sort the first ``size`` entries, which are few. O(size^2)."""
    for i in range(1, size):
        value, j = array[i], i
        while j > 0 and array[j - 1] > value:
            array[j] = array[j - 1]
            j -= 1
        array[j] = value
