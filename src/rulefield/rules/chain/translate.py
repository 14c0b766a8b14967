"""From expressions of the language to compiled statements over one label set."""

from functools import cache, singledispatchmethod

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.problem.chain_rules import Tally
from rulefield.rules import facts, logic, numbers
from rulefield.rules.chain.classes import LAST, Bit, ClassSpace
from rulefield.rules.chain.comparisons import Compared, Together, negative
from rulefield.rules.chain.failures import NoneBefore, SomeAfter, Sum, Window
from rulefield.rules.chain.nested import Nested
from rulefield.rules.chain.statement import Statement
from rulefield.rules.chain.tallies import combine, edge_tally, node_tally, start_tally
from rulefield.rules.expression import Expression
from rulefield.rules.labels import LabelTable
from rulefield.rules.patterns import AnyPattern, end_counts, matches, start_counts

MAX_FACTOR = 1_000_000
"""Larger ones could overflow the 32-bit tables of engines on long inputs."""


class PatternTables:
    """Tables of patterns over one label set, each made once and shared by all rules."""

    def __init__(self, table: LabelTable):
        self.labels = table
        self.matches = cache(self._matches)
        self.starts = cache(lambda pattern: start_counts(pattern, table))
        self.ends = cache(lambda pattern: end_counts(pattern, table))
        self.start_tally = cache(lambda pattern, space: start_tally(self.starts(pattern), table, space))

    def _matches(self, pattern: AnyPattern) -> np.ndarray:
        pattern.check(self.labels)
        return matches(pattern, self.labels)


def bits_of(expression: Expression) -> tuple[Bit, ...]:
    """Return what an expression asks about tokens, without repetition."""
    bits: list[Bit] = [bit for child in expression.children for bit in bits_of(child)]
    if isinstance(expression, numbers.Comparison):
        terms = expression.left.terms + expression.right.terms
        bits += [(c.where, 0) for _, c in terms if isinstance(c, numbers.Count) and c.where is not None]
    elif isinstance(expression, facts.Fact) and expression.kind == "last":
        bits.append((LAST, 0))
    elif isinstance(expression, facts.At):
        bits.append((expression.condition, _at_offset(expression)))
    return tuple(dict.fromkeys(bits))


def _at_offset(at: facts.At) -> int:
    """Where the condition lies, seen from the token at which a failure is counted."""
    offsets = [offset for offset, _ in at.asked]
    if len(offsets) == 1 or offsets == [0, 1]:
        return -offsets[-1]
    return 0


class Translator:
    """Translates the expressions of one rule."""

    def __init__(self, tables: PatternTables, space: ClassSpace):
        self.tables = tables
        self.space = space

    @property
    def _shape(self) -> tuple[int, int]:
        return self.space.n_classes, len(self.tables.labels)

    def _matching(self, pattern: AnyPattern, where: np.ndarray | None = None) -> Tally:
        return node_tally(self.tables.matches(pattern), self.space, where)

    def _instances(self, pattern: AnyPattern, level: str) -> Tally:
        tokens = self.tables.matches(pattern)  # raises if the pattern is unknown
        return node_tally(tokens, self.space) if level == "token" else self.tables.start_tally(pattern, self.space)

    @singledispatchmethod
    def statement(self, expression: Expression) -> Statement:
        """Compile one expression."""
        raise RuleError(f"{expression!r} is not a rule about sequences, so it cannot be used with a chain.")

    @statement.register
    def _(self, expression: logic.Combination) -> Statement:
        return Nested(expression, tuple(self.statement(part) for part in expression.parts))

    @statement.register
    def _(self, expression: numbers.Comparison) -> Statement:
        number = expression.difference
        tally = self.tally(number)
        if expression.sign == ">=":
            return Compared(negative(tally), number.constant)
        return Compared(tally, -number.constant, equal=expression.sign == "==")

    def tally(self, number: numbers.Number) -> Tally:
        """Return what a number counts, without its constant."""
        largest = max([abs(number.constant), *(abs(factor) for factor, _ in number.terms)])
        if largest > MAX_FACTOR:
            raise RuleError(f"numbers in a comparison must lie within {MAX_FACTOR}; got {largest}.")
        return combine(((factor, self._counted(count)) for factor, count in number.terms), self._shape)

    def _counted(self, count: numbers.Count | numbers.Segments) -> Tally:
        if isinstance(count, numbers.Segments):
            return self._instances(count.pattern, "segment")
        where = None if count.where is None else self.space.column((count.where, 0))
        return self._matching(count.pattern, where)

    @statement.register
    def _(self, expression: facts.EachAtMostOnce) -> Statement:
        if not isinstance(self.tables.labels, LabelTable):
            raise RuleError(
                f"{expression!r} does not say which task it counts in; with several tasks write "
                f"segments('x', task='ner') <= 1 for each type."
            )
        patterns = expression.among(self.tables.labels.types)
        if not patterns:
            return Sum(combine((), self._shape))
        parts = tuple(Compared(self._instances(pattern, "segment"), 1) for pattern in patterns)
        return Together(parts, Nested(logic.all_hold((expression,) * len(parts)), parts))

    @statement.register
    def _(self, expression: facts.Fact) -> Statement:
        if expression.kind in ("absent", "before", "eventually"):
            kind = {"absent": Sum, "before": NoneBefore, "eventually": SomeAfter}[expression.kind]
            return kind(*(self._instances(pattern, expression.level) for pattern in expression.patterns))
        if expression.kind == "followed_by":
            a, b = expression.patterns
            return self._followed_by(a, b, expression.level)
        if expression.kind not in ("present", "first", "last"):
            raise RuleError(f"{expression!r} has no form for sequences yet.")
        (pattern,) = expression.patterns
        if expression.kind == "present":
            return Compared(negative(self._matching(pattern)), -1)
        other = ~self.tables.matches(pattern)
        if expression.kind == "last":
            return Sum(node_tally(other, self.space, self.space.column((LAST, 0))))
        node = node_tally(other, self.space).node
        return Sum(Tally(np.zeros_like(node), None, node))

    def _followed_by(self, first: AnyPattern, second: AnyPattern, level: str) -> Statement:
        m = len(self.tables.labels)
        a, b = self.tables.matches(first), self.tables.matches(second)
        if level == "token":
            failing = a[:, None] & ~b[None, :]
        else:
            failing = self.tables.ends(first) * (self.tables.starts(second)[:m] == 0)
        return Sum(edge_tally(failing, self.space))

    @statement.register
    def _(self, expression: facts.At) -> Statement:
        asked = dict(expression.asked)
        meets = self.space.column((expression.condition, _at_offset(expression)))
        found = {offset: self.tables.matches(pattern) for offset, pattern in asked.items()}
        if len(found) == 1:
            (match,) = found.values()
            return Sum(node_tally(~match, self.space, meets))
        if -1 in found and 1 in found:
            here = found.get(0, np.ones(self._shape[1], dtype=bool))
            prev, now, after = (node_tally(match, self.space) for match in (found[-1], here, found[1]))
            always = np.ones(self._shape[1], dtype=bool)
            center = node_tally(always, self.space, meets)
            return Window(center, prev, now, after, expression.require, expression.conclusion)
        (_, a), (second, b) = found.items()
        if expression.require:
            failing = ~(a[:, None] & b[None, :])
        elif expression.conclusion == second:
            failing = a[:, None] & ~b[None, :]
        else:
            failing = ~a[:, None] & b[None, :]
        return Sum(edge_tally(failing, self.space, meets))
