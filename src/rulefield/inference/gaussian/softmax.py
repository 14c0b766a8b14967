"""Gaussian fields with several classes, one field a class and a softmax at each node."""

import warnings

import numpy as np
import scipy.stats
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning

from rulefield.inference.gaussian.factors import Factors, shifted, whole
from rulefield.problem.gaussian import FieldPosterior, GaussianGradient, GaussianPotentials

STEPS = 500
"""Steps of one posterior at most."""


def _one_hot(labels: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indicators (n_instances, n_classes, n_nodes), zero where unknown, and which nodes are known."""
    seen = ~np.isnan(labels)
    index = np.where(seen, labels, -1).astype(np.int64)
    return (index[:, None, :] == np.arange(n_classes)[None, :, None]).astype(float), seen


def softmax_likelihood(potentials: GaussianPotentials, labels: np.ndarray) -> FieldPosterior:
    """Likelihood of class numbers (NaN: unknown) at the mean of the fields; O(n_classes) a node."""
    mean = potentials.mean
    hot, seen = _one_hot(labels, mean.shape[1])
    value = (hot * log_softmax(mean, axis=1)).sum(axis=(1, 2))
    pull = (hot - softmax(mean, axis=1)) * seen[:, None]
    gradient = GaussianGradient(potentials.counts[:, None, None] * pull)
    return FieldPosterior(mean, np.zeros_like(labels, dtype=float), value, gradient)


def softmax_posterior(
    potentials: GaussianPotentials, labels: np.ndarray, start: np.ndarray | None = None, tolerance: float = 1e-8
) -> FieldPosterior:
    r"""Gaussian posterior under Böhning's bound on the softmax, and its lower bound on log p(labels).

    .. math:: \mathrm{lse}(z) \le \mathrm{lse}(\psi) + s'(z-\psi) + \tfrac12 (z-\psi)'B(z-\psi)

    with s = softmax(psi), B = (I - 11'/C) / 2. B has the eigenvalues 1/2 (C - 1 times) and 0 (the constant
    direction), so the posterior precision is A / v + D / 2 in every contrast, whatever psi: one factorization for
    all instances with the same known nodes and all iterations. psi <- m never lowers the bound.

    References
    ----------
    [Boehning92]
    """
    prior, v = potentials.mean, potentials.variance
    hot, seen = _one_hot(labels, prior.shape[1])
    patterns, group = np.unique(seen, axis=0, return_inverse=True)
    if potentials.coupling.each:
        patterns, group = seen, np.arange(len(seen))
    factors = shifted(potentials.coupling, 0.5 * v * patterns)
    psi = prior.copy() if start is None else start
    for _ in range(STEPS):
        s = softmax(psi, axis=1)
        pull = (hot - s) * seen[:, None]
        mean = prior + v * factors.solve(pull + _contrast(psi - prior) * seen[:, None], group)
        change = np.abs(mean - psi).max(initial=0.0)
        if change < tolerance:
            break
        psi = mean
    else:
        warnings.warn(
            f"the class fields did not settle in {STEPS} steps; their bounds hold but are loose.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _finish(potentials, hot, seen, psi, mean, factors, group)


def _contrast(z: np.ndarray) -> np.ndarray:
    """B z, over the class axis."""
    return 0.5 * (z - z.mean(axis=1, keepdims=True))


def _finish(
    potentials: GaussianPotentials,
    hot: np.ndarray,
    seen: np.ndarray,
    psi: np.ndarray,
    mean: np.ndarray,
    factors: Factors,
    group: np.ndarray,
) -> FieldPosterior:
    prior, v, coupling = potentials.mean, potentials.variance, potentials.coupling
    free = prior.shape[1] - 1
    s = softmax(psi, axis=1)
    site = (hot - s + _contrast(psi)) * seen[:, None]
    constant = -logsumexp(psi, axis=1) + (s * psi).sum(axis=1) - 0.5 * (psi * _contrast(psi)).sum(axis=1)
    bound = 0.5 * (site * (mean + prior)).sum(axis=(1, 2)) + (constant * seen).sum(axis=1)
    bound -= 0.5 * (prior * _contrast(mean) * seen[:, None]).sum(axis=(1, 2))
    logdet, base = whole(coupling)
    bound -= 0.5 * free * (factors.logdet[group] - logdet)
    pull = site - _contrast(mean) * seen[:, None]
    lifted = coupling.solve(pull)
    diagonal = factors.diagonal[group]
    counts = potentials.counts
    d_variance = 0.5 * counts @ ((pull * lifted).sum(axis=(1, 2)) - 0.5 * free * (diagonal * seen).sum(axis=1))
    total = factors.total(np.bincount(group, counts, len(factors.logdet)), coupling.each)
    outer = coupling.sum_of_outer(counts[:, None, None] * lifted, lifted)
    d_coupling = 0.5 * (free * (coupling.weighed(base, counts) - total) - v * outer)
    gradient = GaussianGradient(counts[:, None, None] * pull, d_coupling, float(d_variance))
    return FieldPosterior(mean, v * diagonal, bound, gradient, psi)


def expected_softmax(mean: np.ndarray, variance: np.ndarray, n_points: int = 256) -> np.ndarray:
    """E softmax(z) for z_c ~ N(mean_c, variance), independent over classes.

    ``mean`` (n_instances, n_classes, n_nodes), ``variance`` (n_instances, n_nodes); the answer (n_instances, n_nodes,
    n_classes) comes from ``n_points`` fixed quasi-random points and their mirror images, so it is repeatable.
    """
    mean = np.moveaxis(mean, 1, -1)
    if not np.any(variance > 0):
        return softmax(mean, axis=-1)
    sobol = scipy.stats.qmc.Sobol(mean.shape[-1], scramble=True, seed=0)
    normal = scipy.stats.norm.ppf(np.clip(sobol.random(n_points), 1e-12, 1 - 1e-12))
    total = np.zeros_like(mean)
    width = np.sqrt(variance)[..., None]
    for point in normal:
        total += softmax(mean + width * point, axis=-1) + softmax(mean - width * point, axis=-1)
    return total / (2 * n_points)
