"""Potentials of Gaussian fields: where each node's latent value is expected, and how nodes hold each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rulefield.exceptions import InputError

CG_TOLERANCE = 1e-10
"""Relative residual of conjugate gradients."""


class DenseCoupling:
    """A symmetric positive definite matrix A shared by all instances, (n, n), or one each, (n_instances, n, n).

    Factorized once, O(n^3); a solve costs O(n^2) an instance.
    """

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    @property
    def each(self) -> bool:
        """Whether each instance has a matrix of its own."""
        return self.matrix.ndim == 3

    @cached_property
    def inverse(self) -> np.ndarray:
        """A^-1, same shape as the matrix."""
        return np.linalg.inv(self.matrix)

    @cached_property
    def logdet(self) -> np.ndarray:
        """log|A|, (1 or n_instances,)."""
        return np.atleast_1d(np.linalg.slogdet(self.matrix)[1])

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Apply A^-1 to ``right``, (n_instances, n) or (n_instances, n_fields, n); same shape."""
        return self._times(self.inverse, right)

    def apply(self, right: np.ndarray) -> np.ndarray:
        """Apply A to ``right``; shapes as in :meth:`solve`."""
        return self._times(self.matrix, right)

    def _times(self, matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
        if not self.each:
            return right @ matrix
        return (right[..., None, :] @ (matrix[:, None] if right.ndim == 3 else matrix))[..., 0, :]

    def sum_of_outer(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Sum of left_j right_j' over the instances that share a matrix, (..., n) both; the shape of A."""
        if self.each:
            left, right = (a if a.ndim == 3 else a[:, None] for a in (left, right))
            return np.swapaxes(left, 1, 2) @ right
        return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])

    def weighed(self, matrix: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Multiply something of the shape of A by the weights of the instances that share it."""
        return counts[:, None, None] * matrix if self.each else counts.sum() * matrix


class SparseCoupling:
    """A large sparse A, shared by all instances: solved by conjugate gradients with Jacobi's preconditioner.

    The condition number of I + sum rho L is at most 1 + 2 max degree x sum rho, so the number of steps does not
    grow with the graph and a solve costs O(edges).
    """

    each = False

    def __init__(self, matrix: Any):
        self.matrix = scipy.sparse.csr_array(matrix)

    def sum_of_outer(self, left: np.ndarray, right: np.ndarray) -> Any:
        """Sum of left_j right_j' over the instances, (..., n) both, on the pattern of A."""
        left, right = left.reshape(-1, left.shape[-1]), right.reshape(-1, right.shape[-1])
        pattern = self.matrix.tocoo()
        pattern.data = np.einsum("ji,ji->i", left[:, pattern.coords[0]], right[:, pattern.coords[1]])
        return pattern.tocsr()

    def weighed(self, matrix: Any, counts: np.ndarray) -> Any:
        """Multiply something of the shape of A by the weights of the instances."""
        return counts.sum() * matrix

    def apply(self, right: np.ndarray) -> np.ndarray:
        """Apply A to ``right``, (..., n)."""
        flat = right.reshape(-1, right.shape[-1])
        return (self.matrix @ flat.T).T.reshape(right.shape)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Apply A^-1 to ``right``, (..., n), to a relative residual of 1e-10."""
        flat = np.ascontiguousarray(right.reshape(-1, right.shape[-1]).T)
        return conjugate_gradient(self.matrix, flat).T.reshape(right.shape)


Coupling = DenseCoupling | SparseCoupling


def conjugate_gradient(matrix: Any, right: np.ndarray) -> np.ndarray:
    """Solve A X = right, (n, n_columns), for all columns at once; A symmetric positive definite and sparse."""
    scale = 1.0 / matrix.diagonal()[:, None]
    x = right * scale
    residual = right - matrix @ x
    direction = z = residual * scale
    rho = np.einsum("ij,ij->j", residual, z)
    target = CG_TOLERANCE * np.linalg.norm(right, axis=0)
    for _ in range(10 * len(right) + 10):
        if np.all(np.linalg.norm(residual, axis=0) <= target):
            return x
        along = matrix @ direction
        curvature = np.einsum("ij,ij->j", direction, along)
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
        x += step * direction
        residual -= step * along
        z = residual * scale
        new = np.einsum("ij,ij->j", residual, z)
        direction = z + np.divide(new, rho, out=np.zeros_like(rho), where=rho > 0) * direction
        rho = new
    raise InputError("the coupling of the field is not positive definite: are the similarities finite and symmetric?")


@dataclass(frozen=True)
class GaussianPotentials:
    r"""Latent values of instances: :math:`z_j \sim N(\mu_j, v A^{-1})`; at v = 0 the field is its mean.

    ``mean`` is (n_instances, n_nodes), or (n_instances, n_classes, n_nodes) for one field a class. A has no eigenvalue
    below 1. ``weight`` says how much each instance counts in gradients (not in its own bound).
    """

    mean: np.ndarray
    coupling: Coupling
    variance: float
    weight: np.ndarray | None = None

    @property
    def counts(self) -> np.ndarray:
        """Weight of each instance, (n_instances,)."""
        return np.ones(len(self.mean)) if self.weight is None else self.weight


@dataclass(frozen=True)
class GaussianGradient:
    """Derivatives of an objective by the potentials, the coupling's at a fixed mean.

    ``coupling`` has the shape of A: (n, n), (n_instances, n, n) or sparse on A's pattern; None means zero.
    """

    mean: np.ndarray
    coupling: Any = None
    variance: float = 0.0


@dataclass(frozen=True)
class FieldPosterior:
    """What labels or values say of a field, and of the potentials that it came from.

    Parameters
    ----------
    mean, variance : ndarray, shape (n_instances, n_nodes)
        Of the latent values given what was seen. With several classes the mean is (n_instances, n_classes, n_nodes), and the
        variance belongs to every direction in class space except the constant one, which softmax does not see.
    bound : ndarray, shape (n_instances,)
        Log-density of what was seen, or a lower bound on it (exact at variance 0).
    gradient : GaussianGradient
        Of the sum of ``bound``.
    sites : tuple of two ndarray, ndarray or None
        What stands for the labels: a warm start for the next call.
    """

    mean: np.ndarray
    variance: np.ndarray
    bound: np.ndarray
    gradient: GaussianGradient
    sites: Any = None
