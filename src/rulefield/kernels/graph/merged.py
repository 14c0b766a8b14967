"""Tables of the edges of a graph, and of the graph in which pairs of nodes are one node that has both labels.

A merged node numbers its labels as first * n_second + second; a node that stands alone keeps its own. The label of node v
inside label A of its merged node is (A // stride[v]) % n_labels[v].
"""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def merge_tables(edges, n_labels, stride, size, offset, home, flipped, wide_offset, narrow, wide, back):
    """Add each edge's table to that of its merged edge; with ``back``, fill each edge's table with sums over the merged one.

    Parameters
    ----------
    edges : ndarray of uint64, shape (n_edges, 2)
    n_labels, stride, size : ndarray of uint64, shape (n_nodes,)
        Labels of each node, its stride, and the labels of its merged node.
    offset : ndarray of uint64
        Where each edge's table begins in ``narrow``.
    home : ndarray of uint64, shape (n_edges,)
        Merged edge of each edge.
    flipped : ndarray of bool, shape (n_edges,)
        The merged edge goes the other way round.
    wide_offset : ndarray of uint64
        Where each merged edge's table begins in ``wide``.
    narrow, wide : ndarray of float64
        ``wide`` (``narrow`` with ``back``) is to be 0 at the start.
    back : bool
    """
    one, zero = np.uint64(1), np.uint64(0)
    for e in range(np.uint64(edges.shape[0])):
        i, j = edges[e, zero], edges[e, one]
        at, wide_at = offset[e], wide_offset[home[e]]
        step_i, step_j = (one, size[i]) if flipped[e] else (size[j], one)
        inner, n_inner = stride[j], n_labels[j]
        outer = size[j] // (inner * n_inner)
        for A in range(size[i]):
            row = at + (A // stride[i]) % n_labels[i] * n_inner
            for high in range(outer):
                for b in range(n_inner):
                    k = wide_at + A * step_i + (high * n_inner + b) * inner * step_j
                    for low in range(inner):
                        if back:
                            narrow[row + b] += wide[k + low * step_j]
                        else:
                            wide[k + low * step_j] += narrow[row + b]
