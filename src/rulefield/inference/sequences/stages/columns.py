"""Exact duals of counters by column generation: each labeling that a Viterbi pass finds is one more cut of the dual.

Improves: the bound, by better duals for all that follows.
Pays: if rules are read by counters and two tries of the product did not settle the problem.
Charged: each pass and small linear program by its size.
Reference: Kelley's cutting planes in a trust region (Dantzig-Wolfe decomposition, seen from the dual).
"""

import numpy as np

from rulefield.inference.planes import Planes
from rulefield.inference.sequences.progress import MOST_PASSES, DualPotentials, Progress
from rulefield.kernels.lattice.dual import dual_error

LEAST_SHARE = 0.2
"""Better duals are used if they bring this share of what the bound has fallen by searching, too."""

CLOSE_NATS = 1e-3
"""The dual is good enough if the model's minimum is within so many nats of the best bound."""

UNITS_PER_PROGRAM, CELLS_PER_UNIT = 800, 4
"""Units of work of a small linear program, and cells of its rows per further unit (fitted to 60 calls of HiGHS)."""


def run_columns(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Minimize D(lambda) = max_y score(y) - lambda'(tally(y) - bound) over 0 <= lambda <= caps; keep the best duals.

    Every pass is one Viterbi pass, whose labeling is a plane below D, and a small linear program over the planes. Labelings
    that beat the best known are kept. It ends if the planes prove that the bound cannot get much lower.
    """
    if not len(progress.duals):
        return
    prepared, tables = progress.prepared, progress.prepared.tables
    planes = Planes(progress.lowered, prepared.arriving, tables, prepared.classes, prepared.caps)
    values: list[float] = []

    def goes_on(duals: np.ndarray, value: float) -> bool:
        values.append(value)
        progress.iterations += 1
        if value > -np.inf:
            progress.offer(planes.labels)
            value += progress.constant
            error = float(dual_error(tables, duals, len(planes.labels), progress.constant, value))
            progress.bound = min(progress.bound, value + error)
        progress.charge(2 * progress.pass_units + UNITS_PER_PROGRAM + len(values) * len(duals) // CELLS_PER_UNIT)
        ended = progress.settled or progress.nodes >= limit or progress.deadline.over
        return not ended and len(values) < MOST_PASSES

    duals = planes.minimize(progress.duals, lambda least: CLOSE_NATS, goes_on)
    first, best = values[0] + progress.constant, min(values) + progress.constant
    if first - best > LEAST_SHARE * (first - progress.bound):
        progress.duals = duals
        progress.step, progress.window_units = 0.0, 0  # windows begin anew, and other rules are in conflict
        progress.terms.clear()
