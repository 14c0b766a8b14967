"""Posterior of a Gaussian field given binary labels or values, their likelihood or bounds on it, marginal probabilities."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import expit, ndtr
from sklearn.exceptions import ConvergenceWarning

from rulefield.exceptions import InputError
from rulefield.inference.gaussian.factors import Factors, restricted, shifted, whole
from rulefield.problem.gaussian import Coupling, DenseCoupling, FieldPosterior, GaussianGradient, GaussianPotentials

MEMORY = 2**25
"""Entries of the dense matrices that are inverted at once: a quarter of a gigabyte."""
STEPS = 300
"""Steps of one posterior at most."""
MIXTURE = np.array(
    [
        [0.003246343272134, 1.365340806296348],
        [0.051517477033972, 1.059523971016916],
        [0.195077912673858, 0.830791313765644],
        [0.315569823632818, 0.650732166639391],
        [0.274149576158423, 0.508135425366489],
        [0.131076880695470, 0.396313345166341],
        [0.027912418727972, 0.308904252267995],
        [0.001449567805354, 0.238212616409306],
    ]
)
"""Weights and scales of eight normal distribution functions whose sum is the logistic function, with an error below 2.2e-9:
J. F. Monahan and L. A. Stefanski, Normal scale mixture approximations to F*(z), 1992, table for k = 8."""


def expected_sigmoid(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E sigma(z), E sigma'(z) and E log(1 + e^z) for z ~ N(mean, variance)."""
    p, slope, soft = (np.zeros(np.broadcast_shapes(mean.shape, variance.shape)) for _ in range(3))
    for weight, scale in MIXTURE / [MIXTURE[:, 0].sum(), 1.0]:
        width = np.sqrt(scale**-2 + variance)
        x = mean / width
        below, density = ndtr(x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
        p += weight * below
        slope += weight * density / width
        soft += weight * (mean * below + width * density)
    return p, slope, soft


def expected_logistic(mean: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
    r"""Marginal probability :math:`E\,\sigma(z),\ z \sim N(mean, variance)`, to 3e-9 at any variance.

    A Gaussian passed through each normal distribution function of :data:`MIXTURE` stays closed-form, so the error does not
    grow with the variance (Gauss-Hermite's does).
    """
    mean, variance = np.asarray(mean, float), np.asarray(variance, float)
    return np.where(variance > 0, expected_sigmoid(mean, variance)[0], expit(mean))


def map_likelihood(potentials: GaussianPotentials, labels: np.ndarray) -> FieldPosterior:
    """Likelihood of labels at the mean of the field (the paper's GCRFBCnb, equations 20-21).

    ``labels`` (n_instances, n_nodes): 0, 1 or NaN for unknown. O(1) a node.
    """
    seen = ~np.isnan(labels)
    signed = np.where(labels == 1, potentials.mean, -potentials.mean)
    value = np.where(seen, -np.logaddexp(0.0, -signed), 0.0)
    pull = np.where(seen, np.where(labels == 1, 1.0, 0.0) - expit(potentials.mean), 0.0)
    zero = np.zeros_like(potentials.mean)
    gradient = GaussianGradient(potentials.counts[:, None] * pull)
    return FieldPosterior(potentials.mean, zero, value.sum(axis=1), gradient)


def posterior(
    potentials: GaussianPotentials,
    labels: np.ndarray,
    method: str = "vb",
    start: tuple[np.ndarray, np.ndarray] | None = None,
    tolerance: float = 1e-8,
) -> FieldPosterior:
    r"""Gaussian posterior of the latent values given some labels, and a lower bound on the labels' likelihood.

    ``labels`` (n_instances, n_nodes): 0, 1 or NaN for unknown. ``"vb"`` is the Gaussian closest in KL divergence, found by
    natural-gradient steps with backtracking; ``"jj"`` the quadratic bound of Jaakkola and Jordan at its best xi (equations
    14-18 of the paper, corrected), never above ``"vb"``. ``start`` are the ``sites`` of an earlier call.

    Every quantity is written with T = (A + v D)^-1, D the site precisions, so that no digit is lost as v goes to 0:
    m = mu + v T (r - D mu), S = v T, log|I + Sigma D| = log|A + v D| - log|A|, and by the envelope theorem
    dL/dmu = u = r - D m, dL/dA = (n A^-1 - sum T - v A^-1 u u' A^-1) / 2, dL/dv = (u' A^-1 u - sum D T_ii) / 2.
    O(n^3) an instance and step for dense couplings.
    """
    if method not in ("vb", "jj"):
        raise InputError(f'method must be "vb" or "jj"; got {method!r}.')
    seen = ~np.isnan(labels)
    target = np.where(seen, labels, 0.0)
    pull, precision = (np.where(seen, target - 0.5, 0.0), np.where(seen, 0.2, 0.0)) if start is None else start
    s = _Steps(potentials, target, seen, method == "vb", pull.copy(), precision.copy(), tolerance)
    coupling = potentials.coupling
    dense = isinstance(coupling, DenseCoupling)
    size = max(1, MEMORY // labels.shape[1] ** 2) if dense else 1
    prior_logdet = np.atleast_1d(whole(coupling)[0])
    for first in range(0, len(labels), size):
        _fixed_point(s, np.arange(first, min(first + size, len(labels))), prior_logdet)
    if s.failed:
        warnings.warn(
            f"{s.failed} of {len(labels)} posteriors did not settle in {STEPS} steps; their bounds are loose.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _finish(s)


@dataclass
class _Steps:
    """Where natural-gradient steps stand: sites of all instances, what was found, and how far each instance goes."""

    potentials: GaussianPotentials
    target: np.ndarray
    seen: np.ndarray
    optimal: bool
    pull: np.ndarray
    precision: np.ndarray
    tolerance: float
    inverses: Any = 0.0
    """Weighted sum of T over the instances that settled, in the coupling's shape."""
    failed: int = 0

    def __post_init__(self) -> None:
        shape = self.target.shape
        self.mean, self.diagonal = np.zeros(shape), np.ones(shape)
        self.bound, self.step, self.constant = np.full(shape[0], -np.inf), np.ones((shape[0], 1)), np.zeros(shape)
        self.last = self.pull.copy(), self.precision.copy()
        if self.potentials.coupling.each:
            self.inverses = np.zeros_like(self.potentials.coupling.matrix)

    def place(self, rows: np.ndarray) -> tuple[Factors, np.ndarray, np.ndarray]:
        """Factorize A + v D of some instances; means and diagonals of T given their sites."""
        v, prior, precision = self.potentials.variance, self.potentials.mean[rows], self.precision[rows]
        factors = shifted(self.potentials.coupling, v * precision, rows)
        return factors, prior + v * factors.solve_each(self.pull[rows] - precision * prior), factors.diagonal

    def sites(self, rows: np.ndarray, mean: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, ...]:
        """Best sites (pull, precision) at these moments, and each node's share of the bound."""
        spread = self.potentials.variance * diagonal
        best = _optimal_sites if self.optimal else _jaakkola_sites
        return tuple(np.where(self.seen[rows], part, 0.0) for part in best(self.target[rows], mean, spread))

    def add_inverses(self, rows: np.ndarray, factors: Factors, settled: np.ndarray) -> None:
        """Add T of the instances that settled."""
        weight, each = self.potentials.counts[rows] * settled, self.potentials.coupling.each
        if each:
            self.inverses[rows] += factors.total(weight, each)
        else:
            self.inverses = self.inverses + factors.total(weight, each)


def _fixed_point(s: _Steps, rows: np.ndarray, prior_logdet: np.ndarray) -> None:
    """Take natural-gradient steps for some instances until each settles; one that overshoots goes half of its way back."""
    if not s.optimal:  # the constants of the quadratic bound belong to a xi: start from one
        _, mean, diagonal = s.place(rows)
        _, s.precision[rows], s.constant[rows] = s.sites(rows, mean, diagonal)
    for turn in range(STEPS):
        factors, mean, diagonal = s.place(rows)
        pull, precision, prior = s.pull[rows], s.precision[rows], s.potentials.mean[rows]
        new_pull, new_precision, constant = s.sites(rows, mean, diagonal)
        if s.optimal:
            spread = s.potentials.variance * diagonal
            gain = constant + 0.5 * precision * spread - 0.5 * (mean - prior) * (pull - precision * mean)
        else:
            gain = s.constant[rows] + 0.5 * pull * (mean + prior) - 0.5 * prior * precision * mean
            s.constant[rows] = constant
        value = gain.sum(axis=1) - 0.5 * (factors.logdet - prior_logdet[rows if len(prior_logdet) > 1 else 0])
        best = s.bound[rows]
        least = best - 1e-10 * (1 + np.abs(best))
        worse = s.optimal & (value < least) & (s.step[rows, 0] > 1e-3)
        moved = np.maximum(np.abs(new_pull - pull), np.abs(new_precision - precision))
        settled = ~worse & (np.where(s.seen[rows], moved, 0.0).max(axis=1) < s.tolerance)
        s.mean[rows], s.diagonal[rows], s.bound[rows] = mean, diagonal, np.where(worse, best, value)
        s.step[rows[worse]] *= 0.5
        ended = settled | (turn == STEPS - 1)
        if ended.any():
            s.add_inverses(rows, factors, ended)
        back, step = worse[:, None], s.step[rows]
        for now, last, new in ((s.pull, s.last[0], new_pull), (s.precision, s.last[1], new_precision)):
            here, before = now[rows], last[rows]
            following = np.where(back, 0.5 * (here + before), here + step * (new - here))
            last[rows] = np.where(back, before, here)
            now[rows] = np.where(settled[:, None], here, following)
        rows = rows[~settled]
        if not len(rows):
            break
    s.failed += len(rows)


def _optimal_sites(target: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, ...]:
    """KL-optimal sites, and the expected log-likelihood."""
    p, d, soft = expected_sigmoid(mean, spread)
    return d * mean + target - p, d, target * mean - soft


def _jaakkola_sites(target: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, ...]:
    """Jaakkola and Jordan's sites at their best xi, and their constants."""
    square = spread + mean**2
    xi = np.sqrt(square)
    precision = 2 * _lambda(xi)
    return target - 0.5, precision, -np.logaddexp(0.0, -xi) - xi / 2 + precision * square / 2


def _lambda(xi: np.ndarray) -> np.ndarray:
    """tanh(xi / 2) / (4 xi), 1/8 at zero."""
    small = xi < 1e-4
    return np.where(small, 0.125 - xi**2 / 96, np.tanh(xi / 2) / (4 * np.where(small, 1.0, xi)))


def _finish(s: _Steps) -> FieldPosterior:
    """Gradient by the envelope theorem, and the posterior in the caller's terms."""
    coupling, v, counts = s.potentials.coupling, s.potentials.variance, s.potentials.counts
    pull = s.pull - s.precision * s.mean
    lifted = coupling.solve(pull)
    d_variance = 0.5 * counts @ ((pull * lifted).sum(axis=1) - (s.precision * s.diagonal).sum(axis=1))
    weighted = counts[:, None] * lifted
    prior = coupling.weighed(whole(coupling)[1], counts)
    d_coupling = 0.5 * (prior - s.inverses - v * coupling.sum_of_outer(weighted, lifted))
    gradient = GaussianGradient(counts[:, None] * pull, d_coupling, float(d_variance))
    return FieldPosterior(s.mean, v * s.diagonal, s.bound, gradient, (s.pull, s.precision))


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
