"""Many texts into tokens at once: compiled code for the tokenizers that it knows, one text after the other for others."""

import re
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from rulefield.data.cut_texts import CutTexts
from rulefield.encode.tokenizers import DASHES, DIGIT_JOINERS, JOINERS, SHORT, Tokenizer, Whitespace, Words
from rulefield.kernels import words
from rulefield.kernels.light import affordable

_SECONDS = 1e-6  # per sign, by regular expressions

_KINDS = {
    words.WORD: r"\w",
    words.DIGIT: r"\d",
    words.SPACE: r"\s",
    words.LETTER: r"[^\W\d_]",
    words.MARK: r"[\u0300-\u036f]",
    words.CAPITAL: r"[A-Z]",
    words.SMALL: r"[a-z]",
    words.JOINS: JOINERS,
    words.JOINS_DIGITS: DIGIT_JOINERS,
    words.STOP: r"[.]",
    words.COMMA: r",",
    words.DASH: DASHES,
}
"""What the bits of a sign say, as regular expressions."""


class _SignKinds:
    """Kinds of each sign by code point; those that were never met take no memory."""

    def __init__(self) -> None:
        self.patterns = [(bit, re.compile(pattern)) for bit, pattern in _KINDS.items()]
        self.kinds = np.zeros(0x110000, np.uint16)
        self._learn(range(128))

    def look_at(self, text: str) -> None:
        """Learn the signs of a text that are new."""
        if not text.isascii():
            points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
            self._learn(np.unique(points[self.kinds[points] == 0]).tolist())

    def _learn(self, points: Sequence[int]) -> None:
        for point in points:
            found = sum(bit for bit, pattern in self.patterns if pattern.match(chr(point)))
            self.kinds[point] = found | words.KNOWN


_kinds: list[_SignKinds] = []


def cut(tokenizer: Tokenizer, texts: list[str]) -> CutTexts:
    """Return the tokens of texts, as the tokenizer cuts them."""
    mode = _mode(tokenizer)
    if mode is None or affordable(_SECONDS * sum(map(len, texts))):
        return cut_places(texts, [tokenizer(text) for text in texts])
    joined = "".join(texts)
    if not _kinds:
        _kinds.append(_SignKinds())
    _kinds[0].look_at(joined)
    ends = _byte_ends(texts, joined)
    utf8 = _bytes(joined)
    begin, end = (np.empty(len(utf8), np.int64) for _ in range(2))
    start, stop = (np.empty(len(utf8), np.int32) for _ in range(2))
    lengths = np.empty(len(texts), np.int64)
    n = words.cut_texts(utf8, ends, _kinds[0].kinds, mode, _SHORT, begin, end, start, stop, lengths)
    return CutTexts(texts, utf8, begin[:n], end[:n], start[:n], stop[:n], lengths)


def cut_places(texts: list[str], places: Sequence[Sequence[tuple[int, int]]]) -> CutTexts:
    """Return texts with tokens whose places are known."""
    joined = "".join(texts)
    lengths = np.fromiter(map(len, places), np.int64, len(places))
    flat = np.array([place for row in places for place in row], np.int32).reshape(-1, 2)
    base = np.repeat(np.array([0, *accumulate(map(len, texts))][:-1], np.int64), lengths)
    first, last = base + flat[:, 0], base + flat[:, 1]
    if not joined.isascii():
        at = _byte_places(joined)
        first, last = at[first], at[last]
    start, stop = (np.ascontiguousarray(column) for column in flat.T)
    return CutTexts(texts, _bytes(joined), first, last, start, stop, lengths)


def _mode(tokenizer: Tokenizer) -> int | None:
    if type(tokenizer) is Words:
        return words.FINE if tokenizer.lower_split else words.WORDS
    return words.WHITESPACE if type(tokenizer) is Whitespace else None


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _byte_ends(texts: list[str], joined: str) -> np.ndarray:
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    return ends if joined.isascii() else _byte_places(joined)[ends]


def _byte_places(text: str) -> np.ndarray:
    """Return the first byte of each sign, and the number of all bytes."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    widths = 1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF)
    return np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])


def _codes(listed: Sequence[str]) -> np.ndarray:
    """Return short words of ASCII as numbers, eight bits a letter."""
    return np.array([int.from_bytes(word.encode(), "big") for word in listed], np.uint64)


_SHORT = _codes(SHORT)
