"""Multipliers by cutting planes: a small linear program per Viterbi pass, if steps along the excesses do not suffice.

D(y) = max over labelings of score - y'(sums - bounds) is the maximum of one plane per labeling. The program minimizes the
planes met so far in a box around the best multipliers known ([Kelley60] with a trust region); labelings come from Viterbi.
"""

import numpy as np
from scipy.optimize import linprog

from rulefield.kernels.lattice.dual import best_path, completions, priced
from rulefield.kernels.lattice.rule_tables import RuleTables, rule_amounts

MOST_PASSES = 100
"""Linear programs of one search: more are worth less than a proof may cost."""

FIRST_BOX, WIDER, NARROWER = 1.0, 2.0, 0.5
LITTLE = 0.003
"""From multipliers of an engine, planes end if they promise no more than this share of what is missing."""


class Planes:
    """The minimization of D on one dense chain.

    Parameters
    ----------
    unary : ndarray, shape (n, m)
    arriving : ndarray, shape (k, m, m)
    tables : RuleTables
    classes : ndarray of uint16, shape (rules, n)
    caps : ndarray, shape (counters,)
    """

    def __init__(
        self, unary: np.ndarray, arriving: np.ndarray, tables: RuleTables, classes: np.ndarray, caps: np.ndarray
    ):
        self.unary, self.arriving, self.tables, self.classes, self.caps = unary, arriving, tables, classes, caps
        self.heights: list[float] = []
        self.slopes: list[np.ndarray] = []

    def value(self, duals: np.ndarray) -> float:
        """Return D, and keep the plane of the labeling that attains it."""
        charged, moved = priced(self.unary, self.arriving, self.tables, self.classes, duals)
        ahead, labels = np.empty_like(charged), np.zeros(len(charged), np.int64)
        completions(charged, moved, ahead)
        top = float(best_path(charged, moved, ahead, labels)) + float(duals @ self.tables.counter_bound)
        amounts, excesses = np.zeros(len(self.tables.weight), np.int64), np.zeros(len(duals), np.int64)
        rule_amounts(self.tables, self.classes, labels, self.unary.shape[1], amounts, excesses)
        excesses = np.where(self.caps > 0.0, excesses, 0)
        self.heights.append(top + float(duals @ excesses))
        self.slopes.append(excesses.astype(np.float64))
        return top

    def minimize(self, duals: np.ndarray, goal: float, little: float = 0.0) -> np.ndarray:
        """Return multipliers of the least value met; stop at ``goal``, or where planes leave nothing to gain."""
        best, least, box = duals.copy(), self.value(duals), FIRST_BOX
        for _ in range(MOST_PASSES):
            if least <= goal or not np.isfinite(least):
                break
            tried, promised = self._lowest(best, box)
            if tried is None or promised >= least - max(1e-9 * (1.0 + abs(least)), little * (least - goal)):
                break
            found = self.value(tried)
            if found < least:
                box *= WIDER if found - promised < 0.5 * (least - promised) else 1.0
                best, least = tried, found
            else:
                box *= NARROWER if box > 1e-6 and len(self.heights) % 2 else 1.0
        return best

    def _lowest(self, center: np.ndarray, box: float) -> tuple[np.ndarray | None, float]:
        """Minimize the planes within a box: (multipliers, value)."""
        heights, slopes = np.array(self.heights), np.array(self.slopes)
        count = len(center)
        cost = np.zeros(count + 1)
        cost[-1] = 1.0
        rows = np.hstack([-slopes, -np.ones((len(slopes), 1))])
        low, high = np.maximum(center - box, 0.0), np.minimum(center + box, self.caps)
        bounds = [*zip(low, np.maximum(high, low)), (None, None)]
        found = linprog(cost, A_ub=rows, b_ub=-heights, bounds=bounds, method="highs")
        if found.x is None:
            return None, np.inf
        return np.clip(found.x[:-1], 0.0, self.caps), float(found.x[-1])
