"""Logic factors and rows as small automata over nodes: the form that message passing reads."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.kernels.graph.evaluate import EXCESS
from rulefield.problem.graph import GraphProblem, starts
from rulefield.problem.logic import LogicFactors

STATE_LIMIT = 4_096
"""States of an automaton: with more, a sweep over it takes longer than the rest."""
SCALES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 100, 1000)
"""Factors that may make the coefficients of a row whole: usual fractions, cents and thousandths."""


@dataclass(frozen=True)
class GraphAutomaton:
    """A score that depends on the labels of ``nodes``, each once, only through the letters that they spell.

    ``delta`` (letters, states) is the next state; the initial state is 0 and reading is commutative, so that nodes may be
    read in any order. ``final`` is the score of ending in a state: minus the cost, ``-inf`` where a hard rule is broken.
    """

    nodes: np.ndarray
    letters: list[np.ndarray]
    delta: np.ndarray
    final: np.ndarray

    def table(self) -> np.ndarray:
        """Score of every combination of labels: one axis for each node (for automata of 0, 1 or 2 nodes)."""
        states = np.zeros((), np.int64)
        for letters in self.letters:
            states = self.delta[letters, states[..., None]]
        return self.final[states]


def automata(problem: GraphProblem) -> tuple[list[GraphAutomaton], np.ndarray]:
    """All factors and rows as automata, and the numbers of rows that would need too many states."""
    sizes = np.concatenate([problem.potentials.n_labels, np.full(problem.rows.n_auxiliary, 2)])
    made = _logic_automata(problem, sizes)
    rest = []
    for r in range(problem.rows.n_rows):
        automaton = _row_automaton(problem, r, sizes)
        if automaton is None:
            rest.append(r)
        else:
            made.append(automaton)
    return made, np.array(rest, dtype=np.int64)


def _logic_automata(problem: GraphProblem, sizes: np.ndarray) -> list[GraphAutomaton]:
    """Factors as automata; those that differ in their nodes alone (one rule for many pairs) share their arrays."""
    logic, same = problem.logic, problem.logic.canonical
    nodes, pointer, which = _nodes_by_factor(logic, len(sizes))
    shapes: dict[tuple[Any, ...], GraphAutomaton] = {}
    made = []
    for f in range(logic.n_factors):
        span, own = slice(logic.pointer[f], logic.pointer[f + 1]), nodes[pointer[f] : pointer[f + 1]]
        arrays = which[span], logic.atom_label[span], same.negated[span], sizes[own]
        numbers = same.has_output[f], same.low[f], same.high[f], logic.weight[f]
        shape = (*(array.tobytes() for array in arrays), *numbers)
        if shape not in shapes:
            atoms = _Atoms(own, which[span], logic.atom_label[span], same.negated[span], sizes)
            shapes[shape] = _logic_automaton(problem, f, atoms)
        first = shapes[shape]
        made.append(GraphAutomaton(own, first.letters, first.delta, first.final))
    return made


def _nodes_by_factor(logic: LogicFactors, n_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes that each factor names, ascending and each once; where each factor's begin; which of them each atom names."""
    pairs, place = np.unique(logic.atom_factor * n_nodes + logic.atom_node, return_inverse=True)
    begin = np.searchsorted(pairs, np.arange(logic.n_factors + 1) * n_nodes)
    return pairs % max(n_nodes, 1), begin, place.ravel() - begin[logic.atom_factor]


def _logic_automaton(problem: GraphProblem, f: int, atoms: "_Atoms") -> GraphAutomaton:
    logic, same = problem.logic, problem.logic.canonical
    if same.has_output[f]:
        is_output = same.is_output[logic.pointer[f] : logic.pointer[f + 1]]
        bits = (atoms.totals(~is_output) > 0) + 2 * (atoms.totals(is_output) > 0)
        delta = np.arange(4)[:, None] | np.arange(4)[None, :]
        broken = np.array([False, True, True, False])
        return GraphAutomaton(atoms.nodes, atoms.split(bits), delta, np.where(broken, -logic.weight[f], 0.0))
    low, high = int(same.low[f]), int(same.high[f])
    top = low if high >= len(atoms.label) else max(high + 1, 0)
    state = np.arange(top + 1)
    broken = (state < low) | (state > high)
    counts = atoms.totals(np.ones(len(atoms.label)))
    return _counting(atoms, counts, top, np.where(broken, -logic.weight[f], 0.0))


class _Atoms:
    """The literals of one rule, and the labels of the nodes that they name, one after the other."""

    def __init__(
        self, nodes: np.ndarray, which: np.ndarray, label: np.ndarray, negated: np.ndarray, sizes: np.ndarray
    ):
        self.nodes, self.which, self.sizes = nodes, which, sizes[nodes]
        self.start = starts(self.sizes)
        self.label, self.negated = label, negated

    def totals(self, amount: np.ndarray) -> np.ndarray:
        """Sum of the amounts of the literals that hold, for each label of each node."""
        flip = np.where(self.negated, amount, 0.0)
        total = np.repeat(np.bincount(self.which, flip, len(self.nodes)), self.sizes)
        signed = np.where(self.negated, -1.0, 1.0) * amount
        total += np.bincount(self.start[self.which] + self.label, signed, int(self.start[-1]))
        return np.rint(total).astype(np.int64)

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """One array for each node."""
        return [flat[a:b] for a, b in zip(self.start[:-1], self.start[1:])]


def _counting(atoms: _Atoms, counts: np.ndarray, top: int, final: np.ndarray) -> GraphAutomaton:
    """Automaton that adds counts and stays at ``top`` once it is reached."""
    steps = np.unique(counts) if len(counts) else np.zeros(1, np.int64)
    delta = np.minimum(np.arange(top + 1)[None, :] + steps[:, None], top)
    return GraphAutomaton(atoms.nodes, atoms.split(np.searchsorted(steps, counts)), delta, final)


def _row_automaton(problem: GraphProblem, r: int, sizes: np.ndarray) -> GraphAutomaton | None:
    """Count from below (t up to its largest value), or from above (what is missing to it), whichever is shorter."""
    rows = problem.rows
    span = slice(rows.pointer[r], rows.pointer[r + 1])
    value = rows.value[span]
    scale = next((k for k in SCALES if np.abs(value * k - np.rint(value * k)).max(initial=0.0) < 1e-12), None)
    if scale is None:
        return None
    nodes, which = np.unique(rows.atom_node[span], return_inverse=True)
    atoms = _Atoms(nodes, which, rows.atom_label[span], np.zeros(len(value), np.bool_), sizes)
    totals = atoms.totals(value * scale)
    lowest = np.minimum.reduceat(totals, atoms.start[:-1]) if len(totals) else totals
    highest = np.maximum.reduceat(totals, atoms.start[:-1]) if len(totals) else totals
    most = int((highest - lowest).sum())
    room = rows.bound[r] * scale - int(lowest.sum())
    is_hard = np.isinf(rows.weight[r])
    below = max(0, min(most, int(np.floor(room + EXCESS)) + 1)) if is_hard else most
    above = max(0, min(most, int(np.ceil(most - room - EXCESS))))
    if min(below, above) > STATE_LIMIT:
        return None
    top = min(below, above)
    if above < below:
        counts, amount = np.repeat(highest, atoms.sizes) - totals, most - np.arange(top + 1)
    else:
        counts, amount = totals - np.repeat(lowest, atoms.sizes), np.arange(top + 1)
    over = amount - room
    cost = np.zeros(top + 1)
    cost[over > EXCESS] = rows.weight[r] * over[over > EXCESS] / scale
    return _counting(atoms, counts, top, -cost)
