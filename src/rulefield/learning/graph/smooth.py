"""Minimise a smooth graph objective with L2 regularisation; Ctrl-C keeps the best weights so far."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from rulefield.exceptions import InterruptedFitWarning

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Learned:
    """What a learner found.

    Parameters
    ----------
    theta : ndarray of float64, shape (n_parameters,)
    curve : tuple of float
        Objective after each iteration (for the structured SVM its dual).
    converged : bool
    gap : float
        Duality gap; ``nan`` where the learner has none.
    """

    theta: np.ndarray
    curve: tuple[float, ...]
    converged: bool
    gap: float = float("nan")


class _Best:
    """Remembers the lowest objective seen, so that an interrupt or a failed line search loses nothing."""

    def __init__(self, objective: Objective, l2: float, theta: np.ndarray):
        self.objective, self.l2 = objective, l2
        self.theta, self.value = theta.copy(), np.inf

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.objective(theta)
        value += 0.5 * self.l2 * float(theta @ theta)
        if value < self.value:
            self.theta, self.value = theta.copy(), value
        return value, gradient + self.l2 * theta


def minimise(objective: Objective, theta: np.ndarray, l2: float, max_iter: int, tol: float) -> Learned:
    """Minimise objective(theta) + l2/2 |theta|² by L-BFGS; ``tol`` is the relative decrease that ends it."""
    best = _Best(objective, l2, theta)
    curve: list[float] = []
    converged = False
    try:
        result = minimize(
            best,
            theta,
            jac=True,
            method="L-BFGS-B",
            callback=lambda _: curve.append(best.value),
            options={"maxiter": max_iter, "maxcor": 10, "ftol": tol, "gtol": 1e-8},
        )
        converged = bool(result.success)
    except KeyboardInterrupt:
        warnings.warn(
            f"fit was interrupted after {len(curve)} iterations; the best weights so far are kept.",
            InterruptedFitWarning,
            stacklevel=2,
        )
    return Learned(best.theta, tuple(curve), converged)
