"""Cutting planes over labellings, each found by one Viterbi pass: exact duals, and proofs that hard counters clash."""

import numpy as np

from rulefield.inference.chain.dual import Progress
from rulefield.kernels.lattice.dual import best_path, completions, dual_error, path_score, priced

MOST_PASSES = 80
FIRST_RADIUS = 1.0

WORTHWHILE = 0.2
"""Better duals are taken over where they bring this share of what the bound has fallen by searching, too."""

CLOSE = 1e-3
"""The dual is good enough where the model's minimum is within so many nats of the best bound."""

NODES_PER_PROGRAMME, CELLS_PER_NODE = 500, 8
"""A small linear programme and the pass before it cost so many units of work, and one more for so many cells of its rows."""

MOST_PROOF_PASSES = 40

MARGIN = 1e-6
"""A combination proves something where every labelling breaks it by more than this; duals are at most one."""


def tighten_dual(progress: Progress, most_passes: int = MOST_PASSES) -> None:
    """Minimise D(lambda) = max_y score(y) - lambda'(tally(y) - bound) over 0 <= lambda <= caps; keep the best duals.

    Every pass is one Viterbi pass, whose labelling is a cut of D from below, and a small linear programme over the cuts
    within a box around the best duals (the box grows where the model was right, shrinks where it was not). Labellings
    that beat the best known are kept. Stops where the model proves that the bound cannot get much lower.
    """
    prepared, tables = progress.prepared, progress.prepared.tables
    labels, ahead = np.zeros(len(prepared.unary), np.int64), np.empty_like(prepared.unary)
    center, radius, first, best = progress.duals.copy(), FIRST_RADIUS, np.inf, np.inf
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
            radius *= 2.0 if moved_by > CLOSE else 1.0
        else:
            radius *= 0.5
        if progress.settled or progress.deadline.over:
            break
        progress.nodes += NODES_PER_PROGRAMME + len(cuts) * len(center) // CELLS_PER_NODE
        found = _model_minimum(np.array(cuts), np.array(scores), center, radius, prepared.caps)
        if found is None or best - found[0] < CLOSE:
            break
        duals = found[1]
    if first - best > WORTHWHILE * (first - progress.bound):
        progress.duals = center
        progress.step, progress.window = 0.0, None  # windows begin anew, and other rules are in conflict
        progress.terms.clear()


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


def prove_infeasible(progress: Progress, most_passes: int = MOST_PROOF_PASSES) -> np.ndarray | None:
    """Multipliers (counters,) in [0, 1] of hard counters, their sum broken by every labelling; None where none is found.

    Minimises max_y of sum_c lambda_c (bound_c - tally_c(y)) over 0 <= lambda <= 1 by cutting planes: each pass finds the
    labelling that breaks the present combination least (one Viterbi pass over zero scores), and a small linear
    programme over the labellings met so far gives the next combination. A negative value is a proof (Farkas).
    Labellings that obey all hard rules are kept in ``progress``.
    """
    prepared, tables = progress.prepared, progress.prepared.tables
    hard = np.flatnonzero(np.isinf(prepared.caps))
    if not len(hard):
        return None
    zero = np.where(progress.lowered > -np.inf, 0.0, -np.inf)
    arriving = np.where(prepared.arriving > -np.inf, 0.0, -np.inf)
    labels, ahead = np.zeros(len(zero), np.int64), np.empty_like(zero)
    rows: list[np.ndarray] = []
    duals = np.zeros(len(prepared.caps))
    duals[hard] = 1.0
    for number in range(1, most_passes + 1):
        unary, moved = priced(zero, arriving, tables, prepared.classes, duals)
        completions(unary, moved, ahead)
        value = best_path(unary, moved, ahead, labels) + float(duals @ tables.counter_bound)
        progress.iterations += 1
        if value < -MARGIN:
            return duals
        excesses = progress.offer(labels)[1]
        if progress.best > -np.inf or number == most_passes or progress.deadline.over:
            return None
        progress.nodes += NODES_PER_PROGRAMME + len(rows) * len(hard) // CELLS_PER_NODE
        rows.append(-excesses[hard].astype(np.float64))
        found = _next_combination(np.array(rows))
        if found is None or found[0] > -MARGIN:
            return None
        duals[hard] = found[1]
    return None


def _next_combination(rows: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Least z with rows @ lambda <= z for some 0 <= lambda <= 1: (z, lambda)."""
    from scipy.optimize import linprog

    count = rows.shape[1]
    found = linprog(
        np.r_[np.zeros(count), 1.0],
        A_ub=np.c_[rows, -np.ones(len(rows))],
        b_ub=np.zeros(len(rows)),
        bounds=[(0.0, 1.0)] * count + [(None, None)],
        method="highs-ds",
    )
    return None if found.x is None else (float(found.fun), np.clip(found.x[:count], 0.0, 1.0))
