"""What all rules are made of, and the labeling that they judge."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from rulefield.exceptions import InputError, RuleError
from rulefield.rules.labels import LabelTable, hint
from rulefield.rules.patterns import AnyPattern, JointPattern, Pattern
from rulefield.rules.patterns import end_counts as end_table
from rulefield.rules.patterns import matches as match_table
from rulefield.rules.patterns import start_counts as start_table
from rulefield.rules.tokens import TokenCondition


class Expression:
    """A statement that holds or fails for a labeling; logic combines any such statements.

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


class World:
    """What rules over sequences judge: tokens with labels."""

    tokens: Sequence[Any]
    matching: Callable[[AnyPattern], list[int]]
    starting: Callable[[AnyPattern], list[int]]

    def instances(self, pattern: AnyPattern, level: str) -> list[int]:
        """How many instances begin at each token: tokens that match, or segments."""
        return self.matching(pattern) if level == "token" else self.starting(pattern)

    def meeting(self, condition: TokenCondition) -> np.ndarray:
        """Which tokens meet a condition."""
        return condition.over(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class LabeledTokens(World):
    """Tokens with labels of one task."""

    tokens: Sequence[Any]
    labels: Sequence[str]
    scheme: str | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.labels):
            raise InputError(f"every token needs a label; {len(self.tokens)} tokens have {len(self.labels)} labels.")

    @cached_property
    def _table(self) -> LabelTable:
        return LabelTable(tuple(dict.fromkeys(self.labels)), self.scheme)

    @cached_property
    def _indices(self) -> list[int]:
        return [self._table.index[label] for label in self.labels]

    @cached_property
    def _read(self) -> dict[tuple[str, AnyPattern], list[int]]:
        """What was asked before: many rules ask the same of one labeling."""
        return {}

    @property
    def types(self) -> tuple[str, ...]:
        """Types of segments that occur."""
        return self._table.types

    def matching(self, pattern: AnyPattern) -> list[int]:
        """1 for each token whose label matches, else 0."""
        if ("match", pattern) not in self._read:
            table = match_table(pattern, self._table)
            self._read["match", pattern] = [int(table[i]) for i in self._indices]
        return self._read["match", pattern]

    def starting(self, pattern: AnyPattern) -> list[int]:
        """How many segments of the pattern begin at each token."""
        if ("start", pattern) not in self._read:
            table, before = start_table(pattern, self._table), [len(self._table), *self._indices]
            self._read["start", pattern] = [int(table[i, j]) for i, j in zip(before, self._indices)]
        return self._read["start", pattern]

    def ending(self, pattern: AnyPattern) -> list[int]:
        """How many segments of the pattern have their last token at each token but the last."""
        table = end_table(pattern, self._table)
        return [int(table[i, j]) for i, j in pairwise(self._indices)]


BOTH = Pattern(("both",))
"""Marks the tokens that match a pattern of several tasks; its segments are runs of such tokens."""


@dataclass(frozen=True)
class LabeledJointTokens(World):
    """Tokens with labels of several tasks.

    A pattern that names no task is one of the only task in which it matches a label that occurs.
    """

    tokens: Sequence[Any]
    labels: Mapping[str, Sequence[str]]
    schemes: Mapping[str, str | None]

    @cached_property
    def _tasks(self) -> dict[str, LabeledTokens]:
        return {task: LabeledTokens(self.tokens, row, self.schemes[task]) for task, row in self.labels.items()}

    def _view(self, pattern: AnyPattern) -> tuple[LabeledTokens, AnyPattern]:
        """Labels of one task, and the pattern without the task's name."""
        if isinstance(pattern, JointPattern):
            all_match = map(all, zip(*(self.matching(part) for part in pattern.parts)))
            return LabeledTokens(self.tokens, ["both" if match else "other" for match in all_match]), BOTH
        plain = pattern.within(None)
        if pattern.task is not None:
            if pattern.task not in self._tasks:
                raise RuleError(unknown_task(pattern.task, pattern, self._tasks))
            return self._tasks[pattern.task], plain
        found = [task for task, world in self._tasks.items() if any(world.matching(plain))]
        if len(found) > 1:
            raise RuleError(ambiguous_pattern(pattern, found))
        return self._tasks[(found or list(self._tasks))[0]], plain

    def matching(self, pattern: AnyPattern) -> list[int]:
        """1 for each token that has all labels asked for, else 0."""
        world, plain = self._view(pattern)
        return world.matching(plain)

    def starting(self, pattern: AnyPattern) -> list[int]:
        """How many segments of the pattern begin at each token; of several tasks: runs of tokens that match."""
        world, plain = self._view(pattern)
        return world.starting(plain)

    def ending(self, pattern: AnyPattern) -> list[int]:
        """How many segments of the pattern have their last token at each token but the last."""
        world, plain = self._view(pattern)
        return world.ending(plain)


def unknown_task(task: str, what: object, tasks: Iterable[str]) -> str:
    """Say that a task is unknown."""
    near = hint(task, tasks, f"the tasks are {', '.join(tasks)}.")
    return f"{what!r} names the task {task!r}, which is unknown; {near}"


def ambiguous_pattern(pattern: AnyPattern, tasks: Sequence[str]) -> str:
    """Say that a pattern could be one of several tasks."""
    return f"the pattern {pattern!r} matches labels of the tasks {' and '.join(tasks)}; say which: task={tasks[0]!r}."
