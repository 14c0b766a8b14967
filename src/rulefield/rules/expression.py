"""What all rules are made of, and the labelling that they judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.rules.labels import LabelTable
from rulefield.rules.patterns import Pattern
from rulefield.rules.patterns import end_counts as end_table
from rulefield.rules.patterns import matches as match_table
from rulefield.rules.patterns import start_counts as start_table
from rulefield.rules.tokens import TokenCondition


class Expression:
    """A statement that holds or fails for a labelling; logic combines any such statements.

    Subclasses are small frozen dataclasses. They say what they mean directly, from the definition, without any
    engine; compilation is elsewhere and is tested against this.
    """

    def amount(self, world: Any) -> int:
        """By how much the statement fails (0: it holds)."""
        raise NotImplementedError

    def holds(self, world: Any) -> bool:
        """Whether the statement is true."""
        return self.amount(world) == 0

    @property
    def children(self) -> "tuple[Expression, ...]":
        """Statements that this one is made of."""
        return ()


@dataclass(frozen=True)
class Labelling:
    """Tokens with labels: the world that rules over sequences speak of."""

    tokens: Sequence[Any]
    labels: Sequence[str]
    scheme: str | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.labels):
            raise InputError(f"every token needs a label; {len(self.tokens)} tokens have {len(self.labels)} labels.")

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(tuple(dict.fromkeys(self.labels)), self.scheme)

    @cached_property
    def _indices(self) -> list[int]:
        return [self._table.index[label] for label in self.labels]

    @cached_property
    def _read(self) -> dict[tuple[str, Pattern], list[int]]:
        """What was asked before: many rules ask the same of one labelling."""
        return {}

    def matching(self, pattern: Pattern) -> list[int]:
        """1 for each token whose label matches, else 0."""
        if ("match", pattern) not in self._read:
            table = match_table(pattern, self._table)
            self._read["match", pattern] = [int(table[i]) for i in self._indices]
        return self._read["match", pattern]

    def starting(self, pattern: Pattern) -> list[int]:
        """How many segments of the pattern begin at each token."""
        if ("start", pattern) not in self._read:
            table, before = start_table(pattern, self._table), [len(self._table), *self._indices]
            self._read["start", pattern] = [int(table[i, j]) for i, j in zip(before, self._indices)]
        return self._read["start", pattern]

    def ending(self, pattern: Pattern) -> list[int]:
        """How many segments of the pattern have their last token at each token but the last."""
        table = end_table(pattern, self._table)
        return [int(table[i, j]) for i, j in zip(self._indices, self._indices[1:])]

    def instances(self, pattern: Pattern, level: str) -> list[int]:
        """How many instances begin at each token: tokens that match, or segments."""
        return self.matching(pattern) if level == "token" else self.starting(pattern)

    def meeting(self, condition: TokenCondition) -> np.ndarray:
        """Which tokens meet a condition."""
        return condition.over(self.tokens)
