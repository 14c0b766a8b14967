"""Texts cut into tokens, as arrays: strings of tokens are made when somebody looks at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from rulefield.data.sequences import offsets_of


@dataclass(frozen=True, eq=False)
class CutTexts(Sequence[list[str]]):
    """Tokens of texts: a sequence of lists of strings to whoever indexes it.

    Parameters
    ----------
    texts : list of str
    utf8 : ndarray of uint8
        Bytes of all texts, one behind the other.
    begin, end : ndarray of int64, shape (n_tokens,)
        Bytes of each token.
    start, stop : ndarray of int32, shape (n_tokens,)
        Signs of each token, within its text.
    lengths : ndarray of int64, shape (n_texts,)
        Tokens of each text.
    """

    texts: list[str]
    utf8: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    lengths: np.ndarray

    @cached_property
    def offsets(self) -> np.ndarray:
        """Return the first token of each text, and the number of all, (n_texts + 1,)."""
        return offsets_of(self.lengths)

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, i: int) -> list[str]: ...

    @overload
    def __getitem__(self, i: slice) -> "CutTexts": ...

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self._part(i)
        text = self.texts[i]
        return [text[a:b] for a, b in self.places(i)]

    def _part(self, rows: slice) -> "CutTexts":
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("texts that are cut are sliced without a step.")
        tokens = slice(int(self.offsets[first]), int(self.offsets[max(first, last)]))
        begin, end, start, stop = (part[tokens] for part in (self.begin, self.end, self.start, self.stop))
        return CutTexts(self.texts[rows], self.utf8, begin, end, start, stop, self.lengths[rows])

    def places(self, i: int) -> list[tuple[int, int]]:
        """Return (start, stop) of each token of text i."""
        row = range(len(self))[i]
        tokens = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        return list(zip(self.start[tokens].tolist(), self.stop[tokens].tolist()))
