"""Learning the weights of a Gaussian CRF: L-BFGS-B on a likelihood, or on a bound of it, with exact gradients."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from rulefield.exceptions import InterruptedFitWarning
from rulefield.inference.gaussian.field import map_likelihood, posterior
from rulefield.inference.gaussian.regression import gaussian_likelihood
from rulefield.inference.gaussian.softmax import softmax_likelihood, softmax_posterior
from rulefield.models.gaussian import FieldBatch, GaussianModel
from rulefield.problem.gaussian import GaussianGradient, GaussianPotentials


class _Answer(Protocol):
    @property
    def bound(self) -> np.ndarray: ...
    @property
    def gradient(self) -> GaussianGradient: ...
    @property
    def sites(self) -> Any: ...


Engine = Callable[[GaussianPotentials, np.ndarray, Any, float], _Answer]

ENGINES: dict[tuple[str, str], Engine] = {
    ("binary", "map"): lambda p, y, start, tol: map_likelihood(p, y),
    ("binary", "jj"): lambda p, y, start, tol: posterior(p, y, "jj", start, tol),
    ("binary", "vb"): lambda p, y, start, tol: posterior(p, y, "vb", start, tol),
    ("classes", "map"): lambda p, y, start, tol: softmax_likelihood(p, y),
    ("classes", "jj"): lambda p, y, start, tol: softmax_posterior(p, y, start, tol),
    ("classes", "vb"): lambda p, y, start, tol: softmax_posterior(p, y, start, tol),
    ("values", "exact"): lambda p, y, start, tol: gaussian_likelihood(p, y),
}


@dataclass(frozen=True)
class FieldFit:
    """Learned theta, the objective that it reached (with its penalty), evaluations, and the objective's course."""

    theta: np.ndarray
    objective: float
    n_evaluations: int
    converged: bool
    curve: list[float] = field(default_factory=list)


class FieldObjective:
    """Penalised log-likelihood (or bound) of labels as a function of theta, with its gradient.

    Parameters
    ----------
    model : GaussianModel
    batches : sequence of FieldBatch
    labels : sequence of ndarray
        One array a batch, (n_instances, n_nodes); NaN is unknown.
    kind : {"binary", "classes", "values"}
    method : {"map", "jj", "vb", "exact"}
    l2 : float
        Ridge on what is each node's own.
    toll : float
        Nats for each unit of log(1 + rho) and log(1 + v).
    tolerance : float
        Of the posteriors' sites: the value errs by its square, the gradient by its size.
    """

    def __init__(
        self,
        model: GaussianModel,
        batches: Sequence[FieldBatch],
        labels: Sequence[np.ndarray],
        kind: str,
        method: str,
        l2: float = 1.0,
        toll: float = 0.0,
        tolerance: float = 1e-8,
    ):
        self.model, self.batches, self.labels = model, batches, labels
        self.engine = ENGINES[kind, method]
        self.penalty, self.toll = model.penalty(l2), model.toll(toll)
        self.tolerance = tolerance
        self.sites: list[Any] = [None] * len(batches)

    @property
    def n_known(self) -> float:
        """Number of known labels, each by the weight of its instance."""
        seen = [(~np.isnan(y)).sum(axis=1) for y in self.labels]
        return float(sum((n if b.weight is None else b.weight * n).sum() for n, b in zip(seen, self.batches)))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient, to be maximised; posteriors start from those of the last call."""
        value = -0.5 * float(self.penalty @ theta**2) - float(self.toll @ theta)
        gradient = -self.penalty * theta - self.toll
        for i, (batch, labels) in enumerate(zip(self.batches, self.labels)):
            potentials = self.model.potentials(theta, batch)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of trial steps; final() speaks of the last
                answer = self.engine(potentials, labels, self.sites[i], self.tolerance)
            self.sites[i] = answer.sites
            value += float(potentials.counts @ answer.bound)
            gradient += self.model.pullback(theta, batch, potentials, answer.gradient)
        return value, gradient

    def final(self, theta: np.ndarray) -> None:
        """Solve the posteriors at the learned theta from scratch, so that warnings are about the answer."""
        for batch, labels in zip(self.batches, self.labels):
            if self.model.bayesian and not self.model.log_variance:
                self.engine(self.model.potentials(theta, batch), labels, None, self.tolerance)


def fit_field(
    objective: FieldObjective,
    starts: Sequence[np.ndarray],
    max_iter: int = 200,
    tol: float = 1e-7,
) -> FieldFit:
    """Maximise from each start; keep the best. Exact zeros of rho and v come from L-BFGS-B's bounds.

    The objective is divided by the number of known labels, so that ``tol`` (on the projected gradient and the
    relative gain) means the same for any amount of data. Ctrl-C keeps the best theta seen and warns.
    """
    known = max(1.0, objective.n_known)
    best: FieldFit | None = None
    for start in starts:
        found = _climb(objective, start, known, max_iter, tol)
        if best is None or found.objective > best.objective:
            best = found
    assert best is not None
    objective.final(best.theta)
    if not best.converged:
        warnings.warn(
            f"The field did not converge in {max_iter} iterations; raise max_iter.", ConvergenceWarning, stacklevel=2
        )
    return best


def _climb(objective: FieldObjective, start: np.ndarray, known: float, max_iter: int, tol: float) -> FieldFit:
    curve: list[float] = []
    best: list[Any] = [-np.inf, start]

    def descend(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(theta)
        curve.append(value)
        if value > best[0]:
            best[:] = [value, theta.copy()]
        return -value / known, -gradient / known

    converged = False
    options = {"maxiter": max_iter, "maxcor": 20, "ftol": tol * 1e-3, "gtol": tol * 10}
    try:
        done = minimize(descend, start, jac=True, method="L-BFGS-B", bounds=objective.model.bounds(), options=options)
        converged = bool(done.status != 1)
    except KeyboardInterrupt:
        warnings.warn(
            "The fit was interrupted; the best weights so far were kept.", InterruptedFitWarning, stacklevel=3
        )
        converged = True
    return FieldFit(best[1], best[0], len(curve), converged, curve)
