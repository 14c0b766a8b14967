"""What all rules are made of, and the labeling that they judge."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rulefield.exceptions import InputError, RuleError
from rulefield.rules.labels import LabelTable, hint
from rulefield.rules.patterns import AnyPattern, JointPattern
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


@dataclass(frozen=True)
class LabeledTokens:
    """Tokens with labels: the world that rules over sequences refer to."""

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
        return [int(table[i, j]) for i, j in zip(self._indices, self._indices[1:])]

    def instances(self, pattern: AnyPattern, level: str) -> list[int]:
        """How many instances begin at each token: tokens that match, or segments."""
        return self.matching(pattern) if level == "token" else self.starting(pattern)

    def meeting(self, condition: TokenCondition) -> np.ndarray:
        """Which tokens meet a condition."""
        return condition.over(self.tokens)


@dataclass(frozen=True)
class LabeledJointTokens:
    """Tokens with labels of several tasks: the world that rules of joint models refer to.

    A pattern that names no task is one of the only task in which it matches a label that occurs.
    """

    tokens: Sequence[Any]
    labels: Mapping[str, Sequence[str]]
    schemes: Mapping[str, str | None]

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _tasks(self) -> dict[str, LabeledTokens]:
        return {task: LabeledTokens(self.tokens, own, self.schemes[task]) for task, own in self.labels.items()}

    def _task(self, pattern: AnyPattern) -> tuple[LabeledTokens, AnyPattern]:
        """Labels of the task of a pattern of one task, and the pattern without the task's name."""
        (part,) = pattern.parts
        plain = part.within(None)
        if part.task is not None:
            if part.task not in self._tasks:
                raise RuleError(unknown_task(part.task, pattern, self._tasks))
            return self._tasks[part.task], plain
        found = [task for task, world in self._tasks.items() if any(world.matching(plain))]
        if len(found) > 1:
            raise RuleError(ambiguous_pattern(pattern, found))
        return self._tasks[(found or list(self._tasks))[0]], plain

    def matching(self, pattern: AnyPattern) -> list[int]:
        """1 for each token that has all labels asked for, else 0."""
        if not isinstance(pattern, JointPattern):
            world, plain = self._task(pattern)
            return world.matching(plain)
        return [int(all(found)) for found in zip(*(self.matching(part) for part in pattern.parts))]

    def starting(self, pattern: AnyPattern) -> list[int]:
        """How many segments of the pattern begin at each token; of several tasks: runs of tokens that match."""
        if not isinstance(pattern, JointPattern):
            world, plain = self._task(pattern)
            return world.starting(plain)
        found = self.matching(pattern)
        return [int(here and not before) for before, here in zip([0, *found], found)]

    def ending(self, pattern: AnyPattern) -> list[int]:
        """How many segments of the pattern have their last token at each token but the last."""
        if not isinstance(pattern, JointPattern):
            world, plain = self._task(pattern)
            return world.ending(plain)
        found = self.matching(pattern)
        return [int(here and not after) for here, after in zip(found, found[1:])]

    def instances(self, pattern: AnyPattern, level: str) -> list[int]:
        """How many instances begin at each token: tokens that match, or segments."""
        return self.matching(pattern) if level == "token" else self.starting(pattern)

    def meeting(self, condition: TokenCondition) -> np.ndarray:
        """Which tokens meet a condition."""
        return condition.over(self.tokens)


def unknown_task(task: str, what: object, tasks: Iterable[str]) -> str:
    """Say that a task is unknown."""
    near = hint(task, tasks, f"the tasks are {', '.join(tasks)}.")
    return f"{what!r} names the task {task!r}, which is unknown; {near}"


def ambiguous_pattern(pattern: AnyPattern, tasks: Sequence[str]) -> str:
    """Say that a pattern could be one of several tasks."""
    return f"the pattern {pattern!r} matches labels of the tasks {' and '.join(tasks)}; say which: task={tasks[0]!r}."
