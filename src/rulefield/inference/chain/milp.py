"""The integer programme of a chain under rules, solved by HiGHS (``scipy.optimize.milp``)."""

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from rulefield.inference.chain.dual import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.chain.prepare import Prepared, prepare
from rulefield.inference.highs import HIGHS_SCALE, proved_cost
from rulefield.inference.result import Result
from rulefield.kernels.lattice.lattice import chain_lattice
from rulefield.problem.chain_rules import ChainProblem

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

FIRST_WIDTH, WIDENING = 0.2, 3.0
"""Nats of the first window below the bound, and how much wider each is than the one before."""

NEARLY_ALL = 2.0
"""Where all that is open is at most so many times what is in a window, the window is left out."""

NODES_PER_BRANCHING = 50_000
"""A node of HiGHS's branch and bound after the first counts as so many units of work."""

UNITS_PER_PART = 20
"""Units of work that a part of a window is charged with."""


@dataclass(frozen=True)
class ChainParts:
    """The node and edge parts of a chain that an integer programme is about.

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
        """Number of parts beyond those of one labelling: what a solver has to decide about."""
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
    return ChainParts(step, label, source[kept], target[kept], prepared.unary[step, label], scores[kept])


def open_parts(prepared: Prepared, dual: DualPotentials, threshold: float) -> ChainParts:
    """Parts whose max-marginal under the duals beats the threshold: no other part is in a better labelling."""
    lattice = chain_lattice(dual.unary, dual.arriving, dual.ahead, dual.constant, threshold)
    step = np.repeat(np.arange(len(lattice.layer) - 1), np.diff(lattice.layer))
    source = np.repeat(np.arange(len(lattice.label)), np.diff(lattice.arc_ptr))
    target, label = lattice.arc_to, lattice.label
    which = np.minimum(step[source], len(prepared.arriving) - 1)
    edge_score = prepared.arriving[which, label[target], label[source]]
    return ChainParts(step, label, source, target, prepared.unary[step, label], edge_score)


@dataclass
class Programme:
    """Columns (objective to minimise, upper bounds, integrality) and rows collected so far."""

    cost: list[np.ndarray]
    upper: list[np.ndarray]
    integral: list[np.ndarray]
    columns: int
    rows: int
    row: list[np.ndarray]
    column: list[np.ndarray]
    value: list[np.ndarray]
    low: list[np.ndarray]
    high: list[np.ndarray]

    @classmethod
    def empty(cls) -> "Programme":
        """No columns and no rows."""
        return cls([], [], [], 0, 0, [], [], [], [], [])

    def add_columns(self, cost: np.ndarray, upper: float, integral: bool) -> int:
        """Add columns with values in [0, upper]; return the number of the first."""
        start = self.columns
        self.cost.append(np.asarray(cost, dtype=np.float64))
        self.upper.append(np.full(len(cost), upper))
        self.integral.append(np.full(len(cost), int(integral)))
        self.columns += len(cost)
        return start

    def add_rows(
        self, row: np.ndarray, column: np.ndarray, value: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        """Add rows low <= A x <= high; ``row`` counts from 0 within the new ones."""
        self.row.append(np.asarray(row, dtype=np.int64) + self.rows)
        self.column.append(np.asarray(column, dtype=np.int64))
        self.value.append(np.asarray(value, dtype=np.float64))
        self.low.append(np.asarray(low, dtype=np.float64))
        self.high.append(np.asarray(high, dtype=np.float64))
        self.rows += len(high)

    def constraint(self) -> "LinearConstraint":
        """Return all rows."""
        from scipy.optimize import LinearConstraint

        entries = np.concatenate(self.value), (np.concatenate(self.row), np.concatenate(self.column))
        matrix = csr_array(entries, shape=(self.rows, self.columns))
        return LinearConstraint(matrix, np.concatenate(self.low), np.concatenate(self.high))


def _add_flow(programme: Programme, parts: ChainParts, n: int) -> None:
    """[Fersini14], eqs. 12-16: one unit flows along the edges; a node part is the flow through its node.

    Node parts are declared 0/1, which makes the edges 0/1 by themselves: HiGHS is up to ten times faster than when
    the edges are declared so (eq. 15).
    """
    nodes, edges = len(parts.step), len(parts.source)
    programme.add_columns(-parts.node_score, 1.0, True)
    start = programme.add_columns(-parts.edge_score, 1.0, False)
    first = np.flatnonzero(parts.step == 0)
    one = np.ones(1)
    programme.add_rows(np.zeros(len(first)), first, np.ones(len(first)), one, one)
    numbers = np.arange(edges) + start
    for end, needed in ((parts.source, parts.step < n - 1), (parts.target, parts.step > 0)):
        kept = np.flatnonzero(needed)
        place = np.full(nodes, -1, np.int64)
        place[kept] = np.arange(len(kept))
        zero = np.zeros(len(kept))
        row = np.concatenate([place[kept], place[end]])
        value = np.concatenate([-np.ones(len(kept)), np.ones(edges)])
        programme.add_rows(row, np.concatenate([kept, numbers]), value, zero, zero)


def _add_rules(programme: Programme, prepared: Prepared, parts: ChainParts) -> None:
    """Rows of all rules that are not inside the potentials, with slacks (soft) or without (hard)."""
    n, m = prepared.unary.shape
    where = np.full(n * m + max(n - 1, 0) * m * m, -1, np.int64)
    where[parts.step * m + parts.label] = np.arange(len(parts.step))
    cells = (parts.step[parts.source] * m + parts.label[parts.source]) * m + parts.label[parts.target]
    where[n * m + cells] = len(parts.step) + np.arange(len(parts.source))
    for r, rule in enumerate(prepared.flat.rules):
        if prepared.tables.local[r] or rule.weight == 0.0:
            continue
        rows = rule.make_rows()
        auxiliary = programme.add_columns(np.zeros(rows.n_auxiliary), 1.0, True)
        place = np.concatenate([where, auxiliary + np.arange(rows.n_auxiliary)])[rows.column]
        kept = place >= 0
        row, column, value = rows.row[kept], place[kept], rows.value[kept]
        slack = np.flatnonzero(rows.may_slack)
        if np.isfinite(rule.weight):
            start = programme.add_columns(np.full(len(slack), 0.0 if rule.once else rule.weight), np.inf, False)
            numbers = start + np.arange(len(slack))
            row = np.concatenate([row, slack])
            column = np.concatenate([column, numbers])
            value = np.concatenate([value, -np.ones(len(slack))])
        programme.add_rows(row, column, value, np.full(len(rows.bound), -np.inf), rows.bound)
        if np.isfinite(rule.weight) and rule.once and len(slack):
            paid = programme.add_columns(np.full(1, rule.weight), 1.0, True)
            column = np.concatenate([numbers, [paid]])
            value = np.concatenate([np.ones(len(slack)), [-float(max(rule.max_amount, 1))]])
            programme.add_rows(np.zeros(len(column)), column, value, np.full(1, -np.inf), np.zeros(1))


def build(prepared: Prepared, parts: ChainParts) -> Programme:
    """Build the programme over some parts: least (penalties - score)."""
    programme = Programme.empty()
    _add_flow(programme, parts, len(prepared.unary))
    _add_rules(programme, prepared, parts)
    return programme


def run_highs(
    programme: Programme, parts: ChainParts, n: int, node_limit: int | None, seconds: float | None
) -> tuple[np.ndarray | None, float, int]:
    """Minimise a programme with a zero gap: (labels or None, proved lower bound, inf where infeasible, nodes)."""
    from scipy.optimize import Bounds, milp

    options: dict[str, float] = {"mip_rel_gap": 0.0}
    if node_limit is not None:
        options["node_limit"] = node_limit
    if seconds is not None:
        options["time_limit"] = max(seconds, 0.0)
    found = milp(
        HIGHS_SCALE * np.concatenate(programme.cost),
        integrality=np.concatenate(programme.integral),
        bounds=Bounds(0.0, np.concatenate(programme.upper)),
        constraints=programme.constraint(),
        options=options,
    )
    nodes = int(getattr(found, "mip_node_count", 0) or 0)
    bound = proved_cost(found, programme.cost)
    if found.x is None:
        return None, bound, nodes
    labels = np.zeros(n, np.int64)
    chosen = np.flatnonzero(found.x[: len(parts.step)] > 0.5)
    labels[parts.step[chosen]] = parts.label[chosen]
    return labels, bound, nodes


def solve(
    prepared: Prepared, parts: ChainParts, node_limit: int | None = None, seconds: float | None = None
) -> tuple[np.ndarray | None, float, int]:
    """Solve the programme over some parts: (labels or None, upper bound, nodes)."""
    n = len(prepared.unary)
    if len(np.unique(parts.step)) < n:
        return None, -np.inf, 0
    programme = build(prepared, parts)
    labels, bound, nodes = run_highs(programme, parts, n, node_limit, seconds)
    return labels, prepared.sure_cost - bound, nodes


def decode_milp(problem: ChainProblem, node_limit: int | None = None, seconds: float | None = None) -> Result:
    """Decode a chain by one integer programme over all parts: the reference engine ([Fersini14], eqs. 12-16).

    HiGHS is called with a zero gap. ``iterations`` counts its branch and bound nodes.
    """
    progress = Progress.start(prepare(problem))
    _solve_parts(progress, all_parts(progress.prepared), -np.inf, node_limit, seconds)
    return progress.result("milp", progress.nodes)


def _solve_parts(
    progress: Progress, parts: ChainParts, excluded: float, node_limit: int | None, seconds: float | None
) -> None:
    """Solve the programme over some parts; no labelling with other parts has a value above ``excluded``."""
    prepared = progress.prepared
    labels, bound, nodes = solve(prepared, parts, node_limit, seconds)
    progress.nodes += nodes
    if labels is not None:
        value = prepared.value(labels)
        if value > progress.best:
            progress.best = value
            progress.labels[:] = labels
    progress.bound = min(progress.bound, max(bound, excluded, progress.best))


def run_reduced(progress: Progress, dual: DualPotentials, node_limit: int | None, seconds: float | None) -> None:
    """Solve the programme over the parts that bounds leave open; what they closed cannot beat the best."""
    threshold = progress.best + progress.slack
    parts = open_parts(progress.prepared, dual, threshold)
    excluded = threshold + dual.error if threshold > -np.inf else threshold
    _solve_parts(progress, parts, excluded, node_limit, seconds)


def run_windows(
    progress: Progress,
    dual: DualPotentials,
    most_parts: int,
    node_limit: int | None,
    seconds: float,
    units: int = UNITS_PER_PART,
) -> None:
    """Solve programmes over the parts of windows below the bound that grow while at most ``most_parts`` are to be decided.

    A window without an optimum lowers the bound to its floor; the one that holds all that can beat a known labelling is the
    last, and comes as soon as it is hardly larger. Each part counts as so many ``units`` of work, and so do branchings.
    """
    ends, width = monotonic() + seconds, FIRST_WIDTH
    while not progress.settled:
        before, least = progress.bound, progress.best + progress.slack
        threshold = max(before - width, least)
        parts = open_parts(progress.prepared, dual, threshold)
        if threshold > least:
            last = open_parts(progress.prepared, dual, least)
            if last.size == parts.size or (least > -np.inf and last.choices <= NEARLY_ALL * parts.choices):
                threshold, parts = least, last
        left = ends - monotonic()
        if parts.choices > most_parts or left <= 0.0:
            return
        excluded = threshold + dual.error if threshold > -np.inf else threshold
        begun = progress.nodes
        _solve_parts(progress, parts, excluded, node_limit, left)
        branchings = max(progress.nodes - begun - 1, 0)
        progress.nodes += units * parts.size + NODES_PER_BRANCHING * branchings
        if not progress.bound < before:
            return
        width *= WIDENING


def decode_reduced_milp(
    problem: ChainProblem, node_limit: int | None = None, seconds: float | None = None, dual_iterations: int = 60
) -> Result:
    """Decode a chain by Soft-DD, fixing of parts by reduced costs, and HiGHS on the parts left open."""
    progress = Progress.start(prepare(problem))
    run_duals(progress, dual_iterations)
    if not progress.settled:
        run_reduced(progress, dual_potentials(progress), node_limit, seconds)
    return progress.result("reduced_milp", progress.nodes)
