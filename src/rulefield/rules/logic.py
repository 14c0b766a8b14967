"""Logic over statements of any kind: a combination fails by 0 or 1."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rulefield.exceptions import RuleError
from rulefield.rules.expression import Expression
from rulefield.rules.rule import Rule, body_of


@dataclass(frozen=True)
class Combination(Expression):
    """Base of combinations: subclasses say what they make of the truth of their parts."""

    parts: tuple[Expression, ...]

    name = ""

    @property
    def children(self) -> tuple[Expression, ...]:
        """The statements that are combined."""
        return self.parts

    def decide(self, truth: tuple[bool, ...]) -> bool:
        """Truth of the combination, given the truth of its parts."""
        low, high = self.bounds(len(truth))
        return bool(low <= sum(truth) <= high)

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """Least and greatest number of true parts, of n, with which a combination holds that only counts them."""
        raise RuleError(
            f"{self!r} cannot be compiled: {type(self).__name__} does not say how many of its parts hold."
        )

    def amount(self, world: Any) -> int:
        """0 if the combination is true, else 1."""
        return int(not self.decide(tuple(part.holds(world) for part in self.parts)))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True, repr=False)
class AllOf(Combination):
    """Every part holds."""

    name = "all_of"

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """All of them."""
        return n, n


@dataclass(frozen=True, repr=False)
class AnyOf(Combination):
    """Some part holds."""

    name = "any_of"

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """At least one."""
        return 1, n


@dataclass(frozen=True, repr=False)
class Implies(Combination):
    """If the first part holds, so does the second."""

    name = "implies"

    def decide(self, truth: tuple[bool, ...]) -> bool:
        """Whether the first is false or the second true."""
        return not truth[0] or truth[1]


@dataclass(frozen=True, repr=False)
class Iff(Combination):
    """Both parts hold or neither does."""

    name = "iff"

    def decide(self, truth: tuple[bool, ...]) -> bool:
        """Whether both are the same."""
        return truth[0] == truth[1]


@dataclass(frozen=True, repr=False)
class Not(Combination):
    """The part fails."""

    name = "not_"

    def decide(self, truth: tuple[bool, ...]) -> bool:
        """Whether it is false."""
        return not truth[0]


@dataclass(frozen=True, repr=False)
class Counted(Combination):
    """Base of statements about how many parts hold."""

    number: int = 0

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, (self.number, *self.parts)))})"


@dataclass(frozen=True, repr=False)
class Exactly(Counted):
    """That many parts hold."""

    name = "exactly"

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """Exactly so many."""
        return self.number, self.number


@dataclass(frozen=True, repr=False)
class AtMost(Counted):
    """No more parts hold."""

    name = "at_most"

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """No more."""
        return 0, self.number


@dataclass(frozen=True, repr=False)
class AtLeast(Counted):
    """No fewer parts hold."""

    name = "at_least"

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """No fewer."""
        return self.number, n


Part = TypeVar("Part")
Variable = TypeVar("Variable")


def forced(
    kind: Combination,
    parts: Sequence[Part],
    truth: bool,
    force: Callable[[Part, bool], Variable],
    at_least: Callable[[int, list[Variable]], Variable],
) -> Variable:
    """Push the truth of a combination down to its parts, for linear rows.

    Parameters
    ----------
    kind : Combination
    parts : sequence
        Its parts, as ``force`` reads them.
    truth : bool
    force : function of a part and a truth
        Returns a 0/1 variable that can be 1 only if the part has this truth.
    at_least : function of a number and of variables
        Returns a 0/1 variable that can be 1 only if so many of the variables are.
    """
    if isinstance(kind, Not):
        return force(parts[0], not truth)
    if isinstance(kind, Implies):
        return at_least(1 if truth else 2, [force(parts[0], not truth), force(parts[1], truth)])
    if isinstance(kind, Iff):
        ways = [[force(parts[0], x), force(parts[1], x == truth)] for x in (True, False)]
        return at_least(1, [at_least(2, pair) for pair in ways])
    n, (low, high) = len(parts), kind.bounds(len(parts))
    wanted = []
    if low > 0:
        wanted.append(at_least(low if truth else n - low + 1, [force(part, truth) for part in parts]))
    if high < n:
        wanted.append(at_least(n - high if truth else high + 1, [force(part, not truth) for part in parts]))
    return at_least(len(wanted) if truth else 1, wanted)


# --- what users write ------------------------------------------------------------------------


def _bodies(rules: tuple[Any, ...], name: str) -> tuple[Expression, ...]:
    if len(rules) == 1 and isinstance(rules[0], Iterable) and not isinstance(rules[0], str | Rule):
        rules = tuple(rules[0])
    if not rules:
        raise RuleError(f"{name} needs at least one rule.")
    return tuple(body_of(rule, name) for rule in rules)


def _number(number: object, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise RuleError(f"{name} needs a whole number >= 0 first, then rules; got {number!r}.")
    return number


def all_of(*rules: Any) -> Rule:
    """Every one of these holds."""
    return Rule(AllOf(_bodies(rules, "all_of")))


def any_of(*rules: Any) -> Rule:
    """At least one of these holds."""
    return Rule(AnyOf(_bodies(rules, "any_of")))


def implies(a: Rule, b: Rule) -> Rule:
    """If a holds, so does b."""
    return Rule(Implies(_bodies((a, b), "implies")))


def iff(a: Rule, b: Rule) -> Rule:
    """Both hold or neither does."""
    return Rule(Iff(_bodies((a, b), "iff")))


def not_(rule: Rule) -> Rule:
    """State that the rule fails."""
    return Rule(Not(_bodies((rule,), "not_")))


def exactly(number: int, *rules: Any) -> Rule:
    """Exactly that many of these hold."""
    return Rule(Exactly(number=_number(number, "exactly"), parts=_bodies(rules, "exactly")))


def at_most(number: int, *rules: Any) -> Rule:
    """At most that many of these hold."""
    return Rule(AtMost(number=_number(number, "at_most"), parts=_bodies(rules, "at_most")))


def at_least(number: int, *rules: Any) -> Rule:
    """At least that many of these hold."""
    return Rule(AtLeast(number=_number(number, "at_least"), parts=_bodies(rules, "at_least")))
