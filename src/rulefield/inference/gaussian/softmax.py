"""Gaussian fields with several classes, one field a class and a softmax at each node."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.stats
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning

from rulefield.inference.gaussian.probing import factorize, whole
from rulefield.problem.gaussian import GaussianGradient, GaussianPotentials, SparseCoupling

STEPS = 500


@dataclass(frozen=True)
class SoftmaxPosterior:
    """Posterior of the class fields: mean (n_instances, n_classes, n_nodes), variance of each contrast, bounds.

    ``variance`` (n_instances, n_nodes) belongs to every direction in class space except the constant one, which
    softmax does not see.
    """

    mean: np.ndarray
    variance: np.ndarray
    bound: np.ndarray
    gradient: GaussianGradient
    sites: np.ndarray | None = None


def _one_hot(labels: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indicators (n_instances, n_classes, n_nodes), zero where unknown, and which nodes are known."""
    seen = ~np.isnan(labels)
    index = np.where(seen, labels, -1).astype(np.int64)
    return (index[:, None, :] == np.arange(n_classes)[None, :, None]).astype(float), seen


def softmax_likelihood(potentials: GaussianPotentials, labels: np.ndarray) -> SoftmaxPosterior:
    """Likelihood of class numbers (NaN: unknown) at the mean of the fields; O(n_classes) a node."""
    mean = potentials.mean
    hot, seen = _one_hot(labels, mean.shape[1])
    value = (hot * log_softmax(mean, axis=1)).sum(axis=(1, 2))
    pull = (hot - softmax(mean, axis=1)) * seen[:, None]
    gradient = GaussianGradient(potentials.counts[:, None, None] * pull)
    return SoftmaxPosterior(mean, np.zeros_like(labels, dtype=float), value, gradient)


def softmax_posterior(
    potentials: GaussianPotentials, labels: np.ndarray, start: np.ndarray | None = None, tolerance: float = 1e-8
) -> SoftmaxPosterior:
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
    places = _Places(potentials.coupling, v, seen, potentials.counts)
    psi = prior.copy() if start is None else start
    for _ in range(STEPS):
        s = softmax(psi, axis=1)
        pull = (hot - s) * seen[:, None]
        mean = prior + v * places.solve(pull + _contrast(psi - prior) * seen[:, None])
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
    return _finish(potentials, hot, seen, psi, mean, places)


def _contrast(z: np.ndarray) -> np.ndarray:
    """B z, over the class axis."""
    return 0.5 * (z - z.mean(axis=1, keepdims=True))


class _Places:
    """(A + v D / 2)^-1 for each set of known nodes."""

    def __init__(self, coupling: Any, v: float, seen: np.ndarray, weight: np.ndarray):
        self.sparse = isinstance(coupling, SparseCoupling)
        self.each = coupling.each
        patterns, self.group = np.unique(seen, axis=0, return_inverse=True)
        if self.each:
            patterns, self.group = seen, np.arange(len(seen))
        self.counts = np.bincount(self.group, weight, minlength=len(patterns))
        self.logdets = np.empty(len(patterns))
        if self.sparse:
            n = seen.shape[1]
            half = [coupling.matrix + scipy.sparse.diags_array(0.5 * v * p).tocsr() for p in patterns]
            self.factors = [factorize(h) for h in half]
            self.logdets[:] = [f.logdet for f in self.factors]
            self.diagonals = np.array([f.inverse_diagonal() for f in self.factors]).reshape(-1, n)
            return
        n = seen.shape[1]
        matrices = np.repeat(coupling.stack, len(patterns), axis=0) if not self.each else coupling.matrix.copy()
        matrices[:, np.arange(n), np.arange(n)] += 0.5 * v * patterns
        self.inverse = np.linalg.inv(matrices)
        self.logdets[:] = np.linalg.slogdet(matrices)[1]
        self.diagonals = np.diagonal(self.inverse, axis1=1, axis2=2)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """T applied to (n_instances, n_classes, n_nodes)."""
        out = np.empty_like(right)
        for g in range(len(self.counts)):
            members = np.flatnonzero(self.group == g)
            part = right[members]
            if self.sparse:
                flat = part.reshape(-1, part.shape[-1])
                out[members] = self.factors[g].solve(flat.T).T.reshape(part.shape)
            else:
                out[members] = part @ self.inverse[g]
        return out

    def total(self) -> Any:
        """Weighted sum of T over instances, in the coupling's shape."""
        if self.sparse:
            return sum(c * f.matrix for c, f in zip(self.counts, self.factors))
        if self.each:
            return self.counts[:, None, None] * self.inverse
        return np.tensordot(self.counts, self.inverse, axes=1)


def _finish(
    potentials: GaussianPotentials,
    hot: np.ndarray,
    seen: np.ndarray,
    psi: np.ndarray,
    mean: np.ndarray,
    places: _Places,
) -> SoftmaxPosterior:
    prior, v, coupling = potentials.mean, potentials.variance, potentials.coupling
    free = prior.shape[1] - 1
    s = softmax(psi, axis=1)
    site = (hot - s + _contrast(psi)) * seen[:, None]
    constant = -logsumexp(psi, axis=1) + (s * psi).sum(axis=1) - 0.5 * (psi * _contrast(psi)).sum(axis=1)
    bound = 0.5 * (site * (mean + prior)).sum(axis=(1, 2)) + (constant * seen).sum(axis=1)
    bound -= 0.5 * (prior * _contrast(mean) * seen[:, None]).sum(axis=(1, 2))
    logdet, base = whole(coupling)
    bound -= 0.5 * free * (places.logdets[places.group] - logdet)
    pull = site - _contrast(mean) * seen[:, None]
    lifted = coupling.solve(pull)
    diagonal = places.diagonals[places.group]
    counts = potentials.counts
    d_variance = 0.5 * counts @ ((pull * lifted).sum(axis=(1, 2)) - 0.5 * free * (diagonal * seen).sum(axis=1))
    outer = coupling.sum_of_outer(counts[:, None, None] * lifted, lifted)
    d_coupling = 0.5 * (free * (coupling.weighed(base, counts) - places.total()) - v * outer)
    gradient = GaussianGradient(counts[:, None, None] * pull, d_coupling, float(d_variance))
    return SoftmaxPosterior(mean, v * diagonal, bound, gradient, psi)


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
