"""The evaluator of compiled rules: their forms laid out for :mod:`rulefield.kernels.amounts`."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from rulefield.kernels.amounts import Automata, Runs, Tallies, amounts_of_labelings
from rulefield.problem.chain_rules import Automaton, CompiledRule, Forms, Tally

Read = CompiledRule | Forms
"""What the evaluator reads of a rule: its tally, else its counters, else its automaton."""


class Space(NamedTuple):
    """What some rules can tell of tokens: the row of their classes, how many classes there are, and how many labels."""

    row: int
    classes: int
    labels: int


class Evaluator:
    """Reads the amounts of rules off labelings, many at a time.

    Parameters
    ----------
    rules : sequence of CompiledRule or Forms
        Rules without any of these forms are taken to hold.
    spaces : sequence of Space
        Of each rule.
    """

    def __init__(self, rules: Sequence[Read], spaces: Sequence[Space]):
        self.n_rules = len(rules)
        self.sums = _sums(rules, spaces)
        read = [(r, rule.automaton) for r, rule in enumerate(rules) if rule.automaton and not counted(rule)]
        self.runs: Runs | None = None
        if read:
            rule, row, width = np.array(
                [(r, spaces[r].row, spaces[r].labels) for r, _ in read], dtype=np.int64
            ).T.copy()
            self.runs = Runs(rule, row, width, joined_automata([automaton for _, automaton in read]))

    def __call__(
        self, labels: np.ndarray, first: np.ndarray, lengths: np.ndarray, classes: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """Amounts (labelings, rules); see :func:`rulefield.kernels.amounts.amounts_of_labelings`."""
        out = np.empty((len(lengths), self.n_rules), dtype=np.int64)
        amounts_of_labelings(self.sums, self.runs, labels, first, lengths, classes, at, out)
        return out

    def of_paths(self, paths: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Amounts (labelings, rules) of labelings (labelings, n) of one input with the classes (rows, n)."""
        count, n = paths.shape
        labels = np.ascontiguousarray(paths, dtype=np.int64).reshape(1, -1)
        lengths = np.full(count, n)
        return self(labels, n * np.arange(count), lengths, classes, np.zeros(count, np.int64))


def counted(rule: Read) -> list[tuple[Tally, int]]:
    """Tallies whose excesses over bounds make up the amount of a rule; none if its automaton has to tell."""
    if rule.tally is not None:
        return [(rule.tally, 0)]
    return [(counter.tally, counter.bound) for counter in rule.counters]


def spaces_of(rules: Sequence[Read], labels: Sequence[int], together: bool = True) -> list[Space]:
    """Return the space of each rule if row r holds the classes of rule r.

    ``together`` joins rules that do not tell tokens apart: for labels that are the same in all rows.
    """
    classes = [_n_classes(rule) for rule in rules]
    plain = classes.index(1) if together and 1 in classes else -1
    return [
        Space(plain if together and n == 1 else r, n, m) for r, (n, m) in enumerate(zip(classes, labels, strict=True))
    ]


def _n_classes(rule: Read) -> int:
    """Return the number of token classes that the tables of a rule tell apart; 0 without tables, whatever its classes."""
    tables = [tally.node for tally, _ in counted(rule)] + ([rule.automaton.letter] if rule.automaton else [])
    return len(tables[0]) if tables else 0


def _sums(rules: Sequence[Read], of_rule: Sequence[Space]) -> Tallies:
    counters: list[tuple[int, int, int]] = []
    number: dict[Hashable, int] = {}
    spaces: dict[Space, int] = {}
    tallies: list[tuple[int, Tally]] = []
    for r, rule in enumerate(rules):
        for tally, bound in counted(rule):
            space = spaces.setdefault(of_rule[r], len(spaces))
            key = (space, *(None if a is None else a.tobytes() for a in (tally.node, tally.edge, tally.first)))
            if key not in number:
                number[key] = len(tallies)
                tallies.append((space, tally))
            counters.append((r, number[key], bound))
    row, classes, width = np.array(list(spaces), dtype=np.int64).reshape(-1, 3).T
    size, edges = classes * width, np.zeros(len(spaces), dtype=bool)
    edges[[space for space, tally in tallies if tally.edge is not None]] = True
    base = np.concatenate([[0], np.cumsum(2 * size + np.where(edges, size * width, 0))])
    step, tally_of, value = _entries(tallies, base, size)
    order = np.argsort(step, kind="stable")
    rule_of, counted_by, bounds = np.array(counters, dtype=np.int64).reshape(-1, 3).T.copy()
    return Tallies(
        row=row.astype(np.uint64),
        width=width.astype(np.uint64),
        base=base[:-1].astype(np.uint64),
        size=size.astype(np.uint64),
        edges=edges,
        pointer=np.searchsorted(step[order], np.arange(base[-1] + 1)).astype(np.uint64),
        tally=tally_of[order].astype(np.uint64),
        value=value[order].astype(np.int32),
        rule=rule_of.astype(np.uint64),
        counted=counted_by.astype(np.uint64),
        bound=bounds,
        tallies=len(tallies),
    )


def _entries(tallies: list[tuple[int, Tally]], base: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return steps, tallies and values (3, entries) of what is not 0 in the tables of tallies."""
    entries = [np.zeros((3, 0), dtype=np.int64)]
    for number, (space, tally) in enumerate(tallies):
        first = tally.node if tally.first is None else tally.first
        for table, offset in ((tally.node, 0), (first, size[space]), (tally.edge, 2 * size[space])):
            if table is not None:
                at = np.flatnonzero(table)
                entries.append(np.array([base[space] + offset + at, np.full(len(at), number), table.ravel()[at]]))
    return np.concatenate(entries, axis=1)


def joined_automata(automata: Sequence[Automaton]) -> Automata:
    """Lay automata one after the other."""
    arcs = np.cumsum([0] + [len(a.arc_to) for a in automata])
    return Automata(
        states=np.array([a.n_states for a in automata], dtype=np.int64),
        letters=np.array([a.n_letters for a in automata], dtype=np.int64),
        deterministic=np.array([is_deterministic(a) for a in automata], dtype=np.bool_),
        letter_at=_starts([a.letter for a in automata]),
        state_at=_starts([a.initial for a in automata]),
        arc_at=_starts([a.arc_ptr for a in automata]),
        letter=joined([a.letter.ravel() for a in automata], np.int32),
        initial=joined([a.initial for a in automata], np.int32),
        final=joined([a.final for a in automata], np.int32),
        arc_ptr=joined([a.arc_ptr.astype(np.int64) + first for a, first in zip(automata, arcs)], np.int64),
        arc_to=joined([a.arc_to for a in automata], np.int32),
        arc_amount=joined([a.arc_amount for a in automata], np.int32),
    )


def is_deterministic(automaton: Automaton) -> bool:
    """Whether every labeling has exactly one run and that run accepts."""
    one_arc = bool((np.diff(automaton.arc_ptr.astype(np.int64)) == 1).all())
    return one_arc and int((automaton.initial >= 0).sum()) == 1 and bool((automaton.final >= 0).all())


def joined(arrays: Sequence[np.ndarray], kind: type) -> np.ndarray:
    """Return arrays as one of this type."""
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, dtype=kind)


def _starts(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.cumsum([0] + [a.size for a in arrays], dtype=np.int64)[:-1]
