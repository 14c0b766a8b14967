"""Edge appearance probabilities: how often each edge lies in a spanning tree, for tree-reweighted bounds."""

import numpy as np
from scipy import sparse

from rulefield.data.graphs import spanning_tree

N_TREES = 20
MOST_TREES = 1000


def edge_appearance(n_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Return, for each edge, the share of a set of spanning forests that hold it: (n_edges,), each in (0, 1].

    Each forest takes the edges used least so far (minimum spanning tree over counts), until every edge has been
    used and there are at least ``N_TREES`` forests: the mean of forests is always a valid set of weights. On a
    forest all weights are 1 and tree-reweighted inference is exact. Parallel edges share the weight of their pair.

    Notes
    -----
    O(N_TREES · n_edges log n_edges).
    """
    if len(edges) == 0:
        return np.ones(0)
    low, high = edges.min(axis=1), edges.max(axis=1)
    pairs, which, copies = np.unique(low * np.int64(n_nodes) + high, return_inverse=True, return_counts=True)
    row, column = pairs // n_nodes, pairs % n_nodes
    count = np.zeros(len(pairs))
    trees = 0
    while trees < N_TREES or (count.min() == 0 and trees < MOST_TREES):
        weight = (
            1.0 + count + (np.arange(len(pairs)) * 7919 % 104_729) / 1e6
        )  # breaks ties, differently for each edge
        graph = sparse.csr_array((weight, (row, column)), shape=(n_nodes, n_nodes))
        tree = spanning_tree(graph)
        used = np.searchsorted(pairs, tree.row.astype(np.int64) * n_nodes + tree.col)
        count[used] += 1
        trees += 1
        if len(used) == len(pairs):
            return (1.0 / copies)[which]
    share = np.maximum(count, 1.0) / trees
    return (share / copies)[which]
