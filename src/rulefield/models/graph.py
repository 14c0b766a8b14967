"""The graph model: weights per type and per pair of types, times features, are potentials ([Meunier17], eq. 3)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from rulefield.data.graphs import Features, Pair
from rulefield.exceptions import InputError
from rulefield.models.graph_batch import GraphBatch
from rulefield.problem.graph import GraphPotentials


@dataclass(frozen=True)
class GraphSpec:
    """Numbers of labels l_t and of node features d_t of each type, and of edge features d_tt' of each pair of types."""

    labels: Mapping[str, int]
    features: Mapping[str, int]
    edge_features: Mapping[Pair, int]

    def shape(self, key: str | Pair) -> tuple[int, int]:
        """Shape (n_features, n_labels or n_label_pairs) of the weights of a type or of a pair of types."""
        if isinstance(key, str):
            return self.features[key], self.labels[key]
        return self.edge_features[key], self.labels[key[0]] * self.labels[key[1]]


class GraphModel:
    r"""Linear scores: :math:`\sum_v w^t_{y_v} \cdot \phi(v) + \sum_{(u,v)} w^{tt'}_{y_u y_v} \cdot \phi(u, v)`.

    All weights are one vector ``theta``: the matrix (n_features, n_labels) of each type, then that of each pair of types.

    Notes
    -----
    ``n_parameters`` is eq. 8 of [Meunier17] with feature counts written out:
    :math:`\sum_t l_t d_t + \sum_{tt'} l_t l_{t'} d_{tt'}`.
    """

    def __init__(self, spec: GraphSpec):
        self.spec = spec
        self.keys: list[str | Pair] = [*sorted(spec.labels), *sorted(spec.edge_features)]
        self._begin: dict[str | Pair, int] = {}
        self.n_parameters = 0
        for key in self.keys:
            self._begin[key] = self.n_parameters
            self.n_parameters += math.prod(spec.shape(key))

    def weights(self, theta: np.ndarray, key: str | Pair) -> np.ndarray:
        """Weights of a type (n_features, n_labels), or of a pair (n_features, n_labels * n_labels'): a view of ``theta``."""
        shape = self.spec.shape(key)
        return theta[self._begin[key] :][: math.prod(shape)].reshape(shape)

    def potentials(self, theta: np.ndarray, batch: GraphBatch) -> GraphPotentials:
        """Score all graphs of a batch at once; O(stored features x labels (node), x label pairs (edge))."""
        unary = np.zeros(batch.unary_offset[-1])
        for name, rows in batch.rows.items():
            if len(rows):
                scores = _times(batch.features[name], self.weights(theta, name), f"nodes {name!r}")
                _put(unary, batch.unary_offset[rows], scores)
        pairwise = np.zeros(batch.pairwise_offset[-1])
        for key, rows in batch.edge_rows.items():
            if len(rows):
                scores = _times(batch.edge_features[key], self.weights(theta, key), f"edges {key}")
                _put(pairwise, batch.pairwise_offset[rows], scores)
        return GraphPotentials(batch.n_labels, unary, batch.edges, pairwise)

    def pullback(self, batch: GraphBatch, d_unary: np.ndarray, d_pairwise: np.ndarray) -> np.ndarray:
        """Turn a gradient with respect to potentials into one with respect to ``theta`` (the adjoint map)."""
        gradient = np.zeros(self.n_parameters)
        for name, rows in batch.rows.items():
            if len(rows):
                taken = _take(d_unary, batch.unary_offset[rows], self.spec.labels[name])
                self.weights(gradient, name)[:] = batch.features[name].T @ taken
        for key, rows in batch.edge_rows.items():
            if len(rows):
                taken = _take(d_pairwise, batch.pairwise_offset[rows], self.spec.shape(key)[1])
                self.weights(gradient, key)[:] = batch.edge_features[key].T @ taken
        return gradient

    def joint_features(self, batch: GraphBatch, labels: np.ndarray) -> sparse.csr_array:
        """Feature vector of each graph's labeling (eq. 6), CSR (n_graphs, n_parameters): times theta, the score."""
        graph: list[np.ndarray] = []
        column: list[np.ndarray] = []
        value: list[np.ndarray] = []
        for name, rows in batch.rows.items():
            row, feature, amount = batch.stored[name]
            graph.append(batch.node_graph[rows[row]])
            column.append(self._places(name, feature, labels[rows[row]]))
            value.append(amount)
        for key, rows in batch.edge_rows.items():
            row, feature, amount = batch.stored[key]
            ends = batch.edges[rows[row]]
            graph.append(batch.edge_graph[rows[row]])
            both = labels[ends[:, 0]] * self.spec.labels[key[1]] + labels[ends[:, 1]]
            column.append(self._places(key, feature, both))
            value.append(amount)
        where = (np.concatenate(graph), np.concatenate(column))
        return sparse.csr_array((np.concatenate(value), where), shape=(batch.n_graphs, self.n_parameters))

    def _places(self, key: str | Pair, feature: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Places in ``theta`` of the weights of features and labels."""
        return self._begin[key] + feature * self.spec.shape(key)[1] + label


def _times(features: Features, weights: np.ndarray, what: str) -> np.ndarray:
    if features.shape[1] != weights.shape[0]:
        raise InputError(f"the model knows {weights.shape[0]} features of the {what}; got {features.shape[1]}.")
    return features @ weights


def _put(flat: np.ndarray, offset: np.ndarray, scores: np.ndarray) -> None:
    width = scores.shape[1]
    if _consecutive(offset, width):
        flat[offset[0] : offset[0] + scores.size] = scores.ravel()
    else:
        flat[offset[:, None] + np.arange(width)] = scores


def _take(flat: np.ndarray, offset: np.ndarray, width: int) -> np.ndarray:
    if _consecutive(offset, width):
        return flat[offset[0] : offset[0] + len(offset) * width].reshape(len(offset), width)
    return flat[offset[:, None] + np.arange(width)]


def _consecutive(offset: np.ndarray, width: int) -> bool:
    """Blocks of ``width`` lie one after the other (always so with a single type): no index array is needed."""
    return bool(offset[-1] - offset[0] == (len(offset) - 1) * width)
