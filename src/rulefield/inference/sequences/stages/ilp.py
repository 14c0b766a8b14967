"""Integer programs over what bounds leave of a chain, solved by HiGHS.

Improves: the labeling and the bound.
Pays: on long chains, whose many small conflicts multiply in a product; if hard rules tie most labels together; if a rule is
known by its linear rows only.
Charged: a program before it is solved by its size, afterwards by HiGHS's simplex iterations.
Reference: [Fersini14], eqs. 12-16; parts are fixed by reduced costs.
"""

import numpy as np

from rulefield.inference.highs import Program, minimize
from rulefield.inference.sequences.prepare import Prepared
from rulefield.inference.sequences.program import ChainParts, add_rules, all_parts, build, labels_of, open_parts
from rulefield.inference.sequences.progress import DualPotentials, Progress
from rulefield.inference.sequences.stages.product import FIRST_WINDOW_NATS, WIDENING
from rulefield.problem.chain_rules import Rows

UNITS_PER_PART, UNITS_PER_TIED_PART = 120, 1_500
"""Expected units of work per part of a program, and if hard rules tie most labels together (from 18 calls). A program that
is expected to exceed the work left is not begun."""

UNITS_PER_RULE = 300
"""Units of work of writing the rows of a rule."""


def run_windows(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Solve programs over the parts of windows below the bound that grow while they are affordable.

    A window without an optimum lowers the bound to its floor; the one that holds all that can beat a known labeling is the
    last, and comes as soon as it is no larger than a next one may be. Rules that only HiGHS can read get all parts at once.
    """
    if progress.prepared.flat.shared.rows_only:
        run_reduced(progress, dual, limit)
        return
    width, units = FIRST_WINDOW_NATS, UNITS_PER_TIED_PART if ties_labels(progress) else UNITS_PER_PART
    while not progress.settled and not progress.deadline.over:
        before = progress.bound
        threshold, parts = _window(progress, dual, width)
        if units * parts.choices > limit - progress.nodes:
            return
        _solve_parts(progress, dual, parts, threshold, limit)
        if not progress.bound < before:
            return
        width *= WIDENING


def run_reduced(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Solve the program over the parts that bounds leave open; what they closed cannot beat the best."""
    threshold = progress.best + progress.slack
    _solve_parts(progress, dual, open_parts(progress.prepared, dual, threshold), threshold, limit)


def run_whole(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Solve the program over all parts: the reference engine."""
    _solve_parts(progress, dual, all_parts(progress.prepared), -np.inf, limit)


def run_feasible(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Look for a labeling that obeys the hard rules, or prove that there is none, by a program over tokens without steps.

    Soft rules and scores of steps are left out, so the program is small. It says nothing if a hard rule, or a forbidden
    step, is about steps.
    """
    prepared = progress.prepared
    n, m = prepared.unary.shape
    step, label = np.nonzero(prepared.unary > -np.inf)
    none = np.zeros(0, np.int64)
    parts = ChainParts(step, label, none, none, prepared.unary[step, label], np.zeros(0))
    if np.isinf(prepared.arriving).any() or UNITS_PER_PART * parts.size // 3 > limit - progress.nodes:
        return
    rules = enumerate(prepared.flat.rules)
    hard = {r: rule.make_rows() for r, rule in rules if rule.weight == np.inf and not prepared.tables.local[r]}
    if any(_has_steps(rows, n, m) for rows in hard.values()):
        return
    program = Program()
    program.add_columns(-parts.node_score, 1.0, True)
    program.add_rows(step, np.arange(len(step)), np.ones(len(step)), np.ones(n), equal=True)
    add_rules(program, prepared, parts, hard)
    found = minimize(program, limit - progress.nodes, progress.deadline.left, relative_gap=1.0)  # the first solution
    progress.charge(found.units)
    labels = labels_of(parts, found.values, n)
    if labels is not None:
        progress.offer(labels)
    if found.lower_bound == np.inf:
        progress.bound = -np.inf


def ties_labels(progress: Progress) -> bool:
    """Whether there are at least two hard counters per label, so that rules tie all of the chain together."""
    return np.count_nonzero(np.isinf(progress.prepared.caps)) >= 2 * progress.prepared.unary.shape[1]


def may_be_satisfied(prepared: Prepared, most_units: int) -> bool:
    """Whether one integer program does not prove that no labeling obeys all hard rules."""
    progress = Progress.start(prepared)
    _solve_parts(progress, None, all_parts(prepared), -np.inf, most_units)
    return progress.bound > -np.inf


def _solve_parts(
    progress: Progress, dual: DualPotentials | None, parts: ChainParts, threshold: float, limit: int
) -> None:
    """Solve the program over some parts; no labeling with other parts beats the threshold under the duals."""
    prepared, bound = progress.prepared, -np.inf
    n = len(prepared.unary)
    if len(np.unique(parts.step)) == n:
        found = minimize(build(prepared, parts), limit - progress.nodes, progress.deadline.left)
        progress.charge(found.units + UNITS_PER_RULE * len(prepared.flat.rules))
        labels, bound = labels_of(parts, found.values, n), prepared.sure_cost - found.lower_bound
        if labels is not None:
            progress.offer(labels)
    excluded = threshold + dual.error if dual is not None and threshold > -np.inf else threshold
    progress.bound = min(progress.bound, max(bound, excluded, progress.best))


def _has_steps(rows: Rows, n: int, m: int) -> bool:
    """Whether rows have an entry at a step between two tokens."""
    return bool(((rows.column >= n * m) & (rows.column < n * m + (n - 1) * m * m) & (rows.value != 0)).any())


def _window(progress: Progress, dual: DualPotentials, width: float) -> tuple[float, ChainParts]:
    """Return the floor and the parts of a window of a width in nats, or of all that is open if that is not much more."""
    least = progress.best + progress.slack
    threshold = max(progress.bound - width, least)
    parts = open_parts(progress.prepared, dual, threshold)
    if threshold > least:
        last = open_parts(progress.prepared, dual, least)
        if last.size == parts.size or (least > -np.inf and last.choices <= WIDENING * parts.choices):
            return least, last
    return threshold, parts
