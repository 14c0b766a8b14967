"""Logic over statements of any kind: a combination fails by 0 or 1."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rulefield.exceptions import RuleError
from rulefield.rules.expression import Expression
from rulefield.rules.rule import Rule, body_of

BOUNDS: dict[str, Callable[[Any, int], tuple[Any, Any]]] = {
    "all_of": lambda n, number: (n, n),
    "any_of": lambda n, number: (1, n),
    "exactly": lambda n, number: (number, number),
    "at_most": lambda n, number: (0, number),
    "at_least": lambda n, number: (number, n),
}
"""Least and greatest number of true parts, of n, with which a combination holds that only counts them."""

TRUTHS: dict[str, Callable[..., bool]] = {
    "implies": lambda a, b: not a or b,
    "iff": lambda a, b: a == b,
    "not_": lambda a: not a,
}
"""Truth of the other combinations, given that of their parts."""

NUMBERED = ("exactly", "at_most", "at_least")
"""Combinations that are written with a number."""


@dataclass(frozen=True)
class Combination(Expression):
    """A combination of statements by its name; ``number`` is that of :data:`NUMBERED` ones."""

    name: str
    parts: tuple[Expression, ...]
    number: int = 0

    @property
    def children(self) -> tuple[Expression, ...]:
        """The statements that are combined."""
        return self.parts

    @property
    def counts(self) -> bool:
        """Whether it only counts how many of its parts hold."""
        return self.name in BOUNDS

    def bounds(self, n: Any) -> tuple[Any, Any]:
        """Least and greatest number of true parts, of n, with which it holds if it only counts them."""
        return BOUNDS[self.name](n, self.number)

    def decide(self, truth: tuple[bool, ...]) -> bool:
        """Truth of the combination, given the truth of its parts."""
        if not self.counts:
            return TRUTHS[self.name](*truth)
        low, high = self.bounds(len(truth))
        return bool(low <= sum(truth) <= high)

    def amount(self, world: Any) -> int:
        """0 if the combination is true, else 1."""
        return int(not self.decide(tuple(part.holds(world) for part in self.parts)))

    def __repr__(self) -> str:
        number = [self.number] if self.name in NUMBERED else []
        return f"{self.name}({', '.join(map(repr, (*number, *self.parts)))})"


def all_hold(parts: Iterable[Expression]) -> Combination:
    """Return the statement that all of these hold."""
    return Combination("all_of", tuple(parts))


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

    ``force`` returns a 0/1 variable that can be 1 only if a part has a truth, and ``at_least`` one that can be 1 only
    if so many variables are.
    """
    if kind.name == "not_":
        return force(parts[0], not truth)
    if kind.name == "implies":
        return at_least(1 if truth else 2, [force(parts[0], not truth), force(parts[1], truth)])
    if kind.name == "iff":
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
    return Rule(Combination("all_of", _bodies(rules, "all_of")))


def any_of(*rules: Any) -> Rule:
    """At least one of these holds."""
    return Rule(Combination("any_of", _bodies(rules, "any_of")))


def implies(a: Rule, b: Rule) -> Rule:
    """If a holds, so does b."""
    return Rule(Combination("implies", _bodies((a, b), "implies")))


def iff(a: Rule, b: Rule) -> Rule:
    """Both hold or neither does."""
    return Rule(Combination("iff", _bodies((a, b), "iff")))


def not_(rule: Rule) -> Rule:
    """State that the rule fails."""
    return Rule(Combination("not_", _bodies((rule,), "not_")))


def exactly(number: int, *rules: Any) -> Rule:
    """Exactly that many of these hold."""
    return Rule(Combination("exactly", number=_number(number, "exactly"), parts=_bodies(rules, "exactly")))


def at_most(number: int, *rules: Any) -> Rule:
    """At most that many of these hold."""
    return Rule(Combination("at_most", number=_number(number, "at_most"), parts=_bodies(rules, "at_most")))


def at_least(number: int, *rules: Any) -> Rule:
    """At least that many of these hold."""
    return Rule(Combination("at_least", number=_number(number, "at_least"), parts=_bodies(rules, "at_least")))
