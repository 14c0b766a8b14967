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
    """Some graphs and their labels.

    Parameters
    ----------
    batch : GraphBatch
    labels : ndarray of int64, shape (n_nodes,)
        ``UNKNOWN`` (-1) where a node's label is not known.
    cost : ndarray of float64, shape (n_nodes,)
        What a wrong label costs at each node (class weights); 1 where there are none.
    graph_weight : ndarray of float64, shape (n_graphs,)
    members : ndarray of int64, shape (n_graphs,)
        Number of each graph in the user's list.
    allowed : ndarray of bool, like ``batch`` unary scores, or None
        Labels that each node may have, if some are known to be one of a set; None: ``labels`` tell all.
    """

    batch: GraphBatch
    labels: np.ndarray
    cost: np.ndarray
    graph_weight: np.ndarray
    members: np.ndarray
    allowed: np.ndarray | None = None

    @property
    def complete(self) -> bool:
        """Every label is known."""
        return bool((self.labels != UNKNOWN).all())

    @cached_property
    def known_slot(self) -> np.ndarray:
        """Place in the flat scores of each known node's label."""
        known = self.labels != UNKNOWN
        return self.batch.unary_offset[:-1][known] + self.labels[known]

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
        if self.allowed is not None:
            return np.where(self.allowed, unary, -np.inf)
        out = unary.copy()
        known = np.repeat(self.labels != UNKNOWN, self.batch.n_labels)
        out[known] = -np.inf
        out[self.known_slot] = unary[self.known_slot]
        return out

    def hamming(self) -> np.ndarray:
        """Cost of each label at each node, flat like unary: 0 at a true one and where it is unknown."""
        if self.allowed is not None:
            return np.where(self.allowed, 0.0, np.repeat(self.cost, self.batch.n_labels))
        price = np.where(self.labels != UNKNOWN, self.cost, 0.0)
        out = np.repeat(price, self.batch.n_labels)
        out[self.known_slot] = 0.0
        return out

    def filled(self, labels: np.ndarray, cost_of_filled: float) -> "GraphShard":
        """Return the same shard with labels put in where they were unknown, at their own cost.

        What a label outside a node's set costs stays as it is.
        """
        unknown = self.labels == UNKNOWN
        return replace(
            self,
            labels=np.where(unknown, labels, self.labels),
            cost=np.where(unknown if self.allowed is None else unknown & self.anything, cost_of_filled, self.cost),
        )

    def part(self, nodes: np.ndarray, edges: np.ndarray, scored: np.ndarray) -> "GraphShard":
        """Return some nodes and edges (masks) of the same graphs; features of nodes that are not ``scored`` are left out."""
        if scored.all() and edges.all():
            return self
        return replace(
            self,
            batch=self.batch.part(nodes, edges, scored),
            labels=self.labels[nodes],
            cost=self.cost[nodes],
            allowed=None if self.allowed is None else self.allowed[np.repeat(nodes, self.batch.n_labels)],
        )

    @property
    def anything(self) -> np.ndarray:
        """Nodes that may have any label, where ``allowed`` tells."""
        assert self.allowed is not None
        sizes = self.batch.n_labels
        return np.bincount(np.repeat(np.arange(len(sizes)), sizes), self.allowed, len(sizes)) == sizes


def make_shards(
    graphs: Sequence[TypedGraph],
    labels: Sequence[np.ndarray],
    label_counts: Mapping[str, int],
    cost: Sequence[np.ndarray] | None = None,
    graph_weight: np.ndarray | None = None,
    n_shards: int | None = None,
    allowed: Sequence[np.ndarray] | None = None,
) -> list[GraphShard]:
    """Cut labeled graphs into shards, completely labeled graphs apart from the others.

    ``labels`` holds, for each graph, the label numbers of its nodes, types sorted by name one after the other.
    ``allowed`` adds the labels that each node may have, flat, if some are one of a set.
    The cut depends on the data only, so that sums over shards do not depend on the number of threads; by default
    there are ``N_SHARDS``, fewer where graphs are few and small, more where nodes are very many.
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
            price = np.ones(len(y)) if cost is None else np.concatenate([cost[g] for g in members])
            options = (
                None if allowed is None or complete[members].all() else np.concatenate([allowed[g] for g in members])
            )
            shards.append(GraphShard(batch, y, price, weights[members], members, options))
    return shards
