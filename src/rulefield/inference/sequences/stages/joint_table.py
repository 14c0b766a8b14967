"""Several automata at once: exact completions over their joint states, which bound all that follows.

Improves: the bound; the product begins with the lattice of the table, so its rules never multiply one another again.
Pays: if rules read by small automata are broken by the best path.
Charged: a unit for every 400 steps between joint states.
Reference: dynamic programming over the product of automata, grown by the rule that is broken most.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.result import rounding_error
from rulefield.inference.sequences.progress import MOST_NODES, STEPS_PER_UNIT, DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path
from rulefield.kernels.lattice.joint import (
    JointSteps,
    Readers,
    joint_bound,
    joint_completions,
    joint_lattice,
    joint_steps,
)
from rulefield.kernels.lattice.lattice import Lattice, lattice_path
from rulefield.kernels.lattice.terms import entered_states

MOST_CELLS = 1_000_000
"""Cells of a table: labels and joint states of all tokens."""


def run_joint(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Grow the joint table by the automaton that its best path breaks most, until none is broken or it is large enough."""
    table = progress.table
    labels: np.ndarray | None = np.zeros_like(progress.labels)
    if table is None:
        best_path(dual.unary, dual.arriving, dual.ahead, labels)
    else:
        labels = table.best_labels()
    while labels is not None and not progress.settled and progress.nodes < limit and not progress.deadline.over:
        known = () if progress.table is None else progress.table.rules
        rule = _most_broken(progress, labels, known)
        table = None if rule is None else make_table(progress, dual, (*known, rule), MOST_CELLS)
        if table is None:
            return
        progress.table = table
        progress.bound = min(progress.bound, table.value + table.error)  # -inf: nothing obeys these rules
        labels = table.best_labels()


def _most_broken(progress: Progress, labels: np.ndarray, known: tuple[int, ...]) -> int | None:
    """Of the automata left, the one whose cost most exceeds its charge, then of fewest states; None where none is broken."""
    tables = progress.prepared.tables
    amounts, _ = progress.offer(labels)
    found, most = None, (0.0, 0)
    for r in progress.prepared.flat.shared.automaton_rules:
        hard = tables.weight[r] == np.inf
        if r in known or amounts[r] <= 0 or tables.local[r] or (tables.once[r] and not hard):
            continue
        prices = progress.prices.get(r)
        charged = 0.0 if prices is None else prices[2] + float(prices[0][np.arange(len(labels)), labels].sum())
        worth = tables.weight[r] * amounts[r] - charged, -int(tables.states[tables.rule_automaton[r]])
        if worth > most:
            found, most = r, worth
    return found


@dataclass(frozen=True)
class JointTable:
    """Exact completions over labels and joint states of some rules' automata; all other rules priced as in the duals.

    Parameters
    ----------
    dual : DualPotentials
        What the other rules are priced by.
    rules : tuple of int
        Places of the rules that are exact.
    unary, constant : ndarray (n, m), float
        The duals' potentials without what they charge for these rules.
    kind : ndarray of int64, shape (n, m)
        What the automata read at each token with each label.
    steps : JointSteps
    ahead : ndarray of float64, shape (n, m, states)
    """

    dual: DualPotentials
    rules: tuple[int, ...]
    unary: np.ndarray
    constant: float
    kind: np.ndarray
    steps: JointSteps
    ahead: np.ndarray

    @property
    def value(self) -> float:
        """No labeling has a higher value, but for rounding."""
        return float(joint_bound(self.unary, self.kind, self.steps, self.ahead)) + self.constant

    @property
    def error(self) -> float:
        """Bound on what rounding may hide of the score of a path near the best one."""
        sums = 0.0 if self.value == -np.inf else self.value
        return self.dual.error + rounding_error(len(self.unary) * (len(self.rules) + 1), sums)

    def lattice(self, threshold: float, most_nodes: int, most_arcs: int) -> tuple[bool, Lattice]:
        """Return whether they are no more than allowed, and the labels and joint states on paths that beat a threshold."""
        least = threshold - self.constant
        return joint_lattice(
            self.unary, self.dual.arriving, self.kind, self.steps, self.ahead, least, most_nodes, most_arcs
        )

    def best_labels(self) -> np.ndarray | None:
        """Return the labels of a best path; None where there is none, or too many are as good."""
        labels = np.zeros(len(self.unary), np.int64)
        done, lattice = self.lattice(self.value - self.error, MOST_NODES, MOST_NODES)
        return labels if done and lattice_path(lattice, labels) else None


def make_table(
    progress: Progress, dual: DualPotentials, rules: tuple[int, ...], most_cells: float
) -> JointTable | None:
    """Completions over the joint states of some rules' automata; None where there are too many, or time is over."""
    readers, final, letter = _readers(progress, rules)
    found, kind = np.unique(letter.reshape(-1, len(rules)), axis=0, return_inverse=True)
    kind = kind.reshape(dual.unary.shape).astype(np.int64)
    kinds = np.vstack([found, np.full((1, len(rules)), readers.slots.shape[1] - 1)]).astype(np.int64)
    counts = np.stack([readers.slots[k, kinds[:, k]] for k in range(len(rules))])
    states = np.prod(counts.astype(np.float64), axis=0)
    if kind.size * states.max() > most_cells:
        return None
    states = states.astype(np.int64)
    pairs = _pairs(kind, len(kinds) - 1)
    at, branches, to, cost = joint_steps(progress.prepared.tables, readers, kinds, pairs, states, MOST_NODES)
    if len(at) == 0:
        return None
    number = np.full((len(kinds), len(kinds)), -1, np.int64)
    number[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
    steps = JointSteps(number, at, branches, states, to, cost, _ends(readers, final, found, int(states.max())))
    unary, constant = dual.unary, dual.constant
    for rule in rules:
        prices = progress.prices.get(rule)
        if prices is not None:
            unary, constant = unary + prices[0], constant + prices[2]
    ahead = np.empty((*unary.shape, int(states.max())))
    progress.charge(ahead.size * unary.shape[1] // STEPS_PER_UNIT)
    if not joint_completions(unary, dual.arriving, kind, steps, ahead, progress.deadline.stop):
        return None
    return JointTable(dual, rules, unary, constant, kind, steps, ahead)


def _readers(progress: Progress, rules: tuple[int, ...]) -> tuple[Readers, np.ndarray, np.ndarray]:
    """Return tables of automata, what ending in their states costs (automata, states), what they read (n, m, automata)."""
    tables, prepared = progress.prepared.tables, progress.prepared
    chosen = tables.rule_automaton[list(rules)]
    letters, states, m = tables.letters[chosen], tables.states[chosen], prepared.unary.shape[1]
    count, most_letters, most_states = len(rules), int(letters.max()), int(states.max())
    slot = np.full((count, most_letters, most_states), -1, np.int64)
    state = np.zeros((count, most_letters + 1, most_states), np.int64)
    slots = np.ones((count, most_letters + 1), np.int64)
    start, final = np.zeros((count, most_states), np.int64), np.full((count, most_states), np.inf)
    read = np.empty((*prepared.unary.shape, count), np.int64)
    for k, (rule, automaton) in enumerate(zip(rules, chosen, strict=True)):
        size, width, at = int(states[k]), int(letters[k]), int(tables.arc_at[automaton])
        own = slice(int(tables.state_at[automaton]), int(tables.state_at[automaton]) + size)
        entered, _ = entered_states(size, width, tables.arc_ptr[at : at + size * width + 1], tables.arc_to)
        slot[k, :width, :size] = entered
        for a, row in enumerate(entered):
            met = np.flatnonzero(row >= 0)
            state[k, a, row[met]] = met
            slots[k, a] = max(len(met), 1)
        begins = np.flatnonzero(tables.initial[own] >= 0)
        state[k, -1, : len(begins)], slots[k, -1] = begins, len(begins)
        start[k, :size] = tables.initial[own] - tables.sure[rule]
        ends = tables.final[own].astype(np.float64)
        final[k, :size] = np.where(
            ends == 0, 0.0, np.where(ends > 0, tables.weight[rule] * np.maximum(ends, 1), np.inf)
        )
        cells = tables.letter_at[automaton] + prepared.classes[rule].astype(np.int64)[:, None] * m + np.arange(m)
        read[:, :, k] = tables.letter[cells]
    return Readers(tables.arc_at[chosen], letters, tables.weight[list(rules)], slot, state, slots, start), final, read


def _pairs(kind: np.ndarray, start: int) -> np.ndarray:
    """Kinds that follow one another (pairs, 2); ``start`` is the kind before all tokens."""
    met = {(start, int(k)) for k in kind[0]}
    for before, here in {
        (tuple(np.unique(a)), tuple(np.unique(b))) for a, b in zip(kind[:-1], kind[1:], strict=True)
    }:
        met.update((int(a), int(b)) for a in before for b in here)
    return np.array(sorted(met), dtype=np.int64)


def _ends(readers: Readers, final: np.ndarray, kinds: np.ndarray, width: int) -> np.ndarray:
    """Return what ending in each joint state of each kind costs (kinds, width)."""
    costs = np.zeros((len(kinds), width))
    for row, letters in zip(costs, kinds, strict=True):
        total = np.zeros(1)
        for k, a in enumerate(letters):
            total = (final[k, readers.state[k, a, : readers.slots[k, a]]][:, None] + total).ravel()
        row[: len(total)] = total
    return costs
