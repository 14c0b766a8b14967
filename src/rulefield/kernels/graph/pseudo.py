"""Pseudo-likelihood of a graph: every node's label given its neighbors' labels."""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel


@kernel
def pseudo_likelihood(offset, unary, edges, pairwise, pairwise_offset, labels, weight, d_unary, d_pairwise):
    """Fill the gradient of sum_v weight_v log p(y_v | y_neighbors) with respect to the potentials; return the sum.

    offset (n_nodes + 1,) and pairwise_offset (n_edges + 1,) uint64; edges (n_edges, 2) uint64; labels (n_nodes,)
    uint64;
    d_unary and d_pairwise have the shapes of unary and pairwise; d_pairwise must come in filled with zeros.
    """
    n_nodes = np.uint64(labels.shape[0])
    n_edges = np.uint64(edges.shape[0])
    one = np.uint64(1)
    overwrite(d_unary, unary)
    for e in range(n_edges):
        i, j = edges[e, np.uint64(0)], edges[e, one]
        width = offset[j + one] - offset[j]
        at = pairwise_offset[e]
        for a in range(offset[i + one] - offset[i]):
            d_unary[offset[i] + a] += pairwise[at + a * width + labels[j]]
        row = at + labels[i] * width
        for b in range(width):
            d_unary[offset[j] + b] += pairwise[row + b]
    total = 0.0
    for v in range(n_nodes):
        begin, end = offset[v], offset[v + one]
        top = -np.inf
        for k in range(begin, end):
            top = max(top, d_unary[k])
        own = d_unary[begin + labels[v]]
        mass = 0.0
        for k in range(begin, end):
            d_unary[k] = np.exp(d_unary[k] - top)
            mass += d_unary[k]
        total += weight[v] * (own - top - np.log(mass))
        for k in range(begin, end):
            d_unary[k] *= -weight[v] / mass
        d_unary[begin + labels[v]] += weight[v]
    for e in range(n_edges):
        i, j = edges[e, np.uint64(0)], edges[e, one]
        width = offset[j + one] - offset[j]
        at = pairwise_offset[e]
        for a in range(offset[i + one] - offset[i]):
            d_pairwise[at + a * width + labels[j]] += d_unary[offset[i] + a]
        row = at + labels[i] * width
        for b in range(width):
            d_pairwise[row + b] += d_unary[offset[j] + b]
    return total
