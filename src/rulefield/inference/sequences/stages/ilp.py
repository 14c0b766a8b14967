"""Integer programs over what bounds leave of a chain, solved by HiGHS.

Improves: the labeling and the bound.
Pays: on long chains, whose many small conflicts multiply in a product; if hard rules tie most labels together; if a rule is
known by its linear rows only.
Charged: a program before it is solved by its size, afterwards by HiGHS's simplex iterations.
Reference: [Fersini14], eqs. 12-16; parts are fixed by reduced costs.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.highs import Program, minimize
from rulefield.inference.result import Result
from rulefield.inference.sequences.prepare import Prepared, prepare
from rulefield.inference.sequences.progress import (
    DualPotentials,
    Progress,
    dual_potentials,
    run_duals,
)
from rulefield.kernels.lattice.lattice import chain_lattice
from rulefield.problem.chain_rules import ChainProblem, Rows

FIRST_WIDTH_NATS, WIDENING = 0.2, 3.0
"""Height of the first window below the bound, and how much higher each is than the one before."""

NEARLY_ALL = 2.0
"""If all that is open is at most so many times what is in a window, the window is left out."""

UNITS_PER_PART, UNITS_PER_TIED_PART = 120, 1_500
"""Expected units of work per part of a program, and if hard rules tie most labels together (from 18 calls). A program that
is expected to exceed the work left is not begun."""

UNITS_PER_RULE = 300
"""Units of work of writing the rows of a rule."""


@dataclass(frozen=True)
class ChainParts:
    """The node and edge parts of a chain that an integer program is about.

    Parameters
    ----------
    step, label : ndarray of int64, shape (nodes,)
    source, target : ndarray of int64, shape (edges,)
        Numbers of nodes.
    node_score, edge_score : ndarray of float64
    """

    step: np.ndarray
    label: np.ndarray
    source: np.ndarray
    target: np.ndarray
    node_score: np.ndarray
    edge_score: np.ndarray

    @property
    def size(self) -> int:
        """Number of parts."""
        return len(self.step) + len(self.source)

    @property
    def choices(self) -> int:
        """Number of parts beyond those of one labeling: what a solver has to decide about."""
        return self.size - 2 * len(np.unique(self.step)) + 1

    def scores_in(self, prepared: Prepared) -> np.ndarray:
        """Scores (nodes + edges,) of the parts under another problem's potentials."""
        which = np.minimum(self.step[self.source], len(prepared.arriving) - 1)
        edges = prepared.arriving[which, self.label[self.target], self.label[self.source]]
        return np.concatenate([prepared.unary[self.step, self.label], edges])


def all_parts(prepared: Prepared) -> ChainParts:
    """Every part that the potentials do not forbid."""
    n, m = prepared.unary.shape
    step, label = np.nonzero(prepared.unary > -np.inf)
    number = np.full((n, m), -1, np.int64)
    number[step, label] = np.arange(len(step))
    arriving = np.broadcast_to(prepared.arriving, (max(n - 1, 0), m, m)) if n > 1 else np.zeros((0, m, m))
    t, to, before = np.nonzero(arriving > -np.inf)
    source, target = number[t, before], number[t + 1, to]
    kept = (source >= 0) & (target >= 0)
    scores = arriving[t, to, before]
    return ChainParts(
        step,
        label,
        source[kept],
        target[kept],
        prepared.unary[step, label],
        scores[kept],
    )


def open_parts(prepared: Prepared, dual: DualPotentials, threshold: float) -> ChainParts:
    """Parts whose max-marginal under the duals beats the threshold: no other part is in a better labeling."""
    lattice = chain_lattice(dual.unary, dual.arriving, dual.ahead, dual.constant, threshold)
    step = np.repeat(np.arange(len(lattice.layer) - 1), np.diff(lattice.layer))
    source = np.repeat(np.arange(len(lattice.label)), np.diff(lattice.arc_ptr))
    target, label = lattice.arc_to, lattice.label
    which = np.minimum(step[source], len(prepared.arriving) - 1)
    edge_score = prepared.arriving[which, label[target], label[source]]
    return ChainParts(step, label, source, target, prepared.unary[step, label], edge_score)


def _add_flow(program: Program, parts: ChainParts, n: int) -> None:
    """[Fersini14], eqs. 12-16: one unit flows along the edges; a node part is the flow through its node.

    Node parts are declared 0/1, which makes the edges 0/1 by themselves: HiGHS is up to ten times faster than when
    the edges are declared so (eq. 15).
    """
    nodes, edges = len(parts.step), len(parts.source)
    program.add_columns(-parts.node_score, 1.0, True)
    start = program.add_columns(-parts.edge_score, 1.0, False)
    first = np.flatnonzero(parts.step == 0)
    program.add_rows(np.zeros(len(first)), first, np.ones(len(first)), np.ones(1), equal=True)
    numbers = np.arange(edges) + start
    for end, needed in (
        (parts.source, parts.step < n - 1),
        (parts.target, parts.step > 0),
    ):
        kept = np.flatnonzero(needed)
        place = np.full(nodes, -1, np.int64)
        place[kept] = np.arange(len(kept))
        row = np.concatenate([place[kept], place[end]])
        value = np.concatenate([-np.ones(len(kept)), np.ones(edges)])
        program.add_rows(row, np.concatenate([kept, numbers]), value, np.zeros(len(kept)), equal=True)


def _add_rules(program: Program, prepared: Prepared, parts: ChainParts, rows_of: dict[int, Rows]) -> None:
    """Add the rows of rules, by their place, with slacks (soft) or without (hard)."""
    n, m = prepared.unary.shape
    where = np.full(n * m + max(n - 1, 0) * m * m, -1, np.int64)
    where[parts.step * m + parts.label] = np.arange(len(parts.step))
    cells = (parts.step[parts.source] * m + parts.label[parts.source]) * m + parts.label[parts.target]
    where[n * m + cells] = len(parts.step) + np.arange(len(parts.source))
    for r, rows in rows_of.items():
        rule = prepared.flat.rules[r]
        auxiliary = program.add_columns(np.zeros(rows.n_auxiliary), 1.0, True)
        place = np.concatenate([where, auxiliary + np.arange(rows.n_auxiliary)])[rows.column]
        kept = place >= 0
        row, column, value = rows.row[kept], place[kept], rows.value[kept]
        slack = np.flatnonzero(rows.may_slack)
        if np.isfinite(rule.weight):
            start = program.add_columns(np.full(len(slack), 0.0 if rule.once else rule.weight), np.inf, False)
            numbers = start + np.arange(len(slack))
            row = np.concatenate([row, slack])
            column = np.concatenate([column, numbers])
            value = np.concatenate([value, -np.ones(len(slack))])
        program.add_rows(row, column, value, rows.bound)
        if np.isfinite(rule.weight) and rule.once and len(slack):
            paid = program.add_columns(np.full(1, rule.weight), 1.0, True)
            column = np.concatenate([numbers, [paid]])
            value = np.concatenate([np.ones(len(slack)), [-float(max(rule.max_amount, 1))]])
            program.add_rows(np.zeros(len(column)), column, value, np.zeros(1))


def build(prepared: Prepared, parts: ChainParts) -> Program:
    """Build the program over some parts: least (penalties - score)."""
    program = Program()
    _add_flow(program, parts, len(prepared.unary))
    rules = enumerate(prepared.flat.rules)
    rows = {r: rule.make_rows() for r, rule in rules if not prepared.tables.local[r] and rule.weight != 0.0}
    _add_rules(program, prepared, parts, rows)
    return program


def labels_of(parts: ChainParts, values: np.ndarray | None, n: int) -> np.ndarray | None:
    """Return the labels (n,) of a solution; None if there is none."""
    if values is None:
        return None
    labels = np.zeros(n, np.int64)
    chosen = np.flatnonzero(values[: len(parts.step)] > 0.5)
    labels[parts.step[chosen]] = parts.label[chosen]
    return labels


def may_be_satisfied(prepared: Prepared, most_units: int) -> bool:
    """Whether one integer program does not prove that no labeling obeys all hard rules."""
    return _solve(prepared, all_parts(prepared), most_units, None)[1] > -np.inf


def _solve(
    prepared: Prepared, parts: ChainParts, most_units: float, seconds: float | None
) -> tuple[np.ndarray | None, float, int]:
    """Solve the program over some parts: (labels or None, upper bound, units of work)."""
    n = len(prepared.unary)
    if len(np.unique(parts.step)) < n:
        return None, -np.inf, 0
    found = minimize(build(prepared, parts), most_units, seconds)
    units = found.units + UNITS_PER_RULE * len(prepared.flat.rules)
    return (
        labels_of(parts, found.values, n),
        prepared.sure_cost - found.lower_bound,
        units,
    )


def decode_milp(problem: ChainProblem, node_limit: int | None = None, seconds: float | None = None) -> Result:
    """Decode a chain by one integer program over all parts: the reference engine ([Fersini14], eqs. 12-16).

    HiGHS is called with a zero gap. ``iterations`` counts units of work.
    """
    progress = Progress.start(prepare(problem))
    _solve_parts(
        progress,
        all_parts(progress.prepared),
        -np.inf,
        np.inf if node_limit is None else node_limit,
        seconds,
    )
    return progress.result("milp", progress.nodes)


def _solve_parts(
    progress: Progress,
    parts: ChainParts,
    excluded: float,
    most_units: float,
    seconds: float | None,
) -> None:
    """Solve the program over some parts; no labeling with other parts has a value above ``excluded``."""
    labels, bound, units = _solve(progress.prepared, parts, most_units, seconds)
    progress.charge(units)
    if labels is not None:
        progress.offer(labels)
    progress.bound = min(progress.bound, max(bound, excluded, progress.best))


def run_reduced(progress: Progress, dual: DualPotentials, most_units: float, seconds: float | None) -> None:
    """Solve the program over the parts that bounds leave open; what they closed cannot beat the best."""
    threshold = progress.best + progress.slack
    parts = open_parts(progress.prepared, dual, threshold)
    excluded = threshold + dual.error if threshold > -np.inf else threshold
    _solve_parts(progress, parts, excluded, most_units, seconds)


def run_windows(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Solve programs over the parts of windows below the bound that grow while they are affordable.

    A window without an optimum lowers the bound to its floor; the one that holds all that can beat a known labeling is the
    last, and comes as soon as it is hardly larger. Rules that only HiGHS can read get all parts at once.
    """
    if progress.prepared.flat.shared.rows_only:
        run_reduced(progress, dual, max(limit - progress.nodes, 1), progress.deadline.left)
        return
    width, units = (
        FIRST_WIDTH_NATS,
        UNITS_PER_TIED_PART if ties_labels(progress) else UNITS_PER_PART,
    )
    while not progress.settled and not progress.deadline.over:
        before = progress.bound
        threshold, parts = _window(progress, dual, width)
        if units * parts.choices > limit - progress.nodes:
            return
        excluded = threshold + dual.error if threshold > -np.inf else threshold
        _solve_parts(progress, parts, excluded, limit - progress.nodes, progress.deadline.left)
        if not progress.bound < before:
            return
        width *= WIDENING


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
    _add_rules(program, prepared, parts, hard)
    found = minimize(program, limit - progress.nodes, progress.deadline.left, relative_gap=1.0)  # the first solution
    progress.charge(found.units)
    labels = labels_of(parts, found.values, n)
    if labels is not None:
        progress.offer(labels)
    if found.lower_bound == np.inf:
        progress.bound = -np.inf


def _has_steps(rows: Rows, n: int, m: int) -> bool:
    """Whether rows have an entry at a step between two tokens."""
    return bool(((rows.column >= n * m) & (rows.column < n * m + (n - 1) * m * m) & (rows.value != 0)).any())


def ties_labels(progress: Progress) -> bool:
    """Whether there are at least two hard counters per label, so that rules tie all of the chain together."""
    return np.count_nonzero(np.isinf(progress.prepared.caps)) >= 2 * progress.prepared.unary.shape[1]


def _window(progress: Progress, dual: DualPotentials, width: float) -> tuple[float, ChainParts]:
    """Return the floor and the parts of a window of a width in nats, or of all that is open if that is hardly more."""
    least = progress.best + progress.slack
    threshold = max(progress.bound - width, least)
    parts = open_parts(progress.prepared, dual, threshold)
    if threshold > least:
        last = open_parts(progress.prepared, dual, least)
        if last.size == parts.size or (least > -np.inf and last.choices <= NEARLY_ALL * parts.choices):
            return least, last
    return threshold, parts


def decode_reduced_milp(
    problem: ChainProblem,
    node_limit: int | None = None,
    seconds: float | None = None,
    dual_iterations: int = 60,
) -> Result:
    """Decode a chain by Soft-DD, fixing of parts by reduced costs, and HiGHS on the parts left open."""
    progress = Progress.start(prepare(problem))
    run_duals(progress, dual_iterations)
    if not progress.settled:
        most_units = np.inf if node_limit is None else node_limit
        run_reduced(progress, dual_potentials(progress), most_units, seconds)
    return progress.result("reduced_milp", progress.nodes)
