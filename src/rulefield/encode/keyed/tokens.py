"""Keys of the features that :class:`rulefield.TokenFeatures` describes, and their numbers in a vocabulary.

Distinct tokens and shapes are numbered once, and names of features are made once per key.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

import numpy as np

from rulefield.data.cut_texts import CutTexts
from rulefield.data.sequences import offsets_of
from rulefield.encode.patterns import shape, without_runs
from rulefield.encode.tokens import (
    Describer,
    TokenFeatures,
    bare,
    phrase_features,
    phrase_masks,
    position_features,
    word_of,
)
from rulefield.encode.vocabulary import SEPARATOR, Vocabulary
from rulefield.kernels import keys as codes
from rulefield.kernels.keys import FIELD, PAIR, SLOT, add_keys, fill_token_keys, gather_groups, number_keys
from rulefield.kernels.names import copy_pieces, letter_bounds

MOST_TYPES = (1 << FIELD) - 3
MOST_SLOTS = 127
LATTER = (1 << PAIR) - 1
"""The second of two numbers that one key holds."""


class Pieces(NamedTuple):
    """Bytes ``blob[begin[i] : end[i]]`` for each of n names."""

    blob: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    def where(self, present: np.ndarray | None) -> "Pieces":
        """Return the pieces of the names that there are (all for None)."""
        return self if present is None else Pieces(self.blob, self.begin[present], self.end[present])


class NamedFeature(NamedTuple):
    """A feature of n keys: which of them have it (None: all), and the pieces of its names."""

    present: np.ndarray | None
    pieces: list[Pieces]


class CrowdedError(Exception):
    """There are more distinct tokens than keys have room for: numbers must begin anew."""


class NumberedThings(dict[Any, int]):
    """Numbers of things, from 0, in the order in which they are first asked for."""

    def __missing__(self, thing: Any) -> int:
        number = self[thing] = len(self)
        return number

    def since(self, n: int) -> list[Any]:
        """Return the things with numbers from n on."""
        return list(islice(self, n, None))

    def forget(self, n: int) -> None:
        """Drop all numbers from n on."""
        for thing in self.since(n):
            del self[thing]


class TokenKeys:
    """Turns tokens into keys: one for the bias, one for each offset, one for neighbors taken together.

    Parameters
    ----------
    features : TokenFeatures
        Without lexicons and marks, which look at several tokens at once.
    """

    def __init__(self, features: TokenFeatures):
        self.describer: Describer = features._current()
        self.options = features
        self.slots = _slots(features)
        self._slot_arrays = (
            np.array([_WHAT[what] for what, _ in self.slots], np.int64),
            np.array([d for _, d in self.slots], np.int64),
        )
        self.number = NumberedThings()
        self._spellings, self._shapes = Vocabulary(), Vocabulary()
        self._lows, self._shorts = Vocabulary("<>"), Vocabulary("<>")
        self._kinds = NumberedThings()
        self._plain = np.zeros(0, np.int64)  # types of the plain tokens with these spellings; -1: not met as such
        self._word, self._low, self._shape, self._short, self._kind = (np.zeros(0, np.int64) for _ in range(5))
        self._begins, self._ends = (np.zeros(0, np.int64) for _ in range(2))

    @staticmethod
    def can(features: Any) -> bool:
        """Whether features can be encoded by keys."""
        if type(features) is not TokenFeatures or features.lexicons or features.marks:
            return False
        features._current()  # raises for bad parameters
        return len(_slots(features)) <= MOST_SLOTS

    def serves(self, features: Any) -> bool:
        """Whether the keys still describe these features: the same object with the same parameters."""
        return features is self.options and features._current() is self.describer

    def keys(self, X: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the keys of every token, uint64 (n_tokens, number of slots)."""
        if isinstance(X, CutTexts):
            offsets, types = X.offsets, self._types_of_texts(X)
        else:
            lengths = np.fromiter(map(len, X), np.int64, len(X))
            offsets, types = offsets_of(lengths), self._types(list(chain.from_iterable(X)), lengths)
        keys = np.empty((len(types), len(self.slots)), np.uint64)
        fill_token_keys(
            types, offsets, *self._slot_arrays, self._low, self._short, self._kind, self._begins, self._ends, keys
        )
        return keys

    def names(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the joined names of the features of each key, and how many each has."""
        return joined_names(len(keys), [(where, self._named(k, values)) for k, where, values in split_keys(keys)])

    def _named(self, slot: int, values: np.ndarray) -> list[NamedFeature]:
        """Features of keys of one slot."""
        (what, d), n = self.slots[slot], len(values)
        if what == "bias":
            return [NamedFeature(None, [literal("bias", n)])]
        if what == "token":
            return self._center(values)
        if what == "word":
            return self._word_at(d, values)
        if what == "kind":
            tell, kinds = self.describer.kind_at, list(self._kinds)
            return listed([tell(kinds[value - 1], d) if value else [] for value in values.tolist()])
        if what == "position":
            return listed([position_features(v // 9, v // 3 % 3, v % 3) for v in values.tolist()])
        if what == "phrases":
            return listed([phrase_features(value >> PAIR, value & LATTER) for value in values.tolist()])
        if what == "words":
            a, b = (stored(self._lows, part) for part in (values >> PAIR, values & LATTER))
            return [NamedFeature(None, [literal(f"{d}|{d + 1}=", n), a, literal("|", n), b])]
        a, b, c = (stored(self._shorts, (values >> (FIELD * k)) & ((1 << FIELD) - 1)) for k in (2, 1, 0))
        bar = literal("|", n)
        rows = (("-1|0:s=", a, bar, b), ("0|1:s=", b, bar, c), ("-1|0|1:s=", a, bar, b, bar, c))
        return [NamedFeature(None, [literal(prefix, n), *pieces]) for prefix, *pieces in rows]

    def _center(self, types: np.ndarray) -> list[NamedFeature]:
        """Return the features of tokens at offset 0."""
        options, n = self.options, len(types)
        low = stored(self._lows, self._low[types])
        rows: list[tuple[bool, str, Pieces]] = [
            (options.word, "0:w=", stored(self._spellings, self._word[types])),
            (options.lower, "0:l=", low),
            (options.shapes, "0:s=", stored(self._shorts, self._short[types])),
            (options.shapes, "0:S=", stored(self._shapes, self._shape[types])),
        ]
        features = [NamedFeature(None, [literal(prefix, n), pieces]) for wanted, prefix, pieces in rows if wanted]
        front, back = (np.empty((n, options.affixes), np.int64) for _ in range(2))
        letter_bounds(*low, front, back)
        for prefix, bounds in (("0:p=", front), ("0:x=", back)):
            for k in range(options.affixes):
                new = bounds[:, k] != (bounds[:, k - 1] if k else low.begin if bounds is front else low.end)
                affix = (
                    Pieces(low.blob, low.begin, bounds[:, k])
                    if bounds is front
                    else Pieces(low.blob, bounds[:, k], low.end)
                )
                features.append(NamedFeature(new, [literal(prefix, n), affix]))
        kinds, which = np.unique(self._kind[types], return_inverse=True)
        known = list(self._kinds)
        names = [self.describer.kind_at(("", *known[k][1:]), 0) for k in kinds.tolist()]
        return features + listed(names, which)

    def _word_at(self, d: int, values: np.ndarray) -> list[NamedFeature]:
        """Return the features of words at offset d; value 0 is outside the sequence, others are numbers plus one."""
        outside, prefix = values == 0, self.describer.word_prefix(d)
        features = [NamedFeature(outside, [literal(f"{d}:outside", len(values))])]
        if prefix:
            word = stored(self._lows, np.maximum(values - 1, 0))
            features.append(NamedFeature(~outside, [literal(prefix, len(values)), word]))
        return features

    def _types(self, flat: list[Any], lengths: np.ndarray) -> np.ndarray:
        """Numbers of distinct tokens; new ones are described."""
        n = len(self.number)
        try:
            types = np.fromiter(map(self.number.__getitem__, flat), np.int64, len(flat))
            if len(self.number) > MOST_TYPES:
                raise CrowdedError
            tokens = self.number.since(n) if len(self.number) > n else []
            if any(kind is not str for kind in set(map(type, tokens))):
                _check_words(flat, np.flatnonzero(types >= n).tolist(), lengths)
            if tokens:
                self._describe(tokens)
        except BaseException as failed:
            self.number.forget(n)
            if isinstance(failed, TypeError):  # unhashable, so not a token
                _check_words(flat, range(len(flat)), lengths)
            raise
        return types

    def _types_of_texts(self, X: CutTexts) -> np.ndarray:
        """Numbers of distinct tokens of texts; only new tokens become Python strings."""
        first, last = X.begin.view(np.uint64), X.end.view(np.uint64)
        spellings = self._spellings.number_spans(X.utf8, first, last, grow=True)
        if len(self._spellings) > len(self._plain):
            self._plain = _longer(self._plain, np.full(len(self._spellings) - len(self._plain), -1))
        types = self._plain[spellings]
        new = np.flatnonzero(types < 0)
        if len(new):
            numbers = np.unique(spellings[new])
            tokens = [self._spellings[number] for number in numbers.tolist()]
            self._plain[numbers] = self._types(tokens, np.array([len(tokens)]))
            types = self._plain[spellings]
        return types

    def _describe(self, tokens: list[Any]) -> None:
        words = [token if isinstance(token, str) else token[0] for token in tokens]
        classes = self.describer.classes
        low, shapes = list(map(bare, words)), list(map(shape, words))
        short = list(map(without_runs, shapes))
        listed = [tuple(classes(word)) for word in words] if classes is not None else repeat(())
        columns = (() if isinstance(token, str) else token[1:] for token in tokens)
        kinds = list(map(self._kinds.__getitem__, zip(short, listed, columns)))
        self._word = _longer(self._word, self._spellings.add(words))
        self._low = _longer(self._low, self._lows.add(low))
        self._shape = _longer(self._shape, self._shapes.add(shapes))
        self._short = _longer(self._short, self._shorts.add(short))
        self._kind = _longer(self._kind, kinds)
        masks = list(map(phrase_masks, low))
        self._begins = _longer(self._begins, [mask.begin for mask in masks])
        self._ends = _longer(self._ends, [mask.end for mask in masks])


_WHAT = {
    "bias": codes.BIAS,
    "token": codes.TOKEN,
    "word": codes.WORD,
    "kind": codes.KIND,
    "words": codes.WORD_PAIR,
    "shapes": codes.SHAPES,
    "phrases": codes.PHRASES,
    "position": codes.POSITION,
}


def _slots(features: TokenFeatures) -> list[tuple[str, int]]:
    """List what each slot describes, and its offset, in the order of the features."""
    width = features.window
    slots = [("bias", 0)]
    for d in range(-width, width + 1):
        slots += [("word", d), ("kind", d)] if d else [("token", 0)]
    if features.bigrams and width:
        slots += [("words", -1), ("words", 0)]
    if features.shapes and width:
        slots.append(("shapes", 0))
    if features.classes and width:
        slots.append(("phrases", 0))
    return [*slots, ("position", 0)] if features.position else slots


def split_keys(keys: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """For each slot: its number, the places of its keys, and their values, int64."""
    slots = (keys >> np.uint64(SLOT)).astype(np.int64)
    values = (keys & np.uint64((1 << SLOT) - 1)).astype(np.int64)
    for slot in np.unique(slots).tolist():
        where = np.flatnonzero(slots == slot)
        yield slot, where, values[where]


def _longer(array: np.ndarray, more: Any) -> np.ndarray:
    return np.concatenate([array, np.asarray(more, np.int64)])


def _check_words(flat: list[Any], places: Iterable[int], lengths: np.ndarray) -> None:
    """Raise for the first invalid token, with its position."""
    ends = np.cumsum(lengths)
    for place in places:
        sequence = int(np.searchsorted(ends, place, side="right"))
        word_of(flat[place], sequence, place - int(ends[sequence] - lengths[sequence]))


# --- names of many features at once, as bytes -------------------------------------------------------


def literal(text: str, n: int) -> Pieces:
    """Return the same text for n names."""
    data = _bytes(text)
    return Pieces(data, np.zeros(n, np.int64), np.full(n, len(data)))


def stored(strings: Vocabulary, numbers: np.ndarray) -> Pieces:
    """Return strings of a vocabulary by their numbers."""
    return Pieces(*strings.places(numbers))


def listed(rows: Sequence[Sequence[str]], which: np.ndarray | None = None) -> list[NamedFeature]:
    """Return features that are given as strings: the first of every key, the second, and so on.

    ``which`` is the row of strings of each key; None: there is one for each.
    """
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    encoded = [_bytes(name) for row in rows for name in row]
    blob = np.concatenate([np.zeros(0, np.uint8), *encoded])
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    begins = np.concatenate([[0], ends[:-1]])
    first, made = np.cumsum(counts) - counts, []
    if which is not None:
        counts, first = counts[which], first[which]
    for j in range(int(counts.max(initial=0))):
        present = counts > j
        places = np.where(present, first + j, 0)
        made.append(NamedFeature(present, [Pieces(blob, begins[places], ends[places])]))
    return made


def joined_names(
    n: int, groups: Sequence[tuple[np.ndarray, Sequence[NamedFeature]]]
) -> tuple[np.ndarray, np.ndarray]:
    """Write the names of all features of n keys, key by key, with a separator between two.

    ``groups`` holds keys that are alike: their places among the n, and their features in order. Returns the bytes, as
    :meth:`Vocabulary.number_joined` reads them, and the number of names of each key.
    """
    sizes = np.zeros(n, np.int64)
    for keys, features in groups:
        for present, _ in features:
            sizes[keys] += 1 if present is None else present
    first = np.cumsum(sizes) - sizes
    lengths = np.zeros(int(sizes.sum()), np.int64)
    plan: list[tuple[np.ndarray, Pieces]] = []
    for keys, features in groups:
        name = first[keys]
        for present, pieces in features:
            names = name if present is None else name[present]
            for piece in pieces:
                chosen = piece.where(present)
                lengths[names] += chosen.end - chosen.begin
                plan.append((names, chosen))
            name = name + (1 if present is None else present)
    cursor = np.cumsum(lengths + 1) - lengths - 1
    text = np.full(max(int(lengths.sum()) + len(lengths) - 1, 0), SEPARATOR)
    for names, (blob, begin, end) in plan:
        copy_pieces(text, cursor, names, blob, begin, end)
    return text, sizes


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


MOST_GROUPS = 3_000_000
PORTION = 200_000
"""Keys whose names are made at a time."""


class GroupNumbers:
    """Numbers in a vocabulary of the features of each key that was met.

    Rows of keys become rows of feature numbers without a string. New names are numbered in
    the order in which reading token by token meets them, so the vocabulary is the same as without keys.

    Parameters
    ----------
    vocabulary : Vocabulary
    source : TokenKeys
    """

    def __init__(self, vocabulary: Vocabulary, source: TokenKeys):
        self.vocabulary, self.source = vocabulary, source
        self._clear()

    def _clear(self) -> None:
        self._table = np.zeros(1 << 12, np.uint64)
        self._stop, self._members = np.zeros(1, np.uint64), np.zeros(0, np.int32)
        self._names = len(self.vocabulary)

    def __len__(self) -> int:
        return len(self._stop) - 1

    def encode(self, X: Sequence[Sequence[Any]], grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the features of all tokens, and how many each has; unknown features only count with ``grow``."""
        if self._names != len(self.vocabulary) or len(self) > MOST_GROUPS:
            self._clear()
        keys = self.source.keys(X)
        flat, groups = keys.ravel(), np.empty(keys.size, np.int32)
        position = 0
        fresh: list[np.ndarray] = []
        while position < len(flat):
            known = len(self) + sum(map(len, fresh))
            self._reserve(2 * known + 1024)
            new = np.empty(len(self._table) // 4 - known, np.uint64)
            position, n = number_keys(flat, np.uint64(position), self._table, np.uint64(known), groups, new)
            fresh.append(new[: int(n)])
        if any(map(len, fresh)):
            self._add(np.concatenate(fresh), grow)
        total = int((self._stop[groups + 1] - self._stop[groups]).sum())
        counts, out = np.empty(len(keys), np.int64), np.empty(total, np.int32)
        gather_groups(groups, np.uint64(keys.shape[1]), self._stop, self._members, counts, out)
        return out, counts

    def _add(self, new: np.ndarray, grow: bool) -> None:
        """Name the features of new keys, which have their numbers already, and number the features."""
        try:
            made = [self._numbered(new[i : i + PORTION], grow) for i in range(0, len(new), PORTION)]
        except BaseException:
            self._clear()
            raise
        if made:
            members, sizes = (np.concatenate(parts) for parts in zip(*made))
            ends = int(self._stop[-1]) + np.cumsum(sizes)
            self._stop = np.concatenate([self._stop, ends.astype(np.uint64)])
            self._members = np.concatenate([self._members, members])
            self._names = len(self.vocabulary)

    def _numbered(self, keys: np.ndarray, grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the features of keys that are known, and how many each key has."""
        text, sizes = self.source.names(keys)
        members = self.vocabulary.number_joined(text, int(sizes.sum()), grow)
        if len(members) and members.min() < 0:
            group, known = np.repeat(np.arange(len(sizes)), sizes), members >= 0
            sizes, members = np.bincount(group[known], minlength=len(sizes)), members[known]
        return members, sizes

    def _reserve(self, n: int) -> None:
        if 4 * n <= len(self._table):
            return
        old = self._table.reshape(-1, 2)
        old = old[old[:, 0] > 0]
        old = old[np.argsort(old[:, 1])]
        self._table = np.zeros(2 << (4 * n - 1).bit_length(), np.uint64)
        add_keys(old[:, 0] - np.uint64(1), np.uint64(0), self._table)
