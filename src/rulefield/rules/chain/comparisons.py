"""Comparisons: the amount is the excess of a tally over a bound."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from rulefield.problem.chain_rules import Counter, Forms, Tally
from rulefield.rules.chain.automata import State, Truth, Values
from rulefield.rules.chain.rows import Affine, RowBuilder, total
from rulefield.rules.chain.statement import Statement
from rulefield.rules.chain.tallies import bounds_at, combine


def rounded_up(n: int) -> int:
    """Round a length up by less than a quarter, so that inputs of similar length share automata."""
    step = 1 << max(max(n, 1).bit_length() - 3, 0)
    return -(-n // step) * step


@dataclass(frozen=True)
class Together(Statement):
    """Several comparisons; the amount is the sum of theirs, and it holds where all do."""

    parts: tuple["Compared", ...]
    all_of: Statement
    """The same comparisons joined by logic, for truth inside other statements."""

    def forms(self, n: int, what: str) -> Forms:
        """Return the counters of all parts."""
        return Forms(counters=tuple(counter for part in self.parts for counter in part.forms(n, what).counters))

    @property
    def shape(self) -> Hashable:
        """That of the parts joined by logic."""
        return self.all_of.shape

    def truth(self, n: int) -> Truth:
        """Return what decides whether all parts hold."""
        return self.all_of.truth(n)

    def max_amount(self, token_class: np.ndarray) -> int:
        """Sum of the parts' greatest amounts."""
        return sum(part.max_amount(token_class) for part in self.parts)

    def amount_rows(self, builder: RowBuilder) -> None:
        """Rows of all parts."""
        for part in self.parts:
            part.amount_rows(builder)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """As the parts joined by logic."""
        return self.all_of.force(builder, truth)


@dataclass(frozen=True)
class Compared(Statement):
    """``tally <= bound``, or ``tally == bound`` where ``equal``."""

    tally: Tally
    bound: int
    equal: bool = False

    @property
    def depends_on_length(self) -> bool:  # type: ignore[override]
        """Whether the tally goes both up and down (or must be followed beyond the bound)."""
        low, high = self.tally.range
        return low < 0 < high

    @property
    def shape(self) -> Hashable:
        """The bound, and the steps that the tally can make."""
        return "compared", self.bound, self.equal, self.tally.range

    @property
    def _sides(self) -> list[tuple[Tally, int]]:
        """The comparison as one or two upper bounds."""
        if not self.equal:
            return [(self.tally, self.bound)]
        return [(self.tally, self.bound), (negative(self.tally), -self.bound)]

    def forms(self, n: int, what: str) -> Forms:
        """Counters; also a tally where nothing may be counted at all."""
        plain = self.bound == 0 and not self.equal and self.tally.range[0] >= 0
        counters = tuple(Counter(tally, bound) for tally, bound in self._sides)
        return Forms(tally=self.tally if plain else None, counters=counters)

    @property
    def presence(self) -> tuple[np.ndarray, bool] | None:
        """``count >= 1`` asks for a label, ``count <= 0`` forbids it."""
        node, plain = self.tally.node, self.tally.edge is None and self.tally.first is None
        if plain and not self.equal and self.bound == -1 and node.max(initial=0) <= 0:
            return node < 0, True
        if plain and self.bound == 0 and node.min(initial=0) >= 0:
            return node > 0, False
        return None

    def truth(self, n: int) -> Truth:
        """Follows the sum as far as it matters within (a rounded up) n tokens."""
        low, high = self.tally.range
        floor, ceiling = self._range(rounded_up(n))

        def step(state: State, values: Values) -> State:
            total = state[0] + values[0]  # type: ignore[index]
            if low >= 0 and total > self.bound:
                return False
            if high <= 0 and total <= self.bound and not self.equal:
                return True
            if high <= 0 and total < self.bound:
                return False
            return (min(max(total, floor), ceiling),)

        def holds(state: State) -> bool:
            total = state[0]  # type: ignore[index]
            return total == self.bound if self.equal else total <= self.bound

        return Truth((self.tally,), step((0,), (0,)), step, holds)

    def _range(self, n: int) -> tuple[int, int]:
        """Return the sums from which the bound cannot be crossed any more within n tokens, below and above.

        Reaching u takes u / high tokens; the rest can take away (n - u / high) |low|, too little to come back to
        the bound when u > (|low| n + bound) high / (high + |low|); likewise below.
        """
        low, high = self.tally.range
        if low >= 0 or high <= 0:
            return min(0, n * low, self.bound - 1), max(0, n * high, self.bound + 1)
        up = (-low * n + self.bound) * high / (high - low)
        down = (high * n - self.bound) * -low / (high - low)
        return min(-int(down) - 2, self.bound - 1, 0), max(int(up) + 2, self.bound + 1, 0)

    def max_amount(self, token_class: np.ndarray) -> int:
        """Greatest excess on either side."""
        low, high = (int(x.sum()) for x in bounds_at(self.tally, token_class))
        above = max(0, high - self.bound)
        return max(above, self.bound - low, 0) if self.equal else above

    def amount_rows(self, builder: RowBuilder) -> None:
        """One row for each side."""
        for tally, bound in self._sides:
            builder.limit(total(builder.tokens(tally)), float(bound), slack=True)

    def force(self, builder: RowBuilder, truth: bool) -> Affine:
        """Big-M rows with the least constants that the input allows."""
        value = total(builder.tokens(self.tally)) - float(self.bound)
        low, high = (int(x.sum()) - self.bound for x in bounds_at(self.tally, builder.token_class))
        if truth:
            chosen = builder.auxiliary()
            _below(builder, value, high, chosen)
            if self.equal:
                _below(builder, -value, -low, chosen)
            return chosen
        above = builder.auxiliary()
        if self.bound == -1 and not self.equal and self.tally.range[1] <= 0:  # none of what it counts: token by token
            least = bounds_at(self.tally, builder.token_class)[0].tolist()
            for token, lowest in zip(builder.tokens(self.tally), least):
                builder.limit(-token, -lowest * (1 - above))
            return above
        _below(builder, 1 - value, 1 - low, above)
        if not self.equal:
            return above
        under, chosen = builder.auxiliary(), builder.auxiliary()
        _below(builder, 1 + value, 1 + high, under)
        builder.limit(chosen, above + under)
        return chosen


def _below(builder: RowBuilder, value: Affine, greatest: int, chosen: Affine) -> None:
    """``value <= 0`` where ``chosen`` is 1; ``greatest`` bounds it."""
    builder.limit(value, float(max(greatest, 0)) * (1 - chosen))


def negative(tally: Tally) -> Tally:
    """Return minus a tally."""
    return combine([(-1, tally)], tally.node.shape)
