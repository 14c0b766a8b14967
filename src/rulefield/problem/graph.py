"""Potentials of a pairwise graph whose nodes may have different numbers of labels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


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
