"""Keys of the features that :class:`rulefield.TokenFeatures` describes: distinct tokens and shapes are numbered once."""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, Generic, TypeVar

import numpy as np

from rulefield.encode.tokens import Describer, Kind, TokenFeatures, bare, position_features, word_of

SLOT = np.uint64(58)
"""Bits of a key below the number of its slot."""
FIELD = 19
"""Bits of each of the three things that a slot of neighbours stands for."""
MOST_TYPES = (1 << FIELD) - 3
Name = TypeVar("Name")
_BEFORE, _BEHIND = 0, 1  # numbers of what stands outside of a sequence


class TokenKeys:
    """Turns tokens into keys: for what is the same everywhere, for what stands at each offset, for neighbours together.

    Parameters
    ----------
    features : TokenFeatures
        Without lexicons and marks, which look at several tokens at once.
    """

    def __init__(self, features: TokenFeatures):
        self.describer: Describer = features._current()
        self.options = features
        self._forget()
        width = features.window
        self.places = _places(width)
        self.n_slots = 1 + len(self.places)
        self.bigrams_at = self._slot(features.bigrams and width > 0)
        self.shapes_at = self._slot(features.shapes and width > 0)
        self.position_at = self._slot(features.position)

    @staticmethod
    def can(features: Any) -> bool:
        """Whether features can be made by keys."""
        return type(features) is TokenFeatures and not features.lexicons and not features.marks

    def _slot(self, wanted: bool) -> int:
        if not wanted:
            return -1
        self.n_slots += 1
        return self.n_slots - 1

    def _forget(self) -> None:
        self.number: dict[Any, int] = {}
        self.tokens: list[Any] = []
        self._words: _Names[str] = _Names()
        self._shapes: _Names[str] = _Names()
        self._kinds: _Names[Kind] = _Names()
        self._low, self._shape, self._kind = (np.zeros(0, np.int64) for _ in range(3))

    def keys(self, X: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the keys of every token, uint64 (n_tokens, n_slots)."""
        lengths = np.fromiter(map(len, X), np.int64, len(X))
        types = self._types(list(chain.from_iterable(X)), lengths)
        ends = np.cumsum(lengths)
        before = np.arange(len(types)) - np.repeat(ends - lengths, lengths)
        behind = np.repeat(ends, lengths) - 1 - np.arange(len(types))
        made = np.zeros((len(types), self.n_slots), np.uint64)
        values = {"token": types, "word": self._low[types], "kind": self._kind[types]}
        for k, (d, what) in enumerate(self.places, 1):
            made[:, k] = _shifted(values[what] + 1, d, before, behind, 0, 0)
        for at, of in ((self.bigrams_at, self._low), (self.shapes_at, self._shape)):
            if at >= 0:
                made[:, at] = _threes(of[types] + 2, before, behind)
        if self.position_at >= 0:
            length = before + behind + 1
            made[:, self.position_at] = 9 * (3 * before // length) + 3 * np.minimum(before, 2) + np.minimum(behind, 2)
        return made + (np.arange(self.n_slots, dtype=np.uint64) << SLOT)

    def strings(self, keys: np.ndarray) -> list[list[str]]:
        """Return the features of each key."""
        slots, values = (
            (keys >> SLOT).astype(np.int64),
            (keys & ((np.uint64(1) << SLOT) - np.uint64(1))).astype(np.int64),
        )
        made: list[list[str]] = [[]] * len(keys)
        for slot in np.unique(slots).tolist():
            where = np.flatnonzero(slots == slot)
            for i, features in zip(where.tolist(), self._in_slot(slot, values[where].tolist())):
                made[i] = features
        return made

    def _in_slot(self, slot: int, values: list[int]) -> list[list[str]]:
        if slot == 0:
            return [["bias"]]
        if slot <= len(self.places):
            return self._said(*self.places[slot - 1], values)
        if slot == self.position_at:
            return [position_features(value // 9, value // 3 % 3, value % 3) for value in values]
        names = self._words if slot == self.bigrams_at else self._shapes
        tell = self.describer.word_pairs if slot == self.bigrams_at else self.describer.shape_pairs
        mask = (1 << FIELD) - 1
        return [tell(*(_named(names, (v >> (FIELD * k)) & mask) for k in (2, 1, 0))) for v in values]

    def _said(self, d: int, what: str, values: list[int]) -> list[list[str]]:
        """Return what tokens, words or kinds at offset d say; 0 is outside, others are numbers plus one."""
        if what == "token":
            tokens = [(self.tokens[value - 1], self._kinds.of(value - 1)) for value in values]
            return [self.describer.center(t, t if isinstance(t, str) else t[0], kind) for t, kind in tokens]
        if what == "word":
            names, outside, prefix = self._words.names, [f"{d}:outside"], self.describer.word_prefix(d)
            return [outside if value == 0 else [prefix + names[value - 1]] if prefix else [] for value in values]
        kinds = self._kinds.names
        return [self.describer.kind_at(kinds[value - 1], d) if value else [] for value in values]

    def _types(self, flat: list[Any], lengths: np.ndarray) -> np.ndarray:
        types = np.fromiter(map(self.number.get, flat, repeat(-1)), np.int64, len(flat))
        new = np.flatnonzero(types < 0)
        if len(new) == 0:
            return types
        if len(self.tokens) + len(new) > MOST_TYPES and self.tokens:
            raise CrowdedError
        for i in new.tolist():
            token = flat[i]
            number = self.number.get(token)
            if number is None:
                number = self.number[token] = self._added(token, i, lengths)
            types[i] = number
        self._low, self._shape, self._kind = (np.array(x.seen) for x in (self._words, self._shapes, self._kinds))
        return types

    def _added(self, token: Any, place: int, lengths: np.ndarray) -> int:
        word = token if isinstance(token, str) else _checked_word(token, place, lengths)
        kind = self.describer.kind(token, word)
        self.tokens.append(token)
        self._words.add(bare(word))
        self._shapes.add(kind[0])
        self._kinds.add(kind)
        return len(self.tokens) - 1


class CrowdedError(Exception):
    """There are more distinct tokens than keys have room for: numbers must begin anew."""


class _Names(Generic[Name]):
    """Numbers for names, from 0; ``seen`` are those of what was added, one after the other."""

    def __init__(self) -> None:
        self.number: dict[Name, int] = {}
        self.names: list[Name] = []
        self.seen: list[int] = []

    def of(self, i: int) -> Name:
        """Return what was added as the i-th."""
        return self.names[self.seen[i]]

    def add(self, name: Name) -> None:
        """Add a name that may be known."""
        number = self.number.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        self.seen.append(number)


def _named(names: _Names[str], key: int) -> str:
    """Return the name of a number plus two; 0 and 1 stand for what is outside of a sequence."""
    return "<" if key == _BEFORE else ">" if key == _BEHIND else names.names[key - 2]


def _places(width: int) -> list[tuple[int, str]]:
    """Offsets, and what is looked at there, in the order of the features: neighbours are words and kinds, apart."""
    around = [[(d, "word"), (d, "kind")] if d else [(0, "token")] for d in range(-width, width + 1)]
    return list(chain.from_iterable(around))


def _shifted(values: np.ndarray, d: int, before: np.ndarray, behind: np.ndarray, first: int, last: int) -> np.ndarray:
    """Values of the tokens ``d`` places away; ``first`` before and ``last`` behind the sequence."""
    if d == 0:
        return values
    moved = np.empty_like(values)
    if d < 0:
        moved[-d:] = values[:d]
        moved[before < -d] = first
    else:
        moved[:-d] = values[d:]
        moved[behind < d] = last
    return moved


def _threes(values: np.ndarray, before: np.ndarray, behind: np.ndarray) -> np.ndarray:
    a = _shifted(values, -1, before, behind, _BEFORE, _BEHIND)
    c = _shifted(values, 1, before, behind, _BEFORE, _BEHIND)
    return (a << (2 * FIELD)) | (values << FIELD) | c


def _checked_word(token: Any, place: int, lengths: np.ndarray) -> str:
    sequence = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
    return word_of(token, sequence, place - int(lengths[:sequence].sum()))
