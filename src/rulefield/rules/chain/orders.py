"""Order: no b before an a; a b after every a."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rulefield.problem.chain_rules import CompiledRule, Joinable, Tally
from rulefield.rules.chain.automata import Arcs, LazyAutomaton, State, Truth, Values, build
from rulefield.rules.chain.rows import Affine, RowBuilder, total
from rulefield.rules.chain.statement import Forms, Statement, rows_of
from rulefield.rules.chain.tallies import bounds_at, combine


@dataclass(frozen=True)
class NoneBefore(Statement):
    """Instances of ``a`` that have a ``b`` before fail."""

    a: Tally
    b: Tally

    def forms(self, n: int, what: str) -> Forms:
        """Remember whether there was a b."""

        def step(seen: State, values: Values) -> Arcs:
            return ((seen or values[1] > 0, values[0] if seen else 0),)

        return Forms(automaton=build(LazyAutomaton((self.a, self.b), (False,), step, lambda seen: 0), what))

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

    def truth(self, n: int) -> Truth:
        """Fails for good at the first such a."""

        def step(state: State, values: Values) -> State:
            if state == "seen":
                return False if values[0] > 0 else state
            return "seen" if values[1] > 0 else state

        return Truth((self.a, self.b), "none yet", step, lambda state: True)

    def max_amount(self, token_class: np.ndarray) -> int:
        """All instances but one at the first token."""
        return int(bounds_at(self.a, token_class)[1][1:].sum())

    def _seen(self, builder: RowBuilder) -> list[Affine]:
        """Return a 0/1 variable for each token but the first: at least 1 where there was a b before it."""
        tokens = builder.tokens(self.b)[:-1]
        seen = [builder.auxiliary() for _ in tokens]
        for t, (token, high) in enumerate(zip(tokens, bounds_at(self.b, builder.token_class)[1])):
            if not token.is_constant:
                builder.limit(token, float(high) * seen[t])
            if t:
                builder.limit(seen[t - 1], seen[t])
        return seen

    def _terms(self, builder: RowBuilder) -> list[tuple[Affine, Affine, float]]:
        """For each token but the first: instances of a, whether a b came before, and the most instances."""
        high = bounds_at(self.a, builder.token_class)[1]
        a = builder.tokens(self.a)
        return [
            (a[t + 1], seen, float(high[t + 1]))
            for t, seen in enumerate(self._seen(builder))
            if not a[t + 1].is_constant
        ]

    def amount_rows(self, builder: RowBuilder) -> None:
        """For each token: a + b before - 1 <= slack."""
        for a, seen, high in self._terms(builder):
            builder.limit(a, high * (1 - seen), slack=True)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """No token fails, or one does."""
        chosen = builder.auxiliary()
        if truth:
            for a, seen, high in self._terms(builder):
                builder.limit(a, high * (2 - seen - chosen))
            return chosen
        at_a, at_b = builder.tokens(self.a), builder.tokens(self.b)
        guilty = []
        for t in range(1, builder.n):
            here = builder.auxiliary()
            builder.limit(here, at_a[t])
            builder.limit(here, total(at_b[:t]))
            guilty.append(here)
        builder.limit(chosen, total(guilty))
        return chosen


@dataclass(frozen=True)
class SomeAfter(Statement):
    """Instances of ``a`` without a ``b`` at the same token or later fail."""

    a: Tally
    b: Tally

    def forms(self, n: int, what: str) -> Forms:
        """Guess whether a b is still to come: right as long as one comes, right again when none does."""

        def step(coming: State, values: Values) -> Arcs:
            if not coming:
                return () if values[1] > 0 else ((False, values[0]),)
            return ((True, 0), (False, 0)) if values[1] > 0 else ((True, 0),)

        def end(coming: State) -> int:
            return -1 if coming else 0

        return Forms(automaton=build(LazyAutomaton((self.a, self.b), (True, False), step, end), what))

    def truth(self, n: int) -> Truth:
        """Remember whether an a waits for its b."""

        def step(state: State, values: Values) -> State:
            if values[1] > 0:
                return "none waits"
            return "one waits" if values[0] > 0 else state

        return Truth((self.a, self.b), "none waits", step, lambda state: state == "none waits")

    def max_amount(self, token_class: np.ndarray) -> int:
        """All instances."""
        return int(bounds_at(self.a, token_class)[1].sum())

    def amount_rows(self, builder: RowBuilder) -> None:
        """For each token: a <= the b's from here on + slack."""
        for a, later, high in self._terms(builder):
            builder.limit(a, high * later, slack=True)

    def _terms(self, builder: RowBuilder) -> list[tuple[Affine, Affine, float]]:
        """For each token: instances of a, the b's from here on, and the most instances."""
        high = bounds_at(self.a, builder.token_class)[1]
        a, b = builder.tokens(self.a), builder.tokens(self.b)
        return [(a[t], total(b[t:]), float(high[t])) for t in range(builder.n) if not a[t].is_constant]

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """No token fails, or one does."""
        chosen = builder.auxiliary()
        if truth:
            for a, later, high in self._terms(builder):
                builder.limit(a, high * later + high * (1 - chosen))
            return chosen
        most = bounds_at(self.b, builder.token_class)[1]
        at_a, at_b = builder.tokens(self.a), builder.tokens(self.b)
        guilty = []
        for t in range(builder.n):
            here = builder.auxiliary()
            builder.limit(here, at_a[t])
            builder.limit(total(at_b[t:]), float(most[t:].sum()) * (1 - here))
            guilty.append(here)
        builder.limit(chosen, total(guilty))
        return chosen
