"""Candidate rules by template: once each, pairs together, levels of a hierarchy ([Anzaroot14], section 5), and lengths.

Candidates are ordinary rules with ``.soft("learn")``: whoever learns their weights drops the useless ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.finding.observed import NameTables, Observed, Parts, nested_types, observe
from rulefield.rules.labels import LabelTable
from rulefield.rules.numbers import Number, count, segments
from rulefield.rules.rule import LEARN, Rule

COUNTS, LENGTH = ("singleton", "pairwise", "hierarchy"), "length"
FAMILIES = (*COUNTS, LENGTH)
BOUNDS, MIN_SHARE = (0, 1, 2, 3), 0.6
LENGTHS = (2, 3, 4, 6, 8, 12, 16, 24)
"""Numbers of tokens that lengths are held against."""

Candidate = tuple[tuple[tuple[int, str], ...], str, int]
"""Multiples of types, which are added; ``<=`` or ``>=``; and the bound."""


def propose(
    y: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    families: Iterable[str] = FAMILIES,
    min_share: float = MIN_SHARE,
    labels: Sequence[str] | None = None,
) -> list[Rule]:
    """Propose rules about how many segments of each type a sequence has, and how many tokens they take.

    Parameters
    ----------
    y : sequences of labels
        Gold labels; sequences with unknown labels are left out.
    scheme : str or None
        ``"auto"`` guesses it from the labels.
    families : some of "singleton", "pairwise", "hierarchy", "length"
        ``segments(a) <= 1`` and ``>= 1``; sums and differences of two types against 0 to 3, in both directions; a type
        against the types inside it, ``segments(a) - segments(b) >= 0`` and ``<= 0``; ``count(a) <= k`` and ``>= k`` tokens,
        which a chain cannot know: where labeled sequences are few, they help as much as the others together.
    min_share : float
        Leave out rules that hold in a smaller share of ``y``. A rule broken by more than 1 / 2.75 of the gold labels
        cannot reach the paper's importance cutoff of 2.75; 0 keeps every candidate.
    labels : sequence of str, optional
        The label set; by default the labels that occur.

    Returns
    -------
    list of Rule
        Named, without repetition, ``.soft("learn")``.
    """
    data = observe(y, None, scheme, labels)
    return [rule for rule, _ in proposals(data, Parts.whole(len(data)), tuple(families), min_share)]


def proposals(
    data: Observed, parts: Parts, families: Sequence[str] = FAMILIES, min_share: float = MIN_SHARE
) -> Iterator[tuple[Rule, np.ndarray]]:
    """Yield rules that hold often enough in a group of ``parts``, and in which groups they do (a mask)."""
    for family in families:
        if family not in FAMILIES:
            raise RuleError(f"families are {', '.join(FAMILIES)}; got {family!r}.")
    names = data.table.types
    tables = NameTables(names, data.table)
    least = min_share * parts.count(np.ones(len(data)))
    counts = np.array([tables.starts(ids).sum(axis=1) for ids in data.sequences]).reshape(len(data), len(names))
    column = {name: counts[:, i] for i, name in enumerate(names)}
    seen: set[tuple[str, ...]] = set()
    for family in (family for family in families if family != LENGTH):
        for terms, sign, bound in _TEMPLATES[family](names, data.table):
            value = sum((factor * column[name] for factor, name in terms), np.zeros(len(data), dtype=np.int64))
            often = parts.count(value <= bound if sign == "<=" else value >= bound) >= least
            if often.any() and (key := _key(terms, sign, bound)) not in seen:
                seen.add(key)
                number = sum((factor * segments(name) for factor, name in terms), Number())
                yield _rule(number, sign, bound, _words(terms, sign, bound)), often
    if LENGTH in families:
        yield from _lengths(names, tables, data.sequences, parts, least)


def _lengths(
    names: Sequence[str], tables: NameTables, sequences: Sequence[np.ndarray], parts: Parts, least: np.ndarray
) -> Iterator[tuple[Rule, np.ndarray]]:
    """At most and at least so many tokens of a type; limits that no sequence comes near to are left out."""
    tokens = np.array([tables.matches[:, ids].sum(axis=1) for ids in sequences]).reshape(len(sequences), len(names))
    for name, lengths in zip(names, tokens.T):
        for bound in LENGTHS:
            few = (parts.count(lengths <= bound) >= least) & (parts.count(2 * lengths > bound) > 0)
            many = parts.count(lengths >= bound) >= least
            if few.any():
                yield _rule(count(name), "<=", bound, f"at most {bound} tokens of {name}"), few
            if many.any():
                yield _rule(count(name), ">=", bound, f"at least {bound} tokens of {name}"), many


def _rule(number: Number, sign: str, bound: int, words: str) -> Rule:
    return (number <= bound if sign == "<=" else number >= bound).soft(LEARN).named(words)


def _singletons(names: Sequence[str], table: LabelTable) -> Iterator[Candidate]:
    for name in names:
        yield ((1, name),), "<=", 1
        yield ((1, name),), ">=", 1


def _pairs(names: Sequence[str], table: LabelTable) -> Iterator[Candidate]:
    for (a, b), sign, bound in product(combinations(names, 2), ("<=", ">="), BOUNDS):
        if sign == "<=" or bound > 0:  # a sum is never below 0
            yield ((1, a), (1, b)), sign, bound
        yield ((1, a), (-1, b)), sign, bound
        yield ((1, b), (-1, a)), sign, bound


def _levels(names: Sequence[str], table: LabelTable) -> Iterator[Candidate]:
    for outer, inner in nested_types(table):
        yield ((1, outer), (-1, inner)), ">=", 0
        yield ((1, outer), (-1, inner)), "<=", 0


_TEMPLATES = {"singleton": _singletons, "pairwise": _pairs, "hierarchy": _levels}


def _key(parts: tuple[tuple[int, str], ...], sign: str, bound: int) -> tuple[str, ...]:
    """Return what is the same for rules that say the same: everything as ``<=``, terms in order."""
    flip = 1 if sign == "<=" else -1
    return (*sorted(f"{flip * factor} {name}" for factor, name in parts), str(flip * bound))


def _words(parts: tuple[tuple[int, str], ...], sign: str, bound: int) -> str:
    """Name a rule: ``at most 1 title``, ``no more person than person-last``, ``at most 1 journal or thesis``."""
    few = "at most" if sign == "<=" else "at least"
    if len(parts) == 1:
        return f"{few} {bound} {parts[0][1]}"
    (_, a), (factor, b) = parts
    if factor > 0:
        return f"{few} {bound} {a} or {b}"
    if bound == 0:
        return f"no {'more' if sign == '<=' else 'fewer'} {a} than {b}"
    return f"{few} {bound} more {a} than {b}"
