"""New labeled texts made of the parts of few: fields that texts show, in orders and with separators that they show.

Sixty addresses show a building in five of them, and each with one street only. A chain that also learns from texts in which
the fields of all of them are put together anew finds out which of their words tell the fields apart. Few texts end with a
stray mark, and none with each; marks that are in no field are learned behind the last one, too.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from rulefield.encode.schemes import OUTSIDE
from rulefield.estimators.text.variants import LEAST_SHOWN, Labeled, LabeledField, fields_of, is_in_case

N_MADE = 400
"""Texts that are made."""
MADE_SHARE = 0.3
"""Weight of all texts that are made over that of their sources; more makes probabilities too high."""
MOST_FIELDS = 60
"""Of a text that is made."""
SEED = 0
STRAY_MARKS = (".", ";", "*", "-", "|")
STRAY_TEXTS = 5.0
"""Weight of all texts with a stray mark behind their last field."""
_EDGE = ""
"""Stands for the beginning and the end of a text among the labels of fields."""
Tokens = Sequence[str]
Item = TypeVar("Item")


class _TextParts(NamedTuple):
    """What texts are made of."""

    cases: list[str]
    """The case of each text: upper, lower, or kept."""
    next_label: dict[str, list[str]]
    """Labels of the fields behind fields of each label, one for each time."""
    gaps: dict[tuple[str, str], list[Tokens]]
    """Tokens outside of fields between fields of two labels."""
    fields: dict[tuple[str, str], list[Tokens]]
    """Tokens of the fields of each label in texts of each case."""


def recombine(texts: Labeled) -> Labeled:
    """Return new texts made of the parts of labeled texts, the same ones each time."""
    parts = _parts(texts)
    rng = np.random.default_rng(SEED)
    made = [_one_text(parts, rng) for _ in range(N_MADE)]
    kept = [(tokens, labels) for tokens, labels in made if tokens]
    weight = np.full(len(kept), MADE_SHARE * texts.weight.sum() / max(len(kept), 1))
    return Labeled([tokens for tokens, _ in kept], [labels for _, labels in kept], weight)


def _parts(texts: Labeled) -> _TextParts:
    parts = _TextParts([], defaultdict(list), defaultdict(list), defaultdict(list))
    for tokens, labels in zip(texts.tokens, texts.labels):
        case = "upper" if is_in_case(tokens, upper=True) else "lower" if is_in_case(tokens, upper=False) else "kept"
        parts.cases.append(case)
        before = LabeledField(0, 0, _EDGE)
        for field in [*fields_of(labels), LabeledField(len(tokens), len(tokens), _EDGE)]:
            parts.next_label[before.label].append(field.label)
            parts.gaps[before.label, field.label].append(tokens[before.stop : field.start])
            if field.label != _EDGE:
                parts.fields[field.label, case].append(tokens[field.start : field.stop])
            before = field
    return parts


def _one_text(parts: _TextParts, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Return the tokens and labels of one new text."""

    def one(items: Sequence[Item]) -> Item:
        return items[int(rng.integers(len(items)))]

    case = one(parts.cases)
    tokens: list[str] = []
    labels: list[str] = []
    before = _EDGE
    for _ in range(MOST_FIELDS):
        label = one(parts.next_label[before])
        gap = one(parts.gaps[before, label])
        tokens += gap
        labels += [OUTSIDE] * len(gap)
        if label == _EDGE:
            break
        field = one(_fields_in_case(parts, label, case))
        tokens += field
        labels += [f"B-{label}"] + [f"I-{label}"] * (len(field) - 1)
        before = label
    return tokens, labels


def _fields_in_case(parts: _TextParts, label: str, case: str) -> list[Tokens]:
    """Return fields of a label as texts of a case have them; those of other texts are changed."""
    own = parts.fields.get((label, case), [])
    if case == "kept" and own:
        return own
    change = {"upper": str.upper, "lower": str.lower, "kept": str.title}[case]
    others = [field for other in ("upper", "lower", "kept") for field in parts.fields.get((label, other), [])]
    return [[change(token) for token in field] for field in others]


def with_stray_marks(texts: Labeled) -> Labeled:
    """Return the texts with a mark behind their last field, unless marks are nowhere outside of fields, or in some."""
    outside: list[str] = []
    inside: set[str] = set()
    for tokens, labels in zip(texts.tokens, texts.labels):
        for token, label in zip(tokens, labels):
            if label != OUTSIDE:
                inside.add(token)
            elif not any(map(str.isalnum, token)):
                outside.append(token)
    marks = [mark for mark in STRAY_MARKS if mark not in inside]
    rows = [i for i, labels in enumerate(texts.labels) if labels[-1] != OUTSIDE]
    if len(outside) < LEAST_SHOWN or not marks:
        rows = []
    return Labeled(
        [[*texts.tokens[i], marks[i % len(marks)]] for i in rows],
        [[*texts.labels[i], OUTSIDE] for i in rows],
        texts.weight[rows] * STRAY_TEXTS / len(texts.tokens),
    )
