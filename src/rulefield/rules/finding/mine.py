"""Rules found in labeled data: the five families of [Fersini14] and token classes, with support, confidence and cost."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.facts import at, before, eventually, first, followed_by, last
from rulefield.rules.finding.mine_tokens import class_rules, cue_rules, token_classes
from rulefield.rules.finding.observed import NameTables, Observed, Parts, nested_types, observe
from rulefield.rules.logic import implies
from rulefield.rules.rule import AUTO, LEARN, Rule
from rulefield.rules.tokens import texts_of, token_equals, token_matches

EQ30 = "eq30"
MIN_SUPPORT, MIN_CONFIDENCE = 5, 0.9
DELIMITERS = (",", ".", ";", ":", "(", ")", "-", "--", "/", '"', "'")


@dataclass(frozen=True)
class MinedRule:
    """A rule that was found in data, in words too; soft, at the price ``cost`` for each unit of violation.

    It holds for ``satisfied`` and fails for ``violated`` informative instances of its premise (``D`` and ``D'`` of
    [Fersini14], eq. 30): those where another labeling of the same instance could have failed, so that holding says something.
    ``names`` are the labels it speaks of, premise first (none for rules about tokens); ``groups`` says whether it holds often
    enough in all sequences, and in all but each part of a division of these.
    """

    rule: Rule
    family: str
    satisfied: int
    violated: int
    words: str
    groups: tuple[bool, ...] = (True,)
    names: tuple[str, ...] = ()

    @property
    def confidence(self) -> float:
        """Share of the instances for which the rule holds."""
        return self.satisfied / max(self.satisfied + self.violated, 1)

    @property
    def cost(self) -> float:
        """What breaking it costs (see :func:`violation_cost`)."""
        return violation_cost(self.satisfied, self.violated)

    def __str__(self) -> str:
        return f"{self.words} ({self.confidence:.1%} of {self.satisfied + self.violated}, cost {self.cost:.2f})"


class MinedRules(list[MinedRule]):
    """Rules that were found; ``print`` shows them in words, one per line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no rule holds often enough"


def violation_cost(satisfied: int, violated: int, smoothing: float = 0.5) -> float:
    """Cost of breaking a rule: -log of the share of instances that break it, smoothed.

    Equation 30 of [Fersini14] read literally is not positive and rewards violation; this is the log probability of a
    violation with the sign that makes a rule that always holds expensive, and one that often fails cheap.
    """
    return log((satisfied + violated + 2 * smoothing) / (violated + smoothing))


class _Delimiter(NamedTuple):
    """A mark that is a token, or (``attached``) the end of one."""

    text: str = ""
    attached: bool = False

    @property
    def words(self) -> str:
        """How it is named in sentences."""
        return f"a token with {self.text!r}" if self.attached else repr(self.text)


_NONE = _Delimiter()
Counts = Iterator[tuple[_Delimiter, np.ndarray, np.ndarray]]
"""Counts over pairs of names (K, K): informative instances for which a rule holds, and all of them."""


def _adjacency(tokens: Any, labels: np.ndarray, tables: NameTables, known: set[str]) -> Counts:
    """After a comes b; an a that ends its sequence cannot fail."""
    ends, starts = tables.ends(labels), tables.starts(labels)[:, 1:] > 0
    yield _NONE, ends @ starts.T, ends.sum(axis=1)[:, None]


def _precedence(tokens: Any, labels: np.ndarray, tables: NameTables, known: set[str]) -> Counts:
    """After a, sooner or later, comes b."""
    starts = tables.starts(labels)
    later = np.cumsum(starts[:, ::-1] > 0, axis=1)[:, ::-1] > 0
    yield _NONE, starts @ later.T.astype(np.int64), starts.sum(axis=1)[:, None]


def _presence(tokens: Any, labels: np.ndarray, tables: NameTables, known: set[str]) -> Counts:
    """No b before a; an a in a sequence without any b cannot fail."""
    starts = tables.starts(labels)
    earlier: np.ndarray = np.cumsum(starts > 0, axis=1) - (starts > 0)
    has_b = (starts.sum(axis=1) > 0)[None, :]
    yield _NONE, starts @ (earlier == 0).T.astype(np.int64) * has_b, starts.sum(axis=1)[:, None] * has_b


def _begin_end(tokens: Any, labels: np.ndarray, tables: NameTables, known: set[str]) -> Counts:
    """If a is first, b is last."""
    if len(labels):
        begins, ends = (tables.matches[:, label].astype(np.int64) for label in (labels[0], labels[-1]))
        yield _NONE, np.outer(begins, ends), begins[:, None]


def _state_change(tokens: Any, labels: np.ndarray, tables: NameTables, known: set[str]) -> Counts:
    """If a stands before a delimiter, b stands after it; the delimiter is a token, or the end of the token of a."""
    if isinstance(tokens, int):
        raise RuleError("the family 'state change' looks at tokens; give X, or leave that family out.")
    match = tables.matches[:, labels].astype(np.int64)
    for t in range(len(labels) - 1):
        for delimiter in sorted(_marks(tokens[t], known)):
            before = t if delimiter.attached else t - 1
            if before >= 0:
                yield delimiter, np.outer(match[:, before], match[:, t + 1]), match[:, before][:, None]


def _at_delimiter(a: str, b: str, delimiter: _Delimiter) -> Rule:
    """Return the rule that b follows where the delimiter ends a."""
    if delimiter.attached:
        return at(token_matches(f".{re.escape(delimiter.text)}$"), here=a, next=b)
    return at(token_equals(delimiter.text), prev=a, next=b)


def _marks(token: Any, known: set[str]) -> set[_Delimiter]:
    """Return the known delimiters that a token is, or ends with."""
    texts = texts_of(token)
    whole = {_Delimiter(text) for text in texts if text in known}
    return whole | {_Delimiter(text[-1], attached=True) for text in texts if text not in known and text[-1:] in known}


class _Family(NamedTuple):
    """How instances of a family are counted in a sequence, and how its rule for two names is written."""

    counts: Callable[[Any, np.ndarray, NameTables, set[str]], Counts]
    rule: Callable[[str, str, _Delimiter], Rule]
    words: str


_FAMILIES = {
    "adjacency": _Family(_adjacency, lambda a, b, _: followed_by(a, b), "right after {a} comes {b}"),
    "precedence": _Family(_precedence, lambda a, b, _: eventually(a, b), "after {a}, sooner or later, comes {b}"),
    "state change": _Family(_state_change, _at_delimiter, "{b} follows where {mark} ends {a}"),
    "begin-end": _Family(
        _begin_end, lambda a, b, _: implies(first(a), last(b)), "a sequence that begins with {a} ends with {b}"
    ),
    "presence": _Family(_presence, lambda a, b, _: before(a, b), "no {b} before {a}"),
}
FAMILIES = tuple(_FAMILIES)
TOKEN_CLASS, CUE = "token class", "cue"
"""Further families, to be asked for: what the tokens of a label look like; what a token says of labels."""
ASKED_FOR = (TOKEN_CLASS, CUE)


def mine_table(
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    scheme: str | None = "auto",
    families: Iterable[str] | None = None,
    min_support: int = MIN_SUPPORT,
    min_confidence: float = MIN_CONFIDENCE,
    delimiters: Sequence[str] = DELIMITERS,
    labels: Sequence[str] | None = None,
) -> MinedRules:
    """Find rules of the five families of [Fersini14] (eqs. 17-21), the most expensive first.

    ``print(mine_table(X, y))`` answers "what rules does my data follow?" in words.

    Parameters
    ----------
    X : sequences of tokens, or None
        Only the family "state change" looks at them.
    y : sequences of labels
    scheme : str or None
        ``"auto"`` guesses it from the labels.
    families : some of "adjacency", "precedence", "state change", "begin-end", "presence", "token class", "cue"
        By default the paper's five (without X, all but "state change"). "token class" (every zip is a number) pays where
        labeled sequences are few; "cue" (``pp.`` begins pages, after ``In:`` comes booktitle) where features do not say it.
    min_support : int
        Least number of instances that speak for a rule.
    min_confidence : float
        Least share of its informative instances for which a rule holds.
    delimiters : sequence of str
        Marks at which "state change" looks: tokens, and ends of tokens that carry their punctuation.
    labels : sequence of str, optional
        The label set; by default the labels that occur.

    Notes
    -----
    Instances are segments, as in the rules that are returned. O(tokens x K²) for K types.
    """
    data = observe(y, X, scheme, labels)
    if families is None:
        families = [family for family in FAMILIES if X is not None or family != "state change"]
    return mine_parts(data, Parts.whole(len(data)), tuple(families), min_support, min_confidence, delimiters)


def mine_parts(
    data: Observed,
    parts: Parts,
    families: Sequence[str],
    min_support: int = MIN_SUPPORT,
    min_confidence: float = MIN_CONFIDENCE,
    delimiters: Sequence[str] = DELIMITERS,
) -> MinedRules:
    """Find rules as :func:`mine_table` does, in each group of ``parts``; counts are those of all sequences."""
    for family in families:
        if family not in (*FAMILIES, *ASKED_FOR):
            raise RuleError(f"families are {', '.join((*FAMILIES, *ASKED_FOR))}; got {family!r}.")

    def enough(held: np.ndarray, total: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        good = (held >= min_support) & (held >= min_confidence * np.maximum(total, 1))
        for place in np.argwhere(good.any(axis=0)):
            yield tuple(place.tolist()), good[(slice(None), *place)]

    names = data.table.types
    tables = NameTables(names, data.table)
    mined: list[MinedRule] = []
    for family in (family for family in ASKED_FOR if family in families):
        if any(isinstance(tokens, int) for tokens in data.tokens):
            raise RuleError(f"the family {family!r} looks at tokens; give X, or leave that family out.")
    classes = token_classes(data) if TOKEN_CLASS in families or CUE in families else []
    if TOKEN_CLASS in families:
        rules = class_rules(data, names, tables, parts, classes, enough)
        mined += [_mined(TOKEN_CLASS, *rule) for rule in rules]
    if CUE in families:
        rules = cue_rules(data, names, tables, parts, classes, min_support, enough)
        mined += [_mined(CUE, *rule) for rule in rules]
    unrelated = ~np.eye(len(names), dtype=bool)
    for outer, inner in nested_types(data.table):  # true by construction
        pair = [names.index(outer), names.index(inner)]
        unrelated[pair, pair[::-1]] = False
    counted = [family for family in families if family in FAMILIES]
    for (family, delimiter), table in _counts(data, parts, tables, delimiters, counted).items():
        held, total = np.moveaxis(parts.groups(table), 1, 0)
        for (i, j), mask in enough(np.where(unrelated, held, -1), total):
            satisfied, premises = int(held[0, i, j]), int(total[0, i, j])
            words = _FAMILIES[family].words.format(a=names[i], b=names[j], mark=delimiter.words)
            rule = _FAMILIES[family].rule(names[i], names[j], delimiter)
            mined.append(_mined(family, rule, words, satisfied, premises - satisfied, mask, (names[i], names[j])))
    return MinedRules(_without_repetition(sorted(mined, key=lambda m: (-m.cost, -m.satisfied))))


def _counts(
    data: Observed, parts: Parts, tables: NameTables, delimiters: Sequence[str], families: Sequence[str]
) -> dict[tuple[str, _Delimiter], np.ndarray]:
    """Count the instances of families in each part: those for which a rule holds, and all, (n_parts, 2, K, K)."""
    found: dict[tuple[str, _Delimiter], np.ndarray] = {}
    shape, known = (parts.n_parts, 2, len(tables.matches), len(tables.matches)), set(delimiters)
    for part, tokens, labels in zip(parts.part.tolist(), data.tokens, data.sequences):
        for family in families:
            for delimiter, satisfied, premises in _FAMILIES[family].counts(tokens, labels, tables, known):
                table = found.setdefault((family, delimiter), np.zeros(shape, dtype=np.int64))
                table[part, 0] += satisfied
                table[part, 1] += premises
    return found


def _without_repetition(mined: list[MinedRule]) -> list[MinedRule]:
    """Leave out "sooner or later comes b" where "right after comes b" says more on the same evidence."""
    stronger = {(m.names, m.satisfied, m.violated) for m in mined if m.family == "adjacency"}
    return [m for m in mined if m.family != "precedence" or (m.names, m.satisfied, m.violated) not in stronger]


def _mined(
    family: str,
    rule: Rule,
    words: str,
    satisfied: int,
    violated: int,
    groups: np.ndarray,
    names: tuple[str, ...] = (),
) -> MinedRule:
    priced = rule.soft(violation_cost(satisfied, violated)).named(words)
    return MinedRule(priced, family, satisfied, violated, words, tuple(groups.tolist()), names)


def mine(X: Iterable[Any] | None, y: Iterable[Sequence[Any]], *, price: str = AUTO, **options: Any) -> list[Rule]:
    """Find rules in labeled data.

    Parameters
    ----------
    X, y : tokens and labels
    price : {"auto", "learn", "eq30"}
        ``.soft("auto")`` or ``.soft("learn")``: fitting a ``RuledCRF`` finds the price. "eq30" is the price of
        [Fersini14], which knows nothing of the model: it pays for what the chain knows, once for each rule that says it, and
        makes labels worse on most data.
    **options
        As for :func:`mine_table`, which also tells support, confidence and cost.
    """
    if price not in (AUTO, LEARN, EQ30):
        raise RuleError(f"price must be 'auto', 'learn' or 'eq30'; got {price!r}.")
    rules = [found.rule for found in mine_table(X, y, **options)]
    return rules if price == EQ30 else [rule.soft(price) for rule in rules]
