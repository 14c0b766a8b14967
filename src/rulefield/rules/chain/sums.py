"""Statements whose amount is a plain sum of terms >= 0: what is absent, first, last, adjacent."""

from dataclasses import dataclass

import numpy as np

from rulefield.problem.chain_rules import Tally
from rulefield.rules.chain.automata import State, Truth, Values
from rulefield.rules.chain.rows import Affine, RowBuilder, total
from rulefield.rules.chain.statement import Forms, Statement
from rulefield.rules.chain.tallies import bounds_at


@dataclass(frozen=True)
class Sum(Statement):
    """The amount is a tally with entries >= 0."""

    tally: Tally

    def forms(self, n: int, what: str) -> Forms:
        """Return the tally, which says everything."""
        return Forms(tally=self.tally)

    @property
    def presence(self) -> tuple[np.ndarray, bool] | None:
        """Nothing may be counted, if the terms are of tokens alone."""
        plain = self.tally.edge is None and self.tally.first is None
        return (self.tally.node > 0, False) if plain else None

    def truth(self, n: int) -> Truth:
        """Fails for good at the first positive term."""

        def step(state: State, values: Values) -> State:
            return False if values[0] > 0 else state

        return Truth((self.tally,), "none yet", step, lambda state: True)

    def max_amount(self, token_class: np.ndarray) -> int:
        """Sum of the greatest terms."""
        return int(bounds_at(self.tally, token_class)[1].sum())

    def amount_rows(self, builder: RowBuilder) -> None:
        """One row per token: its term is paid by its slack."""
        for term in builder.tokens(self.tally):
            if not term.is_constant:
                builder.limit(term, 0, slack=True)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """Every term 0, or their sum at least 1."""
        chosen = builder.auxiliary()
        terms = builder.tokens(self.tally)
        if not truth:
            builder.limit(chosen, total(terms))
            return chosen
        for term, high in zip(terms, bounds_at(self.tally, builder.token_class)[1]):
            if not term.is_constant:
                builder.limit(term, float(high) * (1 - chosen))
        return chosen
