"""How often each label may occur, as hard rules imply it together: rules that say so take the place of those that follow.

Improves: the bound, and the labeling.
Pays: if hard rules compare counts of labels.
Charged: each small linear program by its size.
Reference: tightening of bounds by linear programs (Savelsbergh, 1994).
"""

from dataclasses import replace
from functools import partial

import numpy as np

from rulefield.inference.limits import NO_DEADLINE, Deadline
from rulefield.inference.result import TOLERANCE
from rulefield.inference.sequences.prepare import Prepared, prepare
from rulefield.inference.sequences.progress import FEW_STATES, MOST_PASSES, DualPotentials, Progress, run_duals
from rulefield.inference.sequences.stages.columns import UNITS_PER_PROGRAM
from rulefield.problem.chain_rules import ChainProblem, CompiledRule, Counter, Rows, Tally

PROBES = 5
"""So many labels are asked for first; where none of them is bounded well the others are not asked for."""


def run_counts(progress: Progress, dual: DualPotentials, limit: float = np.inf) -> None:
    """Read the problem with the counts of labels that its hard rules imply, where these compare counts.

    Forty labels that occur equally often in eighty tokens occur twice each. Said label by label the same rules are three
    states each instead of running differences, whose values are many and which say little alone. What the new bounds imply
    is no longer read by engines (the checker reads all rules as they are). Labelings and their values stay the same.
    """
    prepared = progress.prepared
    n, m = prepared.unary.shape
    rows, limits = _hard_counts(prepared)
    compared = (np.count_nonzero(rows, axis=1) > 1).any() if len(rows) else False
    if not compared or progress.nodes + 2 * m * UNITS_PER_PROGRAM > limit:
        return
    most = np.count_nonzero(prepared.unary > -np.inf, axis=0).astype(np.float64)
    labels = np.flatnonzero(rows[np.count_nonzero(rows, axis=1) > 1].any(axis=0))
    tried = labels[:: -(-len(labels) // PROBES)]
    progress.charge(2 * len(tried) * UNITS_PER_PROGRAM)
    bounds = implied_counts(rows, limits, n, most, tried, progress.deadline)
    if bounds is not None and (bounds[1] - bounds[0])[tried].min() <= FEW_STATES:
        progress.charge(2 * len(labels) * UNITS_PER_PROGRAM)
        bounds = implied_counts(rows, limits, n, most, labels, progress.deadline)
        again = None if bounds is None else _read_again(prepared, rows, limits, *bounds)
        if again is not None:
            _take_over(progress, again)
    if bounds is not None and (bounds[0] > bounds[1]).any():
        progress.bound = -np.inf


def _hard_counts(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Return what each hard counter of labels counts (counters, m), and its limit: rows @ counts <= limits."""
    tables, m = prepared.tables, prepared.unary.shape[1]
    hard = np.flatnonzero(np.isinf(prepared.caps) & tables.counter_plain)
    rows = np.array([tables.node[at : at + m] for at in tables.node_at[hard]], dtype=np.float64)
    return rows.reshape(-1, m), tables.counter_bound[hard].astype(np.float64)


def implied_counts(
    rows: np.ndarray,
    limits: np.ndarray,
    n: int,
    most: np.ndarray,
    labels: np.ndarray,
    deadline: Deadline = NO_DEADLINE,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Least and largest whole counts (m,), (m,) with rows @ counts <= limits, 0 <= counts <= most, their sum n.

    Only those of ``labels`` are computed, two linear programs each; a least count above the largest says that nothing obeys
    the rows. None if a program was not solved, or time is over. Each bound is computed from the program's multipliers, so
    that it holds however well that was solved.
    """
    low, high = np.zeros_like(most), most.copy()
    for label in labels:
        goal = np.eye(len(most))[label]
        above, below = (_largest(sign * goal, rows, limits, n, most) for sign in (1.0, -1.0))
        if above is None or below is None or deadline.over:
            return None
        high[label] = min(most[label], np.floor(above + TOLERANCE))
        low[label] = max(0.0, np.ceil(-below - TOLERANCE))
    return low, high


def _largest(goal: np.ndarray, rows: np.ndarray, limits: np.ndarray, n: int, most: np.ndarray) -> float | None:
    """Upper bound of goal @ counts: for multipliers y >= 0 and z, y @ limits + z n + the positive rest times ``most``."""
    from scipy.optimize import linprog

    found = linprog(
        -goal,
        A_ub=rows,
        b_ub=limits,
        A_eq=np.ones((1, len(goal))),
        b_eq=[n],
        bounds=np.c_[np.zeros_like(most), most],
        method="highs-ds",
    )
    if found.status != 0:
        return None
    y, z = np.maximum(-found.ineqlin.marginals, 0.0), -found.eqlin.marginals[0]
    return float(y @ limits + z * n + np.maximum(goal - y @ rows - z, 0.0) @ most)


def _read_again(
    prepared: Prepared, rows: np.ndarray, limits: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Prepared | None:
    """Return the problem with rules for counts of labels, without those that they imply; None where they say nothing new."""
    if (low > high).any():
        return None
    n, m = prepared.unary.shape
    single = np.count_nonzero(rows, axis=1) == 1
    most = np.count_nonzero(prepared.unary > -np.inf, axis=0).astype(np.float64)
    known_low, known_high = np.zeros(m), most.copy()
    for row, limit in zip(rows[single], limits[single], strict=True):
        label = int(np.flatnonzero(row)[0])
        if row[label] > 0:
            known_high[label] = min(known_high[label], np.floor(limit / row[label]))
        else:
            known_low[label] = max(known_low[label], np.ceil(limit / row[label]))
    new = ((low > known_low) | (high < known_high)) & ((high - low <= FEW_STATES) | (high <= FEW_STATES))
    said = [_count_rule(m, n, label, low[label], high[label]) for label in np.flatnonzero(new).tolist()]
    if not said:
        return None
    surely = (
        np.where(new, low, 0.0),
        np.where(new, high, most),
    )  # what is not said may follow from rules alone: keep these
    kept = tuple(rule for rule in prepared.problem.rules if not _follows(rule, *surely))
    again = prepare(ChainProblem(prepared.problem.potentials, (*kept, *said)))
    return replace(again, problem=prepared.problem, own=prepared.own) if again.offset == prepared.offset else None


def _follows(rule: CompiledRule, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether counts of labels between bounds never break a hard rule that only counts labels."""
    if rule.weight != np.inf or not rule.counters or rule.tally is not None:
        return False
    for counter in rule.counters:
        tally = counter.tally
        if len(tally.node) > 1 or tally.edge is not None or tally.first is not None:
            return False
        if float(np.maximum(tally.node[0] * low, tally.node[0] * high).sum()) > counter.bound:
            return False
    return True


def _count_rule(m: int, n: int, label: int, low: float, high: float) -> CompiledRule:
    """Say that a label occurs at least and at most so often."""
    node = np.zeros((1, m), np.int32)
    node[0, label] = 1
    counters = (Counter(Tally(node), int(high)), Counter(Tally(-node), -int(low)))
    rows = partial(_rows, n, m, label, int(low), int(high))
    return CompiledRule(-1, np.inf, False, np.zeros(n, np.uint16), None, counters, None, lambda: n, rows)


def _rows(n: int, m: int, label: int, low: int, high: int) -> Rows:
    column = np.arange(n) * m + label
    value = np.ones(n)
    row = np.repeat(np.arange(2), n)
    bound = np.array([high, -low], dtype=np.float64)
    return Rows(row, np.r_[column, column], np.r_[value, -value], bound, np.ones(2, np.bool_))


def _take_over(progress: Progress, prepared: Prepared) -> None:
    """Go on with another form of the problem: what is known of labelings stays, duals begin anew."""
    fresh = Progress.start(prepared)
    run_duals(fresh, MOST_PASSES)
    progress.prepared, progress.lowered, progress.constant = prepared, fresh.lowered, fresh.constant
    progress.duals, progress.priced = fresh.duals, fresh.priced
    progress.step, progress.window_units = 0.0, 0
    progress.terms.clear()
    progress.__dict__.pop("prices", None)
    progress.bound = min(progress.bound, fresh.bound)
    progress.iterations += fresh.iterations
    progress.charge(fresh.nodes)
    if fresh.best > progress.best:
        progress.best, progress.labels[:] = fresh.best, fresh.labels
