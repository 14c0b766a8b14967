"""Rules about single tokens: "every zip is a number", "pp. begins pages", "after In: comes booktitle"."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count as count_from
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.schemes import Scheme
from rulefield.rules.facts import at
from rulefield.rules.finding.observed import NameTables, Observed, Parts
from rulefield.rules.labels import LabelTable
from rulefield.rules.numbers import count
from rulefield.rules.patterns import Pattern, matches
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import TokenCondition, texts_of, token_equals, token_matches, token_not

TOKEN_CLASSES: dict[str, TokenCondition] = {
    "a number": token_matches(r"^\d+$"),
    "a year": token_matches(r"^\(?(1[89]|20)\d\d[a-z]?\)?[.,;:]?$"),
    "something with a digit": token_matches(r"\d"),
    "an initial": token_matches(r"^[A-Z]\.?$"),
    "capitalized": token_matches(r"^[A-Z][a-z]"),
    "all capitals": token_matches(r"^[A-Z]{2,}$"),
    "in lower case": token_matches(r"^[a-z]+$"),
    "punctuation": token_matches(r"^\W+$"),
}
"""What tokens may look like, in words."""

COMMON = 0.9
"""A class that so large a share of all tokens belongs to says nothing of a label."""


Enough = Callable[[np.ndarray, np.ndarray], Iterator[tuple[tuple[int, ...], np.ndarray]]]
"""From counts by group (n_groups, ...), instances that hold and all: places where enough hold in a group, and in which."""


class TokenRule(NamedTuple):
    """A rule, in words, the number of tokens for which it holds and fails, and the groups in which enough hold."""

    rule: Rule
    words: str
    satisfied: int
    violated: int
    groups: np.ndarray


class Cue(NamedTuple):
    """A condition on tokens, in words, and the tokens of all sequences that meet it (places)."""

    words: str
    condition: TokenCondition
    places: np.ndarray


def token_classes(data: Observed) -> list[Cue]:
    """Return the classes of tokens that occur and are not nearly all."""
    flags = {words: np.concatenate([some.over(x) for x in data.tokens]) for words, some in TOKEN_CLASSES.items()}
    return [
        Cue(words, TOKEN_CLASSES[words], np.flatnonzero(inside))
        for words, inside in flags.items()
        if 0 < inside.sum() <= COMMON * len(inside)
    ]


def class_rules(
    data: Observed, names: Sequence[str], tables: NameTables, parts: Parts, classes: Sequence[Cue], enough: Enough
) -> Iterator[TokenRule]:
    """Pairs of a label and a class of tokens of which enough holds: tokens of the label are in the class.

    A rule fails by the number of tokens with the label that are not in the class; a sum over tokens, so it costs engines
    nothing. Discovery (:func:`rulefield.rules.finding.discover.discover`) finds what a token says of its label; this is the
    converse, which holds however rare the label is among such tokens. O(tokens x classes).
    """
    match = tables.matches[:, np.concatenate(data.sequences)].astype(np.int64)
    places = parts.tokens_of(data)
    total = parts.groups(np.array([match[:, part].sum(axis=1) for part in places]))
    for words, condition, inside in classes:
        meets = np.zeros(match.shape[1], dtype=bool)
        meets[inside] = True
        held = parts.groups(np.array([match[:, part] @ meets[part] for part in places]))
        for (k,), mask in enough(held, total):
            rule, satisfied = count(names[k], where=token_not(condition)) <= 0, int(held[0, k])
            yield TokenRule(rule, f"every {names[k]} is {words}", satisfied, int(total[0, k]) - satisfied, mask)


MOST_CUES = 200
"""Texts that are looked at: those in most sequences."""
STARTS = {Scheme.bio: "B", Scheme.bioes: "BS", Scheme.bilou: "BU"}
"""Prefixes that always begin a segment, by scheme."""


def cue_rules(
    data: Observed,
    names: Sequence[str],
    tables: NameTables,
    parts: Parts,
    classes: Sequence[Cue],
    min_support: int,
    enough: Enough,
) -> Iterator[TokenRule]:
    """Pairs of a cue and a label of which enough holds: the cue begins a segment of the label, lies in one, or precedes one.

    Cues are texts that occur in at least ``min_support`` sequences, and classes of tokens. That a cue lies in a label is left
    out if it always begins it: one says more on the same evidence. Rules are sums over tokens, which cost engines
    nothing. O(tokens x (K + classes)) for K names.
    """
    cues = [*_cues(data.tokens, min_support), *classes]
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

    def by_group(table: np.ndarray) -> np.ndarray:
        """Tokens that meet each cue and are marked in a table (..., n_tokens), by group: (n_groups, n_cues, ...)."""
        return parts.groups(np.array([meets[:, part] @ table[..., part].T for part in parts.tokens_of(data)]))

    inside, begins, follows = by_group(within), by_group(begun), by_group(after)
    sizes, followed = (by_group(flags.astype(np.int64))[..., None] for flags in (np.ones(len(flat)), ~last))
    can_begin = np.array([s is not None for s in starts])
    says_more = ~can_begin | (begins[0] < inside[0])
    for held, total, possible, patterns, words in (
        (begins, sizes, can_begin, starts, "{cue} begins {name}"),
        (inside, sizes, says_more, names, "{cue} is in {name}"),
        (follows, followed, True, names, "after {cue} comes {name}"),
    ):
        for (c, k), mask in enough(np.where(possible, held, -1), total):
            around = (None, None, patterns[k]) if held is follows else (None, patterns[k], None)
            rule, satisfied = at(cues[c].condition, *around), int(held[0, c, k])
            text = words.format(cue=cues[c].words, name=names[k])
            yield TokenRule(rule, text, satisfied, int(total[0, c, 0]) - satisfied, mask)


def _beginnings(name: str, table: LabelTable) -> Pattern | None:
    """Return the pattern of labels that begin a segment; None if the scheme cannot tell by the label alone."""
    found = [f"{prefix}-{name}" for prefix in STARTS.get(table.scheme, "")]
    known = [text for text in found if matches(Pattern((text,)), table).any()]
    return Pattern(tuple(known), listed=len(known) > 1) if known else None


def _cues(inputs: Sequence[Sequence[Any]], min_support: int) -> Iterator[Cue]:
    """Frequent texts, most frequent first."""
    places: dict[str, list[int]] = {}
    sequences: Counter[str] = Counter()
    at_token = count_from(0)
    for tokens in inputs:
        texts = [(next(at_token), texts_of(token)) for token in tokens]
        for place, some in texts:
            for text in some:
                places.setdefault(text, []).append(place)
        sequences.update(
            [*dict.fromkeys(text for _, some in texts for text in some)]
        )  # in order, so that ties are too
    for text, n in sequences.most_common(MOST_CUES):
        if n >= max(min_support, 1):
            yield Cue(repr(text), token_equals(text), np.array(places[text], dtype=np.int64))
