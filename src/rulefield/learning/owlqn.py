"""OWL-QN: L-BFGS for a smooth objective plus an L1 penalty."""

import numpy as np

from rulefield.interrupts import check
from rulefield.kernels.quasi_newton import dot
from rulefield.learning.fit_log import Callback, FitResult, Objective, StoppingRule, norm
from rulefield.learning.lbfgs import MOST_TRIALS, SUFFICIENT, History, Point, descend, minimize_lbfgs
from rulefield.parallel import Threads


def minimize_owlqn(
    objective: Objective,
    theta: np.ndarray,
    l1: float,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
    *,
    gtol: float = 1e-6,
    memory: int = 10,
    n_jobs: int | None = 1,
) -> FitResult:
    r"""Minimize :math:`f(\theta) + l_1 |\theta|_1` for smooth f, from ``theta``; without an L1 penalty, by L-BFGS.

    With an L2 penalty inside f this is the elastic net. Weights that the penalty holds at zero are exactly zero.
    Other parameters as :func:`rulefield.learning.lbfgs.minimize_lbfgs`; records hold the norm of the
    pseudo-gradient, which is 0 exactly at the minimum.

    References
    ----------
    [Andrew07]: pseudo-gradient (4), choice of orthant and projection, section 3.2
    """
    if l1 == 0.0:
        return minimize_lbfgs(objective, theta, max_iter, tol, callback, gtol=gtol, memory=memory, n_jobs=n_jobs)
    rule = StoppingRule(max_iter, tol, gtol, callback)
    theta = np.array(theta, dtype=np.float64)
    with Threads(n_jobs) as threads:
        history = History(memory, len(theta), threads)
        return descend(
            lambda: _evaluate(objective, theta, l1, rule),
            lambda here: _step(objective, here, l1, history, rule),
            lambda here: norm(pseudo_gradient(here.theta, here.gradient, l1)),
            rule,
        )


def pseudo_gradient(theta: np.ndarray, gradient: np.ndarray, l1: float) -> np.ndarray:
    """Return the subgradient of least norm of f + l1 |theta|_1, ``gradient`` being that of f."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(theta == 0.0, at_zero, gradient + l1 * np.sign(theta))


def _evaluate(objective: Objective, theta: np.ndarray, l1: float, rule: StoppingRule) -> Point:
    check()
    rule.evaluations += 1
    value, gradient = objective.value_and_gradient(theta)
    return Point(theta, value + l1 * float(np.abs(theta).sum()), gradient)


def _step(objective: Objective, here: Point, l1: float, history: History, rule: StoppingRule) -> Point | None:
    slope = pseudo_gradient(here.theta, here.gradient, l1)
    if not slope.any():
        return None
    there = _search(objective, here, l1, slope, history, rule)
    if there is None and len(history):
        history.forget()
        there = _search(objective, here, l1, slope, history, rule)
    if there is not None:
        history.add(here, there)
    return there


def _search(
    objective: Objective, here: Point, l1: float, slope: np.ndarray, history: History, rule: StoppingRule
) -> Point | None:
    """Backtrack along the direction, held in the orthant; None if no length lowers the objective enough."""
    direction = history.direction(slope)
    direction[direction * slope >= 0.0] = 0.0
    length = 1.0 if len(history) else 1.0 / max(1.0, norm(direction))
    orthant = np.where(here.theta == 0.0, -np.sign(slope), np.sign(here.theta))
    for _ in range(MOST_TRIALS):
        theta = here.theta + length * direction
        theta[theta * orthant <= 0.0] = 0.0
        there = _evaluate(objective, theta, l1, rule)
        if there.value <= here.value + SUFFICIENT * dot(slope, theta - here.theta) and there.value < here.value:
            return there
        length *= 0.5
    return None
