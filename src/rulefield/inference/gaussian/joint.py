"""What a Gaussian field says of several nodes at once: covariances, draws, likelihood by sampling."""

import numpy as np
from scipy.special import logsumexp

from rulefield.exceptions import InputError
from rulefield.inference.gaussian.factors import DenseFactors, shifted, whole
from rulefield.problem.gaussian import DenseCoupling, FieldPosterior, GaussianPotentials


def prior_variance(potentials: GaussianPotentials) -> np.ndarray:
    """Marginal variances v diag(A^-1), (n_instances or 1, n_nodes)."""
    coupling, v = potentials.coupling, potentials.variance
    if v == 0:
        return np.zeros((1, potentials.mean.shape[-1]))
    if isinstance(coupling, DenseCoupling):
        return v * np.atleast_2d(np.diagonal(coupling.inverse, axis1=-2, axis2=-1))
    return v * shifted(coupling, np.zeros((1, potentials.mean.shape[-1]))).diagonal


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
    factors = shifted(coupling, v * precision)
    assert isinstance(factors, DenseFactors)
    return v * factors.inverse


def colored_noise(potentials: GaussianPotentials, precision: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Turn white noise (n_samples, n_instances, n_nodes) into noise with covariance v (A + v diag(precision))^-1."""
    v = potentials.variance
    out = np.zeros_like(noise)
    if v == 0:
        return out
    for j in range(noise.shape[1]):
        one = slice(j, j + 1)
        out[:, j] = shifted(potentials.coupling, v * precision[one], one).color(noise[:, j])
    return np.sqrt(v) * out


def importance_log_likelihood(
    potentials: GaussianPotentials, labels: np.ndarray, q: FieldPosterior, n_samples: int, seed: int | None
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
    ones = [slice(j, j + 1) for j in range(len(labels))]
    logdet = np.concatenate([shifted(coupling, v * precision[one], one).logdet for one in ones])
    value += 0.5 * (whole(coupling)[0] - logdet)
    return logsumexp(value, axis=0) - np.log(n_samples)
