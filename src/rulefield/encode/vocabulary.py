"""A set of strings with numbers, kept in flat arrays: no Python object a string."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from rulefield.data.sequences import ranges
from rulefield.kernels.strings import number_strings, refill

_SEPARATOR = "\n"
_PORTION = 250_000  # strings that are joined at a time: it bounds the memory that a batch needs


class Vocabulary:
    """Strings numbered in the order in which they were first met.

    Strings are joined, and the joined bytes go through a hash table in compiled code; that takes some 40 ns a string,
    a third of what a dictionary and numpy take between them, and a tenth of a dictionary's memory.

    Parameters
    ----------
    names : iterable of str

    Notes
    -----
    ``blob`` holds the bytes (UTF-8) of all names; name j is ``blob[stop[j] : stop[j + 1]]``.
    """

    def __init__(self, names: Iterable[str] = ()):
        self._count = np.zeros(1, dtype=np.uint64)
        self._blob = np.zeros(64, dtype=np.uint8)
        self._stop = np.zeros(17, dtype=np.uint64)
        self._hashes = np.zeros(32, dtype=np.uint64)
        self._numbers = np.full(32, -1, dtype=np.int32)
        self.add(names)

    def __len__(self) -> int:
        return int(self._count[0])

    def __contains__(self, name: str) -> bool:
        return bool(self.find([name])[0] >= 0)

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
        return self._all(strings, grow=True)

    def find(self, strings: Iterable[str]) -> np.ndarray:
        """Numbers of strings, int32; -1 for unknown ones."""
        return self._all(strings, grow=False)

    def keep(self, mask: np.ndarray) -> "Vocabulary":
        """Give the vocabulary of the names where ``mask`` (n,) is true, in the same order."""
        stop = self._stop[: len(self) + 1].astype(np.int64)
        sizes = np.diff(stop)[mask]
        text = self._blob[ranges(stop[:-1][mask], sizes)]
        last = np.cumsum(sizes)
        kept = Vocabulary()
        kept._number(text, last - sizes, last, grow=True)
        return kept

    def _all(self, strings: Iterable[str], grow: bool) -> np.ndarray:
        source = iter(strings)
        made = []
        while portion := list(islice(source, _PORTION)):
            made.append(self._number(*_joined(portion), grow))
        return made[0] if len(made) == 1 else np.concatenate([np.zeros(0, np.int32), *made])

    def _number(self, text: np.ndarray, first: np.ndarray, last: np.ndarray, grow: bool) -> np.ndarray:
        if grow:
            self._make_room(len(first), len(text))
        text = text.view()
        text.flags.writeable = False
        ids = np.empty(len(first), dtype=np.int32)
        table = (self._hashes, self._numbers, self._blob, self._stop, self._count)
        number_strings(text, first.astype(np.uint64), last.astype(np.uint64), grow, *table, ids)
        return ids

    def _make_room(self, n_strings: int, n_bytes: int) -> None:
        """Enlarge the arrays so that all strings of a batch could be new."""
        names, size = len(self) + n_strings, int(self._stop[len(self)]) + n_bytes
        if size > len(self._blob):
            self._blob = _enlarged(self._blob, size)
        if names + 1 > len(self._stop):
            self._stop = _enlarged(self._stop, names + 1)
        if 2 * names > len(self._hashes):
            slots = 1 << (2 * names - 1).bit_length()
            hashes, numbers = np.zeros(slots, dtype=np.uint64), np.full(slots, -1, dtype=np.int32)
            refill(self._hashes, self._numbers, hashes, numbers)
            self._hashes, self._numbers = hashes, numbers

    def __getstate__(self) -> dict[str, Any]:
        n = len(self)
        return {"blob": self._blob[: int(self._stop[n])].copy(), "stop": self._stop[: n + 1].copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stop = state["stop"].astype(np.int64)
        self.__init__()  # type: ignore[misc]
        self._number(state["blob"], stop[:-1], stop[1:], grow=True)


def _enlarged(array: np.ndarray, size: int) -> np.ndarray:
    made = np.zeros(max(size, len(array) + len(array) // 2), dtype=array.dtype)
    made[: len(array)] = array
    return made


def _joined(strings: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes of all strings, and where each begins and ends."""
    text = np.frombuffer(_SEPARATOR.join(strings).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    ends = np.flatnonzero(text == ord(_SEPARATOR))
    if len(ends) != len(strings) - 1:  # a string holds a line end
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        last = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return text, np.concatenate([[0], last[:-1]]), last
    return text, np.concatenate([[0], ends + 1]), np.append(ends, len(text))
