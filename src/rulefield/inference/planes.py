"""Multipliers by cutting planes: a small linear program per Viterbi pass, if steps along the excesses do not suffice.

D(y) = max over labelings of score - y'(sums - bounds) is the maximum of one plane per labeling. The program minimizes the
planes met so far in a box around the best multipliers known ([Kelley60] with a trust region); labelings come from Viterbi.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rulefield.kernels.lattice.dual import best_path, completions, priced
from rulefield.kernels.lattice.rule_tables import RuleTables, rule_amounts

MOST_PASSES = 100
"""Linear programs of one search: more are worth less than a proof may cost."""

FIRST_BOX, WIDER, NARROWER = 1.0, 2.0, 0.5


@dataclass
class Planes:
    """The minimization of D on one dense chain; ``labels`` (n,) is the labeling of the newest plane."""

    unary: np.ndarray
    arriving: np.ndarray
    tables: RuleTables
    classes: np.ndarray
    caps: np.ndarray
    heights: list[float] = field(default_factory=list)
    slopes: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.labels = np.zeros(len(self.unary), np.int64)

    def value(self, duals: np.ndarray) -> float:
        """Return D, and keep the plane of the labeling that attains it."""
        charged, moved = priced(self.unary, self.arriving, self.tables, self.classes, duals)
        ahead = np.empty_like(charged)
        completions(charged, moved, ahead)
        top = float(best_path(charged, moved, ahead, self.labels)) + float(duals @ self.tables.counter_bound)
        amounts, excesses = np.zeros(len(self.tables.weight), np.int64), np.zeros(len(duals), np.int64)
        rule_amounts(self.tables, self.classes, self.labels, self.unary.shape[1], amounts, excesses)
        excesses = np.where(self.caps > 0.0, excesses, 0)
        self.heights.append(top + float(duals @ excesses))
        self.slopes.append(excesses.astype(np.float64))
        return top

    def minimize(
        self, duals: np.ndarray, least_gain: Callable[[float], float], goes_on: Callable[[np.ndarray, float], bool]
    ) -> np.ndarray:
        """Return multipliers of the least value met, from ``duals`` on.

        Planes must promise ``least_gain`` (of the least value so far) below it, and every pass is shown to ``goes_on``, its
        multipliers and its value, which says whether another one is wanted.
        """
        best, least, box = duals.copy(), self.value(duals), FIRST_BOX
        wanted = goes_on(best, least)
        for _ in range(MOST_PASSES):
            if not wanted or not np.isfinite(least):
                break
            tried, promised = self.lowest(best, box)
            if tried is None or promised >= least - max(1e-9 * (1.0 + abs(least)), least_gain(least)):
                break
            found = self.value(tried)
            wanted = goes_on(tried, found)
            if found < least:
                box *= WIDER if found - promised < 0.5 * (least - promised) else 1.0
                best, least = tried, found
            else:
                box *= NARROWER if box > 1e-6 and len(self.heights) % 2 else 1.0
        return best

    def lowest(self, center: np.ndarray, box: float) -> tuple[np.ndarray | None, float]:
        """Minimize the planes within a box around multipliers: (multipliers, value)."""
        from scipy.optimize import linprog

        heights, slopes = np.array(self.heights), np.array(self.slopes)
        used = np.flatnonzero((slopes > 0.0).any(axis=0) | (center > 0.0))  # others cannot lower a plane
        low, high = np.maximum(center - box, 0.0)[used], np.minimum(center + box, self.caps)[used]
        found = linprog(
            np.r_[np.zeros(len(used)), 1.0],
            A_ub=np.c_[-slopes[:, used], -np.ones(len(slopes))],
            b_ub=-heights,
            bounds=[*zip(low, np.maximum(high, low)), (None, None)],
            method="highs",
        )
        if found.x is None:
            return None, np.inf
        duals = np.zeros_like(center)
        duals[used] = np.clip(found.x[:-1], 0.0, self.caps[used])
        return duals, float(found.x[-1])
