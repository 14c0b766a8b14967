"""What many words say by their letters, all of them at once: lower case, shapes, and which classes they cannot be in.

The definitions are those of single words (:func:`~rulefield.encode.tokens.bare`, :func:`~rulefield.encode.patterns.shape`).
Each is asked for every sign that is met, once; words are then described by arrays of code points. Words with one of the
few signs whose lower case depends on its neighbors are described by the definitions themselves.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.patterns import ALIKE_OTHERS, shape, short_shape
from rulefield.encode.tokens import bare

KNOWN, WORD, UPPER, LOWER, OTHER, VOWEL, ROMAN, ODD = (1 << k for k in range(8))
LONGEST_CASE = 20
"""Most changes of case, runs of three counted each, of a word whose classes are told by its case."""
_SIGN_OF_WORD = re.compile(r"\w")


class Spelled(NamedTuple):
    """Of each word: :func:`bare`, :func:`shape`, :func:`short_shape`, and its case.

    Words of the same case (a number >= 0; -1: with other signs than letters) are in the same classes, but for classes that
    list words (:data:`~rulefield.encode.patterns.LISTED_WORDS`).
    """

    low: list[str]
    shape: list[str]
    short: list[str]
    case: np.ndarray


class _Signs:
    """What each sign says, by code point; untouched parts of the tables take no memory."""

    def __init__(self) -> None:
        self.low, self.shape = np.zeros(0x110000, np.uint32), np.zeros(0x110000, np.uint32)
        self.marks = np.zeros(0x110000, np.uint8)

    def learn(self, points: np.ndarray) -> None:
        """Look at signs that are new."""
        for point in np.unique(points[self.marks[points] == 0]).tolist():
            sign = chr(point)
            low = sign.lower()
            odd = len(low) != 1 or sign == "Σ"
            self.low[point] = point if odd else ord(low)
            self.shape[point] = ord(shape(sign))
            word = WORD * (_SIGN_OF_WORD.match(sign) is not None)
            letter = _kind_of_letter(sign) + VOWEL * (low in set("aeiouy")) + ROMAN * (sign in set("IVXLC"))
            self.marks[point] = KNOWN + word + letter + ODD * odd


_SIGNS = _Signs()


def spelled(words: Sequence[str]) -> Spelled:
    """Describe words by their letters."""
    if not words:
        return Spelled([], [], [], np.zeros(0, np.int64))
    text = "\n".join([*words, ""])
    if text.count("\n") != len(words):
        return _one_by_one(words)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)) + 1) - 1
    starts = np.concatenate([[0], ends[:-1] + 1])
    _SIGNS.learn(points)
    marks, shapes = _SIGNS.marks[points], _SIGNS.shape[points]
    marks[ends] = 0
    inner = np.ones(len(points), bool)
    inner[ends] = False
    changed = np.ones(len(points), bool)
    changed[1:] = (shapes[1:] != shapes[:-1]) | ~inner[1:] | ~inner[:-1]
    low = _lines(_SIGNS.low[points][_middles(marks & WORD != 0, starts, ends, inner) | ~inner])
    made = Spelled(low, _lines(shapes), _lines(shapes[changed]), _cases(marks, starts, ends))
    for i in np.flatnonzero(np.bitwise_or.reduceat(marks, starts) & ODD).tolist():
        made.low[i], made.shape[i], made.short[i] = bare(words[i]), shape(words[i]), short_shape(words[i])
        made.case[i] = -1
    return made


def _one_by_one(words: Sequence[str]) -> Spelled:
    """Describe words of which some hold line ends."""
    cases = np.full(len(words), -1)
    return Spelled(list(map(bare, words)), list(map(shape, words)), list(map(short_shape, words)), cases)


def _kind_of_letter(sign: str) -> int:
    if sign.isascii():
        return UPPER * sign.isupper() + LOWER * sign.islower()
    return OTHER * (sign.isalpha() and sign not in ALIKE_OTHERS)


def _lines(points: np.ndarray) -> list[str]:
    """Strings of code points that a line end follows each."""
    return points.tobytes().decode("utf-32-le", "surrogatepass").split("\n")[:-1]


def _middles(word: np.ndarray, starts: np.ndarray, ends: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Signs from the first to the last one of ``word`` in each string; all signs where there is none."""
    places = np.arange(len(word))
    first = np.minimum.reduceat(np.where(word, places, len(word)), starts)
    last = np.maximum.reduceat(np.where(word, places, -1), starts)
    none = last < 0
    first, last = np.where(none, starts, first), np.where(none, ends, last)
    lengths = ends - starts + 1
    return inner & (places >= np.repeat(first, lengths)) & (places <= np.repeat(last, lengths))


def _cases(marks: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Give the number of each word's case: its runs of capitals, small and other letters, each of length 1, 2, or more.

    Further bits say whether there is a vowel and whether all letters are those of Roman numbers.
    """
    kind = (marks & UPPER != 0) + 2 * (marks & LOWER != 0) + 3 * (marks & OTHER != 0)
    again = np.zeros(len(kind), bool)
    again[3:] = (kind[3:] == kind[2:-1]) & (kind[3:] == kind[1:-2]) & (kind[3:] == kind[:-3]) & (kind[3:] > 0)
    kept = (kind > 0) & ~again
    rank = np.cumsum(kept)
    rank = rank - np.repeat(rank[starts] - kept[starts], ends - starts + 1) - 1
    code = np.add.reduceat(np.where(kept, kind << (2 * np.minimum(rank, LONGEST_CASE)), 0), starts)
    letters = np.add.reduceat(kind > 0, starts, dtype=np.int64)
    vowel = np.bitwise_or.reduceat(marks & VOWEL, starts) > 0
    roman = np.add.reduceat(marks & ROMAN > 0, starts, dtype=np.int64) == letters
    plain = (letters == ends - starts) & (letters > 0)
    plain &= np.maximum.reduceat(np.where(kept, rank, 0), starts) < LONGEST_CASE
    return np.where(plain, 4 * code + 2 * vowel + roman, -1)
