"""What a Gaussian field says of several nodes at once: covariances, draws, pairs of labels, likelihood by sampling."""

import numpy as np
from scipy.special import expit, logsumexp

from rulefield.exceptions import InputError
from rulefield.inference.gaussian.factors import DenseFactors, shifted, whole
from rulefield.inference.gaussian.field import GaussianPosterior, expected_logistic
from rulefield.problem.gaussian import DenseCoupling, GaussianPotentials

REACH = 6.5
"""Standard deviations of a trapezoid sum to each side; the rest weighs 1e-10."""
CHUNK = 2**21
"""Points evaluated at a time: 16 megabytes."""


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
    ones = [slice(j, j + 1) for j in range(len(labels))]
    logdet = np.concatenate([shifted(coupling, v * precision[one], one).logdet for one in ones])
    value += 0.5 * (whole(coupling)[0] - logdet)
    return logsumexp(value, axis=0) - np.log(n_samples)


def pair_probabilities(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    r"""Probability that two labels are both 1, :math:`E\,\sigma(z_i)\sigma(z_j)`, for every pair of nodes.

    .. math:: E[\sigma(z_i) \, E[\sigma(z_j) | z_i]]

    The inner expectation is closed-form to 3e-9 (:func:`expected_logistic`), the outer one a trapezoid sum, whose error
    falls exponentially: the logistic's poles lie at distance pi, so steps of 0.8 / (standard deviation) leave 1e-8.

    Parameters
    ----------
    mean : ndarray, shape (n_instances, n)
    covariance : ndarray, shape (n_instances, n, n)

    Returns
    -------
    ndarray, shape (n_instances, n, n)
        The diagonal holds P(y_i = 1). O(n^2 x largest standard deviation) an instance.
    """
    n = mean.shape[1]
    out = np.empty(covariance.shape)
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    single = expected_logistic(mean, spread**2)
    out[:, np.arange(n), np.arange(n)] = single
    widest = float(spread.max(initial=0.0))
    points = np.arange(-REACH, REACH + 1e-9, min(0.5, 0.8 / max(widest, 1e-9)))
    weight = np.exp(-0.5 * points**2)
    weight /= weight.sum()
    i, j = np.triu_indices(n, 1)
    size = max(1, CHUNK // (len(points) * max(1, len(i))))
    for first in range(0, len(mean), size):
        rows = slice(first, first + size)
        m, s, c = mean[rows], spread[rows], covariance[rows][:, i, j]
        slope = np.divide(c, s[:, i], out=np.zeros_like(c), where=s[:, i] > 0)  # of z_j by z_i in standard units
        left = np.maximum(s[:, j] ** 2 - slope**2, 0.0)
        z_i = m[:, i, None] + s[:, i, None] * points
        z_j = m[:, j, None] + slope[..., None] * points
        both = (weight * expit(z_i) * expected_logistic(z_j, left[..., None])).sum(axis=-1)
        out[rows, i, j] = out[rows, j, i] = both
    return out
