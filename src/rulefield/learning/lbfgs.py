"""L-BFGS for smooth objectives with very many variables, and OWL-QN if an L1 penalty is added.

Its own, because scipy's L-BFGS-B spent 82 ms per iteration beside the evaluations at 456,323 weights (CoNLL-2000), where this
one spends 19; both with a memory of ten pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import ClusterError, InputError
from rulefield.interrupts import check, deferred
from rulefield.kernels.quasi_newton import combine_history, dot, history_products, step_products
from rulefield.learning.fit_log import Callback, Ending, FitResult, Objective, StoppingRule, norm
from rulefield.parallel import Threads

SUFFICIENT = 1e-4  # Armijo
CURVATURE = 0.9  # weak Wolfe
MOST_TRIALS = 30


COLUMNS = 1 << 16
FLAT, FLAT_ROUNDED = 1e-12, 1e-6  # least cosine between step and change; what rounding to float32 leaves positive
SHORT_FROM = 100_000
"""Variables from which pairs are kept in float32: half the memory, and what rounding does to a direction the line search
and the next pair correct. On CoNLL-2000 (456,468 weights) the search takes as many iterations."""


@dataclass
class Point:
    """A place with its value and gradient."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray


class History:
    r"""The last ``memory`` pairs (s, y) = (step, change of gradient), and their inverse Hessian times a vector.

    The two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.4) is run on coefficients: all
    that it needs are inner products of stored vectors, and the direction is one linear combination of them (Chen et
    al., Large-scale L-BFGS using MapReduce, 2014). Every stored vector is read twice per iteration, where the plain
    recursion passes over ten vectors for each pair.

    Columns are cut into fixed blocks, so that the sums do not depend on the number of threads.
    """

    def __init__(self, memory: int, size: int, threads: Threads):
        self.memory, self.size, self.threads = memory, size, threads
        kind = np.float32 if size >= SHORT_FROM else np.float64
        self._rows = np.empty((2 * memory, size), kind)  # pair k: step in row 2k, change in row 2k + 1
        self._gram = np.zeros((2 * memory, 2 * memory))
        self._order: list[int] = []  # slots, oldest pair first
        self._cuts = [np.uint64(cut) for cut in (*range(0, size, COLUMNS), size)]

    def __len__(self) -> int:
        return len(self._order)

    def forget(self) -> None:
        """Drop all pairs."""
        self._order.clear()

    def add(self, before: Point, after: Point) -> None:
        """Remember the step between two points if its curvature is positive; the oldest pair makes room."""
        along, step, change = step_products(after.theta, before.theta, after.gradient, before.gradient)
        flat = FLAT if self._rows.dtype == np.float64 else FLAT_ROUNDED
        if not along > flat * np.sqrt(step * change):
            return
        slot = len(self._order) if len(self._order) < self.memory else self._order.pop(0)
        self._order.append(slot)
        np.subtract(after.theta, before.theta, out=self._rows[2 * slot], casting="same_kind")
        np.subtract(after.gradient, before.gradient, out=self._rows[2 * slot + 1], casting="same_kind")

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """Return minus the inverse Hessian times ``gradient``."""
        if not self._order:
            return -gradient
        coefficient, scale = self._two_loops(self._products(gradient))
        out, n_rows = np.empty(self.size), np.uint64(2 * len(self._order))

        def run(k: int) -> None:
            columns = self._cuts[k], self._cuts[k + 1]
            combine_history(self._flat, n_rows, np.uint64(self.size), *columns, coefficient, scale, gradient, out)

        self.threads.map(run, range(len(self._cuts) - 1))
        return out

    @property
    def length(self) -> float:
        """How far to go along minus the gradient, by the newest pair; after :meth:`direction` was asked with it."""
        s, y = 2 * self._order[-1], 2 * self._order[-1] + 1
        return float(self._gram[s, y] / self._gram[y, y])

    @property
    def _flat(self) -> np.ndarray:
        return self._rows.reshape(-1)

    def _products(self, gradient: np.ndarray) -> np.ndarray:
        """Bring the Gram matrix up to date with the newest pair; return all rows times ``gradient``."""
        n_rows, newest = 2 * len(self._order), 2 * self._order[-1]
        step, change = self._rows[newest], self._rows[newest + 1]
        parts = np.empty((len(self._cuts) - 1, n_rows, 3))

        def run(k: int) -> None:
            columns = self._cuts[k], self._cuts[k + 1]
            history_products(
                self._flat, np.uint64(n_rows), np.uint64(self.size), *columns, step, change, gradient, parts[k]
            )

        self.threads.map(run, range(len(parts)))
        products = parts.sum(axis=0)
        for row, column in ((newest, 0), (newest + 1, 1)):
            self._gram[row, :n_rows] = self._gram[:n_rows, row] = products[:, column]
        return products[:, 2]

    def _two_loops(self, with_gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients of the rows, and of the gradient, in minus the inverse Hessian times the gradient."""
        n_rows = 2 * len(self._order)
        gram = self._gram[:n_rows, :n_rows]
        coefficient, scale = np.zeros(n_rows), -1.0
        alpha = {}
        for slot in reversed(self._order):
            s, y = 2 * slot, 2 * slot + 1
            alpha[slot] = (gram[s] @ coefficient + scale * with_gradient[s]) / gram[s, y]
            coefficient[y] -= alpha[slot]
        coefficient, scale = coefficient * self.length, scale * self.length
        for slot in self._order:
            s, y = 2 * slot, 2 * slot + 1
            beta = (gram[y] @ coefficient + scale * with_gradient[y]) / gram[s, y]
            coefficient[s] += alpha[slot] - beta
        return coefficient, scale


def minimize_lbfgs(
    objective: Objective,
    theta: np.ndarray,
    max_iter: int = 1000,
    tol: float = 1e-5,
    callback: Callback | None = None,
    *,
    gtol: float = 1e-6,
    memory: int = 10,
    n_jobs: int | None = 1,
) -> FitResult:
    """Minimize a smooth function from ``theta``.

    ``memory`` pairs are remembered, 16 x memory bytes per variable, 8 x where there are many; the result does not depend on
    ``n_jobs``. :class:`rulefield.learning.fit_log.StoppingRule` has the other parameters. Ctrl-C (and an early stop by the
    callback) returns the best theta so far.

    References
    ----------
    [Nocedal06], algorithm 7.5; line search by bisection for the weak Wolfe conditions, [Lewis13], algorithm 2.6
    """
    rule = StoppingRule(max_iter, tol, gtol, callback)
    theta = np.asarray(theta, dtype=np.float64)
    with Threads(n_jobs) as threads:
        history = History(memory, len(theta), threads)
        return descend(
            lambda: _evaluate(objective, theta, rule),
            lambda here: _step(objective, here, history, rule),
            lambda here: norm(here.gradient),
            rule,
        )


def descend(
    begin: Callable[[], Point],
    step: Callable[[Point], Point | None],
    slope: Callable[[Point], float],
    rule: StoppingRule,
) -> FitResult:
    """Take steps from the point where the search begins until the rule stops it or no step lowers the objective.

    ``slope`` is the norm of the (pseudo-)gradient at a point. Ctrl-C and the loss of a cluster keep the newest point.
    """
    here: Point | None = None
    try:
        with deferred():
            here = begin()
            if not np.isfinite(here.value):
                raise InputError(
                    f"the objective is {here.value} where the search begins; choose other initial weights."
                )
            while True:
                there = step(here)
                if there is None:
                    return rule.result(
                        here.theta, here.value, (Ending.stuck, "No step lowers the objective any more.")
                    )
                here = there
                end = rule.after(here.theta, here.value, slope(here))
                if end is not None:
                    return rule.result(here.theta, here.value, end)
    except (KeyboardInterrupt, ClusterError) as cause:
        if here is None:
            raise
        return rule.interrupted(here.theta, here.value, cause)


def _evaluate(objective: Objective, theta: np.ndarray, rule: StoppingRule) -> Point:
    check()
    rule.evaluations += 1
    return Point(theta, *objective.value_and_gradient(theta))


def _step(objective: Objective, here: Point, history: History, rule: StoppingRule) -> Point | None:
    """One iteration; if the history misleads, once more without it. None if nothing helps."""
    direction = history.direction(here.gradient)
    there = _line_search(objective, here, direction, 1.0 if len(history) else _first_length(here), rule)
    if there is None and len(history):
        length = history.length
        history.forget()
        there = _line_search(objective, here, -here.gradient, length, rule)
    if there is not None:
        history.add(here, there)
        if settle := getattr(objective, "settle", None):
            settle()
    return there


def _first_length(here: Point) -> float:
    return 1.0 / max(1.0, norm(here.gradient))


def _line_search(
    objective: Objective, here: Point, direction: np.ndarray, length: float, rule: StoppingRule
) -> Point | None:
    """Walk along ``direction`` to a point that satisfies the weak Wolfe conditions; None if there is none.

    Bisection between a length that is too short and one that is too long, doubling until there is one; where rounding (or
    the objective's own ``precision``) hides the fall, the best point seen is taken if it is lower.
    """
    slope = dot(here.gradient, direction)
    if not slope < 0.0:
        return None
    low, high = 0.0, np.inf
    best: Point | None = None
    hidden = getattr(objective, "precision", 0.0) * abs(here.value)
    for _ in range(MOST_TRIALS):
        if -length * slope < hidden:
            break
        there = _evaluate(objective, here.theta + length * direction, rule)
        if np.isfinite(there.value) and there.value < (here.value if best is None else best.value):
            best = there
        if not there.value <= here.value + SUFFICIENT * length * slope:
            high = length
        elif dot(there.gradient, direction) < CURVATURE * slope:
            low = length
        else:
            return there
        length = 0.5 * (low + high) if np.isfinite(high) else 2.0 * low
    return best


# --- an L1 penalty: OWL-QN --------------------------------------------------------------------------


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
    Other parameters as :func:`minimize_lbfgs`; records hold the norm of the
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
            lambda: _evaluate_with_l1(objective, theta, l1, rule),
            lambda here: _step_with_l1(objective, here, l1, history, rule),
            lambda here: norm(pseudo_gradient(here.theta, here.gradient, l1)),
            rule,
        )


def pseudo_gradient(theta: np.ndarray, gradient: np.ndarray, l1: float) -> np.ndarray:
    """Return the subgradient of least norm of f + l1 |theta|_1, ``gradient`` being that of f."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(theta == 0.0, at_zero, gradient + l1 * np.sign(theta))


def _evaluate_with_l1(objective: Objective, theta: np.ndarray, l1: float, rule: StoppingRule) -> Point:
    check()
    rule.evaluations += 1
    value, gradient = objective.value_and_gradient(theta)
    return Point(theta, value + l1 * float(np.abs(theta).sum()), gradient)


def _step_with_l1(objective: Objective, here: Point, l1: float, history: History, rule: StoppingRule) -> Point | None:
    slope = pseudo_gradient(here.theta, here.gradient, l1)
    if not slope.any():
        return None
    there = _orthant_search(objective, here, l1, slope, history, rule)
    if there is None and len(history):
        history.forget()
        there = _orthant_search(objective, here, l1, slope, history, rule)
    if there is not None:
        history.add(here, there)
    return there


def _orthant_search(
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
        there = _evaluate_with_l1(objective, theta, l1, rule)
        if there.value <= here.value + SUFFICIENT * dot(slope, theta - here.theta) and there.value < here.value:
            return there
        length *= 0.5
    return None
