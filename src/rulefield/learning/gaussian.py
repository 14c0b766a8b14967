"""Learning the weights of a Gaussian CRF: L-BFGS-B on a likelihood, or on a bound of it, with exact gradients."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rulefield.inference.gaussian.field import gaussian_likelihood, map_likelihood, posterior
from rulefield.inference.gaussian.softmax import softmax_likelihood, softmax_posterior
from rulefield.interrupts import check, deferred
from rulefield.learning.fit_log import Ending, FitResult, StoppingRule, joined
from rulefield.models.gaussian import FieldBatch, GaussianModel
from rulefield.problem.gaussian import FieldPosterior, GaussianPotentials

GTOL = 1e-6
"""Of the projected gradient, in nats per known label."""
TOLL = 1.0
"""Nats for each unit of log(1 + rho) and log(1 + v)."""
VARIANCE_NATS = 1.0
"""Nats that a variance must gain to be kept at all (Akaike's price of a parameter)."""


Engine = Callable[[GaussianPotentials, np.ndarray, Any, float], FieldPosterior]

ENGINES: dict[tuple[str, str], Engine] = {
    ("binary", "map"): lambda p, y, start, tol: map_likelihood(p, y),
    ("binary", "jj"): lambda p, y, start, tol: posterior(p, y, "jj", start, tol),
    ("binary", "vb"): lambda p, y, start, tol: posterior(p, y, "vb", start, tol),
    ("classes", "map"): lambda p, y, start, tol: softmax_likelihood(p, y),
    ("classes", "jj"): lambda p, y, start, tol: softmax_posterior(p, y, start, tol),
    ("classes", "vb"): lambda p, y, start, tol: softmax_posterior(p, y, start, tol),
    ("values", "exact"): lambda p, y, start, tol: gaussian_likelihood(p, y),
}


class FieldObjective:
    """Minus the log-likelihood (or its bound) of labels, penalized, as a function of theta.

    ``labels`` (n_instances, n_nodes) are NaN where unknown; ``kind`` and ``method`` name one of :data:`ENGINES`; ``l2`` is
    the ridge on what is each node's own, ``toll`` the nats for each unit of log(1 + rho) and log(1 + v). By ``tolerance``,
    that of the posteriors' sites, the gradient errs; the value errs by its square.
    """

    def __init__(
        self,
        model: GaussianModel,
        batch: FieldBatch,
        labels: np.ndarray,
        kind: str,
        method: str,
        l2: float = 1.0,
        toll: float = 0.0,
        tolerance: float = 1e-8,
    ):
        self.model, self.batch, self.labels = model, batch, labels
        self.kind, self.l2, self.price, self.tolerance = kind, l2, toll, tolerance
        self.engine = ENGINES[kind, method]
        self.penalty, self.toll = model.penalty(l2), model.toll(toll)
        self.sites: Any = None

    @property
    def n_known(self) -> float:
        """Number of known labels, each by the weight of its instance."""
        seen = (~np.isnan(self.labels)).sum(axis=1)
        return float(seen.sum() if self.batch.weight is None else self.batch.weight @ seen)

    def without_variance(self) -> "FieldObjective":
        """Return the likelihood of the same labels at the mean of the field."""
        model = replace(self.model, bayesian=False)
        return FieldObjective(model, self.batch, self.labels, self.kind, "map", self.l2, self.price)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; posteriors start from those of the last call, which changes them within ``tolerance``."""
        check()
        potentials = self.model.potentials(theta, self.batch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of trial steps; final() reports the last
            answer = self.engine(potentials, self.labels, self.sites, self.tolerance)
        self.sites = answer.sites
        value = (
            0.5 * float(self.penalty @ theta**2) + float(self.toll @ theta) - float(potentials.counts @ answer.bound)
        )
        gradient = self.penalty * theta + self.toll
        return value, gradient - self.model.pullback(theta, self.batch, potentials, answer.gradient)

    def final(self, theta: np.ndarray) -> None:
        """Solve the posteriors at the learned theta from scratch, so that warnings are about the answer."""
        if self.model.bayesian and not self.model.log_variance:
            self.engine(self.model.potentials(theta, self.batch), self.labels, None, self.tolerance)


def fit_field(objective: FieldObjective, starts: Sequence[np.ndarray], max_iter: int, tol: float) -> FitResult:
    """Minimize from each start; keep the best. Exact zeros of rho and v come from L-BFGS-B's bounds."""
    known, bounds = max(1.0, objective.n_known), objective.model.bounds()
    best: FitResult | None = None
    for start in starts:
        found = minimize_bounded(objective, start, bounds, max_iter, tol, known)
        best = found if best is None else _lower(best, found)
        if best.interrupted:
            break
    assert best is not None
    objective.final(best.theta)
    return best


def fit_sparing_variance(
    objective: FieldObjective, starts: Sequence[np.ndarray], max_iter: int, tol: float
) -> FitResult:
    """Like :func:`fit_field`; a variance that gains less than :data:`VARIANCE_NATS` is set to zero.

    A variance that the data do not ask for is an estimate of noise: it costs likelihood on new data.
    """
    model = objective.model
    found = fit_field(objective, starts, max_iter, tol)
    spared = not model.bayesian or model.log_variance or model.simplex
    if spared or found.interrupted or model.variance(found.theta) == 0:
        return found
    plain = objective.without_variance()
    other = fit_field(plain, [found.theta[:-1]], max_iter, tol)  # the variance stands last
    if found.objective < other.objective - VARIANCE_NATS:
        return found
    return joined(found, replace(other, theta=np.append(other.theta, 0.0)))


def _lower(best: FitResult, found: FitResult) -> FitResult:
    """Return the lower of two fits; interrupted if the newer one was."""
    if found.objective < best.objective:
        return found
    return replace(best, ending=found.ending, message=found.message) if found.interrupted else best


def minimize_bounded(
    objective: FieldObjective,
    theta: np.ndarray,
    bounds: Sequence[tuple[float | None, float | None]],
    max_iter: int,
    tol: float,
    scale: float,
) -> FitResult:
    """Minimize within bounds, from ``theta``; variables that a bound holds end exactly at it.

    The solver sees the objective divided by ``scale``, the number of observations, and also stops where no entry of its
    projected gradient is larger than :data:`GTOL`.
    """
    from scipy.optimize import minimize

    search = _BoundedSearch(objective, StoppingRule(max_iter, tol), scale)
    options = {"maxiter": 10 * max_iter, "maxcor": 20, "ftol": 0.0, "gtol": GTOL}
    try:
        with deferred():
            done = minimize(
                search.evaluate,
                np.array(theta, dtype=np.float64),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=search.note,
                options=options,
            )
    except KeyboardInterrupt as cause:
        if search.best is None:
            raise
        return search.rule.interrupted(*search.best, cause)
    assert search.best is not None
    end = search.end or (Ending.converged, str(done.message))
    return search.rule.result(*search.best, end)


class _BoundedSearch:
    """The lowest point that was evaluated, and the rule that may end the search after an iteration."""

    def __init__(self, objective: FieldObjective, rule: StoppingRule, scale: float):
        self.objective, self.rule, self.scale = objective, rule, scale
        self.best: tuple[np.ndarray, float] | None = None
        self.end: tuple[Ending, str] | None = None

    def evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        check()
        self.rule.evaluations += 1
        value, gradient = self.objective.value_and_gradient(theta)
        if self.best is None or value < self.best[1]:
            self.best = theta.copy(), value
        return value / self.scale, gradient / self.scale

    def note(self, intermediate_result: Any) -> None:
        """Raise StopIteration, which scipy understands, if the rule says that it is enough."""
        assert self.best is not None
        self.end = self.rule.after(*self.best)
        if self.end is not None:
            raise StopIteration
