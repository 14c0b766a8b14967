"""Labeled texts as people type them: lost and doubled blanks, odd case, stray punctuation, Unicode look-alikes.

Spans stay on the characters that they covered. A span holds no punctuation at its ends, as annotators mark fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rulefield.data.documents import joined
from rulefield.datasets.draw import Draw
from rulefield.encode.alignment import spans_of
from rulefield.encode.tokenizers import ABBREVIATED, Words

Spans = list[tuple[int, int, str]]
EDGES = ".,:;()\"'[]` "
"""What a span neither begins nor ends with, but for the full stop of an abbreviation."""
_CLOSING = ",;"
"""A blank after these may be lost: the fields still stand apart."""
_BLANKS = {"\u00a0": 0.3, "\u2009": 0.1, "\t": 0.2, "  ": 0.4}
_ALIKE = {"-": "\u2013", "'": "\u2019", ",": "\uff0c", '"': "\u201d"}
_ACCENTS = {"a": "á", "e": "é", "i": "í", "o": "ö", "u": "ü", "n": "ñ"}
_STRAY = (".", ",", ";", " *", " -", "..", " |")


def messy_texts(tagged: Sequence[tuple[list[str], list[str]]], draw: Draw) -> tuple[list[str], list[Spans]]:
    """Return messy texts and spans of tagged sequences (tokens that white space separates, BIO labels)."""
    made = [make_messy(*spans_of_tokens(tokens, labels), draw) for tokens, labels in tagged]
    return [text for text, _ in made], [spans for _, spans in made]


def spans_of_tokens(tokens: Sequence[str], labels: Sequence[str]) -> tuple[str, Spans]:
    """Return tokens joined by blanks, and the spans of their BIO labels without the punctuation at their ends."""
    text, places = joined(list(tokens))
    found = (trimmed(text, *span[:3]) for span in spans_of(labels, places, "BIO"))
    return text, [span for span in found if span is not None]


def trimmed(text: str, start: int, end: int, label: str) -> tuple[int, int, str] | None:
    """Return a span without the punctuation at its ends; None if nothing else is in it."""
    while start < end and text[start] in EDGES:
        start += 1
    while start < end and text[end - 1] in EDGES and not ABBREVIATED.search(text[start:end]):
        end -= 1
    return (start, end, label) if start < end else None


@dataclass(frozen=True)
class Habits:
    """How one text is typed: the case of its letters, and how often each kind of damage happens."""

    case: str
    lost_blank: float = 0.2
    odd_blank: float = 0.03
    look_alike: float = 0.05
    accent: float = 0.005


def make_messy(text: str, spans: Spans, draw: Draw) -> tuple[str, Spans]:
    """Return the text as somebody may have typed it, and its spans, each on the characters that it had."""
    habits = Habits(draw.one(["kept", "upper", "lower", "title"], [6, 2, 2, 1]))
    made, places = [], []
    at = 0
    for i, character in enumerate(text):
        places.append(at)
        typed = _typed(text, i, character, habits, draw)
        made.append(typed)
        at += len(typed)
    places.append(at)
    moved = [(places[start], places[end], label) for start, end, label in spans]
    typed, moved = _with_strays("".join(made), moved, draw)
    return typed, _with_stops(typed, moved)


def _with_stops(text: str, spans: Spans) -> Spans:
    """Return spans with the full stop of an abbreviation at their end: its case may be other than it was."""
    ends = {end for _, end in Words()(text)}
    return [
        (start, end + 1 if end not in ends and text[end : end + 1] == "." and end + 1 in ends else end, label)
        for start, end, label in spans
    ]


def _typed(text: str, i: int, character: str, habits: Habits, draw: Draw) -> str:
    """Return what is typed for one character, which may be nothing or two characters."""
    if character == " ":
        if i and text[i - 1] in _CLOSING and draw.chance(habits.lost_blank):
            return ""
        return draw.one(list(_BLANKS), list(_BLANKS.values())) if draw.chance(habits.odd_blank) else " "
    if character in _ALIKE and draw.chance(habits.look_alike):
        return _ALIKE[character]
    if character in _ACCENTS and draw.chance(habits.accent):
        character = _ACCENTS[character]
    return _cased(character, text[i - 1] if i else " ", habits.case)


def _cased(character: str, before: str, case: str) -> str:
    if case == "kept":
        return character
    wanted = character.upper() if case == "upper" or (case == "title" and not before.isalnum()) else character.lower()
    return wanted if len(wanted) == 1 else character


def _with_strays(text: str, spans: Spans, draw: Draw) -> tuple[str, Spans]:
    """Put stray punctuation at the end, and a blank at the beginning, of a tenth of the texts each."""
    if draw.chance(0.1):
        text += draw.one(_STRAY)
    if draw.chance(0.1):
        text, spans = " " + text, [(start + 1, end + 1, label) for start, end, label in spans]
    return text, spans
