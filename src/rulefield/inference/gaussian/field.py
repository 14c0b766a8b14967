"""Posterior of a Gaussian field given binary labels, bounds on their likelihood, and marginal probabilities."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from rulefield.exceptions import InputError
from rulefield.inference.gaussian.probing import SparsePlace, factorize, whole
from rulefield.kernels.gaussian.posterior import expected_sigmoid, field_posteriors
from rulefield.problem.gaussian import DenseCoupling, GaussianGradient, GaussianPotentials, SparseCoupling

SMALL = 48  # nodes up to which the fused kernel beats batched LAPACK
MEMORY = 2**25  # doubles in one batch of dense matrices
STEPS = 300


@dataclass(frozen=True)
class GaussianPosterior:
    """What labels say of a field, and of the potentials that it came from.

    Parameters
    ----------
    mean, variance : ndarray, shape (n_instances, n_nodes)
        Of the latent values given the labels that were seen.
    bound : ndarray, shape (n_instances,)
        Lower bound on log p(seen labels); exact at variance 0.
    sites : tuple of two ndarray
        Natural parameters of the labels' Gaussian stand-ins: a warm start for the next call.
    gradient : GaussianGradient
        Of the sum of ``bound``.
    """

    mean: np.ndarray
    variance: np.ndarray
    bound: np.ndarray
    sites: tuple[np.ndarray, np.ndarray] | None
    gradient: GaussianGradient


def expected_logistic(mean: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
    r"""Marginal probability :math:`E\,\sigma(z),\ z \sim N(mean, variance)`, to 3e-9 at any variance.

    Notes
    -----
    Mixture of eight normal distribution functions (Monahan and Stefanski, 1992): a Gaussian passed through
    each stays closed-form, so the error does not grow with the variance (Gauss-Hermite's does).
    """
    mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
    out = np.empty((mean.size, 3))
    expected_sigmoid(np.ascontiguousarray(mean).ravel(), np.ascontiguousarray(variance).ravel(), out)
    return np.where(variance > 0, out[:, 0].reshape(mean.shape), expit(mean))


def map_likelihood(potentials: GaussianPotentials, labels: np.ndarray) -> GaussianPosterior:
    """Likelihood of labels at the mean of the field (the paper's GCRFBCnb, equations 20-21).

    ``labels`` (n_instances, n_nodes): 0, 1 or NaN for unknown. O(1) a node.
    """
    seen = ~np.isnan(labels)
    signed = np.where(labels == 1, potentials.mean, -potentials.mean)
    value = np.where(seen, -np.logaddexp(0.0, -signed), 0.0)
    pull = np.where(seen, np.where(labels == 1, 1.0, 0.0) - expit(potentials.mean), 0.0)
    zero = np.zeros_like(potentials.mean)
    gradient = GaussianGradient(potentials.counts[:, None] * pull)
    return GaussianPosterior(potentials.mean, zero, value.sum(axis=1), None, gradient)


def posterior(
    potentials: GaussianPotentials,
    labels: np.ndarray,
    method: str = "vb",
    start: tuple[np.ndarray, np.ndarray] | None = None,
    tolerance: float = 1e-8,
) -> GaussianPosterior:
    r"""Gaussian posterior of the latent values given some labels, and a lower bound on the labels' likelihood.

    Parameters
    ----------
    potentials : GaussianPotentials
    labels : ndarray, shape (n_instances, n_nodes)
        0, 1 or NaN for unknown.
    method : {"vb", "jj"}
        ``"vb"``: the Gaussian closest in KL divergence, found by natural-gradient steps with backtracking.
        ``"jj"``: the quadratic bound of Jaakkola and Jordan at its best xi (equations 14-18 of the paper,
        corrected); never above ``"vb"``.
    start : tuple of two ndarray, optional
        ``sites`` of an earlier call.

    Notes
    -----
    Every quantity is written with T = (A + v D)^-1, D the site precisions, so that no digit is lost as v goes to 0:
    m = mu + v T (r - D mu), S = v T, log|I + Sigma D| = log|A + v D| - log|A|, and by the envelope theorem
    dL/dmu = u = r - D m, dL/dA = (n A^-1 - sum T - v A^-1 u u' A^-1) / 2, dL/dv = (u' A^-1 u - sum D T_ii) / 2.
    O(n^3) an instance and step for dense couplings.
    """
    if method not in ("vb", "jj"):
        raise InputError(f'method must be "vb" or "jj"; got {method!r}.')
    seen = ~np.isnan(labels)
    target = np.where(seen, labels, 0.0)
    pull, precision = _first_sites(target, seen) if start is None else (start[0].copy(), start[1].copy())
    task = _Task(potentials, target, seen, method == "vb", pull, precision, tolerance)
    coupling = potentials.coupling
    if isinstance(coupling, SparseCoupling):
        found = _solve_sparse(task, coupling)
    elif labels.shape[1] <= SMALL:
        found = _solve_small(task, coupling)
    else:
        found = _solve_batched(task, coupling)
    if found.failed:
        warnings.warn(
            f"{found.failed} of {len(labels)} posteriors did not settle in {STEPS} steps; their bounds are loose.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _finish(task, found)


@dataclass
class _Task:
    potentials: GaussianPotentials
    target: np.ndarray
    seen: np.ndarray
    optimal: bool
    pull: np.ndarray
    precision: np.ndarray
    tolerance: float


@dataclass
class _Found:
    """Posterior means, diagonals of T, bounds, weighted sum of T in the coupling's shape, how many did not converge."""

    mean: np.ndarray
    diagonal: np.ndarray
    bound: np.ndarray
    inverses: Any
    failed: int


def _first_sites(target: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.where(seen, target - 0.5, 0.0), np.where(seen, 0.2, 0.0)


def _solve_small(task: _Task, coupling: DenseCoupling) -> _Found:
    shape = task.target.shape
    stack = np.ascontiguousarray(coupling.stack)
    found = _Found(np.zeros(shape), np.ones(shape), np.zeros(shape[0]), np.zeros_like(stack), 0)
    found.failed = field_posteriors(
        stack,
        np.ascontiguousarray(coupling.logdet),
        float(task.potentials.variance),
        np.ascontiguousarray(task.potentials.mean),
        np.ascontiguousarray(task.target),
        task.seen.view(np.uint8),
        np.ascontiguousarray(task.potentials.counts, dtype=float),
        int(task.optimal),
        task.pull,
        task.precision,
        found.mean,
        found.diagonal,
        found.bound,
        found.inverses,
        task.tolerance,
        STEPS,
    )
    return found


class _DensePlace:
    """Factorizes A + v D for a batch of instances by LAPACK."""

    noise = 0.0

    def __init__(self, stack: np.ndarray, variance: float):
        self.stack, self.variance = stack, variance

    def __call__(self, precision: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T right, diagonal of T and log|A + v D|, for precision and right of shape (n_instances, n)."""
        n = precision.shape[1]
        matrix = np.repeat(self.stack, len(precision), axis=0) if len(self.stack) == 1 else self.stack.copy()
        matrix[:, np.arange(n), np.arange(n)] += self.variance * precision
        self.inverse = np.linalg.inv(matrix)
        logdet = np.linalg.slogdet(matrix)[1]
        solved = (self.inverse @ right[..., None])[..., 0]
        return solved, np.diagonal(self.inverse, axis1=1, axis2=2), logdet


def _solve_batched(task: _Task, coupling: DenseCoupling) -> _Found:
    shape = task.target.shape
    stack, logdet = coupling.stack, coupling.logdet
    found = _Found(np.zeros(shape), np.ones(shape), np.zeros(shape[0]), np.zeros_like(stack), 0)
    size = max(1, MEMORY // shape[1] ** 2)
    for first in range(0, shape[0], size):
        rows = slice(first, min(first + size, shape[0]))
        place = _DensePlace(stack if len(stack) == 1 else stack[rows], task.potentials.variance)
        found.failed += _fixed_point(task, rows, place, logdet if len(logdet) == 1 else logdet[rows], found)
        weighted = task.potentials.counts[rows, None, None] * place.inverse
        if len(stack) == 1:
            found.inverses += weighted.sum(axis=0)
        else:
            found.inverses[rows] = weighted
    return found


def _solve_sparse(task: _Task, coupling: SparseCoupling) -> _Found:
    shape = task.target.shape
    found = _Found(np.zeros(shape), np.ones(shape), np.zeros(shape[0]), None, 0)
    logdet = np.array([factorize(coupling.matrix).logdet])
    for j in range(shape[0]):
        place = SparsePlace(coupling.matrix, task.potentials.variance)
        found.failed += _fixed_point(task, slice(j, j + 1), place, logdet, found)
        weighted = task.potentials.counts[j] * place.inverse
        found.inverses = weighted if found.inverses is None else found.inverses + weighted
    return found


def _fixed_point(
    task: _Task, rows: slice, place: _DensePlace | SparsePlace, logdet: np.ndarray, found: _Found
) -> int:
    """Take natural-gradient steps for a batch of instances; each halves its own step where it overshoots."""
    prior, seen, target = task.potentials.mean[rows], task.seen[rows], task.target[rows]
    v = task.potentials.variance
    pull, precision = task.pull[rows], task.precision[rows]
    n = len(prior)
    step, best = np.ones((n, 1)), np.full(n, -np.inf)
    old = (pull.copy(), precision.copy())
    constant = None
    if not task.optimal:  # the constants of the quadratic bound belong to a xi: start from one
        solved, diagonal, _ = place(precision, pull - precision * prior)
        _, precision[:], constant = _sites(False, target, prior + v * solved, v * diagonal, seen)
    for _ in range(STEPS):
        solved, diagonal, volume = place(precision, pull - precision * prior)
        mean, spread = prior + v * solved, v * diagonal
        new = _sites(task.optimal, target, mean, spread, seen)
        if task.optimal:
            gain = (new[2] + 0.5 * precision * spread - 0.5 * (mean - prior) * (pull - precision * mean)).sum(axis=1)
        else:
            gain = (constant + 0.5 * pull * (mean + prior) - 0.5 * prior * precision * mean).sum(axis=1)
            constant = new[2]
        value = gain - 0.5 * (volume - logdet)
        least = best - 1e-10 * (1 + np.abs(best)) - place.noise
        worse = task.optimal & (value < least) & (step[:, 0] > 1e-3)
        step[worse] *= 0.5
        change = np.where(seen, np.maximum(np.abs(new[0] - pull), np.abs(new[1] - precision)), 0.0).max(axis=1)
        best = np.where(worse, best, value)
        if not worse.any() and np.all(change < task.tolerance):
            break
        back = worse[:, None]
        for now, then, fresh in ((pull, old[0], new[0]), (precision, old[1], new[1])):
            following = np.where(back, 0.5 * (now + then), now + step * (fresh - now))
            then[:] = np.where(back, then, now)
            now[:] = following
    found.mean[rows], found.diagonal[rows], found.bound[rows] = mean, diagonal, best
    return int((change >= task.tolerance).sum())


def _sites(
    optimal: bool, target: np.ndarray, mean: np.ndarray, spread: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best sites (pull, precision) at these moments, and each node's share of the bound."""
    if not optimal:
        square = spread + mean**2
        xi = np.sqrt(square)
        precision = np.where(seen, 2 * _lambda(xi), 0.0)
        constant = np.where(seen, -np.logaddexp(0.0, -xi) - xi / 2 + precision * square / 2, 0.0)
        return np.where(seen, target - 0.5, 0.0), precision, constant
    out = np.empty((mean.size, 3))
    expected_sigmoid(np.ascontiguousarray(mean).ravel(), np.ascontiguousarray(spread).ravel(), out)
    p, d, soft = np.moveaxis(out.reshape(*mean.shape, 3), -1, 0)
    zero = np.zeros_like(mean)
    return (
        np.where(seen, d * mean + target - p, zero),
        np.where(seen, d, zero),
        np.where(seen, target * mean - soft, zero),
    )


def _lambda(xi: np.ndarray) -> np.ndarray:
    """tanh(xi / 2) / (4 xi), 1/8 at zero."""
    small = xi < 1e-4
    return np.where(small, 0.125 - xi**2 / 96, np.tanh(xi / 2) / (4 * np.where(small, 1.0, xi)))


def _finish(task: _Task, found: _Found) -> GaussianPosterior:
    """Gradient by the envelope theorem, and the posterior in the caller's terms."""
    coupling, v = task.potentials.coupling, task.potentials.variance
    pull = task.pull - task.precision * found.mean
    lifted = coupling.solve(pull)
    counts = task.potentials.counts
    d_variance = 0.5 * counts @ ((pull * lifted).sum(axis=1) - (task.precision * found.diagonal).sum(axis=1))
    weighted = counts[:, None] * lifted
    inverses = found.inverses if coupling.each or isinstance(coupling, SparseCoupling) else found.inverses[0]
    prior = coupling.weighed(whole(coupling)[1], counts)
    d_coupling = 0.5 * (prior - inverses - v * coupling.sum_of_outer(weighted, lifted))
    gradient = GaussianGradient(counts[:, None] * pull, d_coupling, float(d_variance))
    return GaussianPosterior(found.mean, v * found.diagonal, found.bound, (task.pull, task.precision), gradient)
