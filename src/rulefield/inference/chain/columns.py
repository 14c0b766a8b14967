"""The exact dual where subgradients stall: column generation over labellings (cutting planes of the dual function)."""

import numpy as np

from rulefield.inference.chain.dual import Progress
from rulefield.kernels.lattice.dual import best_path, completions, dual_error, path_score, priced

MOST_PASSES = 80
FIRST_RADIUS = 1.0

CLOSE = 1e-3
"""The dual is good enough where the model's minimum is within so many nats of the best bound."""


def tighten_dual(progress: Progress, most_passes: int = MOST_PASSES) -> None:
    """Minimise D(lambda) = max_y score(y) - lambda'(tally(y) - bound) over 0 <= lambda <= caps; keep the best duals.

    Every pass is one Viterbi pass, whose labelling is a cut of D from below, and a small linear programme over the cuts
    within a box around the best duals (the box grows where the model was right, shrinks where it was not). Labellings
    that beat the best known are kept. Stops where the model proves that the bound cannot get much lower.
    """
    prepared, tables = progress.prepared, progress.prepared.tables
    labels, ahead = np.zeros(len(prepared.unary), np.int64), np.empty_like(prepared.unary)
    center, radius, best = progress.duals.copy(), FIRST_RADIUS, np.inf
    duals = center.copy()
    cuts: list[np.ndarray] = []
    scores: list[float] = []
    for _ in range(most_passes):
        unary, moved = priced(progress.lowered, prepared.arriving, tables, prepared.classes, duals)
        completions(unary, moved, ahead)
        value = float(best_path(unary, moved, ahead, labels))
        progress.iterations += 1
        if value == -np.inf:
            return
        value += progress.constant + float(duals @ tables.counter_bound)
        excesses = progress.offer(labels)[1].astype(np.float64)
        cuts.append(excesses)
        scores.append(float(path_score(progress.lowered, prepared.arriving, labels)) + progress.constant)
        if value < best:
            moved_by = best - value
            best, center = value, duals.copy()
            error = float(dual_error(tables, duals, len(labels), progress.constant, value))
            progress.bound = min(progress.bound, value + error)
            if len(cuts) > 1:
                progress.duals = duals.copy()
                progress.step = 0.0  # windows begin anew, and other rules are in conflict
                progress.terms.clear()
            radius *= 2.0 if moved_by > CLOSE else 1.0
        else:
            radius *= 0.5
        if progress.settled:
            return
        found = _model_minimum(np.array(cuts), np.array(scores), center, radius, prepared.caps)
        if found is None or best - found[0] < CLOSE:
            return
        duals = found[1]


def _model_minimum(
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
