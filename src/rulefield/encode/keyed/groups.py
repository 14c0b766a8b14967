"""Groups of features by integer key, numbered in a vocabulary: names are made once per key."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulefield.encode.keyed.tokens import TokenKeys
from rulefield.encode.vocabulary import Vocabulary
from rulefield.kernels.keys import add_keys, gather_groups, number_keys

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
        self._clear(grow=True)

    def _clear(self, grow: bool) -> None:
        self._table = np.zeros(1 << 12, np.uint64)
        self._stop, self._members = np.zeros(1, np.uint64), np.zeros(0, np.int32)
        self._names, self._grown = len(self.vocabulary), grow

    def __len__(self) -> int:
        return len(self._stop) - 1

    def encode(self, X: Sequence[Sequence[Any]], grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the features of all tokens, and how many each has; unknown features only count with ``grow``."""
        if self._names != len(self.vocabulary) or (grow and not self._grown) or len(self) > MOST_GROUPS:
            self._clear(grow)
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
            self._clear(grow)
            raise
        if made:
            members, sizes = (np.concatenate(parts) for parts in zip(*made))
            ends = int(self._stop[-1]) + np.cumsum(sizes)
            self._stop = np.concatenate([self._stop, ends.astype(np.uint64)])
            self._members = np.concatenate([self._members, members])
            self._names, self._grown = len(self.vocabulary), self._grown and grow

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
