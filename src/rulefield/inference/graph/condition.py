"""Hubs: a few nodes of few labels that touch nearly everything are tried label by label, and what is left is plain.

A node that is joined to every other one (the picture of all its cells, the document of all its blocks) makes bounds
loose: each of its many edges gets a small share of its scores. With its label fixed its edges become scores of single
nodes. The best of all cases is the best labeling, and the largest of their bounds is a bound.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from rulefield.problem.graph import GraphPotentials, GraphProblem

MOST_CASES = 8
HUB_DEGREE = 8
HUB_RATIO = 3.0  # a hub has so many times the neighbors of the mean node
HUB_SHARE = 0.25  # and is joined to so many of all nodes; a busy node of a sparse graph is left to branch and bound


@dataclass(frozen=True)
class Cases:
    """The labels that hubs may take, and where the scores of their edges go.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_cases, n_hubs)
    hubs : ndarray of int64
    kept : ndarray of bool, shape (n_edges,)
        Edges without a hub.
    kept_entries : ndarray of bool
        Their pair scores.
    source, target : list of ndarray of int64
        For each case: which pair scores are added to which node scores.
    """

    labels: np.ndarray
    hubs: np.ndarray
    kept: np.ndarray
    kept_entries: np.ndarray
    source: list[np.ndarray]
    target: list[np.ndarray]

    def problem(self, whole: GraphProblem, case: int) -> GraphProblem:
        """Return the problem with the hubs' labels fixed: the same nodes and rules, without the edges of hubs."""
        p = whole.potentials
        given = p.pairwise[self.source[case]]
        unary = p.unary + np.bincount(self.target[case], given, minlength=len(p.unary))
        for hub, label in zip(self.hubs, self.labels[case]):
            begin, end = p.unary_offset[hub : hub + 2]
            own = unary[begin + label]
            unary[begin:end] = -np.inf
            unary[begin + label] = own
        rest = GraphPotentials(p.n_labels, unary, p.edges[self.kept], p.pairwise[self.kept_entries])
        return replace(whole, potentials=rest)


def hubs_of(n_labels: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Nodes worth trying label by label: far more edges than others have, and at most ``MOST_CASES`` cases in all.

    A graph with fewer edges than nodes is (nearly) a forest, which needs no cases.
    """
    n = len(n_labels)
    if n == 0 or len(edges) < n:
        return np.zeros(0, dtype=np.int64)
    degree = np.bincount(edges.ravel(), minlength=n)
    least = max(HUB_DEGREE, HUB_RATIO * degree.mean(), HUB_SHARE * n)
    chosen: list[int] = []
    cases = 1
    for v in np.argsort(-degree, kind="stable"):
        cases *= int(n_labels[v])
        if degree[v] < least or cases > MOST_CASES:
            break
        chosen.append(int(v))
    return np.array(chosen, dtype=np.int64)


def labels_of_cases(n_labels: np.ndarray) -> np.ndarray:
    """All combinations of the labels of hubs, (n_cases, n_hubs)."""
    every = list(product(*map(range, n_labels)))
    return np.array(every, dtype=np.int64).reshape(len(every), len(n_labels))


def cases_of(p: GraphPotentials) -> Cases | None:
    """Lay out the cases of a graph with hubs; None where there are none. Depends on the graph, not on its scores."""
    hubs = hubs_of(p.n_labels, p.edges)
    return lay_out(p, hubs, labels_of_cases(p.n_labels[hubs])) if len(hubs) else None


def lay_out(p: GraphPotentials, hubs: np.ndarray, labels: np.ndarray) -> Cases:
    """Lay out given cases of given hubs; a loop at a hub is not expected."""
    i, j = p.edges[:, 0], p.edges[:, 1]
    place = np.full(p.n_nodes, -1)
    place[hubs] = np.arange(len(hubs))
    kept = (place[i] < 0) & (place[j] < 0)
    entry_edge = np.repeat(np.arange(len(p.edges)), np.diff(p.pairwise_offset))
    touching = np.flatnonzero(~kept[entry_edge])
    edge = entry_edge[touching]
    inside = touching - p.pairwise_offset[edge]
    label_i, label_j = inside // p.n_labels[j[edge]], inside % p.n_labels[j[edge]]
    at_i, at_j = p.unary_offset[i[edge]] + label_i, p.unary_offset[j[edge]] + label_j
    hub_i, hub_j = place[i[edge]], place[j[edge]]
    source, target = [], []
    for given in labels:
        fixed = np.append(given, -1)  # the last one belongs to nodes that are no hubs
        holds = ((hub_i < 0) | (fixed[hub_i] == label_i)) & ((hub_j < 0) | (fixed[hub_j] == label_j))
        source.append(touching[holds])
        target.append(np.where(hub_i < 0, at_i, at_j)[holds])
    return Cases(labels, hubs, kept, kept[entry_edge], source, target)
