"""Judging labellings of chains: the entry point to the checker, which every answer passes before it is returned."""

from typing import NamedTuple

import numpy as np

from rulefield.exceptions import InternalError, RuleError
from rulefield.inference.flatten import Cache, Flat, SharedForms, flatten
from rulefield.inference.result import Breach, rounding_error
from rulefield.kernels.chain.check import OUTSIDE, UNREAD, Definitions, judge_all, judge_one
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import Automaton, ChainProblem, CompiledRule, Tally


class Judged(NamedTuple):
    """What a labelling is worth."""

    score: float
    objective: float
    broken: tuple[Breach, ...]
    error: float
    """Rounding error that sums in another order may differ by."""


_read: Cache[tuple[Definitions, SharedForms]] = Cache(
    64
)  # the forms are held, so that their id, the key, stays their own


def judge_labelling(problem: ChainProblem, labels: np.ndarray, flat: Flat | None = None) -> Judged:
    """Return score, objective and broken rules of a labelling (n,), from the definition; O(n x rules).

    ``flat`` holds the problem's rules, where a caller has looked them up already.
    """
    unary, pairwise = _arrays(problem.potentials)
    n, m = unary.shape
    flat = flatten(problem.rules, m) if flat is None else flat
    classes, weight = flat.classes.reshape(len(problem.rules), n), flat.tables.weight
    amounts = np.zeros(len(problem.rules), np.int64)
    score, size, cost, n_broken = judge_one(unary, pairwise, _definitions(flat), weight, classes, labels, amounts)
    if n_broken == OUTSIDE:
        raise InternalError(f"an engine returned labels that are not {n} numbers in 0..{m - 1}: {labels}.")
    broken = []
    for r in np.flatnonzero(amounts).tolist() if n_broken else ():
        rule, amount = problem.rules[r], np.inf if amounts[r] == UNREAD else float(amounts[r])
        broken.append(Breach(rule.rule, amount, rule.weight * (1.0 if rule.once else amount)))
    size += cost if cost < np.inf else 0.0
    error = rounding_error(4 * (n + len(amounts) + 1), size)
    return Judged(score, score - cost, tuple(broken), error)


def confirm(
    problem: ChainProblem, labels: np.ndarray, objective: float, error: float, flat: Flat | None = None
) -> Judged:
    """Judge an engine's labelling; raise where its objective is not the one that the engine claims.

    ``error`` is the rounding error of the engine's own sum.
    """
    found = judge_labelling(problem, labels, flat)
    if not abs(found.objective - objective) <= found.error + error:
        raise InternalError(
            f"an engine claims an objective of {objective!r} for a labelling whose objective is {found.objective!r}; "
            "please report this problem: the answer was withheld because it may be wrong."
        )
    return found


def all_judged(problem: ChainProblem) -> tuple[np.ndarray, np.ndarray]:
    """Scores and costs (m ** n,) of all labellings, in lexicographic order."""
    unary, pairwise = _arrays(problem.potentials)
    n, m = unary.shape
    flat = flatten(problem.rules, m)
    scores, costs = np.empty(m**n), np.empty(m**n)
    classes = flat.classes.reshape(len(problem.rules), n)
    judge_all(unary, pairwise, _definitions(flat), flat.tables.weight, classes, scores, costs)
    return scores, costs


def _arrays(potentials: ChainPotentials) -> tuple[np.ndarray, np.ndarray]:
    unary = np.ascontiguousarray(potentials.unary, dtype=np.float64)
    return unary, np.ascontiguousarray(potentials.pairwise_stack, dtype=np.float64)


def _definitions(flat: Flat) -> Definitions:
    """Rules in the checker's arrays."""
    key = (id(flat.shared),)
    found = _read.get(key)
    if found is None:
        found = _read.put(key, (_Reader(flat.rules).definitions(), flat.shared))
    return found[0]


class _Reader:
    """Lays the forms of compiled rules into the checker's arrays."""

    def __init__(self, rules: tuple[CompiledRule, ...]):
        self.rules = rules
        self.size = 0
        self.tables: list[np.ndarray] = []
        self.pieces: list[tuple[bool, int, int, int, int, bool]] = []  # clipped, bound, node, first, edge, simple

    def _keep(self, table: np.ndarray) -> int:
        self.tables.append(table.ravel())
        self.size += table.size
        return self.size - table.size

    def _add(self, tally: Tally, bound: int | None) -> None:
        node = self._keep(tally.node)
        first = node if tally.first is None else self._keep(tally.first)
        edge = -1 if tally.edge is None else self._keep(tally.edge)
        simple = len(tally.node) == 1 and first == node and edge < 0
        self.pieces.append((bound is not None, bound or 0, node, first, edge, simple))

    def definitions(self) -> Definitions:
        """Read all rules."""
        ends, number = [0], []
        automata: list[Automaton] = []
        for rule in self.rules:
            if rule.tally is not None:
                self._add(rule.tally, None)
            elif rule.counters:
                for counter in rule.counters:
                    self._add(counter.tally, counter.bound)
            elif rule.automaton is None:
                raise RuleError(
                    f"compiled rule {rule.rule} has neither a tally, nor counters, nor an automaton; give it one."
                )
            read = rule.automaton if rule.tally is None and not rule.counters else None
            number.append(len(automata) if read is not None else -1)
            automata += [read] if read is not None else []
            ends.append(len(self.pieces))
        clipped, bound, node, first, edge, simple = zip(*self.pieces, strict=True) if self.pieces else [()] * 6
        letters = [self._keep(a.letter) for a in automata]
        arcs = np.cumsum([0] + [len(a.arc_to) for a in automata])
        cells = np.cumsum([0] + [len(a.arc_ptr) for a in automata])
        return Definitions(
            once=np.array([rule.once for rule in self.rules], dtype=np.bool_),
            piece=np.array(ends, dtype=np.int64),
            automaton=np.array(number, dtype=np.int64),
            clipped=np.array(clipped, dtype=np.bool_),
            bound=np.array(bound, dtype=np.int64),
            node=np.array(node, dtype=np.int64),
            first=np.array(first, dtype=np.int64),
            edge=np.array(edge, dtype=np.int64),
            simple=np.array(simple, dtype=np.bool_),
            table=_joined(self.tables, np.int32),
            letters=np.array([a.n_letters for a in automata], dtype=np.int64),
            letter=np.array(letters, dtype=np.int64),
            state=np.cumsum([0] + [a.n_states for a in automata], dtype=np.int64),
            cell=cells[:-1].astype(np.int64),
            initial=_joined([a.initial for a in automata], np.int32),
            final=_joined([a.final for a in automata], np.int32),
            pointer=_joined(
                [a.arc_ptr.astype(np.int64) + s for a, s in zip(automata, arcs[:-1], strict=True)], np.int64
            ),
            to=_joined([a.arc_to for a in automata], np.int64),
            amount=_joined([a.arc_amount for a in automata], np.int32),
        )


def _joined(arrays: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, dtype=kind)
