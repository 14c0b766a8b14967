"""Log-partition values and marginals of labeled graphs: exact if sums are small, else the tree-reweighted bound."""

from typing import Protocol

import numpy as np

from rulefield.inference.graph.exact.sums import SumPlan, graph_plan
from rulefield.inference.graph.reweighted import Messages, ReweightedField, Sums
from rulefield.kernels.graph.small import binary_sums
from rulefield.problem.graph import GraphUnion

MOST_SMALL_NODES = 14
"""Nodes of a binary graph whose labelings (16,384) are all summed: several times as fast as elimination."""
MOST_EXACT_ENTRIES = 2**14
"""Entries of one table of an exact sum."""
EXACT_WORK_RATIO = 64
"""Entries that an exact sum may look at per score of a pair; 50 sweeps, both ways, look at 100 and cost less for each."""


class Field(Protocol):
    """Gives each graph's log-partition value and marginals: a pure function of scores, and of messages to begin with."""

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return them for the scores of a shard, flat."""


def field_of(graphs: GraphUnion) -> Field:
    """Return the field of some graphs."""
    exact = None if graphs.is_forest else exact_field_of(graphs, MOST_EXACT_ENTRIES, EXACT_WORK_RATIO)
    return ReweightedField(graphs) if exact is None else exact


def exact_field_of(
    graphs: GraphUnion, most_entries: float = np.inf, work_ratio: float = np.inf
) -> "ExactField | None":
    """Return the field of some graphs by exact sums; None if a table or the work would be too large."""
    sizes = np.diff(graphs.node_pointer)
    if len(sizes) and (graphs.n_labels == 2).all() and sizes.max() <= MOST_SMALL_NODES:
        return ExactField(graphs, None)
    plan = graph_plan(graphs.n_labels, graphs.edges, most_entries)
    if plan is None or plan.plan.work > work_ratio * max(graphs.pairwise_offset[-1], 1):
        return None
    return ExactField(graphs, plan)


def is_exact(field: Field) -> bool:
    """Whether values of a field are the logarithms of sums, and not bounds on them."""
    if isinstance(field, GivenField):
        return is_exact(field.inner)
    return not isinstance(field, ReweightedField) or bool((field.rho == 1.0).all())


class ExactField:
    """Sums over all labelings: without a plan one by one, of small binary graphs; with it by variable elimination."""

    def __init__(self, graphs: GraphUnion, plan: SumPlan | None):
        self.graphs, self.plan = graphs, plan

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value and marginals."""
        graphs, plan = self.graphs, self.plan
        if plan is None:
            values, node, edge = np.empty(graphs.n_graphs), np.empty_like(unary), np.empty_like(pairwise)
            structure = graphs.node_pointer, graphs.edge_pointer, graphs.edges
            if binary_sums(*structure, unary, pairwise, node, edge, values):
                return Sums(values, node, edge)
            plan = graph_plan(graphs.n_labels, graphs.edges)  # masses of labelings vanish
            assert plan is not None
        share, logs = plan.sum(np.concatenate([unary, pairwise]))
        totals = np.bincount(graphs.node_graph, logs, minlength=graphs.n_graphs)
        return Sums(totals, share[: len(unary)], share[len(unary) :])


class GivenField:
    """The field of graphs in which the labels of some nodes (a mask) are known: their edges are scores of single nodes."""

    def __init__(self, graphs: GraphUnion, given: np.ndarray, labels: np.ndarray):
        offset, (first, second) = graphs.unary_offset, graphs.edges.T
        kept = ~given[first] & ~given[second]
        edge = np.repeat(np.arange(len(kept)), np.diff(graphs.pairwise_offset))
        inside = np.arange(len(edge)) - graphs.pairwise_offset[edge]
        i, j = first[edge], second[edge]
        label_i, label_j = inside // graphs.n_labels[j], inside % graphs.n_labels[j]
        agrees = (~given[i] | (labels[i] == label_i)) & (~given[j] | (labels[j] == label_j))
        self._kept = kept[edge]
        self._source = np.flatnonzero(~self._kept & agrees)
        self._target = np.where(given[i], offset[j] + label_j, offset[i] + label_i)[self._source]
        self._is_given = np.repeat(given, graphs.n_labels)
        self._slot, self._graph = offset[:-1][given] + labels[given], graphs.node_graph[given]
        pointer = np.concatenate([[0], np.cumsum(kept)])[graphs.edge_pointer]
        self.inner = field_of(GraphUnion(graphs.n_labels, graphs.edges[kept], graphs.node_pointer, pointer))

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value, marginals and messages."""
        scores = unary + np.bincount(self._target, pairwise[self._source], minlength=len(unary))
        own = scores[self._slot]
        scores[self._is_given] = -np.inf
        scores[self._slot] = 0.0
        sums = self.inner.marginals(scores, pairwise[self._kept], begin)
        edge = np.zeros_like(pairwise)
        edge[self._kept] = sums.edge
        edge[self._source] += sums.node[self._target]
        values = sums.values + np.bincount(self._graph, own, minlength=len(sums.values))
        return Sums(values, sums.node, edge, sums.messages)
