"""The integer program of a chain under rules, over some of its nodes and edges ([Fersini14], eqs. 12-16)."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.highs import Program
from rulefield.inference.sequences.prepare import Prepared
from rulefield.inference.sequences.progress import DualPotentials
from rulefield.kernels.lattice.lattice import chain_lattice
from rulefield.problem.chain_rules import Rows


@dataclass(frozen=True)
class ChainParts:
    """The node and edge parts of a chain that an integer program is about."""

    step: np.ndarray  # int64 (nodes,)
    label: np.ndarray
    source: np.ndarray  # int64 (edges,): numbers of nodes
    target: np.ndarray
    node_score: np.ndarray  # float64
    edge_score: np.ndarray  # float64

    @property
    def size(self) -> int:
        """Number of parts."""
        return len(self.step) + len(self.source)

    @property
    def choices(self) -> int:
        """Number of parts beyond those of one labeling: what a solver has to decide about."""
        return self.size - 2 * len(np.unique(self.step)) + 1


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
    for end, needed in ((parts.source, parts.step < n - 1), (parts.target, parts.step > 0)):
        kept = np.flatnonzero(needed)
        place = np.full(nodes, -1, np.int64)
        place[kept] = np.arange(len(kept))
        row = np.concatenate([place[kept], place[end]])
        value = np.concatenate([-np.ones(len(kept)), np.ones(edges)])
        program.add_rows(row, np.concatenate([kept, numbers]), value, np.zeros(len(kept)), equal=True)


def add_rules(program: Program, prepared: Prepared, parts: ChainParts, rows_of: dict[int, Rows]) -> None:
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
    add_rules(program, prepared, parts, rows)
    return program


def labels_of(parts: ChainParts, values: np.ndarray | None, n: int) -> np.ndarray | None:
    """Return the labels (n,) of a solution; None if there is none."""
    if values is None:
        return None
    labels = np.zeros(n, np.int64)
    chosen = np.flatnonzero(values[: len(parts.step)] > 0.5)
    labels[parts.step[chosen]] = parts.label[chosen]
    return labels
