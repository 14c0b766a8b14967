"""Rules of the kind "pp. begins pages", "after In: comes booktitle": what a cue says of its label and of the next one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.encode.schemes import Scheme
from rulefield.rules.facts import at
from rulefield.rules.finding.mine_classes import COMMON
from rulefield.rules.finding.observed import NameTables, Observed
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


class CueRule(NamedTuple):
    """A rule, in words, and the number of cues for which it holds and fails."""

    rule: Rule
    words: str
    satisfied: int
    violated: int


def cue_rules(data: Observed, names: Sequence[str], tables: NameTables, min_support: int) -> Iterator[CueRule]:
    """Every pair of a cue and a label: the cue begins a segment of the label, lies in one, comes right before one.

    Cues are texts that occur in at least ``min_support`` sequences, and classes of tokens. That a cue lies in a label is left
    out where it always begins it: one says more on the same evidence. Rules are sums over tokens, which cost engines
    nothing. O(tokens x (K + classes)) for K names.
    """
    flat = np.concatenate(data.sequences) if len(data) else np.zeros(0, dtype=np.int64)
    last = np.zeros(len(flat), dtype=bool)
    last[np.cumsum([len(labels) for labels in data.sequences], dtype=np.int64) - 1] = True
    within = tables.matches[:, flat].astype(np.int64)
    after = np.where(last, 0, np.roll(within, -1, axis=1))
    starting = [_beginnings(name, data.table) for name in names]
    begun = np.array(
        [np.zeros(len(flat)) if s is None else matches(s, data.table)[flat] for s in starting], dtype=np.int64
    )
    cues = list(_cues(data.tokens, min_support))
    if not cues:
        return
    sizes = [len(cue.places) for cue in cues]
    meets = csr_matrix(
        (
            np.ones(sum(sizes), np.int64),
            (np.concatenate([c.places for c in cues]), np.repeat(np.arange(len(cues)), sizes)),
        ),
        shape=(len(flat), len(cues)),
    )
    inside, begins, follows = ((meets.T @ table.T) for table in (within, begun, after))
    followed = meets.T @ (~last).astype(np.int64)
    for c, cue in enumerate(cues):
        for k, name in enumerate(names):
            start = starting[k]
            if start is not None:
                rule = at(cue.condition, here=start.alternatives if start.listed else start.alternatives[0])
                yield CueRule(rule, f"{cue.words} begins {name}", int(begins[c, k]), int(sizes[c] - begins[c, k]))
            if start is None or begins[c, k] < inside[c, k]:
                held = int(inside[c, k])
                yield CueRule(at(cue.condition, here=name), f"{cue.words} is in {name}", held, int(sizes[c]) - held)
            held = int(follows[c, k])
            yield CueRule(
                at(cue.condition, next=name), f"after {cue.words} comes {name}", held, int(followed[c]) - held
            )


def _beginnings(name: str, table: LabelTable) -> Pattern | None:
    """Return the pattern of labels that begin a segment; None where the scheme cannot tell by the label alone."""
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
