"""Vectors in kernels, by loops: they compile much faster than numpy's slices and calls do."""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lanes import prefetch

AHEAD = np.uint64(32)  # places ahead that are fetched into the cache


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


@kernel
def take_at(source, places, into):
    """Set into[i] = source[places[i]]; each value is asked for before its turn, which halves what numpy takes."""
    n = np.uint64(places.size)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(source, np.uint64(places[i + AHEAD]))
        into[i] = source[np.uint64(places[i])]


@kernel
def put_at(target, places, values):
    """Set target[places[i]] = values[i]."""
    n = np.uint64(places.size)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(target, np.uint64(places[i + AHEAD]))
        target[np.uint64(places[i])] = values[i]


@kernel
def add_at(target, places, values):
    """Add values[i] to target[places[i]]."""
    n = np.uint64(places.size)
    for i in range(n):
        if i + AHEAD < n:
            prefetch(target, np.uint64(places[i + AHEAD]))
        target[np.uint64(places[i])] += values[i]
