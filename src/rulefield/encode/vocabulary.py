"""A set of strings with numbers, kept in flat arrays: no Python object per string."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.kernels.light import affordable
from rulefield.kernels.strings import LENGTH_BITS, fill_table, hash_spans, hash_strings, keep_known, number_strings

_LINE_END = np.uint8(10)
SEPARATOR = np.uint8(255)
"""Stands between joined names: UTF-8 never has it."""
_SECONDS = 2e-7  # per string that a dictionary holds or looks up
PORTION = 1_500
"""Groups that are joined at a time: it bounds the memory that a batch needs."""


class Vocabulary:
    """Strings numbered in the order in which they were first met.

    Strings are joined, and the joined bytes go through a hash table in compiled code; that takes some 40 ns per string,
    a third of what a dictionary and numpy take between them, and a tenth of a dictionary's memory.

    Parameters
    ----------
    names : iterable of str

    Notes
    -----
    ``blob`` holds the bytes (UTF-8) of all names; name j is ``blob[stop[j] : stop[j + 1]]``. A process that has loaded no
    kernel and asks little looks names up in a dictionary, and the hash table stays unmade.
    """

    def __init__(self, names: Iterable[str] = ()):
        self._count = np.zeros(1, dtype=np.uint64)
        self._blob = np.zeros(64, dtype=np.uint8)
        self._stop = np.zeros(17, dtype=np.uint64)
        self._table: np.ndarray | None = None
        self._index: dict[str, int] | None = None
        self.add(names)

    def __len__(self) -> int:
        return int(self._count[0])

    def __contains__(self, name: str) -> bool:
        return bool(self.find([name])[0] >= 0)

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no name {number}; there are {len(self)}.")
        first, last = int(self._stop[number]), int(self._stop[number + 1])
        return self._blob[first:last].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        stop = self._stop[: len(self) + 1].tolist()
        blob = self._blob[: stop[-1]].tobytes()
        return (blob[a:b].decode("utf-8", "surrogatepass") for a, b in zip(stop, stop[1:]))

    @property
    def names(self) -> list[str]:
        """All names, by number."""
        return list(self)

    def add(self, strings: Iterable[str]) -> np.ndarray:
        """Numbers of strings, int32; new ones get the next numbers."""
        return self.number([list(strings)], grow=True)

    def find(self, strings: Iterable[str]) -> np.ndarray:
        """Numbers of strings, int32; -1 for unknown ones."""
        return self.number([list(strings)], grow=False)

    def number(self, groups: Iterable[Collection[str]], grow: bool) -> np.ndarray:
        """Numbers of the strings of all groups (lists, tuples or sets), one after the other; -1 for unknown ones."""
        source = iter(groups)
        made = [np.zeros(0, np.int32)]
        while portion := list(islice(source, PORTION)):
            made.append(self._number(portion, sum(map(len, portion)), grow))
        return np.concatenate(made)

    def number_known(self, groups: Sequence[Collection[str]], grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the strings of some groups, unknown ones left out, and how many of each group there are.

        At most ``PORTION`` groups at a time are best: they stay in the cache.
        """
        counts = np.array(list(map(len, groups)), np.int64)
        ids = self._number(groups, int(counts.sum()), grow)
        return ids if grow else ids[: int(keep_known(ids, counts))], counts

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bytes of all names, and where those of the names with these numbers begin and end, int64."""
        return self._blob, self._stop[numbers].astype(np.int64), self._stop[numbers + 1].astype(np.int64)

    def joined(self) -> np.ndarray:
        """Return the bytes of all names, with a separator between two."""
        stop = self._stop[: len(self) + 1].astype(np.int64)
        text = np.full(max(int(stop[-1]) + len(self) - 1, 0), SEPARATOR)
        text[np.arange(int(stop[-1])) + np.repeat(np.arange(len(self)), np.diff(stop))] = self._blob[: int(stop[-1])]
        return text

    def number_joined(self, text: np.ndarray, count: int, grow: bool) -> np.ndarray:
        """Numbers of ``count`` strings given as :meth:`joined` gives them."""
        hashes, ends = np.empty(count, np.uint64), np.empty(count, np.uint64)
        text = text.view()
        text.flags.writeable = False  # as bytes are: one compiled form serves both
        if count == 0 or hash_strings(text, SEPARATOR, hashes, ends) != count:
            if count:
                raise InputError(f"names are damaged: there should be {count} of them.")
            return np.zeros(0, np.int32)
        return self._number_hashed(text, hashes, ends, grow)

    def number_spans(self, text: np.ndarray, begins: np.ndarray, ends: np.ndarray, grow: bool) -> np.ndarray:
        """Numbers of the strings ``text[begins[i] : ends[i]]`` (bytes, UTF-8; uint64)."""
        hashes = np.empty(len(ends), np.uint64)
        hash_spans(text, begins, ends, hashes)
        return self._number_hashed(text, hashes, ends, grow, begins)

    def drop_table(self) -> None:
        """Free the table that finds names, 16 bytes a slot, until names are looked up again."""
        self._table = None

    def _number(self, groups: Sequence[Collection[str]], count: int, grow: bool) -> np.ndarray:
        if self._table is None and affordable(_SECONDS * (count + (len(self) if self._index is None else 0))):
            return self._looked_up(list(chain.from_iterable(groups)), grow)
        return self._number_hashed(*_hashed(groups, count), grow)

    def _looked_up(self, strings: list[str], grow: bool) -> np.ndarray:
        """Numbers of strings by a dictionary."""
        index = self._index
        if index is None:
            index = self._index = {name: i for i, name in enumerate(self)}
        if not grow:
            return np.array([index.get(string, -1) for string in strings], dtype=np.int32)
        known = len(index)
        ids = np.array([index.setdefault(string, len(index)) for string in strings], dtype=np.int32)
        new = [string.encode("utf-8", "surrogatepass") for string in islice(index, known, None)]
        if new:
            ends = int(self._stop[known]) + np.cumsum([len(name) for name in new])
            self._blob = np.frombuffer(
                self._blob[: int(self._stop[known])].tobytes() + b"".join(new), np.uint8
            ).copy()
            self._stop = np.concatenate([self._stop[: known + 1], ends.astype(np.uint64)])
            self._count[0] = len(index)
        return ids

    def _number_hashed(
        self, text: np.ndarray, hashes: np.ndarray, ends: np.ndarray, grow: bool, begins: np.ndarray | None = None
    ) -> np.ndarray:
        """Numbers of hashed strings, which lie one behind the other with a sign between two if ``begins`` is None."""
        if begins is None:
            begins = np.concatenate([np.zeros(1, np.uint64), ends[:-1] + np.uint64(1)])
        if self._table is None:
            self._index = None
            self._resize(len(self))
        if grow:
            if len(text) >= 1 << LENGTH_BITS:
                raise InputError(f"feature names are too long: {len(text)} bytes in {len(hashes)} of them.")
            self._make_room(len(hashes), len(text))
        ids = np.empty(len(hashes), dtype=np.int32)
        number_strings(text, hashes, begins, ends, grow, self._table, self._blob, self._stop, self._count, ids)
        return ids

    def _make_room(self, n_strings: int, n_bytes: int) -> None:
        """Enlarge the arrays so that all strings of a batch could be new."""
        names, size = len(self) + n_strings, int(self._stop[len(self)]) + n_bytes
        if size > len(self._blob):
            self._blob = _enlarged(self._blob, size)
        if names + 1 > len(self._stop):
            self._stop = _enlarged(self._stop, names + 1)
        assert self._table is not None
        if 4 * names > len(self._table):
            self._resize(names)

    def _resize(self, names: int) -> None:
        """Make a table with at least two slots for each of so many names."""
        self._table = np.zeros(2 << max(4, (2 * names - 1).bit_length()), dtype=np.uint64)
        fill_table(self._blob, self._stop, self._count[0], self._table)

    def _set_names(self, blob: np.ndarray, stop: np.ndarray) -> None:
        """Take over distinct names as they are stored."""
        self._blob = np.ascontiguousarray(blob, dtype=np.uint8)
        self._stop = np.ascontiguousarray(stop, dtype=np.uint64)
        self._count = np.array([len(stop) - 1], dtype=np.uint64)
        self._table = self._index = None

    def __getstate__(self) -> dict[str, Any]:
        n = len(self)
        return {"blob": self._blob[: int(self._stop[n])].copy(), "stop": self._stop[: n + 1].copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set_names(state["blob"], state["stop"])


def _enlarged(array: np.ndarray, size: int) -> np.ndarray:
    made = np.zeros(max(size, len(array) + len(array) // 2), dtype=array.dtype)
    made[: len(array)] = array
    return made


def _hashed(groups: Sequence[Collection[str]], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the joined bytes of all ``count`` strings, the hash of each, and where each ends."""
    hashes, ends = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    text = "\n".join(map("\n".join, filter(None, groups))).encode("utf-8", "surrogatepass")
    data = np.frombuffer(text, dtype=np.uint8)
    if hash_strings(data, _LINE_END, hashes, ends) != count:  # a string holds a line end
        encoded = (string.encode("utf-8", "surrogatepass") for string in chain.from_iterable(groups))
        data = np.frombuffer(b"\xff".join(encoded), dtype=np.uint8)
        hash_strings(data, SEPARATOR, hashes, ends)
    return data, hashes, ends
