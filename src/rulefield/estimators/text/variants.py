"""Other ways in which labeled texts might have been typed: in one case, without separators, states written otherwise.

Few labeled texts show each field in few ways. If some are in capitals, in small letters, without a comma between two
fields, or with the name of a state in place of its code, new texts of any kind are: each labeled text is then learned in
these ways too, weighted by how often they occur. Each field keeps its label: only the case of letters changes, only
punctuation outside of all fields is left out, and the name or code of a state stands for the whole
field that it was.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.patterns import STATE_NAMES
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
    shares = {
        upper: float(np.mean([is_in_case(tokens, upper) for tokens in texts.tokens])) for upper in (True, False)
    }
    made = texts + _with_other_states(texts)
    made += _without_separators(made)
    in_cases = [
        _in_case(made, upper, share) for upper, share in shares.items() if share * len(texts.tokens) >= LEAST_SHOWN
    ]
    return sum(in_cases, made)


def is_in_case(tokens: Sequence[str], upper: bool) -> bool:
    """Return whether all letters of a text are capitals (small letters); False without a letter."""
    text = "".join(tokens)
    return text.isupper() if upper else text.islower()


def _in_case(texts: Labeled, upper: bool, share: float) -> Labeled:
    """Return the texts that are not yet in capitals (small letters) in them."""
    rows = [i for i, tokens in enumerate(texts.tokens) if not is_in_case(tokens, upper)]
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


# --- states ---------------------------------------------------------------------------------------

_STATE_CODES = {name: code for code, name in STATE_NAMES.items()}


class LabeledField(NamedTuple):
    """The tokens of a field, from ``start`` to ``stop``, and its label."""

    start: int
    stop: int
    label: str


def _with_other_states(texts: Labeled) -> Labeled:
    """Return the texts with fields that are states, with codes in place of names and names in place of codes."""
    spelled = _share_spelled(texts)
    made: list[tuple[list[str], list[str], float]] = []
    for tokens, labels, weight in zip(*texts):
        states = [field for field in fields_of(labels) if field.label in spelled and _other_state(tokens, field)]
        if not states:
            continue
        tokens, labels = list(tokens), list(labels)
        for start, stop, label in reversed(states):
            other = _other_state(tokens, LabeledField(start, stop, label))
            weight *= spelled[label] if len(other) > 1 or len(other[0]) > 2 else 1.0 - spelled[label]
            tokens[start:stop] = other
            labels[start:stop] = [f"B-{label}"] + [f"I-{label}"] * (len(other) - 1)
        made.append((tokens, labels, weight))
    return Labeled([row[0] for row in made], [row[1] for row in made], np.array([row[2] for row in made]))


def _share_spelled(texts: Labeled) -> dict[str, float]:
    """Return for each label whose fields are mostly states, shown in both ways, the share of names among them."""
    counts: dict[str, list[int]] = {}
    for tokens, labels in zip(texts.tokens, texts.labels):
        for start, stop, label in fields_of(labels):
            text = " ".join(tokens[start:stop]).lower()
            kind = 0 if text in STATE_NAMES else 1 if text in _STATE_CODES else 2
            counts.setdefault(label, [0, 0, 0])[kind] += 1
    return {
        label: names / (codes + names)
        for label, (codes, names, others) in counts.items()
        if min(codes, names) >= LEAST_SHOWN and codes + names >= others
    }


def fields_of(labels: Sequence[str]) -> Iterator[LabeledField]:
    """Yield the fields of BIO labels."""
    begins = [t for t, label in enumerate(labels) if label.startswith("B-")]
    for start in begins:
        label = labels[start][2:]
        stop = start + 1
        while stop < len(labels) and labels[stop] == f"I-{label}":
            stop += 1
        yield LabeledField(start, stop, label)


def _other_state(tokens: Sequence[str], field: LabeledField) -> list[str]:
    """Return the tokens of the other way to write a state, in the case of its text; nothing if the field is none."""
    low = " ".join(tokens[field.start : field.stop]).lower()
    name, code = STATE_NAMES.get(low), _STATE_CODES.get(low)
    if is_in_case(tokens, upper=False):
        return (name or code or "").split()
    if is_in_case(tokens, upper=True) or code:
        return (name or code or "").upper().split()
    return (name or "").title().split()
