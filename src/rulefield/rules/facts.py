"""Facts about a sequence: what is present, what comes first, what follows what, what surrounds a token.

Instances of a fact are segments, or tokens with ``level="token"``. ``absent``, ``before``, ``eventually``,
``followed_by`` and ``at`` fail by the number of their instances that fail; the others by 0 or 1. Nothing
fails in an empty sequence except ``present``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rulefield.encode.schemes import OUTSIDE
from rulefield.exceptions import RuleError
from rulefield.rules.expression import Expression, LabeledTokens
from rulefield.rules.patterns import AnyPattern, Patternish, as_pattern, written
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import TokenCondition

LEVELS = ("segment", "token")
PLACES = {"prev": -1, "here": 0, "next": 1}


@dataclass(frozen=True)
class Fact(Expression):
    """A fact about the segments, or the tokens, of one or two patterns; :data:`AMOUNTS` says by how much each kind fails."""

    kind: str
    patterns: tuple[AnyPattern, ...]
    level: str = "segment"

    def amount(self, world: LabeledTokens) -> int:
        """By how much it fails."""
        return AMOUNTS[self.kind](world, self.level, *self.patterns)

    def __repr__(self) -> str:
        inside, task = written(*self.patterns)
        level = ['level="token"'] if self.level == "token" else []
        return f"{self.kind}({', '.join([*inside, *level, *task])})"


def _too_late(world: LabeledTokens, level: str, a: AnyPattern, b: AnyPattern) -> int:
    """Count the a's with a b that begins before."""
    of_a, of_b = world.instances(a, level), world.instances(b, level)
    return sum(x for t, x in enumerate(of_a) if any(of_b[:t]))


def _never_followed(world: LabeledTokens, level: str, a: AnyPattern, b: AnyPattern) -> int:
    """Count the a's without a b that begins later, or with it."""
    of_a, of_b = world.instances(a, level), world.instances(b, level)
    return sum(x for t, x in enumerate(of_a) if not any(of_b[t:]))


def _not_followed(world: LabeledTokens, level: str, a: AnyPattern, b: AnyPattern) -> int:
    """Count the a's, not at the very end, after which something else than a b begins."""
    ends = world.matching(a)[:-1] if level == "token" else world.ending(a)
    return sum(x for x, after in zip(ends, world.instances(b, level)[1:]) if not after)


AMOUNTS: dict[str, Callable[..., int]] = {
    "present": lambda world, level, pattern: int(not any(world.matching(pattern))),
    "absent": lambda world, level, pattern: sum(world.instances(pattern, level)),
    "first": lambda world, level, pattern: int(not all(world.matching(pattern)[:1])),
    "last": lambda world, level, pattern: int(not all(world.matching(pattern)[-1:])),
    "before": _too_late,
    "eventually": _never_followed,
    "followed_by": _not_followed,
}
"""By how much facts of each kind fail."""


@dataclass(frozen=True)
class At(Expression):
    """Around every token that meets a condition, the labels before, at and after it are as asked.

    The label named by ``then`` (by default the last that is given) is the conclusion and the others are premises, so
    that ``at(c, prev=p, next=q)`` says: if the label before is p, then the label after is q. With ``require`` all
    are conclusions. Tokens that lack a neighbor which is asked about do not count.
    """

    condition: TokenCondition
    prev: AnyPattern | None = None
    here: AnyPattern | None = None
    next: AnyPattern | None = None
    require: bool = False
    then: str | None = None

    @property
    def conclusion(self) -> int:
        """Offset of the label that is the conclusion."""
        return self.asked[-1][0] if self.then is None else PLACES[self.then]

    @property
    def asked(self) -> tuple[tuple[int, AnyPattern], ...]:
        """Offsets and patterns that are given, in order."""
        given = ((-1, self.prev), (0, self.here), (1, self.next))
        return tuple((offset, pattern) for offset, pattern in given if pattern is not None)

    def amount(self, world: LabeledTokens) -> int:
        """Count the tokens around which the labels are not as asked."""
        n, meets = len(world), world.meeting(self.condition)
        found = [(offset, world.matching(pattern)) for offset, pattern in self.asked]
        failed = 0
        for t in range(n):
            if not meets[t] or any(not 0 <= t + offset < n for offset, _ in found):
                continue
            true = {offset: bool(match[t + offset]) for offset, match in found}
            premises = all(value for offset, value in true.items() if offset != self.conclusion)
            concluded = true[self.conclusion]
            failed += not (premises and concluded) if self.require else premises and not concluded
        return failed

    def __repr__(self) -> str:
        names = [name for name in PLACES if getattr(self, name) is not None]
        patterns, task = written(*(pattern for _, pattern in self.asked))
        parts = [repr(self.condition), *(f"{name}={pattern}" for name, pattern in zip(names, patterns))]
        if self.require:
            parts.append("require=True")
        if self.then is not None:
            parts.append(f"then={self.then!r}")
        return f"at({', '.join([*parts, *task])})"


# --- what users write ------------------------------------------------------------------------


def _level(level: str) -> str:
    if level not in LEVELS:
        raise RuleError(f'level must be "segment" or "token"; got {level!r}.')
    return level


def _fact(kind: str, level: str, task: str | None, *patterns: Patternish) -> Rule:
    return Rule(Fact(kind, tuple(as_pattern(pattern, task) for pattern in patterns), _level(level)))


def present(pattern: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """State that some token has the label (its level makes no difference)."""
    return _fact("present", level, task, pattern)


def absent(pattern: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """No segment (token) has the label; fails by the number that have."""
    return _fact("absent", level, task, pattern)


def first(pattern: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """State that the first token has the label (its level makes no difference)."""
    return _fact("first", level, task, pattern)


def last(pattern: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """State that the last token has the label (its level makes no difference)."""
    return _fact("last", level, task, pattern)


@dataclass(frozen=True)
class EachAtMostOnce(Expression):
    """No type has more than one segment: those named, or all types but those in ``but``; never ``O``."""

    types: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def among(self, known: Iterable[str]) -> tuple[AnyPattern, ...]:
        """Patterns of the types that it counts, where ``known`` are those of the label set."""
        names = self.types or tuple(name for name in known if name != OUTSIDE and name not in self.but)
        return tuple(as_pattern(name) for name in names)

    def amount(self, world: LabeledTokens) -> int:
        """Segments beyond the first of each type."""
        return sum(max(0, sum(world.starting(pattern)) - 1) for pattern in self.among(world.types))

    def __repr__(self) -> str:
        but = [f"but={list(self.but)!r}"] if self.but else []
        return f"each_at_most_once({', '.join([*map(repr, self.types), *but])})"


def each_at_most_once(*types: str, but: Sequence[str] = ()) -> Rule:
    """Every type has at most one segment; fails by the number of segments beyond the first of each type.

    Types are those named, or all of the label set (``O`` never) but those in ``but``. Seldom true of real data without
    exception: in labeled US addresses one row in fifty repeats a label. Better soft, with a weight that is learned,
    than hard.
    """
    if types and but:
        raise RuleError("each_at_most_once takes the types that it counts, or the exceptions (but=), not both.")
    if isinstance(but, str) or not all(isinstance(name, str) for name in (*types, *but)):
        raise RuleError(
            "each_at_most_once takes types as strings and a list of strings as but; write "
            'each_at_most_once("author", "title"), or each_at_most_once(but=["note"]).'
        )
    return Rule(EachAtMostOnce(tuple(types), tuple(but)))


def before(a: Patternish, b: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """No b before an a; fails by the number of a that have a b before."""
    return _fact("before", level, task, a, b)


def eventually(a: Patternish, b: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """Every a is followed later by a b; fails by the number of a that are not."""
    return _fact("eventually", level, task, a, b)


def followed_by(a: Patternish, b: Patternish, level: str = "segment", *, task: str | None = None) -> Rule:
    """Right after every a (unless the sequence ends) comes a b; fails by the number of a with something else."""
    return _fact("followed_by", level, task, a, b)


def at(
    condition: TokenCondition,
    prev: Patternish | None = None,
    here: Patternish | None = None,
    next: Patternish | None = None,
    require: bool = False,
    then: str | None = None,
    level: str = "token",
    *,
    task: str | None = None,
) -> Rule:
    """Labels around the tokens that meet a condition.

    ``at(c, prev=p, next=q)``: wherever a token meets c and the label before it is p, the label after it is q: the
    last label that is given is the conclusion, or the one that ``then`` names ("prev", "here", "next").
    ``require=True`` ([Fersini14], eq. 19): around every such token both must hold. Fails by the number of tokens
    around which it fails. Its level makes no difference.
    """
    if not isinstance(condition, TokenCondition):
        raise RuleError(f"at needs a condition on tokens, such as token_in(',', '.'); got {condition!r}.")
    if prev is None and here is None and next is None:
        raise RuleError("at needs at least one label: prev=, here= or next=.")
    given = [name for name, p in (("prev", prev), ("here", here), ("next", next)) if p is not None]
    if then is not None and (then not in given or require):
        raise RuleError(f"then must name a label that is given ({', '.join(given)}) without require; got {then!r}.")
    _level(level)
    before, now, after = (None if p is None else as_pattern(p, task) for p in (prev, here, next))
    return Rule(At(condition, before, now, after, bool(require), then))
