"""Exact sums over all labelings of small graphs of binary nodes."""

import numpy as np

from rulefield.kernels.jit import kernel

SMALLEST_TOTAL = 1e-200
"""Sum of masses below which labelings may have vanished."""


@kernel
def binary_sums(node_pointer, edge_pointer, edges, unary, pairwise, node, edge, values):
    """Fill node and edge marginals and each graph's log-partition value, by summing over all its labelings.

    Labeling s gives node k the value of bit k. O(2^n), whatever the number of edges: masses grow, and sums shrink, by
    halves. Returns False, with nothing filled in full, if masses become so small that some may have vanished.
    """
    most = 0
    for g in range(len(values)):
        most = max(most, node_pointer[g + 1] - node_pointer[g])
    mass, given = np.empty(1 << most), np.empty((2, max(1 << most, 2) // 2))
    table, both = np.empty((most, 2, 2)), np.empty((most, most))
    for g in range(len(values)):
        first, n = node_pointer[g], node_pointer[g + 1] - node_pointer[g]
        e0, e1 = edge_pointer[g], edge_pointer[g + 1]
        top = _all_masses(first, n, edges[e0:e1], unary, pairwise[4 * e0 : 4 * e1], mass, given, table)
        total = _pair_sums(n, mass, given[0], both)
        if not total > SMALLEST_TOTAL:
            return False
        values[g] = top + np.log(total)
        for k in range(n):
            share = min(both[k, k] / total, 1.0)
            node[2 * (first + k)], node[2 * (first + k) + 1] = 1.0 - share, share
        for e in range(e0, e1):
            i, j = edges[e, 0] - first, edges[e, 1] - first
            a, b = both[i, i] / total, both[j, j] / total
            edge[4 * e + 3] = both[max(i, j), min(i, j)] / total
            edge[4 * e + 2] = max(a - edge[4 * e + 3], 0.0)
            edge[4 * e + 1] = max(b - edge[4 * e + 3], 0.0)
            edge[4 * e] = max(1.0 - a - b + edge[4 * e + 3], 0.0)
    return True


@kernel
def _all_masses(first, n, edges, unary, pairwise, mass, given, table):
    """Fill mass[s] with exp(score - top) for all 2^n labelings, as products of factors up to 1, and return top.

    ``top`` is the sum of what each node and each pair score at best. A total of NaN means that a node or a pair has no
    value that is allowed.
    """
    mass[0], top = 1.0, 0.0
    for k in range(n):
        _pairs_of(k, first, edges, pairwise, table)
        best = max(unary[2 * (first + k)], unary[2 * (first + k) + 1])
        top += best
        for own in range(2):
            given[own, 0] = np.exp(unary[2 * (first + k) + own] - best)
        for j in range(k):
            best = table[j].max()
            top += best
            for own in range(2):
                _extend(given[own], 1 << j, np.exp(table[j, 0, own] - best), np.exp(table[j, 1, own] - best))
        half = 1 << k
        for s in range(half):
            mass[half + s] = mass[s] * given[1, s]
            mass[s] *= given[0, s]
    return top


@kernel
def _extend(factor, step, without, with_it):
    """Double the number of factors: the first ``step`` times ``without``, then the same times ``with_it``."""
    for s in range(step):
        factor[step + s] = factor[s] * with_it
        factor[s] *= without


@kernel
def _pairs_of(k, first, edges, pairwise, table):
    """Fill table[j, value of j, value of k] with the scores of pairs of node k and each node j before it."""
    table[:k] = 0.0
    for e in range(len(edges)):
        i, j = edges[e, 0] - first, edges[e, 1] - first
        if max(i, j) != k:
            continue
        for own in range(2):
            for other in range(2):
                table[min(i, j), other, own] += pairwise[4 * e + (2 * other + own if j == k else 2 * own + other)]


@kernel
def _pair_sums(n, mass, scratch, both):
    """Return the sum of mass; fill both[k, j], j < k, its sum where k and j are 1, and both[k, k]. Uses mass up."""
    for k in range(n - 1, -1, -1):
        half = 1 << k
        for s in range(half):
            scratch[s] = mass[half + s]
            mass[s] += mass[half + s]
        for j in range(k - 1, -1, -1):
            step, total = 1 << j, 0.0
            for s in range(step):
                total += scratch[step + s]
                scratch[s] += scratch[step + s]
            both[k, j] = total
        both[k, k] = scratch[0]
    return mass[0]
