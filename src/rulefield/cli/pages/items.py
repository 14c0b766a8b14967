"""The texts of a workbench: tokens, where they stand, and the fields that a person or a file gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulefield.cli.options import ReadOptions
from rulefield.cli.pages.report import read_labeled
from rulefield.cli.reading import read_texts, text_format
from rulefield.data.documents import Document, as_span, joined
from rulefield.encode.schemes import guess_scheme
from rulefield.encode.spans import spans
from rulefield.encode.tokenizers import as_tokenizer
from rulefield.exceptions import InputError
from rulefield.report.certainty import label_set
from rulefield.report.marks import word_of
from rulefield.report.study import scheme_of

Mark = tuple[int, int, str]
"""A field: its first character, the one after its last, its label."""


@dataclass
class Item:
    """One text of the data: its tokens, where they stand, its fields if known, whether a person corrected them."""

    text: str
    places: list[tuple[int, int]]
    tokens: list[Any]
    gold: list[Mark] | None = None
    corrected: bool = False
    document: Document | None = None
    """The text as it was read: its fields may nest, of which the page shows the outer ones."""

    @property
    def record(self) -> dict[str, Any]:
        """The text with its fields, as a line of the file of corrections."""
        return {"text": self.text, "label": [list(mark) for mark in self.gold or ()]}

    @property
    def labeled(self) -> Document:
        """The text with its fields, as training takes them."""
        if self.document is not None and not self.corrected:
            return self.document
        return Document(self.text, tuple(map(as_span, self.gold or ())))

    @property
    def shown_places(self) -> list[tuple[int, int]]:
        """Tokens as the page shows them: split where a gold field begins or ends inside one."""
        edges = sorted({edge for start, end, _ in self.gold or () for edge in (start, end)})
        return [piece for place in self.places for piece in _split(place, edges)]

    @property
    def is_cut_here(self) -> bool:
        """Whether the tokens are plain pieces of the text, so that training may split them."""
        return all(token == self.text[a:b] for token, (a, b) in zip(self.tokens, self.places))


def _split(place: tuple[int, int], edges: list[int]) -> list[tuple[int, int]]:
    inside = [place[0], *(edge for edge in edges if place[0] < edge < place[1]), place[1]]
    return list(zip(inside[:-1], inside[1:]))


def items_of(parser: Any, path: str, reading: ReadOptions | None = None) -> list[Item]:
    """Read the data of a workbench: token sequences for a plain model, texts in any format for a parser or no model yet."""
    reading = reading or ReadOptions()
    lines = path.lower().endswith((".txt", ".log"))
    if parser is None or lines or text_format(path, reading) is not None:
        return _text_items(parser, path, reading)
    try:
        tokens, labels = read_labeled(parser.model_, path, reading)
    except InputError:
        return _text_items(parser, path, reading)
    scheme = scheme_of(parser.model_) or str(guess_scheme(sorted(label_set(parser.model_))))
    return [_token_item(row, gold, scheme) for row, gold in zip(tokens, labels)]


def _token_item(row: Sequence[Any], gold: Sequence[Any], scheme: str | None) -> Item:
    text, places = joined([word_of(token) for token in row])
    item = Item(text, list(places), list(row))
    if gold and all(isinstance(label, str) for label in gold):
        segments = (s for s in spans(list(gold), scheme) if s.type != "O")
        item.gold = [(places[s.start][0], places[s.stop - 1][1], s.type) for s in segments]
    return item


def _text_items(parser: Any, path: str, reading: ReadOptions) -> list[Item]:
    tokenizer = as_tokenizer("words") if parser is None else parser._tokenizer
    items = []
    for document in read_texts(path, reading):
        places = list(tokenizer(document.text))
        item = Item(document.text, places, [document.text[a:b] for a, b in places])
        if document.spans is not None:
            item.gold, item.document = _outer([(s.start, s.end, s.label) for s in document.spans]), document
        items.append(item)
    return items


def _outer(marks: list[Mark]) -> list[Mark]:
    """Return the fields that lie in no other one: the page shows one level."""
    kept: list[Mark] = []
    for mark in sorted(marks, key=lambda m: (m[0], -m[1])):
        if not kept or mark[0] >= kept[-1][1]:
            kept.append(mark)
    return kept


def checked_marks(text: str, marks: Any) -> list[Mark]:
    """Return fields from left to right; they must lie in the text and not overlap."""
    if not isinstance(marks, list) or not all(map(_is_mark, marks)):
        raise InputError("spans must be a list of [first character, after the last character, label].")
    last = 0
    for start, end, kind in sorted(marks):
        if not last <= start < end <= len(text):
            raise InputError(
                f"a span from {start} to {end} does not lie in a text of {len(text)} characters, or overlaps another."
            )
        if not kind.strip() or kind == "O" or not _is_utf8(kind):
            raise InputError(
                f"a label must be a name other than 'O', in letters that UTF-8 can hold; got {kind!a:.40}."
            )
        last = end
    return [(start, end, kind) for start, end, kind in sorted(marks)]


def _is_mark(mark: Any) -> bool:
    return isinstance(mark, list | tuple) and [type(part) for part in mark] == [int, int, str]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
