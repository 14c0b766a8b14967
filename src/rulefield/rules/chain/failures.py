"""Statements whose amount is the number of their instances that fail: absence, order, labels around a token."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rulefield.problem.chain_rules import CompiledRule, Forms, Joinable, Tally
from rulefield.rules.chain.automata import Arcs, LazyAutomaton, State, Truth, Values, build
from rulefield.rules.chain.rows import Affine, RowBuilder, total
from rulefield.rules.chain.statement import Statement, rows_of
from rulefield.rules.chain.tallies import bounds_at, combine

Term = tuple[Affine, Affine, float]
"""left, right and the most that left can be: an instance fails by what left exceeds right (a whole number >= 0)."""


class Failures(Statement):
    """A sum over tokens of instances that fail. Subclasses say how failures are read, in linear rows and by an automaton."""

    start: State
    idles = True

    @property
    def signals(self) -> tuple[Tally, ...]:
        """What the automaton reads."""
        raise NotImplementedError

    def step(self, state: State, values: Values) -> tuple[State, int]:
        """Next state of a deterministic automaton (not a truth value: see ``Truth``), and the instances that now fail."""
        raise NotImplementedError

    def terms(self, builder: RowBuilder) -> list[Term]:
        """Instances that may fail."""
        raise NotImplementedError

    def guilty(self, builder: RowBuilder) -> list[Affine]:
        """Return sums of which one can be positive only if an instance fails."""
        raise NotImplementedError

    def forms(self, n: int, what: str) -> Forms:
        """Return the automaton."""

        def step(state: State, values: Values) -> Arcs:
            return (self.step(state, values),)

        return Forms(
            automaton=build(LazyAutomaton(self.signals, (self.start,), step, lambda state: 0), what, self.shape)
        )

    def truth(self, n: int) -> Truth:
        """Fails for good at the first instance that fails."""

        def step(state: State, values: Values) -> State:
            following, failed = self.step(state, values)
            return False if failed else following

        return Truth(self.signals, self.start, step, lambda state: True, self.idles)

    def amount_rows(self, builder: RowBuilder) -> None:
        """For each instance: left <= right + slack."""
        for left, right, _ in self.terms(builder):
            builder.limit(left, right, slack=True)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """No instance fails, or one does."""
        chosen = builder.auxiliary()
        if not truth:
            builder.limit(chosen, total(self.guilty(builder)))
            return chosen
        for left, right, most in self.terms(builder):
            builder.limit(left, right + most * (1 - chosen))
        return chosen


@dataclass(frozen=True)
class Sum(Failures):
    """The amount is a tally with entries >= 0."""

    tally: Tally

    shape, start = "sum", "none yet"

    @property
    def signals(self) -> tuple[Tally, ...]:
        """The tally."""
        return (self.tally,)

    def forms(self, n: int, what: str) -> Forms:
        """Return the tally, which says everything."""
        return Forms(tally=self.tally)

    def step(self, state: State, values: Values) -> tuple[State, int]:
        """Nothing is to be remembered."""
        return state, values[0]

    @property
    def presence(self) -> tuple[np.ndarray, bool] | None:
        """Nothing may be counted, if the terms are of tokens alone."""
        plain = self.tally.edge is None and self.tally.first is None
        return (self.tally.node > 0, False) if plain else None

    def max_amount(self, token_class: np.ndarray) -> int:
        """Sum of the greatest terms."""
        return int(bounds_at(self.tally, token_class)[1].sum())

    def terms(self, builder: RowBuilder) -> list[Term]:
        """One for each token that may add something."""
        most = bounds_at(self.tally, builder.token_class)[1].tolist()
        return [(a, Affine(), high) for a, high in zip(builder.tokens(self.tally), most) if not a.is_constant]

    def guilty(self, builder: RowBuilder) -> list[Affine]:
        """Return what the tokens add."""
        return builder.tokens(self.tally)


@dataclass(frozen=True)
class NoneBefore(Failures):
    """Instances of ``a`` that have a ``b`` before fail."""

    a: Tally
    b: Tally

    shape, start = "none before", "no b"

    @property
    def signals(self) -> tuple[Tally, ...]:
        """Instances of both."""
        return self.a, self.b

    def step(self, state: State, values: Values) -> tuple[State, int]:
        """Remember whether there was a b."""
        failed = values[0] if state == "a b" else 0
        return "a b" if values[1] > 0 else state, failed

    @property
    def joinable(self) -> Joinable | None:
        """Several that wait for the same b are one: the a's add up; hard ones that keep the same a away likewise."""
        return self

    def joint_key(self, hard: bool) -> tuple[bytes, ...]:
        """Return the b, or the a of hard ones: whether an a is forbidden is all that they need to remember."""
        shared = self.a if hard else self.b
        return tuple(table.tobytes() for table in (shared.node, shared.edge, shared.first) if table is not None)

    def joined(self, others: Sequence[Joinable], hard: bool) -> Callable[[CompiledRule], CompiledRule]:
        """Count the a's of all of them after one b, or the same a's after any b."""
        members = [self, *(other for other in others if isinstance(other, NoneBefore))]
        added = combine([(1, member.b if hard else member.a) for member in members], self.a.node.shape)
        together = NoneBefore(self.a, added) if hard else NoneBefore(added, self.b)
        automaton, form = together.forms(0, "joined").automaton, object()

        def like(rule: CompiledRule) -> CompiledRule:
            return replace(
                rule,
                automaton=automaton,
                find_max=partial(together.max_amount, rule.token_class),
                make_rows=partial(rows_of, together, rule.token_class, self.a.node.shape[1]),
                form=form,
                joinable=None,
            )

        return like

    def max_amount(self, token_class: np.ndarray) -> int:
        """All instances but one at the first token."""
        return int(bounds_at(self.a, token_class)[1][1:].sum())

    def terms(self, builder: RowBuilder) -> list[Term]:
        """Each token but the first: an a, unless no b came before."""
        most, highest = (bounds_at(tally, builder.token_class)[1].tolist() for tally in (self.a, self.b))
        terms: list[Term] = []
        seen = Affine()
        for t, (b, high) in enumerate(zip(builder.tokens(self.b)[:-1], highest)):
            now = builder.auxiliary()  # at least 1 from the first b on
            if t:
                builder.limit(seen, now)
            seen = now
            if not b.is_constant:
                builder.limit(b, float(high) * seen)
            a = builder.at(self.a, t + 1)
            if not a.is_constant:
                terms.append((a, float(most[t + 1]) * (1 - seen), float(most[t + 1])))
        return terms

    def guilty(self, builder: RowBuilder) -> list[Affine]:
        """Tokens of an a with a b before."""
        at_a, at_b = builder.tokens(self.a), builder.tokens(self.b)
        return [builder.all_positive(at_a[t], total(at_b[:t])) for t in range(1, builder.n)]


@dataclass(frozen=True)
class SomeAfter(Failures):
    """Instances of ``a`` without a ``b`` at the same token or later fail."""

    a: Tally
    b: Tally

    shape = "some after"

    @property
    def signals(self) -> tuple[Tally, ...]:
        """Instances of both."""
        return self.a, self.b

    def forms(self, n: int, what: str) -> Forms:
        """Guess whether a b is still to come: right as long as one comes, right again when none does."""

        def step(coming: State, values: Values) -> Arcs:
            if not coming:
                return () if values[1] > 0 else ((False, values[0]),)
            return ((True, 0), (False, 0)) if values[1] > 0 else ((True, 0),)

        def end(coming: State) -> int:
            return -1 if coming else 0

        return Forms(automaton=build(LazyAutomaton(self.signals, (True, False), step, end), what, self.shape))

    def truth(self, n: int) -> Truth:
        """Remember whether an a waits for its b."""

        def step(state: State, values: Values) -> State:
            if values[1] > 0:
                return "none waits"
            return "one waits" if values[0] > 0 else state

        return Truth(self.signals, "none waits", step, lambda state: state == "none waits")

    def max_amount(self, token_class: np.ndarray) -> int:
        """All instances."""
        return int(bounds_at(self.a, token_class)[1].sum())

    def terms(self, builder: RowBuilder) -> list[Term]:
        """Each token: an a, unless there is a b from here on."""
        most = bounds_at(self.a, builder.token_class)[1].tolist()
        a, b = builder.tokens(self.a), builder.tokens(self.b)
        return [
            (a[t], float(most[t]) * total(b[t:]), float(most[t])) for t in range(builder.n) if not a[t].is_constant
        ]

    def guilty(self, builder: RowBuilder) -> list[Affine]:
        """Tokens of an a from which on there is no b."""
        most = bounds_at(self.b, builder.token_class)[1]
        at_a, at_b = builder.tokens(self.a), builder.tokens(self.b)
        failing = [builder.all_positive(a) for a in at_a]
        for t, one in enumerate(failing):
            builder.limit(total(at_b[t:]), float(most[t:].sum()) * (1 - one))
        return failing


@dataclass(frozen=True)
class Window(Failures):
    """Around tokens that ``meets`` marks: the label before, the label here (where asked) and the label after.

    ``prev``, ``here`` and ``next`` are 1 where the label matches (``here`` for all labels where it is not asked about). The
    ``conclusion`` is at -1, 0 or 1, the others are premises; if it is ``require``, all are conclusions.
    """

    meets: Tally
    prev: Tally
    here: Tally
    next: Tally
    require: bool
    conclusion: int = 1

    start, idles = (None, None), False

    @property
    def signals(self) -> tuple[Tally, ...]:
        """Conditions and labels."""
        return (self.meets, self.prev, self.here, self.next)

    @property
    def shape(self) -> Hashable:
        """What is asked."""
        return "window", self.require, self.conclusion

    def step(self, state: State, values: Values) -> tuple[State, int]:
        """State: did the label before match ``prev`` (None: no token before); what a token that waits has seen."""
        before: bool | None
        waiting: tuple[bool, bool] | None
        before, waiting = state  # type: ignore[misc]
        meets, prev, here, after = (value > 0 for value in values)
        failed = waiting is not None and self._fails((*waiting, after))
        now = None if before is None or not meets else (before, here)
        return (prev, now), int(failed)

    def _fails(self, matched: tuple[bool, bool, bool]) -> bool:
        """Whether labels are not as asked, by which of those before, at and after a token match."""
        if self.require:
            return not all(matched)
        concluded = matched[1 + self.conclusion]
        return not concluded and sum(matched) == 2

    def _centers(self, token_class: np.ndarray) -> np.ndarray:
        """Tokens that meet the condition and have both neighbors."""
        inner = np.arange(1, max(len(token_class) - 1, 1))
        return inner[self.meets.node[token_class[inner], 0] > 0] if len(token_class) > 2 else inner[:0]

    def max_amount(self, token_class: np.ndarray) -> int:
        """All tokens that meet the condition."""
        return len(self._centers(token_class))

    def _asked(self, builder: RowBuilder) -> list[tuple[list[Affine], Affine]]:
        """Premises and conclusion of each token that counts."""
        asked = self.conclusion == 0 or bool((self.here.node == 0).any())
        centers = []
        for t in self._centers(builder.token_class):
            labels = {-1: builder.at(self.prev, t - 1), 1: builder.at(self.next, t + 1)}
            if asked:
                labels[0] = builder.at(self.here, t)
            conclusion = labels.pop(self.conclusion)
            centers.append((list(labels.values()), conclusion))
        return centers

    def terms(self, builder: RowBuilder) -> list[Term]:
        """Each token: all premises without the conclusion, or (eq. 19 of [Fersini14] per token) any label missing."""
        terms: list[Term] = []
        for premises, conclusion in self._asked(builder):
            if not self.require:
                terms.append((total(premises) - float(len(premises) - 1), conclusion, 1.0))
                continue
            failed = builder.auxiliary()
            for label in [*premises, conclusion]:
                builder.limit(1 - label, failed)
            terms.append((failed, Affine(), 1.0))
        return terms

    def guilty(self, builder: RowBuilder) -> list[Affine]:
        """Tokens around which the labels are not as asked."""
        failing = []
        for premises, conclusion in self._asked(builder):
            one = builder.all_positive(*([] if self.require else premises))
            labels = [*premises, conclusion] if self.require else [conclusion]
            builder.limit(one + total(labels), float(len(labels)))
            failing.append(one)
        return failing
