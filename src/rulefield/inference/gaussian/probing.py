"""Inverse and determinant of a coupling whose Cholesky factor would be too large: estimated from random probes."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rulefield.problem.gaussian import conjugate_gradient

PROBES = 64
"""Random vectors; standard errors fall with the square root of their number."""
STEPS = 100
"""Steps of Lanczos' recurrence at most."""
TOLERANCE = 1e-8
"""Relative residual of the solves: far below the noise of the probes."""


class ProbedInverse:
    r"""What :class:`SparseFactor` gives, without a factor: Hutchinson's estimator and Lanczos quadrature.

    With random signs z and x = A^-1 z, E x_i z_j = (A^-1)_ij, and E z' log(A) z = log|A|. The solves are conjugate
    gradients on all probes at once; the first terms of Neumann's series, whose entries are known exactly, serve as
    control variates. The same seed gives the same probes, so an objective stays a smooth function of its weights.

    Parameters
    ----------
    matrix : sparse array, shape (n, n)
        Symmetric, with a_ii > sum_j |a_ij|, as every coupling I + sum rho L is.
    probes : int
        The standard errors fall with its square root.
    seed : int

    References
    ----------
    [Hutchinson90], [Ubaru17]
    """

    def __init__(self, matrix: Any, probes: int = PROBES, seed: int = 0):
        self.source = scipy.sparse.csr_array(matrix)
        self.scale = 1.0 / self.source.diagonal()
        self.signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(self.source.shape[0], probes))

    @cached_property
    def _off(self) -> Any:
        """A without its diagonal."""
        return self.source - scipy.sparse.diags_array(1.0 / self.scale).tocsr()

    @cached_property
    def _solved(self) -> np.ndarray:
        """A^-1 applied to the probes."""
        return conjugate_gradient(self.source, self.signs, TOLERANCE)

    @cached_property
    def _first(self) -> np.ndarray:
        """(D^-1 - D^-1 O D^-1) applied to the probes, D and O the diagonal and the rest of A."""
        scaled = self.scale[:, None] * self.signs
        return scaled - self.scale[:, None] * (self._off @ scaled)

    def _diagonals(self) -> np.ndarray:
        """Estimates of the diagonal of A^-1 from each probe, (n, n_probes)."""
        s = self.scale
        second = s[:, None] * (self.signs - self._off @ self._first)  # D^-1 - D^-1 O D^-1 + D^-1 O D^-1 O D^-1
        exact = s + s**2 * (self._off.power(2) @ s)
        return self.signs * (self._solved - second) + exact[:, None]

    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of A^-1, (n,), between its bounds 1 / a_ii and 1 / (a_ii - sum_j |a_ij|)."""
        largest = 1.0 / self._slack.min()
        return np.clip(self._diagonals().mean(axis=1), self.scale, largest)

    @property
    def diagonal_error(self) -> np.ndarray:
        """Standard error of each entry of :meth:`inverse_diagonal`."""
        return self._diagonals().std(axis=1, ddof=1) / np.sqrt(self.signs.shape[1])

    @cached_property
    def _slack(self) -> np.ndarray:
        """a_ii - sum_j |a_ij|, (n,)."""
        return 1.0 / self.scale - np.asarray(abs(self._off).sum(axis=1))

    @cached_property
    def matrix(self) -> Any:
        """A^-1 on the pattern of A (csr), symmetric."""
        entries = self.source.tocoo()
        i, j = entries.coords
        extra = self._solved - self._first
        values = np.empty(len(i))
        step = max(1, 2**24 // self.signs.shape[1])
        for first in range(0, len(i), step):
            part = slice(first, first + step)
            a, b = i[part], j[part]
            both = np.einsum("ep,ep->e", extra[a], self.signs[b]) + np.einsum("ep,ep->e", extra[b], self.signs[a])
            values[part] = 0.5 * both / self.signs.shape[1] - entries.data[part] * self.scale[a] * self.scale[b]
        diagonal = i == j
        values[diagonal] = self.inverse_diagonal()[i[diagonal]]
        found = scipy.sparse.coo_array((values, (i, j)), shape=self.source.shape).tocsr()
        found.sort_indices()
        return found

    @cached_property
    def _logdets(self) -> np.ndarray:
        """Estimates of log|A| from each probe: the diagonal's share exactly, the rest by quadrature."""
        root = np.sqrt(self.scale)
        scaled = scipy.sparse.csr_array(self.source.multiply(root[:, None]).multiply(root))
        condition = 2.0 / (self._slack * self.scale).min()  # Gershgorin: all eigenvalues lie in [2 / condition, 2]
        steps = min(STEPS, len(root), 5 + int(4.0 * np.sqrt(condition)))  # error 2 exp(-4 steps / sqrt(condition))
        values, weights = _lanczos(scaled, self.signs, steps)
        rest = self.signs.shape[0] * (weights * np.log(np.maximum(values, 1e-300))).sum(axis=1)
        return rest - np.log(self.scale).sum()

    @property
    def logdet(self) -> float:
        """log|A|."""
        return float(self._logdets.mean())

    @property
    def logdet_error(self) -> float:
        """Standard error of ``logdet``."""
        return float(self._logdets.std(ddof=1) / np.sqrt(len(self._logdets)))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """A^-1 right, for right (n, n_columns), to 1e-10."""
        return conjugate_gradient(self.source, np.ascontiguousarray(right))

    def color(self, noise: np.ndarray) -> np.ndarray:
        """Turn white noise (n, n_columns) into samples with covariance A^-1, exactly.

        A = sum of slack_i e_i e_i' and |a_ij| (e_i ± e_j)(e_i ± e_j)' over edges, so A^-1 applied to one independent
        normal for each term has the covariance A^-1 A A^-1. The edges' noise follows from the given noise.
        """
        upper = scipy.sparse.triu(self._off, 1).tocoo()
        i, j = upper.coords
        rng = np.random.default_rng(np.ascontiguousarray(noise[:16]).view(np.uint32).ravel())
        edges = np.sqrt(np.abs(upper.data))[:, None] * rng.normal(size=(len(i), noise.shape[1]))
        total = np.sqrt(self._slack)[:, None] * noise
        np.add.at(total, i, edges)
        np.add.at(total, j, np.sign(upper.data)[:, None] * edges)
        return self.solve(total)


def _lanczos(matrix: Any, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss quadrature of each column's spectral measure: nodes and weights, (n_columns, steps) each."""
    width = start.shape[1]
    diagonal, off = np.zeros((steps, width)), np.zeros((steps, width))
    before, now = np.zeros_like(start), start / np.linalg.norm(start, axis=0)
    size = np.zeros(width)
    for k in range(steps):
        new = matrix @ now - size * before
        diagonal[k] = np.einsum("ij,ij->j", now, new)
        new -= diagonal[k] * now
        size = np.linalg.norm(new, axis=0)
        off[k] = size
        alive = size > 1e-10
        if not alive.any():
            break
        before, now = now, np.divide(new, size, out=np.zeros_like(new), where=alive)
    used = k + 1
    values, weights = np.empty((width, used)), np.empty((width, used))
    for j in range(width):
        values[j], vectors = scipy.linalg.eigh_tridiagonal(diagonal[:used, j], off[: used - 1, j])
        weights[j] = vectors[0] ** 2
    return values, weights
