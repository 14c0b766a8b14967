"""Factorizations of the couplings of many instances: solves, determinants and inverses, dense or sparse."""

from typing import Any

import numpy as np
import scipy.sparse

from rulefield.inference.gaussian.sparse import SparseFactor
from rulefield.kernels.gaussian.factors import invert
from rulefield.problem.gaussian import Coupling, DenseCoupling

SMALL = 40
"""Nodes up to which a compiled loop inverts faster than LAPACK."""


class DenseFactors:
    """Inverses and determinants of matrices (n_matrices, n, n)."""

    def __init__(self, matrices: np.ndarray):
        self.matrices = matrices
        if matrices.shape[1] > SMALL:
            self.inverse, self.logdet = np.linalg.inv(matrices), np.linalg.slogdet(matrices)[1]
        else:
            self.inverse, self.logdet = matrices.copy(), np.zeros(len(matrices))
            invert(self.inverse, self.logdet)

    @property
    def diagonal(self) -> np.ndarray:
        """Diagonals of the inverses, (n_matrices, n)."""
        return np.diagonal(self.inverse, axis1=1, axis2=2)

    def solve_each(self, right: np.ndarray) -> np.ndarray:
        """Apply each inverse to its own row of ``right``, (n_matrices, n)."""
        return (right[:, None, :] @ self.inverse)[:, 0]

    def solve(self, right: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Apply the inverse of matrix ``group[j]`` to ``right[j]``, (n_instances, ..., n)."""
        out = np.empty_like(right)
        for g in range(len(self.inverse)):
            out[group == g] = right[group == g] @ self.inverse[g]
        return out

    def total(self, weight: np.ndarray, each: bool) -> np.ndarray:
        """Weighted sum of the inverses, or (``each``) all of them, each times its weight."""
        return weight[:, None, None] * self.inverse if each else np.tensordot(weight, self.inverse, axes=1)

    def color(self, noise: np.ndarray) -> np.ndarray:
        """Turn white noise (n_samples, n) into samples whose covariance is the first inverse."""
        root = np.linalg.cholesky(self.matrices[0])
        return np.linalg.solve(root.T, noise.T).T


class SparseFactors:
    """The same of sparse matrices, one after the other; inverses are on the matrices' patterns."""

    def __init__(self, matrices: list[Any]):
        self.factors = [SparseFactor(matrix) for matrix in matrices]
        self.logdet = np.array([factor.logdet for factor in self.factors])

    @property
    def diagonal(self) -> np.ndarray:
        """Diagonals of the inverses, (n_matrices, n)."""
        return np.array([factor.matrix.diagonal() for factor in self.factors])

    def solve_each(self, right: np.ndarray) -> np.ndarray:
        """Apply each inverse to its own row of ``right``, (n_matrices, n)."""
        return self.solve(right, np.arange(len(right)))

    def solve(self, right: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Apply the inverse of matrix ``group[j]`` to ``right[j]``, (n_instances, ..., n)."""
        out = np.empty_like(right)
        for g, factor in enumerate(self.factors):
            part = right[group == g]
            out[group == g] = factor.solve(part.reshape(-1, part.shape[-1]).T).T.reshape(part.shape)
        return out

    def total(self, weight: np.ndarray, each: bool) -> Any:
        """Weighted sum of the inverses (a sparse coupling is shared by all instances)."""
        return sum(w * factor.matrix for w, factor in zip(weight, self.factors))

    def color(self, noise: np.ndarray) -> np.ndarray:
        """Turn white noise (n_samples, n) into samples whose covariance is the first inverse."""
        return self.factors[0].color(noise.T).T


Factors = DenseFactors | SparseFactors


def shifted(coupling: Coupling, extra: np.ndarray, rows: np.ndarray | slice = slice(None)) -> Factors:
    """Factorize A + diag(extra[j]) for each row of ``extra``, (n_matrices, n); ``rows`` are their instances."""
    if not isinstance(coupling, DenseCoupling):
        return SparseFactors([_add_diagonal(coupling.matrix, row) for row in extra])
    matrices = coupling.matrix[rows].copy() if coupling.each else np.repeat(coupling.matrix[None], len(extra), axis=0)
    diagonal = np.arange(extra.shape[1])
    matrices[:, diagonal, diagonal] += extra
    return DenseFactors(matrices)


def restricted(coupling: Coupling, hidden: np.ndarray) -> Factors:
    """Factorize the blocks of A of ``hidden`` nodes, (n_matrices, n), for each row; all other rows are the identity's."""
    if isinstance(coupling, DenseCoupling):
        inside = hidden[:, :, None] & hidden[:, None, :]
        return DenseFactors(np.where(inside, coupling.matrix, np.eye(hidden.shape[1])))
    masks = [scipy.sparse.diags_array(row.astype(float)).tocsr() for row in hidden]
    others = [scipy.sparse.diags_array(1.0 - row).tocsr() for row in hidden]
    return SparseFactors([mask @ coupling.matrix @ mask + other for mask, other in zip(masks, others)])


def whole(coupling: Coupling) -> tuple[Any, Any]:
    """Return log|A| and A^-1 (on A's pattern if sparse)."""
    if isinstance(coupling, DenseCoupling):
        return coupling.logdet, coupling.inverse
    factor = SparseFactor(coupling.matrix)
    return factor.logdet, factor.matrix


def _add_diagonal(matrix: Any, diagonal: np.ndarray) -> Any:
    """Copy with the same pattern (its diagonal is never empty: A >= I)."""
    out = matrix.copy()
    out.setdiag(out.diagonal() + diagonal)
    return out
