"""Dual decomposition with hard and soft rows over any oracle that finds best labellings ([Anzaroot14])."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.inference.result import SLACK


@dataclass(frozen=True)
class DualSolution:
    """What :func:`soft_dd_oracle` found: the best labelling, its objective, the bound and the duals behind it."""

    labelling: Any
    objective: float
    upper_bound: float
    duals: np.ndarray
    iterations: int


def soft_dd_oracle(
    oracle: Callable[[np.ndarray], tuple[Any, float, np.ndarray]],
    weights: np.ndarray,
    max_iterations: int = 100,
    objective: Callable[[Any], float] | None = None,
) -> DualSolution:
    """Soft-DD over any MAP oracle: segments, graphs, joint chains ([Anzaroot14], section 2.1).

    Parameters
    ----------
    oracle : callable
        Given duals (rows,), returns (y, value, excess): y maximises <w, y> - duals'(A y - b), ``value`` is
        <w, y> without duals, ``excess`` (rows,) is A y - b.
    weights : ndarray, shape (rows,)
        Cost of a unit of each row's excess; ``inf`` where the row is hard.
    max_iterations : int
        Calls of the oracle.
    objective : callable, optional
        True objective of a labelling where the rows are not all there is to it (rules paid once, or known by an
        automaton only). It must never exceed <w, y> less what the duals may charge: weights are the largest duals.

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
        worth = score - float(weights[over] @ excess[over]) if objective is None else objective(found)
        if worth > best:
            best, labelling = worth, found
        still = 0 if value < bound else still + 1
        if value < bound:
            bound, best_duals = value, duals
        if bound - best <= SLACK:
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
