"""The spine of every fit: an objective that falls, a record per iteration, one stopping rule, one result.

Two ways to fit share it. A minimizer (:mod:`rulefield.learning.lbfgs`) takes an :class:`Objective`; a learner that works
by passes over the data is a :class:`PassLearner`, run by :func:`run_passes`.
Nothing here warns: the estimator does, once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Protocol

import numpy as np

from rulefield.exceptions import ClusterError
from rulefield.interrupts import check, deferred
from rulefield.kernels.quasi_newton import dot

PERIOD = 10
"""Iterations over which the fall of the objective is judged."""


def norm(vector: np.ndarray) -> float:
    """Euclidean norm."""
    return float(np.sqrt(dot(vector, vector)))


class Objective(Protocol):
    """A function to minimize. The same theta gives the same answer, whatever was asked before.

    One that is found by iteration may have a method ``settle()``, which a search calls after each step that it keeps: later
    evaluations then begin where the last one ended. Its ``precision``, if it has one, is the share of the value that
    such iterations leave open.
    """

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient (a new array) at ``theta``."""


def penalized(parts: Iterable[tuple[float, np.ndarray]], theta: np.ndarray, l2: float) -> tuple[float, np.ndarray]:
    """Values and gradients of all parts, added in their order, plus (l2 / 2) |theta|^2."""
    value, gradient = 0.5 * l2 * dot(theta, theta), l2 * theta
    for part_value, part_gradient in parts:
        value += part_value
        gradient += part_gradient
    return value, gradient


class Ending(StrEnum):
    """Why a fit stopped."""

    converged = "converged"
    limit = "limit"
    stopped = "stopped"
    interrupted = "interrupted"
    stuck = "stuck"
    lost = "lost"


@dataclass(frozen=True)
class FitRecord:
    """One iteration (or pass, or epoch) of a fit.

    Parameters
    ----------
    iteration : int
        From 1.
    objective : float
        What is minimized, penalties included; for perceptrons, what was labeled wrongly on the way.
    seconds : float
        Since the fit began; 0 in a model that was loaded, since files leave times out.
    gradient_norm : float or None
        Of the (pseudo-)gradient, if the learner has one.
    gap : float or None
        How much higher than the least the objective is at most, if the learner can tell.
    evaluations : int
        Of the objective, so far; 0 for learners that work by passes.
    """

    iteration: int
    objective: float
    seconds: float = field(default=0.0, compare=False)
    gradient_norm: float | None = None
    gap: float | None = None
    evaluations: int = 0


Callback = Callable[[FitRecord, np.ndarray], bool | None]


@dataclass(frozen=True)
class FitResult:
    """The best theta found, and how the search ended.

    ``converged``: a stopping rule was met; ``limit``: iterations ran out; ``stopped``: the callback said so; ``interrupted``:
    Ctrl-C; ``stuck``: no step lowers the objective any more (rounding); ``lost``: the cluster that did the work was lost.
    """

    theta: np.ndarray
    objective: float
    ending: Ending
    message: str
    log: tuple[FitRecord, ...] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether a stopping rule was met (that of the callback included)."""
        return self.ending in (Ending.converged, Ending.stuck, Ending.stopped)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.ending is Ending.interrupted

    @property
    def n_iter(self) -> int:
        """Number of iterations done."""
        return len(self.log)

    @property
    def gap(self) -> float | None:
        """The last gap that was measured; None if none was."""
        return next((record.gap for record in reversed(self.log) if record.gap is not None), None)


@dataclass
class StoppingRule:
    """Watches a fit: keeps its log, calls the callback, says when and why to stop.

    A fit stops if the objective has fallen by at most the share ``tol`` of itself over the last ``PERIOD``
    iterations, if the gap proves that it cannot fall by more, or if the norm of the gradient is at most the share
    ``gtol`` of max(1, norm of theta). ``callback(record, theta)`` is called after every iteration; a true answer
    stops the search.
    """

    max_iter: int
    tol: float
    gtol: float = 0.0
    callback: Callback | None = None
    log: list[FitRecord] = field(default_factory=list)
    evaluations: int = 0
    _lowest: float = np.inf
    begun: float = field(default_factory=perf_counter)

    def after(
        self, theta: np.ndarray, value: float, gradient_norm: float | None = None, gap: float | None = None
    ) -> tuple[Ending, str] | None:
        """Take note of an iteration; the ending where it was the last one."""
        n = len(self.log) + 1
        record = FitRecord(n, value, perf_counter() - self.begun, gradient_norm, gap, self.evaluations)
        self.log.append(record)
        if self.callback is not None and self.callback(record, theta):
            return Ending.stopped, f"The callback stopped the search after {n} iterations."
        if gradient_norm is not None and gradient_norm <= self.gtol * max(1.0, norm(theta)):
            return Ending.converged, f"The gradient's norm fell to {gradient_norm:.3g}."
        if gap is not None and gap <= self.tol * abs(value):
            return Ending.converged, f"The duality gap fell to {gap:.3g}."
        if n > PERIOD and self._fall() <= self.tol * abs(value):
            return Ending.converged, f"The objective fell by at most {self.tol:g} of itself in {PERIOD} iterations."
        if n >= self.max_iter:
            return Ending.limit, f"{self.max_iter} iterations were done before convergence."
        check()
        return None

    def _fall(self) -> float:
        """By how much the last ``PERIOD`` iterations are better, at best, than all before: passes may go up and down."""
        values = [record.objective for record in self.log[-1 - PERIOD :]]
        self._lowest = min(self._lowest, values[0])
        return self._lowest - min(values[1:])

    def result(self, theta: np.ndarray, value: float, ending: tuple[Ending, str]) -> FitResult:
        """Close the log."""
        return FitResult(theta, value, *ending, tuple(self.log))

    def interrupted(self, theta: np.ndarray, value: float, cause: BaseException) -> FitResult:
        """Close the log after Ctrl-C, or after the loss of a cluster."""
        if isinstance(cause, ClusterError):
            return self.result(theta, value, (Ending.lost, f"{cause} The best weights so far are kept."))
        message = f"Interrupted after {len(self.log)} iterations; the best weights so far are kept."
        return self.result(theta, value, (Ending.interrupted, message))


@dataclass(frozen=True)
class Pass:
    """What one pass of a learner over the data found; ``done`` is a sentence if another pass would change nothing."""

    objective: float
    gap: float | None = None
    done: str = ""


class PassLearner(Protocol):
    """A learner that goes over the data again and again."""

    @property
    def theta(self) -> np.ndarray:
        """The weights learned so far; not changed by later passes."""

    def learn(self) -> Pass:
        """Go over the data once."""


def run_passes(learner: PassLearner, max_iter: int, tol: float) -> FitResult:
    """Let a learner work until a stopping rule is met; Ctrl-C keeps the weights of the last whole pass.

    If Ctrl-C comes before the first pass is over, there is nothing to keep, and ``KeyboardInterrupt`` is raised.
    """
    rule = StoppingRule(max_iter, tol)
    kept: tuple[np.ndarray, float] | None = None
    try:
        with deferred():
            while True:
                done = learner.learn()
                kept = learner.theta, done.objective
                end = rule.after(*kept, gap=done.gap)
                if done.done and (end is None or end[0] is Ending.limit):
                    end = Ending.converged, done.done
                if end is not None:
                    return rule.result(*kept, end)
    except (KeyboardInterrupt, ClusterError) as cause:
        if kept is None:
            raise
        return rule.interrupted(*kept, cause)


def joined(first: FitResult, second: FitResult) -> FitResult:
    """``second``, which went on where ``first`` ended, with one log of both."""
    done, spent = len(first.log), first.log[-1].seconds if first.log else 0.0
    later = [replace(r, iteration=r.iteration + done, seconds=r.seconds + spent) for r in second.log]
    return replace(second, log=(*first.log, *later))


def counted_from(begun: float, done: FitResult) -> FitResult:
    """Return a fit that ended just now with records that count seconds from ``begun``, a time of ``perf_counter``."""
    before = perf_counter() - begun - done.log[-1].seconds if done.log else 0.0
    return replace(done, log=tuple(replace(record, seconds=record.seconds + before) for record in done.log))
