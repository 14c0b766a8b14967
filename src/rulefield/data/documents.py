"""Texts with labeled spans of characters: what annotation tools export and parsers return."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rulefield.exceptions import InputError


class TextSpan(NamedTuple):
    """Characters ``start`` to ``end`` (not included) of a text are a ``label``; ``score`` is how sure that is, if known."""

    start: int
    end: int
    label: str
    score: float | None = None


def as_span(span: Any) -> TextSpan:
    """Return a span of (start, end, label), or of an object with these attributes, such as a span of a parse."""
    if hasattr(span, "label"):
        return TextSpan(span.start, span.end, span.label, getattr(span, "score", getattr(span, "probability", None)))
    try:
        return TextSpan(*span)
    except TypeError:
        raise InputError(f"a span must be (start, end, label); got {span!r:.60}.") from None


class Origin(NamedTuple):
    """The record that a text was read from: its format, the record as it was, and the field that held the text or labels."""

    form: str
    record: Any
    field: str = "text"


@dataclass(frozen=True)
class Document:
    """One text and what is known of it.

    Parameters
    ----------
    text : str
    spans : tuple of TextSpan, or None
        Labeled spans in order of start and end; None if the text is not annotated (an empty tuple says that nothing is
        labeled).
    tokens : tuple of (start, end), or None
        Where a file came with tokens: their characters, from left to right.
    name : str, optional
        What the file calls this text (an id, a number, a file name).
    extra : mapping
        Whatever else the record held, by name: columns of a table, keys of an object. Writers of other formats put them
        where they have room for them.
    score : float, optional
        How sure the labeling as a whole is, if a model made it.
    origin : Origin, optional
        Where it was read; the writer of the same format changes the labels of that record and nothing else.
    """

    text: str
    spans: tuple[TextSpan, ...] | None = None
    tokens: tuple[tuple[int, int], ...] | None = None
    name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    score: float | None = None
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a text must be a string; got {type(self.text).__name__}.")
        self._check_tokens()
        if self.spans is None:
            return
        spans = tuple(sorted((as_span(span) for span in self.spans), key=lambda s: (s.start, s.end, s.label)))
        for span in spans:
            if not 0 <= span.start < span.end <= len(self.text):
                raise InputError(
                    f"span {span.label!r} from {span.start} to {span.end} does not lie in a text of {len(self.text)} "
                    f"characters; spans count characters from 0 and end after their last one."
                )
        object.__setattr__(self, "spans", spans)

    def _check_tokens(self) -> None:
        before = 0
        for number, (start, end) in enumerate(self.tokens or ()):
            if not before <= start <= end <= len(self.text):
                raise InputError(
                    f"token {number} from {start} to {end} overlaps the one before it or does not lie in a text of "
                    f"{len(self.text)} characters; tokens count characters from 0, from left to right."
                )
            before = end


def joined(words: list[str], spaces: list[bool] | None = None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Text of some tokens and where each lies in it; ``spaces[i]``: a blank follows token i (by default, always)."""
    pieces: list[str] = []
    places, at = [], 0
    for i, word in enumerate(words):
        places.append((at, at + len(word)))
        blank = " " if i + 1 < len(words) and (spaces is None or spaces[i]) else ""
        pieces += [word, blank]
        at += len(word) + len(blank)
    return "".join(pieces), tuple(places)
