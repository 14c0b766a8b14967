"""Potentials of a pairwise graph whose nodes may have different numbers of labels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rulefield.exceptions import InputError


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
        return np.concatenate([[0], np.cumsum(self.n_labels)]).astype(np.int64)

    @cached_property
    def pairwise_offset(self) -> np.ndarray:
        """Where each edge's matrix begins, (n_edges + 1,)."""
        sizes = self.n_labels[self.edges[:, 0]] * self.n_labels[self.edges[:, 1]]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def score(self, labels: np.ndarray) -> float:
        """Score of one labelling (n_nodes,)."""
        labels = np.asarray(labels, dtype=np.int64)
        nodes = self.unary[self.unary_offset[:-1] + labels].sum()
        i, j = self.edges[:, 0], self.edges[:, 1]
        entries = self.pairwise_offset[:-1] + labels[i] * self.n_labels[j] + labels[j]
        return float(nodes + self.pairwise[entries].sum())
