"""Dual decomposition with hard and soft rules (paper 004, algorithms 1 and 2)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rulefield.inference.prepare import Prepared, prepare
from rulefield.inference.result import TOLERANCE, Result
from rulefield.kernels.soft_dd import completions, priced, soft_dd
from rulefield.problem.compiled import ChainProblem


@dataclass
class Progress:
    """What is known of a problem so far; engines take it from one another.

    Parameters
    ----------
    prepared : Prepared
    best : float
        Objective of ``labels``; ``-inf`` while no labelling that obeys the hard rules is known.
    bound : float
        No labelling has a higher objective.
    duals : ndarray, shape (counters,)
        The duals behind the best dual bound.
    """

    prepared: Prepared
    labels: np.ndarray
    duals: np.ndarray
    best: float = -np.inf
    bound: float = np.inf
    iterations: int = 0
    nodes: int = field(default=0)

    @classmethod
    def start(cls, prepared: Prepared) -> "Progress":
        """Nothing known."""
        return cls(prepared, np.zeros(len(prepared.unary), np.int64), np.zeros(len(prepared.caps)))

    @property
    def slack(self) -> float:
        """Improvements smaller than this do not matter: a thousandth of the library's tolerance."""
        return 0.0 if self.best == -np.inf else 1e-3 * TOLERANCE * max(1.0, abs(self.best))

    @property
    def settled(self) -> bool:
        """Whether the bound proves the best labelling, or that there is none."""
        if self.bound == -np.inf:
            return True
        return self.best > -np.inf and self.bound - self.best <= TOLERANCE * max(1.0, abs(self.best))

    def result(self, engine: str, iterations: int) -> Result:
        """Return the answer as it stands."""
        return self.prepared.answer(self.labels, self.best, self.bound, engine, iterations)


@dataclass(frozen=True)
class DualPotentials:
    """Potentials minus what the duals charge, and their completions; scores have ``constant`` added."""

    unary: np.ndarray
    arriving: np.ndarray
    ahead: np.ndarray
    constant: float


def run_soft_dd(progress: Progress, max_iterations: int, paper_stop: bool = False) -> bool:
    """Run the kernel, take over what it found; return whether its stopping test held."""
    prepared = progress.prepared
    bound, best, iterations, converged = soft_dd(
        prepared.unary,
        prepared.arriving,
        prepared.tables,
        prepared.classes,
        prepared.caps,
        max_iterations,
        1e-3 * TOLERANCE,
        paper_stop,
        progress.duals,
        progress.labels,
    )
    progress.bound, progress.best = float(bound), float(best)
    progress.iterations += iterations
    return bool(converged)


def dual_potentials(progress: Progress) -> DualPotentials:
    """Return the potentials under the best duals."""
    prepared = progress.prepared
    unary, arriving = priced(prepared.unary, prepared.arriving, prepared.tables, prepared.classes, progress.duals)
    ahead = np.empty_like(unary)
    completions(unary, arriving, ahead)
    constant = float(progress.duals @ prepared.tables.counter_bound)
    return DualPotentials(unary, arriving, ahead, constant)


def decode_soft_dd(problem: ChainProblem, max_iterations: int = 100, paper_stop: bool = False) -> Result:
    """Decode a chain by Soft-DD alone.

    Maximises score - sum of weight x amount by projected subgradient steps on the duals of counters; rules known
    only by an automaton are judged but not priced. Certified where the dual bound meets the objective, which is when
    every row is satisfied with equality, or slack with dual 0, or broken with the dual at its weight.

    Parameters
    ----------
    problem : ChainProblem
    max_iterations : int
        Viterbi passes allowed.
    paper_stop : bool
        Stop by the test that paper 004 prints (equality, or dual 0, or dual at its weight), which also accepts
        labellings that are not optimal; ``status`` still tells the truth. For its table 2.

    Returns
    -------
    Result
        ``iterations`` counts Viterbi passes.
    """
    progress = Progress.start(prepare(problem))
    run_soft_dd(progress, max_iterations, paper_stop)
    return progress.result("soft-dd", progress.iterations)


@dataclass(frozen=True)
class DualSolution:
    """What :func:`soft_dd_oracle` found: the best labelling, its objective, the bound and the duals behind it."""

    labelling: object
    objective: float
    upper_bound: float
    duals: np.ndarray
    iterations: int


def soft_dd_oracle(
    oracle: Callable[[np.ndarray], tuple[object, float, np.ndarray]],
    weights: np.ndarray,
    max_iterations: int = 100,
    tolerance: float = TOLERANCE,
) -> DualSolution:
    """Soft-DD over any MAP oracle: segments, graphs, joint chains (paper 004, section 2.1).

    Parameters
    ----------
    oracle : callable
        Given duals (rows,), returns (y, value, excess): y maximises <w, y> - duals'(A y - b), ``value`` is
        <w, y> without duals, ``excess`` (rows,) is A y - b.
    weights : ndarray, shape (rows,)
        Cost of a unit of each row's excess; ``inf`` where the row is hard.
    max_iterations : int
        Calls of the oracle.

    Returns
    -------
    DualSolution
        ``objective`` is ``-inf`` where no labelling met obeys the hard rows.
    """
    duals = np.zeros(len(weights))
    best_duals, labelling = duals, None
    bound, best, pace, still, below = np.inf, -np.inf, 1.0, 0, -1.0
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        found, score, excess = oracle(duals)
        value = score - float(duals @ excess)
        over = excess > 0
        objective = score - float(weights[over] @ excess[over])
        if objective > best:
            best, labelling = objective, found
        still = 0 if value < bound else still + 1
        if value < bound:
            bound, best_duals = value, duals
        if bound - best <= tolerance * max(1.0, abs(best)):
            break
        free = (over & (duals < weights)) | ((excess < 0) & (duals > 0))
        square = float((excess[free] ** 2).sum())
        if square == 0.0:
            break
        if still >= 3:
            pace, below, still = pace * 0.6, below * 0.6, 0
        if best == -np.inf and below < 0:
            below = max(1.0, 0.1 * abs(value))
        goal = best if best > -np.inf else bound - below
        duals = np.clip(duals + pace * (value - goal) / square * excess, 0.0, weights)
    return DualSolution(labelling, best, bound, best_duals, iterations)
