"""Infeasibility by a combination of hard counters that every labeling breaks.

Improves: the bound (to minus infinity); labelings that obey all hard rules are kept.
Pays: if no labeling is known that obeys the hard rules.
Charged: each pass and small linear program by its size.
Reference: Farkas' lemma, by cutting planes over labelings.
"""

import numpy as np

from rulefield.inference.planes import Planes
from rulefield.inference.result import TOLERANCE
from rulefield.inference.sequences.progress import MOST_PASSES, DualPotentials, Progress
from rulefield.inference.sequences.stages.columns import CELLS_PER_UNIT, UNITS_PER_PROGRAM


def run_farkas(progress: Progress, dual: DualPotentials, limit: int, most_passes: int = MOST_PASSES // 2) -> None:
    """Prove that no labeling obeys the hard counters, if none is known."""
    if progress.best == -np.inf and prove_infeasible(progress, most_passes, limit) is not None:
        progress.bound = -np.inf


def prove_infeasible(
    progress: Progress, most_passes: int = MOST_PASSES // 2, limit: float = np.inf
) -> np.ndarray | None:
    """Multipliers (counters,) in [0, 1] of hard counters, their sum broken by every labeling; None if none is found.

    Minimizes max_y of sum_c lambda_c (bound_c - tally_c(y)) over 0 <= lambda <= 1 by cutting planes: each pass finds the
    labeling that breaks the present combination least (one Viterbi pass over zero scores), and a small linear
    program over the labelings met so far gives the next combination. A negative value is a proof (Farkas).
    Labelings that obey all hard rules are kept in ``progress``.
    """
    prepared, tables = progress.prepared, progress.prepared.tables
    hard = np.isinf(prepared.caps)
    if not hard.any():
        return None
    zero = np.where(progress.lowered > -np.inf, 0.0, -np.inf)
    arriving = np.where(prepared.arriving > -np.inf, 0.0, -np.inf)
    planes = Planes(zero, arriving, tables, prepared.classes, hard.astype(np.float64))
    duals: np.ndarray | None = planes.caps
    for number in range(1, most_passes + 1):
        assert duals is not None
        value = planes.value(duals)
        progress.iterations += 1
        if value < -TOLERANCE:
            return duals
        progress.offer(planes.labels)
        if progress.best > -np.inf or number == most_passes or progress.deadline.over or progress.nodes >= limit:
            return None
        progress.charge(2 * progress.pass_units + UNITS_PER_PROGRAM + number * hard.sum() // CELLS_PER_UNIT)
        duals, promised = planes.lowest(0.5 * planes.caps, 0.5)
        if duals is None or promised > -TOLERANCE:
            return None
    return None
