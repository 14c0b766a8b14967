"""Exact log-partition values and marginals of small graphs of binary nodes: the labels of one sample."""

import numpy as np

from rulefield.kernels.graph.small import binary_sums
from rulefield.learning.graph.cases import Messages, Sums
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph_batch import GraphBatch

MOST_NODES = 14
"""Nodes of a graph whose labelings are all summed: 16,384."""


def is_small(batch: GraphBatch) -> bool:
    """Whether every graph is small and binary, and one has a loop (forests are exact anyway)."""
    sizes = np.diff(batch.node_pointer)
    return bool(
        len(batch.n_labels) and (batch.n_labels == 2).all() and sizes.max() <= MOST_NODES and not batch.is_forest
    )


def small_sums(
    batch: GraphBatch, unary: np.ndarray, pairwise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each graph's log-partition value, node and edge marginals (flat), all labelings summed."""
    values, node, edge = np.empty(batch.n_graphs), np.empty_like(unary), np.empty_like(pairwise)
    binary_sums(batch.node_pointer, batch.edge_pointer, batch.edges, unary, pairwise, node, edge, values)
    return values, node, edge


class SmallField:
    """Sums over all labelings of each graph of a shard."""

    rho: np.ndarray

    def __init__(self, shard: GraphShard):
        self.shard, self.rho = shard, np.ones(len(shard.batch.edges))

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value and marginals: exact sums do not depend on where they begin."""
        return Sums(*small_sums(self.shard.batch, unary, pairwise))
