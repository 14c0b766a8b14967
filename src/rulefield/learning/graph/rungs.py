"""Ladders: two labels of one thing are one node that has both, so that the rungs between them close no loops.

A factorial model gives each thing (a word, a line) a node in each of two layers, joins the two by a rung, and neighbors
within each layer. Every square of two rungs and two such edges is a loop; with the ends of each rung merged, the two edges
are one. A ladder of two chains becomes a chain, where sums are exact.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rulefield.kernels.graph.merged import merge_tables
from rulefield.learning.graph.cases import Field, Messages, Sums
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph_batch import GraphBatch, is_forest

MOST_LABELS = 36
"""Of a merged node: its tables have the square of that many entries."""


def rungs_of(batch: GraphBatch) -> np.ndarray:
    """Return the edges whose ends are worth merging: those of a pair of types without which no loop is left; often none.

    They must join each node to one other at most. Where loops are left, merging makes tables large and sums no better.
    """
    for rows in batch.edge_rows.values():
        first, second = batch.edges[rows].T
        ends = np.concatenate([first, second])
        single = len(np.unique(ends)) == len(ends)
        if len(rows) and single and (batch.n_labels[first] * batch.n_labels[second]).max() <= MOST_LABELS:
            edges, *_ = _parallel(batch, rows)
            if is_forest(len(batch.n_labels) - len(rows), edges):
                return rows
    return np.zeros(0, dtype=np.int64)


def _merged_nodes(batch: GraphBatch, rungs: np.ndarray) -> np.ndarray:
    """Return the merged node of each node."""
    first, second = batch.edges[rungs].T
    kept = np.ones(len(batch.n_labels), dtype=bool)
    kept[second] = False
    node = np.cumsum(kept) - 1
    node[second] = node[first]
    return node


def _parallel(batch: GraphBatch, rungs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Edges of the merged graph; the other edges, which of the merged ones each is, and whether it goes the other way."""
    node = _merged_nodes(batch, rungs)
    others = np.setdiff1d(np.arange(len(batch.edges)), rungs)
    ends = node[batch.edges[others]]
    low, high = ends.min(axis=1), ends.max(axis=1)
    n = max(len(batch.n_labels), 1)
    pairs, home = np.unique(low * n + high, return_inverse=True)
    return np.stack([pairs // n, pairs % n], axis=1), others, home, ends[:, 0] > ends[:, 1]


class RungsField:
    """The field of a shard whose rungs are merged.

    Parameters
    ----------
    shard : GraphShard
    rungs : ndarray of int64
        Edges whose ends are merged; no node has two.
    make : callable
        Makes the field of the merged graphs.

    Notes
    -----
    O(edges x labels of merged nodes squared) beside the inner field.
    """

    def __init__(self, shard: GraphShard, rungs: np.ndarray, make: Callable[[GraphShard], Field]):
        batch = shard.batch
        self.shard = shard
        first, second = batch.edges[rungs].T
        size = batch.n_labels.copy()
        size[first] *= batch.n_labels[second]
        size[second] = size[first]
        stride = np.ones_like(size)
        stride[first] = batch.n_labels[second]
        kept = np.ones(len(size), dtype=bool)
        kept[second] = False
        edges, others, home, flipped = _parallel(batch, rungs)
        merged = self._merged(batch, size[kept], kept, edges)
        self.inner = make(replace(shard, batch=merged))
        self._lay_out_nodes(merged, np.flatnonzero(kept), first, second, rungs)
        self._tables = (
            batch.edges[others].astype(np.uint64),
            batch.n_labels.astype(np.uint64),
            stride.astype(np.uint64),
            size.astype(np.uint64),
            batch.pairwise_offset[others].astype(np.uint64),
            home.astype(np.uint64),
            flipped,
            merged.pairwise_offset.astype(np.uint64),
        )
        self._n_wide = int(merged.pairwise_offset[-1])

    @property
    def fields(self) -> list[Field]:
        """The field of the merged graphs."""
        return [self.inner]

    def _merged(self, batch: GraphBatch, n_labels: np.ndarray, kept: np.ndarray, edges: np.ndarray) -> GraphBatch:
        pointer = np.concatenate([[0], np.cumsum(kept)])[batch.node_pointer]
        node_graph = np.repeat(np.arange(batch.n_graphs), np.diff(pointer))
        count = np.bincount(node_graph[edges[:, 0]], minlength=batch.n_graphs)
        edge_pointer = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        return GraphBatch(n_labels, edges, pointer.astype(np.int64), edge_pointer, {}, {}, {}, {})

    def _lay_out_nodes(
        self, merged: GraphBatch, kept: np.ndarray, first: np.ndarray, second: np.ndarray, rungs: np.ndarray
    ) -> None:
        """Which score of the graph's nodes each score of a merged node holds: of its first, and of its second and rung."""
        batch, sizes = self.shard.batch, merged.n_labels
        label = np.arange(merged.unary_offset[-1]) - np.repeat(merged.unary_offset[:-1], sizes)
        partner, rung = np.full(len(batch.n_labels), -1), np.full(len(batch.n_labels), -1)
        partner[first], rung[first] = second, rungs
        partner, rung = np.repeat(partner[kept], sizes), np.repeat(rung[kept], sizes)
        self._two = np.flatnonzero(partner >= 0)
        width = np.where(partner >= 0, batch.n_labels[partner], 1)
        self._own = np.repeat(batch.unary_offset[:-1][kept], sizes) + label // width
        self._other = (batch.unary_offset[:-1][partner] + label % width)[self._two]
        self._rung = (batch.pairwise_offset[:-1][rung] + label)[self._two]

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value, marginals and the messages of the merged graphs."""
        wide_unary, wide = unary[self._own], np.zeros(self._n_wide)
        wide_unary[self._two] += unary[self._other] + pairwise[self._rung]
        merge_tables(*self._tables, pairwise, wide, False)
        merged = self.inner.marginals(wide_unary, wide, begin)
        both = merged.node[self._two]
        node = np.bincount(self._own, merged.node, minlength=len(unary))
        node += np.bincount(self._other, both, minlength=len(unary))
        edge = np.zeros_like(pairwise)
        edge[self._rung] = both
        merge_tables(*self._tables, edge, merged.edge, True)
        return Sums(merged.values, node, edge, merged.messages)
