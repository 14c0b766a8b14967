"""Labels of sequences as numbers, fully or partly known."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rulefield.data.sequences import _resolve, _strip_ellipsis, offsets_of
from rulefield.data.sparse_rows import ranges
from rulefield.exceptions import InputError


@dataclass(frozen=True, eq=False)
class Labels:
    """Label numbers of all tokens of all sequences, sequences one after the other.

    Parameters
    ----------
    ids : ndarray of int32, shape (n_tokens,)
        Number of the label; -1 where it is not exactly known.
    lengths : ndarray of int64, shape (n_sequences,)
    n_labels : int
    allowed : ndarray of uint8, shape (n_tokens, n_labels), or None
        1 for every label that the annotation leaves possible (a single 1 where ``ids`` is known). None when
        everything is known. A token without a 1 is an error.
    """

    ids: np.ndarray
    lengths: np.ndarray
    n_labels: int
    allowed: np.ndarray | None = None

    def __post_init__(self) -> None:
        ids = np.ascontiguousarray(self.ids, dtype=np.int32)
        lengths = np.ascontiguousarray(self.lengths, dtype=np.int64)
        if ids.ndim != 1 or int(lengths.sum()) != len(ids):
            raise InputError(f"{ids.size} labels do not fit lengths that add up to {int(lengths.sum())}.")
        if len(ids) and (ids.max() >= self.n_labels or ids.min() < -1):
            raise InputError(f"label numbers must be in -1..{self.n_labels - 1}; got {ids.min()}..{ids.max()}.")
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "allowed", self._checked_allowed(ids))

    def _checked_allowed(self, ids: np.ndarray) -> np.ndarray | None:
        if self.allowed is None:
            if (ids < 0).any():
                raise InputError("labels with unknown tokens (-1) need `allowed`, what is possible at each token.")
            return None
        allowed = np.ascontiguousarray(self.allowed, dtype=np.uint8)
        if allowed.shape != (len(ids), self.n_labels):
            raise InputError(
                f"allowed must have shape (n_tokens, n_labels) = ({len(ids)}, {self.n_labels}); got {allowed.shape}."
            )
        if not allowed.any(axis=1).all():
            token = int(np.flatnonzero(~allowed.any(axis=1))[0])
            raise InputError(f"token {token} allows no label at all; give None if nothing is known.")
        return allowed

    @property
    def is_partial(self) -> bool:
        """Whether some token's label is not exactly known."""
        return self.allowed is not None

    @cached_property
    def offsets(self) -> np.ndarray:
        """First token of each sequence, and the number of tokens, (n_sequences + 1,)."""
        return offsets_of(self.lengths)

    @property
    def shape(self) -> tuple[int]:
        """``(n_sequences,)``."""
        return (len(self.lengths),)

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator["Labels"]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> "Labels":
        if isinstance(key, tuple):
            key = _strip_ellipsis(key)
        first, last, picked = _resolve(key, len(self))
        if picked is None:
            rows: Any = slice(self.offsets[first], self.offsets[last])
            lengths = self.lengths[first:last]
        else:
            lengths = self.lengths[picked]
            rows = ranges(self.offsets[picked], lengths)
        ids = self.ids[rows]
        known = self.allowed is None or bool((ids >= 0).all())
        return Labels(ids, lengths, self.n_labels, None if known or self.allowed is None else self.allowed[rows])

    def renumbered(self, number: np.ndarray, n_labels: int) -> "Labels":
        """Return the same labels by other numbers: label i becomes ``number[i]`` of ``n_labels``.

        A token of which nothing is known stays one.
        """
        ids = np.concatenate([number, [-1]]).astype(np.int32)[self.ids]
        if self.allowed is None:
            return Labels(ids, self.lengths, n_labels)
        allowed = np.zeros((len(ids), n_labels), np.uint8)
        allowed[:, number] = self.allowed
        allowed[self.allowed.all(axis=1) & (self.ids < 0)] = 1
        return Labels(ids, self.lengths, n_labels, allowed)
