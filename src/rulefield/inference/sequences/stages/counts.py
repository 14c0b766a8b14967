"""Counts as whole numbers: a bound that knows that labels occur a whole number of times, and labelings with such counts.

Improves: the bound, and the labeling.
Pays: if hard rules count labels.
Charged: each small program by HiGHS's simplex iterations.
Reference: Lagrangian decomposition; steps are Polyak's.
"""

import numpy as np

from rulefield.inference.highs import Program, minimize
from rulefield.inference.result import rounding_error
from rulefield.inference.sequences.progress import MOST_PASSES, DualPotentials, Progress
from rulefield.inference.sequences.stages.columns import CELLS_PER_UNIT
from rulefield.inference.sequences.stages.implied_counts import run_implied
from rulefield.kernels.lattice.dual import best_path, completions, priced

PATIENCE_PASSES = 4
"""Dual steps that may bring nothing before they get shorter."""

COUNTS_TRIED = 3
"""So many of the best vectors of counts are tried."""


def run_counts(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Read the problem with the counts that its hard rules imply, then bound the objective by whole counts of labels.

    With lambda (m,) a price of each label, max over labelings of (score - lambda' counts) plus max over *whole* counts that
    obey all hard counts of labels and add up to n of (lambda' counts) bounds every labeling's value. The first is a
    Viterbi pass, the second a small integer program. Multipliers of the rules alone see only sums over the reals: if
    35 labels must occur equally often in 60 tokens, those allow 12/7 times each, whole numbers once.
    """
    run_implied(progress, limit)
    prepared, tables = progress.prepared, progress.prepared.tables
    hard = np.isinf(prepared.caps) & tables.counter_plain
    if not hard.any() or progress.settled:
        return
    m = prepared.unary.shape[1]
    rows = np.array([tables.node[at : at + m] for at in tables.node_at[hard]], dtype=np.float64)
    others = np.where(hard, 0.0, progress.duals)
    unary, arriving = priced(progress.lowered, prepared.arriving, tables, prepared.classes, others)
    search = _CountDual(progress, unary, arriving, rows, tables.counter_bound[hard].astype(np.float64), limit)
    search.constant = progress.constant + float(others @ tables.counter_bound)
    search.run(progress.duals[hard] @ rows)
    search.try_counts()


class _CountDual:
    """The prices tried so far, and the counts that each led to."""

    constant = 0.0

    def __init__(
        self,
        progress: Progress,
        unary: np.ndarray,
        arriving: np.ndarray,
        rows: np.ndarray,
        limits: np.ndarray,
        limit: int,
    ):
        self.progress, self.unary, self.arriving = progress, unary, arriving
        self.rows, self.limits, self.limit = rows, limits, limit
        self.tried: list[tuple[float, np.ndarray, np.ndarray]] = []

    @property
    def over(self) -> bool:
        """Whether the problem is settled, or a limit is met."""
        return self.progress.settled or self.progress.nodes >= self.limit or self.progress.deadline.over

    def run(self, price: np.ndarray) -> None:
        """Take dual steps from these prices (m,)."""
        progress, lowest, pace, still = self.progress, np.inf, 1.0, 0
        for _ in range(MOST_PASSES):
            found = None if self.over else self._bound(price)
            if found is None:
                return
            value, labels, counts = found
            still = 0 if value < lowest - 1e-6 * (1.0 + abs(lowest)) else still + 1
            if still == PATIENCE_PASSES:
                pace, still = 0.6 * pace, 0
            lowest = min(lowest, value)
            self.tried.append((value, price, counts))
            progress.offer(labels)
            progress.bound = min(progress.bound, value + self._error(value, price))
            slope = np.bincount(labels, minlength=len(price)) - counts
            square = float(slope @ slope)
            if square == 0.0:
                return
            goal = progress.best if progress.best > -np.inf else lowest - 1.0 - 0.02 * abs(lowest)
            price = price + pace * max(value - goal, 0.0) / square * slope

    def _error(self, value: float, price: np.ndarray) -> float:
        """Bound the rounding error of a bound under prices."""
        n, m = self.unary.shape
        size = abs(value) + abs(self.constant) + 2.0 * n * np.abs(price).max()
        return rounding_error(8 * (n + m + len(self.limits)), size)

    def _bound(self, price: np.ndarray) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Return the bound under prices, its labeling (n,) and its whole counts (m,); None if nothing is left, or known."""
        progress, unary = self.progress, self.unary - price
        labels, ahead = np.zeros(len(unary), np.int64), np.empty_like(unary)
        completions(unary, self.arriving, ahead)
        value = float(best_path(unary, self.arriving, ahead, labels))
        found = minimize(self._program(price), self.limit - progress.nodes, progress.deadline.left)
        progress.charge(2 * progress.pass_units + found.units)
        if value == -np.inf or found.lower_bound == np.inf:
            progress.bound = -np.inf
            return None
        if found.values is None or found.lower_bound == -np.inf:
            return None
        return value - found.lower_bound + self.constant, labels, np.round(found.values)

    def _program(self, price: np.ndarray) -> Program:
        """Build the program of the whole counts that obey the hard rules and are worth most at these prices."""
        n, m = self.unary.shape
        program = Program()
        program.add_columns(-price, n, True)
        row, column = np.nonzero(self.rows)
        program.add_rows(row, column, self.rows[row, column], self.limits)
        program.add_rows(np.zeros(m), np.arange(m), np.ones(m), np.full(1, n), equal=True)
        return program

    def try_counts(self) -> None:
        """Offer labelings of the counts behind the best bounds: one assignment problem each, steps left out."""
        from scipy.optimize import linear_sum_assignment

        n, m = self.unary.shape
        seen: set[bytes] = set()
        units = n * n // CELLS_PER_UNIT
        for _, price, counts in sorted(self.tried, key=lambda one: one[0]):
            if self.over or len(seen) == COUNTS_TRIED or self.progress.nodes + units > self.limit:
                return
            slots = np.repeat(np.arange(m), counts.astype(np.int64))
            if counts.tobytes() in seen or len(slots) != n:
                continue
            seen.add(counts.tobytes())
            worth = (self.unary - price)[:, slots]
            worth = np.where(worth > -np.inf, worth, worth[worth > -np.inf].min(initial=0.0) - 1e6)
            place = linear_sum_assignment(worth, maximize=True)[1]
            self.progress.charge(units)
            self.progress.offer(slots[place])
