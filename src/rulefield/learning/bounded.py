"""L-BFGS with bounds on the variables: scipy's, under the stopping rule and the log of all other fits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.interrupts import check, deferred
from rulefield.learning.fit_log import Callback, Ending, FitResult, Objective, StoppingRule

Bounds = Sequence[tuple[float | None, float | None]]


def minimize_bounded(
    objective: Objective,
    theta: np.ndarray,
    bounds: Bounds,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    *,
    gtol: float = 1e-9,
    scale: float = 1.0,
) -> FitResult:
    """Minimize a smooth function within bounds, from ``theta``; variables that a bound holds end exactly at it.

    Parameters
    ----------
    objective, theta, max_iter, tol, callback
        As for :func:`rulefield.learning.lbfgs.minimize_lbfgs`.
    bounds : list of (low, high)
        None for no bound.
    gtol : float
        Stop where no entry of the projected gradient, divided by ``scale``, is larger.
    scale : float
        The solver sees the objective divided by this (say, by the number of observations).
    """
    from scipy.optimize import minimize

    search = _BoundedSearch(objective, StoppingRule(max_iter, tol, callback=callback), scale)
    options = {"maxiter": 10 * max_iter, "maxcor": 20, "ftol": 0.0, "gtol": gtol}
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

    def __init__(self, objective: Objective, rule: StoppingRule, scale: float):
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
