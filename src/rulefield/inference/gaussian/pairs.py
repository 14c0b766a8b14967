"""How likely two labels of a Gaussian field are together."""

import numpy as np
from scipy.special import expit

from rulefield.inference.gaussian.field import expected_logistic

REACH = 6.5  # standard deviations; the rest weighs 1e-10
CHUNK = 2**21  # points evaluated at a time


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
