"""Exact duals of counters by column generation: each labeling that a Viterbi pass finds is one more cut of the dual.

Improves: the bound, by better duals for all that follows.
Pays: if rules are read by counters and two tries of the product did not settle the problem.
Charged: each pass and small linear program by its size.
Reference: Kelley's cutting planes in a trust region (Dantzig-Wolfe decomposition, seen from the dual).
"""

import numpy as np

from rulefield.inference.sequences.progress import MOST_PASSES, DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path, completions, dual_error, path_score, priced

LEAST_SHARE = 0.2
"""Better duals are used if they bring this share of what the bound has fallen by searching, too."""

CLOSE_NATS = 1e-3
"""The dual is good enough if the model's minimum is within so many nats of the best bound."""

UNITS_PER_PROGRAM, CELLS_PER_UNIT = 800, 4
"""Units of work of a small linear program, and cells of its rows per further unit (fitted to 60 calls of HiGHS)."""


def run_columns(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Tighten the duals if there are any."""
    if len(progress.duals):
        tighten_dual(progress, limit)


def tighten_dual(progress: Progress, limit: int, most_passes: int = MOST_PASSES) -> None:
    """Minimize D(lambda) = max_y score(y) - lambda'(tally(y) - bound) over 0 <= lambda <= caps; keep the best duals.

    Every pass is one Viterbi pass, whose labeling is a cut of D from below, and a small linear program over the cuts
    within a box around the best duals (the box grows if the model was right, shrinks if it was not). Labelings
    that beat the best known are kept. Stops if the model proves that the bound cannot get much lower.
    """
    prepared, tables = progress.prepared, progress.prepared.tables
    labels, ahead = np.zeros(len(prepared.unary), np.int64), np.empty_like(prepared.unary)
    center, radius, first, best = progress.duals.copy(), 1.0, np.inf, np.inf
    duals = center.copy()
    cuts: list[np.ndarray] = []
    scores: list[float] = []
    for _ in range(most_passes):
        unary, moved = priced(progress.lowered, prepared.arriving, tables, prepared.classes, duals)
        completions(unary, moved, ahead)
        value = float(best_path(unary, moved, ahead, labels))
        progress.iterations += 1
        if value == -np.inf:
            break
        value += progress.constant + float(duals @ tables.counter_bound)
        excesses = progress.offer(labels)[1].astype(np.float64)
        cuts.append(excesses)
        scores.append(float(path_score(progress.lowered, prepared.arriving, labels)) + progress.constant)
        first = min(first, value) if len(cuts) == 1 else first
        if value < best:
            moved_by = best - value
            best, center = value, duals.copy()
            error = float(dual_error(tables, duals, len(labels), progress.constant, value))
            progress.bound = min(progress.bound, value + error)
            radius *= 2.0 if moved_by > CLOSE_NATS else 1.0
        else:
            radius *= 0.5
        if progress.settled or progress.nodes >= limit or progress.deadline.over:
            break
        progress.charge(2 * progress.pass_units + UNITS_PER_PROGRAM + len(cuts) * len(center) // CELLS_PER_UNIT)
        found = model_minimum(np.array(cuts), np.array(scores), center, radius, prepared.caps)
        if found is None or best - found[0] < CLOSE_NATS:
            break
        duals = found[1]
    if first - best > LEAST_SHARE * (first - progress.bound):
        progress.duals = center
        progress.step, progress.window_units = 0.0, 0  # windows begin anew, and other rules are in conflict
        progress.terms.clear()


def model_minimum(
    cuts: np.ndarray, scores: np.ndarray, center: np.ndarray, radius: float, caps: np.ndarray
) -> tuple[float, np.ndarray] | None:
    """Least z with z >= scores - cuts @ lambda, lambda within ``radius`` of the center and within [0, caps]."""
    from scipy.optimize import linprog

    used = np.flatnonzero((cuts > 0).any(axis=0) & (caps > 0) | (center > 0))
    low, high = np.maximum(center[used] - radius, 0.0), np.minimum(center[used] + radius, caps[used])
    found = linprog(
        np.r_[np.zeros(len(used)), 1.0],
        A_ub=np.c_[-cuts[:, used], -np.ones(len(cuts))],
        b_ub=-scores,
        bounds=[*zip(low, high), (None, None)],
        method="highs-ds",
    )
    if found.x is None:
        return None
    duals = np.zeros_like(center)
    duals[used] = np.clip(found.x[:-1], low, high)
    return float(found.fun), duals
