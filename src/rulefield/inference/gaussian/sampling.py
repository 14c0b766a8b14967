"""Draws from Gaussian fields and their posteriors; importance-sampled likelihood."""

import numpy as np
import scipy.sparse
from scipy.special import logsumexp

from rulefield.exceptions import InputError
from rulefield.inference.gaussian.field import GaussianPosterior
from rulefield.inference.gaussian.probing import factorize
from rulefield.problem.gaussian import DenseCoupling, GaussianPotentials


def prior_variance(potentials: GaussianPotentials) -> np.ndarray:
    """Marginal variances v diag(A^-1), (n_instances or 1, n_nodes)."""
    coupling, v = potentials.coupling, potentials.variance
    n = potentials.mean.shape[-1]
    if v == 0:
        return np.zeros((1, n))
    if isinstance(coupling, DenseCoupling):
        return v * np.atleast_2d(np.diagonal(coupling.inverse, axis1=-2, axis2=-1))
    return v * factorize(coupling.matrix).inverse_diagonal()[None]


def latent_covariance(potentials: GaussianPotentials, precision: np.ndarray) -> np.ndarray:
    """Covariance v (A + v diag(precision))^-1 of each instance, (n_instances, n_nodes, n_nodes)."""
    coupling, v = potentials.coupling, potentials.variance
    m, n = precision.shape
    if not isinstance(coupling, DenseCoupling):
        raise InputError(
            f"a field of {n} nodes is too large for a whole covariance; latent() gives the variances of its nodes."
        )
    if not precision.any():
        return np.broadcast_to(v * coupling.inverse, (m, n, n)).copy()
    matrices = np.repeat(coupling.stack, m, axis=0) if len(coupling.stack) == 1 else coupling.stack.copy()
    matrices[:, np.arange(n), np.arange(n)] += v * precision
    return v * np.linalg.inv(matrices)


def colored_noise(potentials: GaussianPotentials, precision: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Turn white noise (n_samples, n_instances, n_nodes) into noise with covariance v (A + v diag(precision))^-1."""
    coupling, v = potentials.coupling, potentials.variance
    out = np.zeros_like(noise)
    if v == 0:
        return out
    for j in range(noise.shape[1]):
        if isinstance(coupling, DenseCoupling):
            matrix = coupling.stack[j if len(coupling.stack) > 1 else 0] + v * np.diag(precision[j])
            root = np.linalg.cholesky(matrix)
            out[:, j] = np.linalg.solve(root.T, noise[:, j].T).T
        else:
            shifted = coupling.matrix + scipy.sparse.diags_array(v * precision[j]).tocsr()
            out[:, j] = factorize(shifted).color(noise[:, j].T).T
    return np.sqrt(v) * out


def importance_log_likelihood(
    potentials: GaussianPotentials, labels: np.ndarray, q: GaussianPosterior, n_samples: int, seed: int | None
) -> np.ndarray:
    """Estimate log p(known labels) of each instance by drawing latent values from ``q``, (n_instances,).

    Consistent, and almost never below the bound of ``q``. O(n_samples n^2) an instance.
    """
    v = potentials.variance
    if v == 0 or q.sites is None:
        return q.bound
    precision = q.sites[1]
    white = np.random.default_rng(seed).normal(size=(n_samples, *labels.shape))
    noise = colored_noise(potentials, precision, white)
    z = q.mean + noise
    seen = ~np.isnan(labels)
    sign = np.where(labels == 1, 1.0, -1.0)
    value = np.where(seen, -np.logaddexp(0.0, -sign * z), 0.0).sum(axis=-1)
    prior = z - potentials.mean
    coupling = potentials.coupling
    inner = np.array([(n * coupling.apply(n) - e * coupling.apply(e)).sum(axis=-1) for n, e in zip(noise, prior)]) / v
    value += 0.5 * (inner + (precision * noise**2).sum(axis=-1))
    value += 0.5 * _log_volume(potentials, precision)
    return logsumexp(value, axis=0) - np.log(n_samples)


def _log_volume(potentials: GaussianPotentials, precision: np.ndarray) -> np.ndarray:
    """log|A| - log|A + v D| of each instance."""
    coupling, v = potentials.coupling, potentials.variance
    if isinstance(coupling, DenseCoupling):
        n = precision.shape[1]
        return np.array(
            [
                coupling.logdet[j if len(coupling.logdet) > 1 else 0]
                - np.linalg.slogdet(coupling.stack[j if len(coupling.stack) > 1 else 0] + v * np.eye(n) * d)[1]
                for j, d in enumerate(precision)
            ]
        )
    base = factorize(coupling.matrix).logdet
    shifted = [coupling.matrix + scipy.sparse.diags_array(v * d).tocsr() for d in precision]
    return np.array([base - factorize(s).logdet for s in shifted])
