"""Rules compiled for one chain: the forms that engines read. They know rules only by number.

A rule says how much a labeling y breaks it: an *amount*, a whole number >= 0. The same amount is
given in up to four forms, and an engine uses the one it likes:

``tally``      the amount is a plain sum over nodes and edges (a local rule): add it to the potentials.
``counters``   the amount is a sum of excesses max(0, tally - bound): what dual decomposition likes.
``automaton``  the amount is read by a small automaton: what dynamic programming likes.
``rows``       linear rows over parts, auxiliary 0/1 variables and slacks: what an ILP solver likes.

Tables do not depend on the input and are shared by all inputs of one label set; what depends on the
input is ``token_class``: the class (0, 1, ...) of each token as far as this rule can tell tokens apart.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.chain import ChainPotentials


@dataclass(frozen=True)
class Tally:
    """A sum over the labeling: sum_t node[c_t, y_t] + sum_{t>0} edge[c_t, y_{t-1}, y_t], c_t the token class."""

    node: np.ndarray
    """int32 (n_classes, n_states): what label y adds at a token of class c. The first token takes its ``first``
    row instead."""
    edge: np.ndarray | None = None
    """int32 (n_classes, n_states, n_states), or None: what the step [from, to] adds when it arrives at a token of
    class c."""
    first: np.ndarray | None = None
    """int32 (n_classes, n_states), or None: replaces ``node`` at the first token (a segment may start there that
    elsewhere needs an edge)."""

    @cached_property
    def bounds(self) -> np.ndarray:
        """Least and greatest value of a token of each class: the first token, the others; int64 (2, 2, n_classes)."""
        low, high = self.node.min(axis=1), self.node.max(axis=1)
        first = (low, high) if self.first is None else (self.first.min(axis=1), self.first.max(axis=1))
        if self.edge is not None:
            both = self.node[:, None, :] + self.edge
            low, high = both.min(axis=(1, 2)), both.max(axis=(1, 2))
        return np.array([first, (low, high)], dtype=np.int64)

    @cached_property
    def range(self) -> tuple[int, int]:
        """Least and greatest value of any token, the step to it included."""
        return int(self.bounds[:, 0].min()), int(self.bounds[:, 1].max())

    def relabeled(self, letter: np.ndarray) -> "Tally":
        """Return the sum for other labels (m,), of which label u stands for label ``letter[u]`` of this one."""
        edge = None if self.edge is None else np.ascontiguousarray(self.edge[:, letter[:, None], letter])
        first = None if self.first is None else np.ascontiguousarray(self.first[:, letter])
        return Tally(np.ascontiguousarray(self.node[:, letter]), edge, first)


@dataclass(frozen=True)
class Counter:
    """The amount max(0, tally - bound)."""

    tally: Tally
    bound: int


@dataclass(frozen=True)
class Automaton:
    """An unambiguous weighted automaton: the amount of y is the amount of its only accepting run.

    At token t it reads the letter ``letter[c_t, y_t]``. Its arcs from state s on letter a are
    ``arc_ptr[s * n_letters + a] : arc_ptr[s * n_letters + a + 1]``; each goes to ``arc_to`` and adds ``arc_amount``.
    Several arcs are a guess about the future that the run must make true (else it dies), so that
    minima, sums and counts over runs equal those over labelings.
    """

    letter: np.ndarray  # uint16 (n_classes, n_labels)
    n_letters: int
    arc_ptr: np.ndarray  # uint32 (n_states * n_letters + 1,)
    arc_to: np.ndarray  # uint32 (n_arcs,)
    arc_amount: np.ndarray  # int32 (n_arcs,)
    initial: np.ndarray
    final: np.ndarray
    """int32 (n_states,), as ``initial``: amount added by beginning or ending in a state; -1 where that is not allowed."""

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.initial)


@dataclass(frozen=True)
class Rows:
    """Linear rows A·x <= bound + slack whose least total slack is the amount of the labeling.

    Columns of x: the node part (t, l) is column ``t * m + l``; the edge part (t, l, k), label l at t and k at
    t + 1, is column ``n * m + (t * m + l) * m + k``; then ``n_auxiliary`` free 0/1 variables.
    The amount of y is the minimum over auxiliary values of the sum of slacks (whole numbers >= 0), where
    only rows with ``may_slack`` have one.
    """

    row: np.ndarray  # int64 (n_entries,)
    column: np.ndarray  # int64 (n_entries,)
    value: np.ndarray  # float64 (n_entries,)
    bound: np.ndarray  # float64 (n_rows,)
    may_slack: np.ndarray  # bool (n_rows,)
    n_auxiliary: int = 0


@dataclass(frozen=True)
class Presences:
    """At least ``low`` and at most ``high`` of some facts hold, each of them that some token, or none, has certain labels."""

    cells: np.ndarray  # bool (n_facts, n_classes, n_states): the labels that a fact is about, at tokens of each class
    wanted: np.ndarray  # bool (n_facts,): whether the fact is that some token has one of them; else that none has
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Forms:
    """The forms in which engines read the amount of a rule, but for its rows."""

    tally: Tally | None = None
    counters: tuple[Counter, ...] = ()
    automaton: Automaton | None = None
    presences: Presences | None = None

    @property
    def is_empty(self) -> bool:
        """Whether only rows say the amount: its automaton would be too large."""
        return self.tally is None and not self.counters and self.automaton is None


class Joinable(Protocol):
    """What a rule says, in a way that can be said together with others of its kind."""

    def joint_key(self, hard: bool) -> Hashable:
        """Rules with the same key and weight are one: its amount is the sum of theirs (hard: 0 where theirs are)."""

    def joined(self, others: Sequence["Joinable"], hard: bool) -> Callable[["CompiledRule"], "CompiledRule"]:
        """Return what makes the one rule, for the input of one of them."""


@dataclass(frozen=True)
class CompiledRule:
    """One rule, ready for engines, for one input."""

    rule: int  # its number in the user's list
    weight: float  # what a unit of its amount costs; ``inf`` if it is hard
    once: bool  # pay ``weight`` once where the amount is positive, whatever the amount
    token_class: np.ndarray  # uint16 (n_steps,)
    tally: Tally | None  # where the amount is a plain sum (never negative for any labeling)
    counters: tuple[Counter, ...]  # where the amount is a sum of excesses; empty if it is not
    automaton: Automaton | None
    """None only where ``tally`` or ``counters`` say everything, or where it would be too large."""
    find_max: Callable[[], int]
    """Returns ``max_amount``, which the amount never exceeds on this input; a function, because few rules need it."""
    make_rows: Callable[..., Rows]
    """Builds the linear rows; a function, because few inputs ever need them. Its optional argument ``letter`` (m,)
    builds them for m labels of which label u stands for label ``letter[u]`` of the tables."""
    form: object | None = field(default=None, compare=False, repr=False)
    """Rules with the same object here have the same tally, counters and automaton: engines need not look closer."""
    joinable: Joinable | None = field(default=None, compare=False, repr=False)
    """Where engines may read the rule together with others."""
    find_amount: Callable[[np.ndarray], int] | None = field(default=None, compare=False, repr=False)
    """Amount of a labeling (n,), token by token in Python: where ``rows`` are the only form."""
    presences: Presences | None = field(default=None, compare=False, repr=False)
    """Where the rule says how many labels occur: its amount is 0 if it holds, else 1."""

    @cached_property
    def max_amount(self) -> int:
        """The amount never exceeds this on this input."""
        return self.find_max()

    def refuse_rows_only(self, what: str) -> None:
        """Raise where ``what`` must read the rule by its states and only rows are known."""
        if self.find_amount is not None:
            raise RuleError(
                f"rule {self.rule} needs too large an automaton, so only its linear rows are known, which {what} cannot "
                f"read; split it into several rules, or count fewer things inside logic."
            )

    def relabeled(self, letter: np.ndarray) -> "CompiledRule":
        """Return the rule for other labels (m,): label u stands for label ``letter[u]`` of this one's tables."""
        self.refuse_rows_only("segments and joint chains")
        automaton = self.automaton
        return replace(
            self,
            tally=None if self.tally is None else self.tally.relabeled(letter),
            counters=tuple(Counter(c.tally.relabeled(letter), c.bound) for c in self.counters),
            automaton=None if automaton is None else replace(automaton, letter=automaton.letter[:, letter]),
            make_rows=partial(self.make_rows, letter=letter),
            form=None,
            joinable=None,
            presences=None,
        )


@dataclass(frozen=True)
class ChainProblem:
    """Potentials and rules of one chain: what a chain engine is given."""

    potentials: ChainPotentials
    rules: tuple[CompiledRule, ...] = ()
