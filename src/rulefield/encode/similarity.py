"""Graphs between outputs: builders of similarities from labels, features and places, and their Laplacians."""

import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from rulefield.exceptions import InputError

Measure = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def _columns(Y: Any) -> np.ndarray:
    Y = np.asarray(Y, dtype=float)
    if Y.ndim != 2 or Y.shape[1] < 1:
        raise InputError(f"labels must have shape (n_instances, n_outputs) to compare outputs; got {Y.shape}.")
    return Y


def _pairwise(Y: Any, measure: Measure, weight: np.ndarray | None) -> np.ndarray:
    """Measure each pair of columns on the rows where both are known, by the rows' weights; 0 on the diagonal."""
    Y = _columns(Y)
    out = np.zeros((Y.shape[1], Y.shape[1]))
    rows = np.ones(len(Y)) if weight is None else weight
    for i, j in combinations(range(Y.shape[1]), 2):
        both = ~np.isnan(Y[:, i]) & ~np.isnan(Y[:, j]) & (rows > 0)
        out[i, j] = out[j, i] = measure(Y[both, j], Y[both, i], rows[both]) if both.sum() > 1 else 0.0
    return out


def _contingency(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Joint shares of the values of two columns, and those expected under independence."""
    first, second = np.unique(a, return_inverse=True)[1], np.unique(b, return_inverse=True)[1]
    table = np.zeros((first.max() + 1, second.max() + 1))
    np.add.at(table, (first, second), weight)
    table /= weight.sum()
    return table, np.outer(table.sum(axis=1), table.sum(axis=0))


def mutual_info(Y: Any, weight: np.ndarray | None = None) -> np.ndarray:
    """Mutual information (nats) between each two columns of labels (n_instances, n_outputs); NaN is unknown."""

    def measure(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
        table, free = _contingency(a, b, w)
        used = table > 0
        return max(0.0, float((table[used] * np.log(table[used] / free[used])).sum()))

    return _pairwise(Y, measure, weight)


def chi2(Y: Any, weight: np.ndarray | None = None) -> np.ndarray:
    """Chi-square statistic of each two columns of labels, divided by the number of rows."""

    def measure(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
        table, free = _contingency(a, b, w)
        return float(((table - free) ** 2 / free).sum())

    return _pairwise(Y, measure, weight)


def correlation(Y: Any, weight: np.ndarray | None = None) -> np.ndarray:
    """Correlation of each two columns, -1 to 1 (a signed graph); 0 if a column is constant."""

    def measure(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
        a, b = a - np.average(a, weights=w), b - np.average(b, weights=w)
        size = np.sqrt((w @ a**2) * (w @ b**2))
        return float((w * a) @ b / size) if size > 0 else 0.0

    return _pairwise(Y, measure, weight)


def label_distance(Y: Any, weight: np.ndarray | None = None) -> np.ndarray:
    """exp(-d² / median d²), d² the mean squared difference of two columns of labels."""
    square = _pairwise(Y, lambda a, b, w: float(np.average((a - b) ** 2, weights=w)), weight)
    off = ~np.eye(len(square), dtype=bool)
    middle = np.median(square[off]) if off.any() else 1.0
    return np.where(off, np.exp(-square / (middle if middle > 0 else 1.0)), 0.0)


def overfit_correlation(X: Any, Y: Any, random_state: int | None = 0, weight: np.ndarray | None = None) -> np.ndarray:
    """Correlation of the outputs of a neural network fitted to all labels without any restraint (a signed graph).

    One of the four graphs of the Gaussian CRF paper (section 4.2.1).
    """
    Y = _columns(Y)
    known = ~np.isnan(Y).any(axis=1)
    X = np.asarray(X, dtype=float)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    net = MLPRegressor(
        hidden_layer_sizes=(64,), alpha=0.0, max_iter=200, tol=0.0, n_iter_no_change=200, random_state=random_state
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # over-fitting is the point
        share = None if weight is None else weight[known]
        net.fit(X[known], Y[known] if Y.shape[1] > 1 else Y[known, 0], sample_weight=share)
    return correlation(np.asarray(net.predict(X)).reshape(len(X), -1), weight)


def grid(n_rows: int, n_columns: int) -> Any:
    """Sparse 0/1 graph of a grid with four neighbors a node, nodes in row-major order."""
    down, across = (scipy.sparse.diags_array(np.ones(k - 1), offsets=1, shape=(k, k)) for k in (n_rows, n_columns))
    half = scipy.sparse.kron(down, scipy.sparse.eye_array(n_columns)) + scipy.sparse.kron(
        scipy.sparse.eye_array(n_rows), across
    )
    return scipy.sparse.csr_array(half + half.T)


LABEL_BUILDERS: dict[str, Callable[[Any, np.ndarray | None], np.ndarray]] = {
    "mutual_info": mutual_info,
    "chi2": chi2,
    "correlation": correlation,
    "label_distance": label_distance,
}


def as_matrix(graph: Any) -> Any:
    """Similarity matrix, dense or csr, of an array, a sparse matrix or a networkx graph (nodes in its own order)."""
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        import networkx

        return scipy.sparse.csr_array(networkx.to_scipy_sparse_array(graph, dtype=float))
    if scipy.sparse.issparse(graph):
        return scipy.sparse.csr_array(graph, dtype=float)
    return np.asarray(graph, dtype=float)


def check_similarity(matrix: Any, name: str) -> Any:
    """Return a similarity without its diagonal; raise if it is not square, finite and symmetric."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} must be a square matrix of similarities; got shape {matrix.shape}.")
    values = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if not np.all(np.isfinite(values)):
        raise InputError(f"{name} has NaN or infinite similarities; use 0 if two nodes are not joined.")
    difference = abs(matrix - matrix.T).max() if min(matrix.shape) else 0.0
    if difference > 1e-8 * max(1e-300, abs(matrix).max()):
        raise InputError(
            f"{name} is not symmetric: it differs from its transpose by {difference:.3g}; use (S + S.T) / 2."
        )
    if not scipy.sparse.issparse(matrix):
        return matrix - np.diag(np.diagonal(matrix))
    off = scipy.sparse.csr_array(matrix - scipy.sparse.diags_array(matrix.diagonal()))
    off.eliminate_zeros()
    return off


def laplacian(similarity: Any) -> Any:
    """D_|S| - S, scaled so that the mean degree is 1; positive semidefinite for any sign.

    Joined nodes are pulled together by (z_i - z_j)² where S > 0 and apart by (z_i + z_j)² where S < 0. A graph
    without edges gives zeros. ``similarity`` has no diagonal.
    """
    degree = np.asarray(abs(similarity).sum(axis=-1), dtype=float)
    mean = degree.mean() if degree.size else 0.0
    scale = 1.0 / mean if mean > 0 else 0.0
    if scipy.sparse.issparse(similarity):
        return scipy.sparse.csr_array((scipy.sparse.diags_array(degree) - similarity) * scale)
    return (np.diag(degree) - similarity) * scale


def split_signs(similarity: Any) -> list[tuple[str, Any]]:
    """Positive and negative part of a similarity, as ("", S+) and (" (opposed)", S-); empty parts are left out."""
    positive = similarity.maximum(0) if scipy.sparse.issparse(similarity) else np.maximum(similarity, 0.0)
    negative = similarity.minimum(0) if scipy.sparse.issparse(similarity) else np.minimum(similarity, 0.0)
    parts = [("", positive), (" (opposed)", negative)]
    kept = [(suffix, part) for suffix, part in parts if abs(part).sum() > 0]
    return kept or [("", positive)]
