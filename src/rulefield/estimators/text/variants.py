"""Other ways in which labeled texts might have been typed: in one case, without separators between fields.

Few labeled texts show each field in few ways. If some are in capitals, in small letters, or without a comma between two
fields, new texts of any kind are: each labeled text is then learned in these ways too, weighted by how often they occur.
Labels stay, since only the case of letters changes, and only punctuation outside of all fields is left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.schemes import OUTSIDE

MOST_TEXTS = 300
"""More texts show by themselves what occurs."""
LEAST_SHOWN = 2
"""Texts (or gaps between fields) that must show a way of typing."""


class Labeled(NamedTuple):
    """Tokens and labels of texts, and a weight for each text."""

    tokens: list[list[str]]
    labels: list[list[str]]
    weight: np.ndarray

    def __add__(self, other: "Labeled") -> "Labeled":  # type: ignore[override]
        return Labeled(
            self.tokens + other.tokens, self.labels + other.labels, np.concatenate([self.weight, other.weight])
        )


def with_variants(texts: Labeled) -> Labeled:
    """Return labeled texts and their variants, each weighted by how often texts are typed in its way."""
    bare = _without_separators(texts)
    made = texts + bare
    for upper in (True, False):
        share = float(np.mean([_is_in_case(tokens, upper) for tokens in texts.tokens]))
        if share * len(texts.tokens) >= LEAST_SHOWN:
            made += _in_case(texts, upper, share) + _in_case(bare, upper, share)
    return made


def _is_in_case(tokens: Sequence[str], upper: bool) -> bool:
    text = "".join(tokens)
    return text.isupper() if upper else text.islower()


def _in_case(texts: Labeled, upper: bool, share: float) -> Labeled:
    """Return the texts that are not yet in capitals (small letters) in them."""
    rows = [i for i, tokens in enumerate(texts.tokens) if not _is_in_case(tokens, upper)]
    change = str.upper if upper else str.lower
    return Labeled(
        [[change(token) for token in texts.tokens[i]] for i in rows],
        [texts.labels[i] for i in rows],
        share * texts.weight[rows],
    )


def _without_separators(texts: Labeled) -> Labeled:
    """Return the texts that have punctuation outside of fields, without it."""
    together, apart = (sum(_gaps(labels, apart) for labels in texts.labels) for apart in (False, True))
    share = together / max(together + apart, 1)
    rows, kept = [], []
    if together >= LEAST_SHOWN:
        for i, (tokens, labels) in enumerate(zip(texts.tokens, texts.labels)):
            places = [t for t, token in enumerate(tokens) if labels[t] != OUTSIDE or any(map(str.isalnum, token))]
            if 0 < len(places) < len(tokens):
                rows.append(i)
                kept.append(places)
    return Labeled(
        [[texts.tokens[i][t] for t in places] for i, places in zip(rows, kept)],
        [[texts.labels[i][t] for t in places] for i, places in zip(rows, kept)],
        share * texts.weight[rows],
    )


def _gaps(labels: Sequence[str], apart: bool) -> int:
    """Count the fields before which a field ends: at once, or with other tokens between them."""
    begins = [t for t, label in enumerate(labels) if label.startswith("B-")][1:]
    return sum((labels[t - 1] == OUTSIDE) == apart for t in begins)
