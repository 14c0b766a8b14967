"""Feature/label pairs of a chain: which occur in data, what they score, how often a labeling uses them.

Matrices are CSR (``indptr`` uint64, ``indices`` uint32, ``values`` float64); ``indptr`` may be a slice, for some of
the rows, and one value may stand for all entries. The labels of feature f that have a weight are
``label[ptr[f] : ptr[f + 1]]``, ascending, and the pair at position p has weight ``weights[p]``.
"""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lanes import prefetch

FAR, NEAR = np.uint64(32), np.uint64(16)  # entries ahead whose pointers, and whose weights, are fetched


@kernel
def rows_by_feature(indptr, indices, n_features):
    """Transpose a CSR pattern: ``(ptr, row)``, the rows of feature f being ``row[ptr[f] : ptr[f + 1]]``."""
    ptr = np.zeros(n_features + 1, np.uint64)
    for k in range(indices.size):
        ptr[indices[k] + np.uint64(1)] += np.uint64(1)
    for f in range(n_features):
        ptr[f + 1] += ptr[f]
    fill = ptr.copy()
    row = np.empty(indices.size, np.uint32)
    for t in range(indptr.size - 1):
        for k in range(indptr[t], indptr[t + 1]):
            f = indices[k]
            row[fill[f]] = t
            fill[f] += np.uint64(1)
    return ptr, row


@kernel
def frequent_pairs(by_feature_ptr, by_feature_row, set_ptr, set_label, n_labels, min_count):
    """Pairs (feature, label) that at least ``min_count`` rows have, as ``(ptr, label, number of rows)``.

    Row t has the labels ``set_label[set_ptr[t] : set_ptr[t + 1]]``. Two passes: count, then fill.
    """
    n_features = by_feature_ptr.size - 1
    count = np.zeros(n_labels, np.uint64)
    ptr = np.zeros(n_features + 1, np.uint64)
    label, rows = np.empty(0, np.uint32), np.empty(0, np.uint32)
    for filling in range(2):
        if filling == 1:
            label, rows = np.empty(ptr[n_features], np.uint32), np.empty(ptr[n_features], np.uint32)
        position = np.uint64(0)
        for f in range(n_features):
            count[:] = 0
            for k in range(by_feature_ptr[f], by_feature_ptr[f + 1]):
                t = np.uint64(by_feature_row[k])
                for s in range(set_ptr[t], set_ptr[t + np.uint64(1)]):
                    count[set_label[s]] += np.uint64(1)
            for y in range(n_labels):
                if count[y] >= min_count:
                    if filling == 1:
                        label[position] = y
                        rows[position] = count[y]
                    position += np.uint64(1)
            ptr[f + 1] = position
    return ptr, label, rows


@kernel
def merge_counts(a, a_count, b, b_count, keys, counts):
    """Merge two ascending lists of keys with counts, equal keys added up; return how many there are."""
    i, j, n = np.uint64(0), np.uint64(0), np.uint64(0)
    while i < np.uint64(a.size) or j < np.uint64(b.size):
        if j == np.uint64(b.size) or (i < np.uint64(a.size) and a[i] < b[j]):
            keys[n], counts[n] = a[i], a_count[i]
            i += np.uint64(1)
        elif i == np.uint64(a.size) or b[j] < a[i]:
            keys[n], counts[n] = b[j], b_count[j]
            j += np.uint64(1)
        else:
            keys[n], counts[n] = a[i], a_count[i] + b_count[j]
            i += np.uint64(1)
            j += np.uint64(1)
        n += np.uint64(1)
    return n


@kernel
def add_scores(indptr, indices, values, ptr, label, weights, out):
    """Add the scores of all rows to ``out`` (n_rows, n_labels)."""
    step, n = np.uint64(values.size > 1), np.uint64(indices.size)
    for t in range(indptr.size - 1):
        row = out[t]
        for k in range(indptr[t], indptr[t + 1]):
            if k + FAR < n:
                prefetch(ptr, np.uint64(indices[k + FAR]))
            if k + NEAR < n:
                soon = ptr[indices[k + NEAR]]
                prefetch(label, soon)
                prefetch(weights, soon)
            f = np.uint64(indices[k])
            value = values[k * step]
            for p in range(ptr[f], ptr[f + np.uint64(1)]):
                row[label[p]] += value * weights[p]


@kernel
def add_row_gradient(indptr, indices, values, ptr, label, rows, weights):
    """Transpose of :func:`add_scores`: add to every pair's weight the value times ``rows`` (n_rows, n_labels)."""
    step = np.uint64(values.size > 1)
    for t in range(indptr.size - 1):
        row = rows[t]
        for k in range(indptr[t], indptr[t + 1]):
            f = np.uint64(indices[k])
            value = values[k * step]
            for p in range(ptr[f], ptr[f + np.uint64(1)]):
                weights[p] += value * row[label[p]]


@kernel
def add_label_counts(indptr, indices, values, ptr, label, chosen, scale, weights):
    """Add scale[t] x value to the pair (feature, chosen[t]) of every entry of every row t.

    ``chosen`` and ``scale`` are (n_rows,). A pair without a weight is passed over; pairs are found by bisection.
    """
    step = np.uint64(values.size > 1)
    for t in range(indptr.size - 1):
        y = chosen[t]
        for k in range(indptr[t], indptr[t + 1]):
            f = np.uint64(indices[k])
            low = ptr[f]
            high = ptr[f + np.uint64(1)]
            end = high
            while low < high:
                middle = (low + high) >> np.uint64(1)
                if label[middle] < y:
                    low = middle + np.uint64(1)
                else:
                    high = middle
            if low < end and label[low] == y:
                weights[low] += scale[t] * values[k * step]
