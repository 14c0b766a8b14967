"""Gaussian fields whose values are observed directly: likelihood, and prediction of the unknown values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from rulefield.inference.gaussian.probing import factorize
from rulefield.problem.gaussian import DenseCoupling, GaussianGradient, GaussianPotentials, SparseCoupling


@dataclass(frozen=True)
class ValuePosterior:
    """Values given the known ones: mean and variance (n_instances, n_nodes), log-density of the known ones."""

    mean: np.ndarray
    variance: np.ndarray
    bound: np.ndarray
    gradient: GaussianGradient
    sites: None = None


def gaussian_likelihood(potentials: GaussianPotentials, values: np.ndarray) -> ValuePosterior:
    r"""Log-density of the known values of a field, and the distribution of the unknown ones given them.

    .. math:: \tfrac12 (\log|P| - \log|P_{mm}|) - \tfrac12 e'Pe - \tfrac{n_o}{2}\log 2\pi

    where P = A / v and e is y - mu, filled at unknown nodes with its conditional mean (so no block is inverted
    but that of the unknown nodes). Instances with the same unknown nodes share a factorization.

    Parameters
    ----------
    potentials : GaussianPotentials
        With v > 0.
    values : ndarray, shape (n_instances, n_nodes)
        NaN where unknown.
    """
    missing = np.isnan(values)
    error = np.where(missing, 0.0, values - potentials.mean)
    coupling, v = potentials.coupling, potentials.variance
    counts = potentials.counts
    parts = _unknown_parts(coupling, missing, error, counts)
    base_logdet, base = _whole(coupling)
    pulled = coupling.apply(error)
    square = np.einsum("ji,ji->j", error, pulled)
    known = (~missing).sum(axis=1)
    bound = 0.5 * (base_logdet - parts.logdet) - 0.5 * square / v - 0.5 * known * np.log(2 * np.pi * v)
    d_variance = float(counts @ (-0.5 * known / v + 0.5 * square / v**2))
    d_coupling = _moment_gradient(coupling, base, parts.inverses, error, counts, v)
    gradient = GaussianGradient(np.where(missing, 0.0, counts[:, None] * pulled / v), d_coupling, d_variance)
    return ValuePosterior(potentials.mean + error, v * parts.diagonal, bound, gradient)


@dataclass
class _Parts:
    """log|A_mm|, weighted sum of A_mm^-1 put back in place, and its diagonals."""

    logdet: np.ndarray
    inverses: Any
    diagonal: np.ndarray


def _unknown_parts(coupling: Any, missing: np.ndarray, error: np.ndarray, counts: np.ndarray) -> _Parts:
    """Fill ``error`` at unknown nodes, one factorization for each set of unknown nodes (and matrix)."""
    sparse = isinstance(coupling, SparseCoupling)
    each = not sparse and coupling.matrix.ndim == 3
    zero = None if sparse else np.zeros_like(coupling.matrix)
    parts = _Parts(np.zeros(len(error)), zero, np.zeros_like(error))
    rows = np.flatnonzero(missing.any(axis=1))
    if not len(rows):
        return parts
    patterns, group = np.unique(missing[rows], axis=0, return_inverse=True)
    jobs = [(j, np.array([j])) for j in rows] if each else [(None, rows[group == g]) for g in range(len(patterns))]
    for own, members in jobs:
        hidden = np.flatnonzero(missing[members[0]])
        if sparse:
            _fill_sparse(coupling, hidden, members, error, parts, counts[members].sum())
        else:
            matrix = coupling.matrix if own is None else coupling.matrix[own]
            block = np.linalg.inv(matrix[np.ix_(hidden, hidden)])
            error[np.ix_(members, hidden)] = -(error[members] @ matrix[:, hidden]) @ block
            parts.logdet[members] = -np.linalg.slogdet(block)[1]
            parts.diagonal[np.ix_(members, hidden)] = np.diagonal(block)
            target = parts.inverses if own is None else parts.inverses[own]
            target[np.ix_(hidden, hidden)] += counts[members].sum() * block
    return parts


def _fill_sparse(
    coupling: SparseCoupling, hidden: np.ndarray, members: np.ndarray, error: np.ndarray, parts: _Parts, count: float
) -> None:
    matrix = coupling.matrix
    factor = factorize(matrix[hidden][:, hidden])
    error[np.ix_(members, hidden)] = -factor.solve(matrix[hidden] @ error[members].T).T
    parts.logdet[members] = factor.logdet
    parts.diagonal[np.ix_(members, hidden)] = factor.inverse_diagonal()
    inner = factor.matrix.tocoo()
    put = scipy.sparse.coo_array(
        (count * inner.data, (hidden[inner.coords[0]], hidden[inner.coords[1]])), shape=matrix.shape
    ).tocsr()
    parts.inverses = put if parts.inverses is None else parts.inverses + put


def _whole(coupling: Any) -> tuple[Any, Any]:
    """log|A| and A^-1 (on A's pattern where sparse)."""
    if isinstance(coupling, DenseCoupling):
        return coupling.logdet, coupling.inverse
    factor = factorize(coupling.matrix)
    return factor.logdet, factor.matrix


def _moment_gradient(coupling: Any, base: Any, inverses: Any, error: np.ndarray, counts: np.ndarray, v: float) -> Any:
    """Half of: prior covariance minus posterior covariance minus squared error, each divided by v."""
    weighted = counts[:, None] * error
    if isinstance(coupling, SparseCoupling):
        pattern = coupling.matrix.tocoo()
        outer = pattern.copy()
        outer.data = np.einsum("ji,ji->i", weighted[:, pattern.coords[0]], error[:, pattern.coords[1]])
        rest = counts.sum() * base - outer.tocsr() / v
        return 0.5 * (rest if inverses is None else rest - inverses)
    if coupling.matrix.ndim == 3:
        return 0.5 * (counts[:, None, None] * base - inverses - weighted[:, :, None] * error[:, None, :] / v)
    return 0.5 * (counts.sum() * base - inverses - weighted.T @ error / v)
