"""Infeasibility by a combination of hard counters that every labeling breaks.

Improves: the bound (to minus infinity); labelings that obey all hard rules are kept.
Pays: if no labeling is known that obeys the hard rules.
Charged: each pass and small linear program by its size.
Reference: Farkas' lemma, by cutting planes over labelings.
"""

import numpy as np

from rulefield.inference.result import TOLERANCE
from rulefield.inference.sequences.progress import MOST_PASSES, DualPotentials, Progress
from rulefield.inference.sequences.stages.columns import CELLS_PER_UNIT, UNITS_PER_PROGRAM, model_minimum
from rulefield.kernels.lattice.dual import best_path, completions, priced


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
    hard = np.flatnonzero(np.isinf(prepared.caps))
    if not len(hard):
        return None
    zero = np.where(progress.lowered > -np.inf, 0.0, -np.inf)
    arriving = np.where(prepared.arriving > -np.inf, 0.0, -np.inf)
    labels, ahead = np.zeros(len(zero), np.int64), np.empty_like(zero)
    cuts: list[np.ndarray] = []
    nothing, ones = np.zeros(len(hard)), np.ones(len(hard))
    duals = np.zeros(len(prepared.caps))
    duals[hard] = 1.0
    for number in range(1, most_passes + 1):
        unary, moved = priced(zero, arriving, tables, prepared.classes, duals)
        completions(unary, moved, ahead)
        value = best_path(unary, moved, ahead, labels) + float(duals @ tables.counter_bound)
        progress.iterations += 1
        if value < -TOLERANCE:
            return duals
        excesses = progress.offer(labels)[1]
        if progress.best > -np.inf or number == most_passes or progress.deadline.over or progress.nodes >= limit:
            return None
        progress.charge(2 * progress.pass_units + UNITS_PER_PROGRAM + len(cuts) * len(hard) // CELLS_PER_UNIT)
        cuts.append(excesses[hard].astype(np.float64))
        found = model_minimum(np.array(cuts), np.zeros(len(cuts)), nothing, 1.0, ones)
        if found is None or found[0] > -TOLERANCE:
            return None
        duals[hard] = found[1]
    return None
