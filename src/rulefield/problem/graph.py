"""What a graph engine is given: potentials of a pairwise graph, logic factors, rows and tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rulefield.data.graphs import is_forest
from rulefield.exceptions import InputError
from rulefield.problem.logic import GraphRows, LogicFactors
from rulefield.problem.tables import TableFactors

MOST_AGREEMENTS = 2**25
"""Entries of the edges between a table's own node and the nodes that it is about."""


def starts(sizes: np.ndarray) -> np.ndarray:
    """Return where arrays of these sizes begin, one after the other, and where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class GraphUnion:
    """The structure of some graphs, one after the other: as a whole it is a graph, and each of them a slice of it."""

    n_labels: np.ndarray
    edges: np.ndarray
    node_pointer: np.ndarray
    edge_pointer: np.ndarray

    @property
    def n_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_pointer) - 1

    @cached_property
    def unary_offset(self) -> np.ndarray:
        """Where each node's scores begin in the flat array, (n_nodes + 1,)."""
        return starts(self.n_labels)

    @cached_property
    def pairwise_offset(self) -> np.ndarray:
        """Where each edge's score matrix begins in the flat array, (n_edges + 1,)."""
        return starts(self.n_labels[self.edges[:, 0]] * self.n_labels[self.edges[:, 1]])

    @cached_property
    def node_graph(self) -> np.ndarray:
        """Graph of each node, (n_nodes,)."""
        return np.repeat(np.arange(self.n_graphs), np.diff(self.node_pointer))

    @cached_property
    def edge_graph(self) -> np.ndarray:
        """Graph of each edge, (n_edges,)."""
        return np.repeat(np.arange(self.n_graphs), np.diff(self.edge_pointer))

    @cached_property
    def is_forest(self) -> bool:
        """No graph has a loop: then one exact pass over the union is cheaper than one for each graph."""
        return is_forest(len(self.n_labels), self.edges)


@dataclass(frozen=True)
class GraphPotentials:
    r"""Log-scores of one graph; the score of y is :math:`\sum_v u_v(y_v) + \sum_{(i,j) \in E} p_{ij}(y_i, y_j)`.

    Parameters
    ----------
    n_labels : ndarray of int64, shape (n_nodes,)
        Number of labels of each node.
    unary : ndarray of float64, shape (n_labels.sum(),)
        All nodes' scores, one after the other. ``-inf`` forbids.
    edges : ndarray of int64, shape (n_edges, 2)
    pairwise : ndarray of float64, shape (sum of n_labels[i] * n_labels[j] over edges,)
        Each edge's score matrix [label of i, label of j], row-major, one after the other.
    """

    n_labels: np.ndarray
    unary: np.ndarray
    edges: np.ndarray
    pairwise: np.ndarray

    def __post_init__(self) -> None:
        if self.unary.shape != (self.unary_offset[-1],):
            raise InputError(
                f"unary must hold one score for each of the {self.unary_offset[-1]} labels of all nodes; "
                f"got shape {self.unary.shape}."
            )
        if self.edges.ndim != 2 or self.edges.shape[1] != 2:
            raise InputError(f"edges must have shape (n_edges, 2); got {self.edges.shape}.")
        if len(self.edges) and (self.edges.min() < 0 or self.edges.max() >= self.n_nodes):
            raise InputError(
                f"edges name node {self.edges.max() if self.edges.min() >= 0 else self.edges.min()}, but the graph "
                f"has nodes 0 to {self.n_nodes - 1}; number nodes from 0."
            )
        if self.pairwise.shape != (self.pairwise_offset[-1],):
            raise InputError(
                f"pairwise must hold {self.pairwise_offset[-1]} scores, one matrix for each edge; "
                f"got shape {self.pairwise.shape}."
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.n_labels)

    @cached_property
    def unary_offset(self) -> np.ndarray:
        """Where each node's scores begin, (n_nodes + 1,)."""
        return starts(self.n_labels)

    @cached_property
    def pairwise_offset(self) -> np.ndarray:
        """Where each edge's matrix begins, (n_edges + 1,)."""
        return starts(self.n_labels[self.edges[:, 0]] * self.n_labels[self.edges[:, 1]])

    @cached_property
    def pair_places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Edge of each entry of ``pairwise``, and the places in ``unary`` of its labels at the first and second node."""
        edge = np.repeat(np.arange(len(self.edges)), np.diff(self.pairwise_offset))
        inside, wide = np.arange(len(edge)) - self.pairwise_offset[edge], self.n_labels[self.edges[edge, 1]]
        first, second = self.unary_offset[self.edges[edge, 0]], self.unary_offset[self.edges[edge, 1]]
        return edge, first + inside // wide, second + inside % wide

    def score(self, labels: np.ndarray) -> float:
        """Score of one labeling (n_nodes,)."""
        labels = np.asarray(labels, dtype=np.int64)
        nodes = self.unary[self.unary_offset[:-1] + labels].sum()
        i, j = self.edges[:, 0], self.edges[:, 1]
        entries = self.pairwise_offset[:-1] + labels[i] * self.n_labels[j] + labels[j]
        return float(nodes + self.pairwise[entries].sum())

    @cached_property
    def loops(self) -> np.ndarray:
        """Edges from a node to itself, as a mask."""
        return self.edges[:, 0] == self.edges[:, 1]

    def diagonals(self) -> Iterator[tuple[slice, slice]]:
        """Places of the scores of a node, and of those that a loop at it adds, for each loop."""
        for e in np.flatnonzero(self.loops):
            v = self.edges[e, 0]
            node = slice(self.unary_offset[v], self.unary_offset[v + 1])
            yield node, slice(self.pairwise_offset[e], self.pairwise_offset[e + 1], self.n_labels[v] + 1)

    def without_loops(self) -> "GraphPotentials":
        """Return potentials that say the same, in which no edge leads from a node to itself."""
        if not self.loops.any():
            return self
        unary = self.unary.copy()
        for node, diagonal in self.diagonals():
            unary[node] += self.pairwise[diagonal]
        kept = ~np.repeat(self.loops, np.diff(self.pairwise_offset))
        return GraphPotentials(self.n_labels, unary, self.edges[~self.loops], self.pairwise[kept])


@dataclass(frozen=True)
class GraphProblem:
    """Maximize the score minus what the broken soft factors and rows cost; hard ones must hold.

    Parameters
    ----------
    potentials : GraphPotentials
    logic : LogicFactors
        A broken soft factor costs its weight once.
    rows : GraphRows
        A soft row costs weight x excess. Its auxiliary 0/1 variables take the values that cost least.
    tables : TableFactors
        Scores of combinations of labels of any number of nodes, added to the score.
    """

    potentials: GraphPotentials
    logic: LogicFactors = field(default_factory=LogicFactors.none)
    rows: GraphRows = field(default_factory=GraphRows.none)
    tables: TableFactors = field(default_factory=TableFactors.none)

    def __post_init__(self) -> None:
        n = self.potentials.n_nodes
        sizes = np.concatenate([self.potentials.n_labels, np.full(self.rows.n_auxiliary, 2)])
        _check_atoms("logic factor", self.logic.atom_node, self.logic.atom_label, sizes[:n])
        _check_atoms("row", self.rows.atom_node, self.rows.atom_label, sizes)
        if (
            self.tables.n_tables
            and len(self.tables.node)
            and not 0 <= self.tables.node.min() <= self.tables.node.max() < n
        ):
            raise InputError(f"a table names a node that the graph does not have; its nodes are 0 to {n - 1}.")

    @property
    def n_rules(self) -> int:
        """One more than the largest rule number in use."""
        numbers = np.concatenate([self.logic.rule, self.rows.rule])
        return int(numbers.max()) + 1 if len(numbers) else 0

    @cached_property
    def pairwise(self) -> "GraphProblem":
        """The same problem without tables: more nodes follow the problem's own, and auxiliary variables follow these."""
        if not self.tables.n_tables:
            return self
        potentials, n = without_tables(self.potentials, self.tables), self.potentials.n_nodes
        atoms = np.where(self.rows.atom_node >= n, self.rows.atom_node + potentials.n_nodes - n, self.rows.atom_node)
        return GraphProblem(potentials, self.logic, replace(self.rows, atom_node=atoms))


def without_tables(p: GraphPotentials, tables: TableFactors) -> GraphPotentials:
    """Potentials that say the same without tables: one more node per table of three nodes or more, after all others.

    Its labels are the table's combinations, and an edge to each of the table's nodes forbids what does not agree. A table
    of one or two nodes becomes a node's or an edge's scores; one of no node, a constant, a node of one label.
    """
    unary, sizes = [p.unary.copy()], [p.n_labels]
    edges, pairwise = [p.edges], [p.pairwise]
    n = p.n_nodes
    for t in range(tables.n_tables):
        nodes = tables.node[tables.pointer[t] : tables.pointer[t + 1]]
        own = p.n_labels[nodes]
        if len(nodes) == 1:
            unary[0][p.unary_offset[nodes[0]] : p.unary_offset[nodes[0] + 1]] += tables.dense(t, own)
            continue
        if len(nodes) == 2:
            edges.append(nodes[None, :])
            pairwise.append(tables.dense(t, own).ravel())
            continue
        rows, scores = tables.combinations(t, own)
        if len(scores) * own.sum() > MOST_AGREEMENTS:
            raise InputError(
                f"table {t} of {len(scores):,} combinations over nodes of {', '.join(map(str, own))} labels needs "
                f"{len(scores) * own.sum():,} entries to be told apart; at most {MOST_AGREEMENTS:,} are made: list only "
                "what is allowed and let the default be -inf, or give nodes fewer labels."
            )
        scores, rows = (scores, rows) if len(scores) else (np.array([-np.inf]), np.zeros((1, len(nodes)), np.int64))
        unary.append(scores)
        sizes.append(np.array([len(scores)]))
        for v, column in zip(nodes, rows.T):
            edges.append(np.array([[v, n]]))
            pairwise.append(np.where(np.arange(p.n_labels[v])[:, None] == column, 0.0, -np.inf).ravel())
        n += 1
    return GraphPotentials(
        np.concatenate(sizes), np.concatenate(unary), np.concatenate(edges), np.concatenate(pairwise)
    )


def _check_atoms(what: str, node: np.ndarray, label: np.ndarray, sizes: np.ndarray) -> None:
    wrong = (node < 0) | (node >= len(sizes))
    if wrong.any():
        raise InputError(
            f"an atom of a {what} names node {node[wrong][0]}, but the graph has nodes 0 to {len(sizes) - 1}; "
            "number nodes from 0."
        )
    wrong = (label < 0) | (label >= sizes[node])
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"an atom of a {what} gives node {node[first]} the label {label[first]}, but that node has "
            f"{sizes[node[first]]} labels; number labels from 0."
        )
