"""Log-partition values and marginals of graphs with hubs: the sum over the labels of the hubs, case by case.

Tree-reweighted bounds are loose at a node with very many edges (each lies in few of the spanning trees), and their
messages hardly converge there. With its label fixed the node is gone, and the sum over its labels is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from rulefield.inference.graph.condition import hubs_of, labels_of_cases, lay_out
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph_batch import GraphBatch
from rulefield.problem.graph import GraphPotentials

Messages = Any
"""Where a field's iterations ended, and may begin again; None: as they begin first."""


class Sums(NamedTuple):
    """Each graph's log-partition value, node and edge marginals (flat), and the messages behind them."""

    values: np.ndarray
    node: np.ndarray
    edge: np.ndarray
    messages: Messages = None


class Field(Protocol):
    """Gives each graph's log-partition value and marginals: a pure function of scores, and of messages to begin with."""

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return them for the scores of a shard, flat."""


def shard_hubs(batch: GraphBatch) -> list[np.ndarray]:
    """Hubs of each graph, as nodes of the union."""
    hubs = []
    for g in range(batch.n_graphs):
        v0, v1 = batch.node_pointer[g : g + 2]
        e0, e1 = batch.edge_pointer[g : g + 2]
        hubs.append(v0 + hubs_of(batch.n_labels[v0:v1], batch.edges[e0:e1] - v0))
    return hubs


class CasesField:
    """Sums over the labels of hubs; what is left of each case is a field of its own.

    Parameters
    ----------
    shard : GraphShard
    hubs : list of ndarray of int64
        Hubs of each graph.
    make : callable
        Makes the field of one case from its shard (and the appearance ``rho`` of its edges, which all cases share).
    labels : list of ndarray of int64, shape (n_cases, n_hubs of the graph), optional
        Labels of the hubs that count; by default all.

    Notes
    -----
    Case k of all graphs is computed at once; a graph with fewer cases than others repeats one that does not count.
    """

    def __init__(
        self,
        shard: GraphShard,
        hubs: Sequence[np.ndarray],
        make: Callable[..., Any],
        labels: Sequence[np.ndarray] | None = None,
    ):
        batch = shard.batch
        self.shard = shard
        every = [labels_of_cases(batch.n_labels[h]) for h in hubs] if labels is None else labels
        n_cases = max(len(labels) for labels in every)
        self._counts = np.array([[k < len(labels) for labels in every] for k in range(n_cases)])
        every_label = np.concatenate([np.resize(c, (n_cases, c.shape[1])) for c in every], axis=1)
        joined = np.concatenate(list(hubs))
        n_entries = batch.unary_offset[-1], batch.pairwise_offset[-1]
        blank = GraphPotentials(batch.n_labels, np.zeros(n_entries[0]), batch.edges, np.zeros(n_entries[1]))
        self.cases = lay_out(blank, joined, every_label)
        self._hub_graph = batch.node_graph[joined]
        self._is_hub = np.repeat(np.isin(np.arange(len(batch.n_labels)), joined), batch.n_labels)
        self._hub_slot = batch.unary_offset[joined] + every_label
        self._entry_graph = np.repeat(batch.edge_graph, np.diff(batch.pairwise_offset))
        self._slot_graph = np.repeat(batch.node_graph, batch.n_labels)
        rest = replace(shard, batch=_without(batch, self.cases.kept))
        first = make(rest)
        self.fields = [first, *(make(rest, rho=first.rho) for _ in range(n_cases - 1))]

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value (a bound), marginals and the messages of all cases."""
        begin = [None] * len(self.fields) if begin is None else begin
        found = [self._case(k, unary, pairwise, begin[k]) for k in range(len(self.fields))]
        values = np.stack([case.values for case in found])
        top = values.max(axis=0)
        share = np.exp(values - top)
        total = share.sum(axis=0)
        share /= total
        node, edge = np.zeros_like(unary), np.zeros_like(pairwise)
        kept, graph = self.cases.kept_entries, self._entry_graph
        for k, case in enumerate(found):
            node += share[k][self._slot_graph] * case.node
            edge[kept] += share[k][graph[kept]] * case.edge
            source = self.cases.source[k]
            edge[source] += share[k][graph[source]] * case.node[self.cases.target[k]]
        return Sums(top + np.log(total), node, edge, [case.messages for case in found])

    def _case(self, k: int, unary: np.ndarray, pairwise: np.ndarray, begin: Messages) -> Sums:
        """Values, node marginals and marginals of the edges without hubs, when hubs have the labels of case k."""
        given = np.bincount(self.cases.target[k], pairwise[self.cases.source[k]], minlength=len(unary))
        scores = unary + given
        own = np.bincount(self._hub_graph, scores[self._hub_slot[k]], minlength=self.shard.batch.n_graphs)
        scores[self._is_hub] = -np.inf
        scores[self._hub_slot[k]] = 0.0
        sums = self.fields[k].marginals(scores, pairwise[self.cases.kept_entries], begin)
        return sums._replace(values=np.where(self._counts[k], sums.values + own, -np.inf))


def _without(batch: GraphBatch, kept: np.ndarray) -> GraphBatch:
    """Return the structure of a batch with some of its edges only."""
    count = np.bincount(batch.edge_graph[kept], minlength=batch.n_graphs)
    pointer = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    number = np.cumsum(kept) - 1
    rows = {key: number[of_key[kept[of_key]]] for key, of_key in batch.edge_rows.items()}
    return replace(batch, edges=batch.edges[kept], edge_pointer=pointer, edge_features={}, edge_rows=rows)
