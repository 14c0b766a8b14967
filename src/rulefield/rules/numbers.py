"""Numbers that rules compare: tokens and segments of a labeling, counted, added and multiplied.

Comparison operators between numbers give rules, so ``segments("title") <= 1`` is a rule.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.expression import Expression, LabeledTokens
from rulefield.rules.patterns import AnyPattern, Patternish, as_pattern, written
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import TokenCondition


@dataclass(frozen=True)
class Count:
    """Tokens whose label matches, among those that meet a condition."""

    pattern: AnyPattern
    where: TokenCondition | None = None

    def value(self, world: LabeledTokens) -> int:
        """Count in a labeling."""
        found = np.array(world.matching(self.pattern), dtype=bool)
        if self.where is not None:
            found &= world.meeting(self.where)
        return int(found.sum())

    def __repr__(self) -> str:
        pattern, task = written(self.pattern)
        where = [] if self.where is None else [f"where={self.where!r}"]
        return f"count({', '.join([*pattern, *where, *task])})"


@dataclass(frozen=True)
class Segments:
    """Segments that match."""

    pattern: AnyPattern

    def value(self, world: LabeledTokens) -> int:
        """Count in a labeling."""
        return sum(world.starting(self.pattern))

    def __repr__(self) -> str:
        pattern, task = written(self.pattern)
        return f"segments({', '.join([*pattern, *task])})"


Term = tuple[int, Count | Segments]


@dataclass(frozen=True, eq=False, repr=False)
class Number:
    """A sum of whole multiples of counts, and a constant. Compare it to get a rule."""

    terms: tuple[Term, ...] = ()
    constant: int = 0

    def __post_init__(self) -> None:
        merged: dict[Count | Segments, int] = {}
        for factor, count in self.terms:
            merged[count] = merged.get(count, 0) + factor
        object.__setattr__(self, "terms", tuple((f, c) for c, f in merged.items()))

    def value(self, world: LabeledTokens) -> int:
        """Value in a labeling."""
        return self.constant + sum(factor * count.value(world) for factor, count in self.terms)

    def same(self, other: "Number") -> bool:
        """Whether two numbers are written alike (``==`` makes a rule)."""
        return self.terms == other.terms and self.constant == other.constant

    def __hash__(self) -> int:
        return hash((self.terms, self.constant))

    # --- arithmetic --------------------------------------------------------------------------

    def __add__(self, other: object) -> "Number":
        right = as_number(other)
        return Number(self.terms + right.terms, self.constant + right.constant)

    def __radd__(self, other: object) -> "Number":
        return as_number(other) + self

    def __neg__(self) -> "Number":
        return self * -1

    def __sub__(self, other: object) -> "Number":
        return self + (-as_number(other))

    def __rsub__(self, other: object) -> "Number":
        return as_number(other) - self

    def __mul__(self, other: object) -> "Number":
        if not _is_whole(other):
            raise RuleError(f"a count may be multiplied only by a whole number; got {other!r}.")
        factor = int(other)  # type: ignore[call-overload]
        return Number(tuple((factor * f, c) for f, c in self.terms), factor * self.constant)

    __rmul__ = __mul__

    # --- comparisons -------------------------------------------------------------------------

    def __le__(self, other: object) -> Rule:
        return Rule(Comparison(self, "<=", as_number(other)))

    def __ge__(self, other: object) -> Rule:
        return Rule(Comparison(self, ">=", as_number(other)))

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        return Rule(Comparison(self, "==", as_number(other)))

    def __lt__(self, other: object) -> NoReturn:
        raise RuleError(f"rules use <=, >= and ==: for n < k write n <= k - 1 (here {self!r}).")

    def __gt__(self, other: object) -> NoReturn:
        raise RuleError(f"rules use <=, >= and ==: for n > k write n >= k + 1 (here {self!r}).")

    def __ne__(self, other: object) -> NoReturn:
        raise RuleError(f"rules use <=, >= and ==: for n != k write not_(n == k) (here {self!r}).")

    def __bool__(self) -> NoReturn:
        raise RuleError(f"{self!r} has no value before there is a labeling; compare it, for example {self!r} >= 1.")

    def __repr__(self) -> str:
        text = ""
        for factor, count in self.terms:
            sign, size = ("-", -factor) if factor < 0 else ("+", factor)
            part = repr(count) if size == 1 else f"{size} * {count!r}"
            text += f" {sign} {part}" if text else part if sign == "+" else f"-{part}"
        if not text:
            return str(self.constant)
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


@dataclass(frozen=True, eq=False)
class Comparison(Expression):
    """``left <= right`` and so on; it fails by the excess."""

    left: Number
    sign: str
    right: Number

    is_comparison = True

    def amount(self, world: LabeledTokens) -> int:
        """By how much the comparison fails: the excess, for ``==`` the absolute difference."""
        difference = self.left.value(world) - self.right.value(world)
        if self.sign == "==":
            return abs(difference)
        return max(0, difference if self.sign == "<=" else -difference)

    @property
    def difference(self) -> Number:
        """``left - right``."""
        return self.left - self.right

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Comparison):
            return NotImplemented
        return self.sign == other.sign and self.left.same(other.left) and self.right.same(other.right)

    def __hash__(self) -> int:
        return hash((self.left, self.sign, self.right))

    def __repr__(self) -> str:
        return f"{self.left!r} {self.sign} {self.right!r}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_number(value: object) -> Number:
    """Read a count or a whole number."""
    if isinstance(value, Number):
        return value
    if _is_whole(value) or (isinstance(value, float) and value.is_integer()):
        return Number((), int(value))  # type: ignore[call-overload]
    raise RuleError(f"counts are compared with counts and whole numbers only; got {value!r}.")


def count(pattern: Patternish, where: TokenCondition | None = None, *, task: str | None = None) -> Number:
    """Tokens whose label (of ``task``) matches ``pattern``, among those whose token meets ``where``."""
    if where is not None and not isinstance(where, TokenCondition):
        raise RuleError(f"where must be a condition on tokens, such as token_in(','); got {where!r}.")
    return Number(((1, Count(as_pattern(pattern, task), where)),))


def segments(pattern: Patternish, *, task: str | None = None) -> Number:
    """Segments that match ``pattern``: under a scheme its segments, without one maximal runs of a label."""
    return Number(((1, Segments(as_pattern(pattern, task))),))
