"""Rules of the kind "pp. begins pages", "after In: comes booktitle": what a cue says of its label and of the next one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.schemes import Scheme
from rulefield.rules.facts import at
from rulefield.rules.finding.mine_classes import COMMON, Enough, TokenRule
from rulefield.rules.finding.observed import NameTables, Observed, Parts
from rulefield.rules.labels import LabelTable
from rulefield.rules.patterns import Pattern, matches
from rulefield.rules.predicates import TOKEN_CLASSES
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import TokenCondition, texts_of, token_equals

MOST_CUES = 200
"""Texts that are looked at: those in most sequences."""
STARTS = {Scheme.bio: "B", Scheme.bioes: "BS", Scheme.bilou: "BU"}
"""Prefixes that always begin a segment, by scheme."""


class Cue(NamedTuple):
    """A condition on tokens, in words, and the tokens of all sequences that meet it (places)."""

    words: str
    condition: TokenCondition
    places: np.ndarray


def cue_rules(
    data: Observed, names: Sequence[str], tables: NameTables, parts: Parts, min_support: int, enough: Enough
) -> Iterator[TokenRule]:
    """Pairs of a cue and a label of which enough holds: the cue begins a segment of the label, lies in one, or precedes one.

    Cues are texts that occur in at least ``min_support`` sequences, and classes of tokens. That a cue lies in a label is left
    out if it always begins it: one says more on the same evidence. Rules are sums over tokens, which cost engines
    nothing. O(tokens x (K + classes)) for K names.
    """
    cues = list(_cues(data.tokens, min_support))
    if not cues:
        return
    flat = np.concatenate(data.sequences)
    last = np.zeros(len(flat), dtype=bool)
    last[np.cumsum([len(labels) for labels in data.sequences], dtype=np.int64) - 1] = True
    starts = [_beginnings(name, data.table) for name in names]
    within = tables.matches[:, flat].astype(np.int64)
    after = np.where(last, 0, np.roll(within, -1, axis=1))
    begun = np.array(
        [np.zeros(len(flat)) if s is None else matches(s, data.table)[flat] for s in starts], dtype=np.int64
    )
    number = np.repeat(np.arange(len(cues)), [len(cue.places) for cue in cues])
    places = np.concatenate([cue.places for cue in cues])
    meets = csr_matrix((np.ones(len(places), np.int64), (number, places)), (len(cues), len(flat))).tocsc()

    def count(table: np.ndarray) -> np.ndarray:
        """Tokens that meet each cue and are marked in a table (..., n_tokens), by group: (n_groups, n_cues, ...)."""
        return parts.groups(np.array([meets[:, part] @ table[..., part].T for part in parts.tokens_of(data)]))

    inside, begins, follows = count(within), count(begun), count(after)
    sizes, followed = (count(flags.astype(np.int64))[..., None] for flags in (np.ones(len(flat)), ~last))
    can_begin = np.array([s is not None for s in starts])
    says_more = ~can_begin | (begins[0] < inside[0])
    for held, total, possible, written in (
        (begins, sizes, can_begin, _begins),
        (inside, sizes, says_more, _lies_in),
        (follows, followed, True, _precedes),
    ):
        for (c, k), mask in enough(np.where(possible, held, -1), total):
            rule, words = written(cues[c], names[k], starts[k])
            satisfied = int(held[0, c, k])
            yield TokenRule(rule, words, satisfied, int(total[0, c, 0]) - satisfied, mask)


def _begins(cue: Cue, name: str, start: Pattern | None) -> tuple[Rule, str]:
    assert start is not None
    return at(cue.condition, here=start), f"{cue.words} begins {name}"


def _lies_in(cue: Cue, name: str, start: Pattern | None) -> tuple[Rule, str]:
    return at(cue.condition, here=name), f"{cue.words} is in {name}"


def _precedes(cue: Cue, name: str, start: Pattern | None) -> tuple[Rule, str]:
    return at(cue.condition, next=name), f"after {cue.words} comes {name}"


def _beginnings(name: str, table: LabelTable) -> Pattern | None:
    """Return the pattern of labels that begin a segment; None if the scheme cannot tell by the label alone."""
    found = [f"{prefix}-{name}" for prefix in STARTS.get(table.scheme, "")]
    known = [text for text in found if matches(Pattern((text,)), table).any()]
    return Pattern(tuple(known), listed=len(known) > 1) if known else None


def _cues(inputs: Sequence[Sequence[Any]], min_support: int) -> Iterator[Cue]:
    """Frequent texts, most frequent first, and classes of tokens that are not nearly all."""
    places: dict[str, list[int]] = {}
    sequences: Counter[str] = Counter()
    at_token = 0
    for tokens in inputs:
        seen: dict[str, None] = {}  # in order, so that ties are always broken alike
        for token in tokens:
            for text in texts_of(token):
                places.setdefault(text, []).append(at_token)
                seen[text] = None
            at_token += 1
        sequences.update(seen.keys())
    for text, count in sequences.most_common(MOST_CUES):
        if count >= max(min_support, 1):
            yield Cue(repr(text), token_equals(text), np.array(places[text], dtype=np.int64))
    yield from _classes(inputs, at_token, TOKEN_CLASSES)


def _classes(inputs: Sequence[Any], n_tokens: int, classes: Mapping[str, TokenCondition]) -> Iterator[Cue]:
    for words, condition in classes.items():
        inside = np.concatenate([condition.over(tokens) for tokens in inputs]) if len(inputs) else np.zeros(0, bool)
        if 0 < inside.sum() <= COMMON * n_tokens:
            yield Cue(words, condition, np.flatnonzero(inside))
