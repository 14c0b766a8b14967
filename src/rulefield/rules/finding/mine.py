"""Rules found in labeled data: the five families of [Fersini14] and token classes, with support, confidence and cost."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, NamedTuple, Protocol

import numpy as np

from rulefield.exceptions import RuleError
from rulefield.rules.facts import at, before, eventually, first, followed_by, last
from rulefield.rules.finding.mine_tokens import TokenRule, class_rules, cue_rules, token_classes
from rulefield.rules.finding.observed import NameTables, Observed, Parts, nested_types, observe
from rulefield.rules.labels import LabelTable
from rulefield.rules.logic import implies
from rulefield.rules.rule import AUTO, LEARN, Rule
from rulefield.rules.tokens import texts_of, token_equals, token_matches

EQ30 = "eq30"
MIN_SUPPORT, MIN_CONFIDENCE = 5, 0.9
DELIMITERS = (",", ".", ";", ":", "(", ")", "-", "--", "/", '"', "'")


@dataclass(frozen=True)
class MinedRule:
    """A rule that was found in data.

    Parameters
    ----------
    rule : Rule
        Soft, at the price ``cost`` for each unit of violation.
    family : str
    satisfied, violated : int
        Informative instances of its premise (``D`` and ``D'`` of [Fersini14], eq. 30) for which it holds and fails: those
        where another labeling of the same instance could have failed, so that holding says something.
    words : str
        The rule as a sentence.
    same : tuple of str
        Rules, in words, that say the same or less on the same evidence, and were left out for this one.
    names : tuple of str
        The labels it speaks of, premise first (empty for token classes).
    groups : tuple of bool
        Whether it holds often enough in all sequences, and in all but each part of a division of these.
    """

    rule: Rule
    family: str
    satisfied: int
    violated: int
    words: str
    same: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    groups: tuple[bool, ...] = (True,)

    @property
    def support(self) -> int:
        """Instances that speak for it."""
        return self.satisfied

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
        mined += _of_tokens(TOKEN_CLASS, class_rules(data, names, tables, parts, classes, enough))
    if CUE in families:
        mined += _of_tokens(CUE, cue_rules(data, names, tables, parts, classes, min_support, enough))
    counted = [family for family in families if family in FAMILIES]
    chunks = [(p, chunk) for p, part in enumerate(parts.of(data)) for chunk in part.chunks()]
    by_part: dict[tuple[str, _Delimiter], np.ndarray] = {}
    for part, chunk in chunks:
        for key, table in count_families(chunk, tables, delimiters, counted).items():
            by_part.setdefault(key, np.zeros((parts.n_parts, *table.shape), dtype=np.int64))[part] += table
    unrelated = _unrelated(names, data.table)
    for (family, delimiter), table in by_part.items():
        satisfied, premises = np.moveaxis(parts.groups(table), 1, 0)
        for (i, j), mask in enough(np.where(unrelated, satisfied, -1), premises):
            numbers = int(satisfied[0, i, j]), int(premises[0, i, j])
            mined.append(_mined(family, names[i], names[j], delimiter, *numbers, mask))
    return MinedRules(_without_repetition(sorted(mined, key=lambda m: (-m.cost, -m.support))))


def count_families(
    data: Observed, tables: NameTables, delimiters: Sequence[str], families: Sequence[str]
) -> dict[tuple[str, _Delimiter], np.ndarray]:
    """Count the instances of some families in some sequences: those for which a rule holds, and all, (2, K, K)."""
    found: dict[tuple[str, _Delimiter], np.ndarray] = {}
    shape, known = (2, len(tables.matches), len(tables.matches)), set(delimiters)
    for tokens, labels in data:
        for family in families:
            for delimiter, satisfied, premises in _FAMILIES[family].counts(tokens, labels, tables, known):
                table = found.setdefault((family, delimiter), np.zeros(shape, dtype=np.int64))
                table[0] += satisfied
                table[1] += premises
    return found


def _without_repetition(mined: list[MinedRule]) -> list[MinedRule]:
    """Leave out "sooner or later comes b" where "right after comes b" says more on the same evidence."""
    later = {(m.names, m.satisfied, m.violated): m.words for m in mined if m.family == "precedence"}
    stronger = {(m.names, m.satisfied, m.violated) for m in mined if m.family == "adjacency"}
    kept = []
    for m in mined:
        key = (m.names, m.satisfied, m.violated)
        if m.family == "adjacency" and key in later:
            kept.append(replace(m, same=(later[key],)))
        elif m.family != "precedence" or key not in stronger:
            kept.append(m)
    return kept


def _of_tokens(family: str, rules: Iterable[TokenRule]) -> Iterator[MinedRule]:
    """Rules about single tokens."""
    for rule, words, satisfied, violated, groups in rules:
        priced = rule.soft(violation_cost(satisfied, violated)).named(words)
        yield MinedRule(priced, family, satisfied, violated, words, groups=tuple(groups.tolist()))


def _unrelated(names: Sequence[str], table: LabelTable) -> np.ndarray:
    """Pairs of different names of which neither lies inside the other: what is not true by construction."""
    place = {name: i for i, name in enumerate(names)}
    unrelated = ~np.eye(len(names), dtype=bool)
    for outer, inner in nested_types(table):
        if outer in place and inner in place:
            unrelated[place[outer], place[inner]] = unrelated[place[inner], place[outer]] = False
    return unrelated


def _mined(
    family: str, a: str, b: str, delimiter: _Delimiter, satisfied: int, premises: int, groups: np.ndarray
) -> MinedRule:
    mark = f"a token with {delimiter.text!r}" if delimiter.attached else repr(delimiter.text)
    words = _FAMILIES[family].words.format(a=a, b=b, mark=mark)
    rule = _FAMILIES[family].rule(a, b, delimiter)
    rule = rule.soft(violation_cost(satisfied, premises - satisfied)).named(words)
    return MinedRule(
        rule, family, satisfied, premises - satisfied, words, names=(a, b), groups=tuple(groups.tolist())
    )


class Held(Protocol):
    """A model fitted on folds, as :func:`rulefield.estimators.ruled.held_out.cross_fit` makes it."""

    def weights_of(self, rules: Sequence[Rule]) -> np.ndarray:
        """Weights of rules on sequences that the model has not seen, each beyond what those before it say."""
        ...


def mine(
    X: Iterable[Any] | None,
    y: Iterable[Sequence[Any]],
    *,
    crf: Held | None = None,
    price: str = AUTO,
    **options: Any,
) -> list[Rule]:
    """Find rules in labeled data.

    Parameters
    ----------
    X, y : tokens and labels
    crf : what ``cross_fit(chain, X, y)`` made, optional
        Gives residual prices, each in the light of the rules priced before it, the most expensive first; rules that do not
        fix more predictions of the chain than they break are left out.
    price : {"auto", "learn", "eq30"}
        Without ``crf``, ``.soft("auto")`` or ``.soft("learn")``: whoever fits a ``RuledCRF`` finds the price. "eq30" is the
        price of [Fersini14], which knows nothing of the model: it pays for what the chain knows, once for each rule that
        says it, and makes labels worse on most data.
    **options
        As for :func:`mine_table`, which also tells support, confidence and cost.
    """
    if price not in (AUTO, LEARN, EQ30):
        raise RuleError(f"price must be 'auto', 'learn' or 'eq30'; got {price!r}.")
    rules = [found.rule for found in mine_table(X, y, **options)]
    if price == EQ30:
        return rules
    return [rule.soft(price) for rule in rules] if crf is None else _at_residual_prices(rules, crf)


def _at_residual_prices(rules: list[Rule], crf: Held) -> list[Rule]:
    """Rules that help beyond what the model and each other know, most expensive first."""
    prices = crf.weights_of(rules)
    return [rules[i].soft(float(prices[i])) for i in np.argsort(-prices, kind="stable") if prices[i] > 0]
