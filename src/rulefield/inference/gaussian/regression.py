"""Gaussian fields whose values are observed directly: likelihood, and prediction of the unknown values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from rulefield.inference.gaussian.probing import factorize, whole
from rulefield.problem.gaussian import GaussianGradient, GaussianPotentials, SparseCoupling


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
    base_logdet, base = whole(coupling)
    pulled = coupling.apply(error)
    square = np.einsum("ji,ji->j", error, pulled)
    known = (~missing).sum(axis=1)
    bound = 0.5 * (base_logdet - parts.logdet) - 0.5 * square / v - 0.5 * known * np.log(2 * np.pi * v)
    d_variance = float(counts @ (-0.5 * known / v + 0.5 * square / v**2))
    seen = coupling.weighed(base, counts) - coupling.sum_of_outer(counts[:, None] * error, error) / v
    d_coupling = 0.5 * (seen if parts.inverses is None else seen - parts.inverses)
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
    each = coupling.each
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
