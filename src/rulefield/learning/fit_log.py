"""What a minimiser reports: a record of every iteration, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import Protocol

import numpy as np

from rulefield.kernels.quasi_newton import dot


def norm(vector: np.ndarray) -> float:
    """Euclidean norm."""
    return float(np.sqrt(dot(vector, vector)))


class Objective(Protocol):
    """A function to minimise."""

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient (a new array) at ``theta``."""


class Ending(StrEnum):
    """Why a minimiser stopped."""

    converged = "converged"
    limit = "limit"
    stopped = "stopped"
    interrupted = "interrupted"
    stuck = "stuck"


@dataclass(frozen=True)
class Record:
    """One iteration: objective (penalties included), norm of its (pseudo-)gradient, evaluations and seconds so far."""

    iteration: int
    objective: float
    gradient_norm: float
    evaluations: int
    seconds: float


Callback = Callable[[Record, np.ndarray], bool | None]


@dataclass(frozen=True)
class FitResult:
    """The best theta found, and how the search ended.

    Parameters
    ----------
    theta : ndarray of float64
    objective : float
        At ``theta``.
    ending : Ending
        ``converged``: a stopping rule was met; ``limit``: iterations ran out; ``stopped``: the callback said so;
        ``interrupted``: Ctrl-C; ``stuck``: no step lowers the objective any more (rounding).
    message : str
        One sentence.
    log : tuple of Record
    """

    theta: np.ndarray
    objective: float
    ending: Ending
    message: str
    log: tuple[Record, ...] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether a stopping rule was met."""
        return self.ending in (Ending.converged, Ending.stuck)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.ending is Ending.interrupted

    @property
    def iterations(self) -> int:
        """Number of iterations done."""
        return len(self.log)


@dataclass
class StoppingRule:
    """Watches a search: keeps its log, calls the callback, says when and why to stop.

    Parameters
    ----------
    max_iter : int
    tol : float
        Stop where the objective has fallen by less than this share over the last ``period`` iterations.
    gtol : float
        Stop where the norm of the gradient is at most this share of max(1, norm of theta).
    callback : callable, optional
        Called as ``callback(record, theta)`` after every iteration; a true answer stops the search.
    """

    max_iter: int
    tol: float
    gtol: float
    callback: Callback | None = None
    period: int = 10
    log: list[Record] = field(default_factory=list)
    evaluations: int = 0
    begun: float = field(default_factory=perf_counter)

    def after(self, theta: np.ndarray, value: float, gradient_norm: float) -> tuple[Ending, str] | None:
        """Take note of an iteration; the ending where it was the last one."""
        record = Record(len(self.log) + 1, value, gradient_norm, self.evaluations, perf_counter() - self.begun)
        self.log.append(record)
        if self.callback is not None and self.callback(record, theta):
            return Ending.stopped, f"The callback stopped the search after {len(self.log)} iterations."
        if gradient_norm <= self.gtol * max(1.0, norm(theta)):
            return Ending.converged, f"The gradient's norm fell to {gradient_norm:.3g}."
        if len(self.log) > self.period:
            before = self.log[-1 - self.period].objective
            if before - value <= self.tol * abs(value):
                return Ending.converged, f"The objective fell by less than {self.tol:g} in {self.period} iterations."
        if len(self.log) >= self.max_iter:
            return Ending.limit, f"{self.max_iter} iterations were done before convergence."
        return None

    def result(self, theta: np.ndarray, value: float, ending: tuple[Ending, str]) -> FitResult:
        """Close the log."""
        return FitResult(theta, value, ending[0], ending[1], tuple(self.log))
