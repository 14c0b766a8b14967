"""Build typed graphs from pictures, sequences, label sets and plain arrays; no loop per edge."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from rulefield.data.graphs import TypedGraph, as_features, spanning_tree
from rulefield.exceptions import InputError

_STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}


def grid_edges(height: int, width: int, neighbors: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges (n_edges, 2) of a picture, whose cells are numbered row by row, and the direction of each.

    Directions: 0 right, 1 down and, with 8 neighbors, 2 down-right, 3 down-left.
    """
    if neighbors not in _STEPS:
        raise InputError(f"neighbors must be 4 or 8; got {neighbors!r}.")
    cell = np.arange(height * width, dtype=np.int64).reshape(height, width)
    pairs, direction = [], []
    for number, (down, right) in enumerate(_STEPS[neighbors]):
        left = cell[: height - down, max(0, -right) : width - max(0, right)]
        there = cell[down:, max(0, right) : width + min(0, right)]
        pairs.append(np.stack([left.ravel(), there.ravel()], axis=1))
        direction.append(np.full(left.size, number, dtype=np.int64))
    return np.concatenate(pairs), np.concatenate(direction)


def grid(
    features: Any,
    shape: tuple[int, int],
    *,
    neighbors: int = 4,
    node: str = "cell",
) -> TypedGraph:
    """Build the graph of a picture of ``shape`` (height, width), with an edge feature for each direction.

    ``features`` has one row for each cell, row by row; ``neighbors`` are 4 or 8.
    """
    matrix = as_features(features, "features of the picture")
    height, width = shape
    if matrix.shape[0] != height * width:
        raise InputError(f"features must have height x width = {height * width} rows; got {matrix.shape[0]}.")
    pairs, direction = grid_edges(height, width, neighbors)
    return TypedGraph({node: matrix}, {(node, node): (pairs, np.eye(len(_STEPS[neighbors]))[direction])})


def end_features(features: Any, pairs: np.ndarray, kind: np.ndarray, n_kinds: int) -> sparse.csr_array:
    """Give each edge its two ends' features in the block of its kind: CSR (n_edges, n_kinds * 2 * n_features)."""
    ends = sparse.csr_array(features)
    both = sparse.hstack([ends[pairs[:, 0]], ends[pairs[:, 1]]], format="csr")
    width = both.shape[1]
    shift = np.repeat(kind, np.diff(both.indptr)) * width
    return sparse.csr_array((both.data, both.indices + shift, both.indptr), shape=(len(pairs), n_kinds * width))


def chain(features: Any, *, edge_features: Any = None, node: str = "token") -> TypedGraph:
    """Build the graph of a sequence: each row of ``features`` is joined to the next."""
    matrix = as_features(features, "features of the sequence")
    return TypedGraph({node: matrix}, {(node, node): (_steps(matrix.shape[0]), edge_features)})


def _steps(n: int) -> np.ndarray:
    first = np.arange(max(n - 1, 0), dtype=np.int64)
    return np.stack([first, first + 1], axis=1)


def multilabel_edges(Y: Any, structure: str = "tree") -> np.ndarray:
    """Choose which labels of 0/1 indicators ``Y`` to join, (n_edges, 2): "none", "full", or the "tree" of [Chow68].

    ``tree`` has the highest total mutual information between labels.
    """
    indicators = np.asarray(Y, dtype=np.float64)
    n_labels = indicators.shape[1]
    if structure == "none" or n_labels < 2:
        return np.zeros((0, 2), dtype=np.int64)
    if structure == "full":
        return np.stack(np.triu_indices(n_labels, 1), axis=1).astype(np.int64)
    if structure != "tree":
        raise InputError(f"structure must be 'none', 'tree' or 'full'; got {structure!r}.")
    # a spanning tree ignores entries that are exactly 0, so every pair gets a shift above its information
    gain = mutual_information(indicators)
    distance = np.triu(gain.max() + 1.0 - gain, 1)
    tree = spanning_tree(sparse.csr_array(distance))
    pairs = np.sort(np.stack([tree.row, tree.col], axis=1), axis=1).astype(np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def mutual_information(Y: np.ndarray) -> np.ndarray:
    """Return the mutual information between the columns of 0/1 indicators, in nats: (n_labels, n_labels)."""
    n = max(len(Y), 1)
    both = {(1, 1): Y.T @ Y, (1, 0): Y.T @ (1 - Y), (0, 1): (1 - Y).T @ Y, (0, 0): (1 - Y).T @ (1 - Y)}
    share = {1: Y.mean(axis=0), 0: 1 - Y.mean(axis=0)}
    total = np.zeros((Y.shape[1], Y.shape[1]))
    for (a, b), count in both.items():
        p = count / n
        expected = np.outer(share[a], share[b])
        seen = p > 0
        total[seen] += p[seen] * np.log(p[seen] / expected[seen])
    return total


def from_arrays(
    features: Any,
    edges: Any,
    edge_features: Any = None,
    *,
    node: str = "node",
    relations: Mapping[str, Any] | None = None,
) -> TypedGraph:
    """Build a graph with one type of node from its feature matrix, edge list and edge features."""
    return TypedGraph({node: features}, {(node, node): (edges, edge_features)}, relations or {})
