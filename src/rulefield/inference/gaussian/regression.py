"""Gaussian fields whose values are observed directly: likelihood, and prediction of the unknown values."""

from typing import Any

import numpy as np
import scipy.sparse

from rulefield.inference.gaussian.factors import restricted, whole
from rulefield.problem.gaussian import Coupling, DenseCoupling, FieldPosterior, GaussianGradient, GaussianPotentials


def gaussian_likelihood(potentials: GaussianPotentials, values: np.ndarray) -> FieldPosterior:
    r"""Log-density of the known values of a field, and the distribution of the unknown ones given them.

    .. math:: \tfrac12 (\log|P| - \log|P_{mm}|) - \tfrac12 e'Pe - \tfrac{n_o}{2}\log 2\pi

    where P = A / v and e is y - mu, filled at unknown nodes with its conditional mean (so no block is inverted
    but that of the unknown nodes). Instances with the same unknown nodes share a factorization.

    ``values`` (n_instances, n_nodes) are NaN where unknown; v > 0.
    """
    missing = np.isnan(values)
    error = np.where(missing, 0.0, values - potentials.mean)
    coupling, v = potentials.coupling, potentials.variance
    counts = potentials.counts
    patterns, group = np.unique(missing, axis=0, return_inverse=True)
    if coupling.each:
        patterns, group = missing, np.arange(len(missing))
    factors = restricted(coupling, patterns)
    error -= factors.solve(np.where(missing, coupling.apply(error), 0.0), group)
    base_logdet, base = whole(coupling)
    pulled = coupling.apply(error)
    square = np.einsum("ji,ji->j", error, pulled)
    known = (~missing).sum(axis=1)
    bound = 0.5 * (base_logdet - factors.logdet[group]) - 0.5 * square / v - 0.5 * known * np.log(2 * np.pi * v)
    d_variance = float(counts @ (-0.5 * known / v + 0.5 * square / v**2))
    seen = coupling.weighed(base, counts) - coupling.sum_of_outer(counts[:, None] * error, error) / v
    weight = np.bincount(group, counts, len(patterns))
    inverses = factors.total(weight, coupling.each) - _identities(patterns, weight, coupling)
    d_coupling = 0.5 * (seen - inverses)
    gradient = GaussianGradient(np.where(missing, 0.0, counts[:, None] * pulled / v), d_coupling, d_variance)
    variance = np.where(missing, v * factors.diagonal[group], 0.0)
    return FieldPosterior(potentials.mean + error, variance, bound, gradient)


def _identities(patterns: np.ndarray, weight: np.ndarray, coupling: Coupling) -> Any:
    """Weighted sum of what stands for the known nodes in restricted couplings, in the coupling's shape."""
    share = weight[:, None] * ~patterns
    if coupling.each:
        return share[:, :, None] * np.eye(share.shape[1])
    total = share.sum(axis=0)
    return np.diag(total) if isinstance(coupling, DenseCoupling) else scipy.sparse.diags_array(total).tocsr()
