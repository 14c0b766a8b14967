"""Factorization of a large sparse coupling: log-determinant, solves, samples and the inverse on the graph's edges."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from rulefield.exceptions import InputError
from rulefield.kernels.gaussian.factors import (
    ldl_numeric,
    ldl_symbolic,
    selected_inverse_kernel,
    solve_lower,
    solve_upper,
)

MAX_FILL = 60_000_000
"""Entries of a factor: about one gigabyte."""
MAX_WORK = 2e11
"""Multiplications of a factorization: some minutes."""


@dataclass(frozen=True)
class Analysis:
    """What a factorization needs to know of a pattern, whatever the values: order, tree, where entries go."""

    order: np.ndarray  # new position -> old node
    pointer: np.ndarray
    rows: np.ndarray
    source: np.ndarray  # entry of the upper triangle -> entry of the csr matrix
    parent: np.ndarray
    l_pointer: np.ndarray


class SparsityPattern:
    """Hashable stand-in for the pattern of a csr matrix, compared by its bytes."""

    def __init__(self, matrix: Any):
        self.indptr, self.indices = matrix.indptr, matrix.indices
        self.key = (matrix.shape, hash(matrix.indptr.tobytes()), hash(matrix.indices.tobytes()))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparsityPattern) or self.key != other.key:
            return False
        return np.array_equal(self.indptr, other.indptr) and np.array_equal(self.indices, other.indices)


@lru_cache(maxsize=4)
def analyze(pattern: SparsityPattern) -> Analysis:
    """Minimum-degree order (SuperLU's), elimination tree and column counts of L, as far as its limits allow."""
    n = len(pattern.indptr) - 1
    numbers = np.arange(1, len(pattern.indices) + 1, dtype=float)
    matrix = scipy.sparse.csr_array((numbers, pattern.indices, pattern.indptr), shape=(n, n))
    dominant = (matrix + scipy.sparse.diags_array(np.full(n, 2.0 * numbers.sum()))).tocsc()
    options = {"SymmetricMode": True}
    order_only = {"drop_tol": 1.0, "fill_factor": 1.0, "diag_pivot_thresh": 0.0, "options": options}
    factor = scipy.sparse.linalg.spilu(dominant, permc_spec="MMD_AT_PLUS_A", **order_only)
    order = np.argsort(factor.perm_c).astype(np.int64)
    upper = scipy.sparse.triu(matrix[order][:, order]).tocsc()
    pointer, rows = upper.indptr.astype(np.int64), upper.indices.astype(np.int64)
    parent, counts = np.empty(n, np.int64), np.empty(n, np.int64)
    fill = ldl_symbolic(pointer, rows, MAX_FILL, parent, counts)
    if fill > MAX_FILL or (counts.astype(float) ** 2).sum() > MAX_WORK:
        raise InputError(
            f"the Cholesky factor of a graph of {n} nodes is too large; leave out edges, or use a classifier with "
            'algorithm="map", which needs no factor.'
        )
    l_pointer = np.concatenate([[0], np.cumsum(counts)])
    return Analysis(order, pointer, rows, upper.data.astype(np.int64) - 1, parent, l_pointer)


class SparseFactor:
    """L D L' of a sparse symmetric positive definite matrix, in a fill-reducing order.

    On a planar grid of n nodes the factor costs O(n^1.5) and has O(n log n) entries.
    """

    def __init__(self, matrix: Any):
        self.source = matrix = scipy.sparse.csr_array(matrix)
        self.analysis = a = analyze(SparsityPattern(matrix))
        size = a.l_pointer[-1]
        self.rows, self.values = np.empty(size, np.int64), np.empty(size)
        self.diagonal = np.empty(matrix.shape[0])
        bad = ldl_numeric(
            a.pointer, a.rows, matrix.data[a.source], a.parent, a.l_pointer, self.rows, self.values, self.diagonal
        )
        if bad:
            raise InputError("the coupling of the field is not positive definite: are the similarities finite?")

    @property
    def logdet(self) -> float:
        """log|A|."""
        return float(np.log(self.diagonal).sum())

    def solve(self, right: np.ndarray) -> np.ndarray:
        """A^-1 right, for right (n, n_columns)."""
        a = self.analysis
        x = np.ascontiguousarray(right[a.order])
        solve_lower(a.l_pointer, self.rows, self.values, x)
        x /= self.diagonal[:, None]
        solve_upper(a.l_pointer, self.rows, self.values, x)
        out = np.empty_like(x)
        out[a.order] = x
        return out

    def color(self, noise: np.ndarray) -> np.ndarray:
        """Turn white noise (n, n_columns) into samples with covariance A^-1."""
        a = self.analysis
        x = np.ascontiguousarray(noise) / np.sqrt(self.diagonal[:, None])
        solve_upper(a.l_pointer, self.rows, self.values, x)
        out = np.empty_like(x)
        out[a.order] = x
        return out

    @cached_property
    def matrix(self) -> Any:
        """A^-1 on the pattern of A (csr): variances on the diagonal, covariances of neighbors."""
        a = self.analysis
        z_values, z_diagonal = np.empty_like(self.values), np.empty_like(self.diagonal)
        selected_inverse_kernel(a.l_pointer, self.rows, self.values, self.diagonal, z_values, z_diagonal)
        n = len(self.diagonal)
        column = np.repeat(np.arange(n), np.diff(a.pointer))
        off = a.rows < column
        below = np.repeat(np.arange(n), np.diff(a.l_pointer)) * n + self.rows  # places of L's entries, which ascend
        values = z_diagonal[column]
        values[off] = z_values[np.searchsorted(below, a.rows[off] * n + column[off])]
        i, j = a.order[a.rows], a.order[column]
        shape = self.source.shape
        full = scipy.sparse.coo_array(
            (np.r_[values, values[off]], (np.r_[i, j[off]], np.r_[j, i[off]])), shape=shape
        ).tocsr()
        full.sort_indices()
        return full
