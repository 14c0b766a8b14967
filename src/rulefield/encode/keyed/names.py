"""Names of many features at once, as bytes: a name is a few pieces of strings that are stored already."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.vocabulary import SEPARATOR, Vocabulary
from rulefield.kernels.names import copy_pieces


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
