"""Labeled graphs cut into shards: what the graph learners work through, in threads, always in the same order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rulefield.data.graphs import TypedGraph
from rulefield.models.graph_batch import GraphBatch, make_batch
from rulefield.problem.graph import GraphPotentials

N_SHARDS = 8
NODES_PER_SHARD = 200
MOST_NODES_OF_A_SHARD = 20_000
"""Beyond that, there are more shards: workers of a cluster have one each, and memory for few."""
UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class GraphShard:
    """Some graphs and their labels, ``UNKNOWN`` (-1) where a label is not known.

    ``members`` are the numbers of the graphs in the user's list; ``allowed`` tells which labels each node may have, flat like
    scores, if some are known to be one of a set (None: ``labels`` tell all).
    """

    batch: GraphBatch
    labels: np.ndarray
    graph_weight: np.ndarray
    members: np.ndarray
    allowed: np.ndarray | None = None

    @property
    def complete(self) -> bool:
        """Every label is known."""
        return bool((self.labels != UNKNOWN).all())

    @cached_property
    def possible(self) -> np.ndarray:
        """Labels that agree with what is known, flat like unary."""
        if self.allowed is not None:
            return self.allowed
        known = self.labels != UNKNOWN
        mask = np.repeat(~known, self.batch.n_labels)
        mask[self.node_slot(self.labels)[known]] = True
        return mask

    def node_slot(self, labels: np.ndarray) -> np.ndarray:
        """Place in the flat scores of each node's label."""
        return self.batch.unary_offset[:-1] + labels

    def edge_slot(self, labels: np.ndarray) -> np.ndarray:
        """Place in the flat pairwise scores of each edge's two labels."""
        i, j = self.batch.edges[:, 0], self.batch.edges[:, 1]
        return self.batch.pairwise_offset[:-1] + labels[i] * self.batch.n_labels[j] + labels[j]

    def scores_of_labels(self, scores: GraphPotentials, labels: np.ndarray) -> np.ndarray:
        """Score of each graph's labeling, (n_graphs,)."""
        n = self.batch.n_graphs
        nodes = np.bincount(self.batch.node_graph, scores.unary[self.node_slot(labels)], minlength=n)
        return nodes + np.bincount(self.batch.edge_graph, scores.pairwise[self.edge_slot(labels)], minlength=n)

    def clamped(self, unary: np.ndarray) -> np.ndarray:
        """Copy scores with every label that contradicts what is known forbidden."""
        return np.where(self.possible, unary, -np.inf)

    def hamming(self) -> np.ndarray:
        """Cost of each label at each node, flat like unary: 0 at those that agree with what is known, 1 at others."""
        return np.where(self.possible, 0.0, 1.0)

    def filled(self, labels: np.ndarray) -> "GraphShard":
        """Return the same shard with labels put in where they were unknown; what is wrong does not change."""
        return replace(self, labels=np.where(self.labels == UNKNOWN, labels, self.labels), allowed=self.possible)


def make_shards(
    graphs: Sequence[TypedGraph],
    labels: Sequence[np.ndarray],
    label_counts: Mapping[str, int],
    graph_weight: np.ndarray | None = None,
    n_shards: int | None = None,
    allowed: Sequence[np.ndarray] | None = None,
) -> list[GraphShard]:
    """Cut labeled graphs into shards, completely labeled graphs apart from the others.

    ``labels`` holds, for each graph, the label numbers of its nodes, types sorted by name one after the other. The cut
    depends on the data only, so that sums over shards do not depend on the number of threads.
    """
    if n_shards is None:
        n_nodes = sum(len(y) for y in labels)
        n_shards = max(int(np.clip(n_nodes // NODES_PER_SHARD, 1, N_SHARDS)), n_nodes // MOST_NODES_OF_A_SHARD)
    weights = np.ones(len(graphs)) if graph_weight is None else np.asarray(graph_weight, dtype=np.float64)
    complete = np.array([bool((np.asarray(y) != UNKNOWN).all()) for y in labels], dtype=bool)
    shards = []
    for group in (np.flatnonzero(complete), np.flatnonzero(~complete)):
        for members in np.array_split(group, min(n_shards, max(len(group), 1))):
            if len(members) == 0:
                continue
            batch = make_batch([graphs[g] for g in members], label_counts)
            y = np.concatenate([labels[g] for g in members]).astype(np.int64)
            options = None
            if allowed is not None and not complete[members].all():
                options = np.concatenate([allowed[g] for g in members])
            shards.append(GraphShard(batch, y, weights[members], members, options))
    return shards
