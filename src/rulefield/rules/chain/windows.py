"""Labels on both sides of a token: premises and conclusion two steps apart, so that no sum over edges says it."""

from dataclasses import dataclass

import numpy as np

from rulefield.problem.chain_rules import Tally
from rulefield.rules.chain.automata import Arcs, LazyAutomaton, State, Truth, Values, build
from rulefield.rules.chain.rows import Affine, RowBuilder, total
from rulefield.rules.chain.statement import Forms, Statement


@dataclass(frozen=True)
class Window(Statement):
    """Around tokens that ``meets`` marks: the label before, the label here (where asked) and the label after.

    Parameters
    ----------
    meets : Tally
        1 at tokens that the condition holds for, whatever their label.
    prev, here, next : Tally
        1 where the label matches; ``here`` is 1 for all labels where it is not asked about.
    require : bool
        All are conclusions.
    conclusion : int
        Else -1, 0 or 1: the place of the conclusion; the others are premises.
    """

    meets: Tally
    prev: Tally
    here: Tally
    next: Tally
    require: bool
    conclusion: int = 1

    @property
    def _signals(self) -> tuple[Tally, ...]:
        return (self.meets, self.prev, self.here, self.next)

    def _read(self, state: tuple, values: Values) -> tuple[tuple, bool]:
        """State: did the label before match ``prev`` (None: no token before); what a token that waits has seen."""
        before, waiting = state
        meets, prev, here, after = (value > 0 for value in values)
        failed = waiting is not None and self._fails((*waiting, after))
        now = None if before is None or not meets else (before, here)
        return (prev, now), failed

    def _fails(self, found: tuple[bool, bool, bool]) -> bool:
        """Whether the labels before, at and after a token, as found, are not as asked."""
        if self.require:
            return not all(found)
        concluded = found[1 + self.conclusion]
        return not concluded and sum(found) == 2

    def forms(self, n: int, what: str) -> Forms:
        """Remember two labels."""

        def step(state: State, values: Values) -> Arcs:
            following, failed = self._read(state, values)  # type: ignore[arg-type]
            return ((following, int(failed)),)

        return Forms(automaton=build(LazyAutomaton(self._signals, ((None, None),), step, lambda state: 0), what))

    def truth(self, n: int) -> Truth:
        """Fails for good at the first token that fails."""

        def step(state: State, values: Values) -> State:
            following, failed = self._read(state, values)  # type: ignore[arg-type]
            return False if failed else following

        return Truth(self._signals, (None, None), step, lambda state: True)

    def _centers(self, token_class: np.ndarray) -> np.ndarray:
        """Tokens that meet the condition and have both neighbors."""
        inner = np.arange(1, max(len(token_class) - 1, 1))
        return inner[self.meets.node[token_class[inner], 0] > 0] if len(token_class) > 2 else inner[:0]

    def max_amount(self, token_class: np.ndarray) -> int:
        """All tokens that meet the condition."""
        return len(self._centers(token_class))

    def _terms(self, builder: RowBuilder) -> list[tuple[list[Affine], Affine]]:
        """Premises and conclusion of each token that counts."""
        asked = self.conclusion == 0 or bool((self.here.node == 0).any())
        terms = []
        for t in self._centers(builder.token_class):
            labels = {-1: builder.at(self.prev, t - 1), 1: builder.at(self.next, t + 1)}
            if asked:
                labels[0] = builder.at(self.here, t)
            conclusion = labels.pop(self.conclusion)
            terms.append((list(labels.values()), conclusion))
        return terms

    def amount_rows(self, builder: RowBuilder) -> None:
        """For each token: premises - conclusion <= slack (eq. 19 of [Fersini14] per token where ``require``)."""
        for premises, conclusion in self._terms(builder):
            if not self.require:
                builder.limit(total(premises) - float(len(premises) - 1), conclusion, slack=True)
                continue
            failed = builder.auxiliary()
            for label in [*premises, conclusion]:
                builder.limit(1 - label, failed)
            builder.limit(failed, 0, slack=True)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """No token fails, or one does."""
        chosen = builder.auxiliary()
        guilty = []
        for premises, conclusion in self._terms(builder):
            labels = [*premises, conclusion]
            if truth and self.require:
                for label in labels:
                    builder.limit(chosen, label)
            elif truth:
                builder.limit(total(premises) + chosen - float(len(premises)), conclusion)
            else:
                guilty.append(self._guilty(builder, premises, conclusion))
        if not truth:
            builder.limit(chosen, total(guilty))
        return chosen

    def _guilty(self, builder: RowBuilder, premises: list[Affine], conclusion: Affine) -> Affine:
        here = builder.auxiliary()
        if self.require:
            builder.limit(here + total([*premises, conclusion]), float(len(premises) + 1))
            return here
        for premise in premises:
            builder.limit(here, premise)
        builder.limit(here + conclusion, 1)
        return here
