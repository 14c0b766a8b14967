"""Which (feature, label) pairs have a weight: a sparse table, and what it computes on feature rows."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rulefield.data.sparse_rows import is_ones, ranges
from rulefield.exceptions import InputError
from rulefield.forms import index, pointers
from rulefield.kernels.chain.train_features import (
    add_label_counts,
    add_row_gradient,
    add_scores,
    find_pairs,
    frequent_pairs,
    rows_by_feature,
)

CsrRows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Pointers, columns and values of rows; a single value is that of all entries."""


def csr_rows(matrix: Any, first: int, last: int) -> CsrRows:
    """Rows ``first`` to ``last`` of a CSR or dense matrix as (indptr, indices, values), as kernels read them.

    ``matrix`` is a csr_array, an ndarray, or the ``entries`` of Sequences. The entries of a sparse one are not copied; of
    a dense one only the rows asked for are.
    """
    if isinstance(matrix, np.ndarray):
        return _dense_rows(np.asarray(matrix[first:last], dtype=np.float64))
    indices = matrix.indices
    indices = indices.view(np.uint32) if indices.dtype == np.int32 else indices.astype(np.uint32)
    values = np.ones(1) if is_ones(matrix.data) else np.ascontiguousarray(matrix.data, dtype=np.float64)
    return matrix.indptr[first : last + 1].astype(np.uint64), indices, values


def _dense_rows(matrix: np.ndarray) -> CsrRows:
    row, column = np.nonzero(matrix)
    indptr = np.searchsorted(row, np.arange(len(matrix) + 1)).astype(np.uint64)
    return indptr, column.astype(np.uint32), matrix[row, column]


def every_value(rows: CsrRows) -> np.ndarray:
    """Values of all entries of rows."""
    return np.repeat(rows[2], len(rows[1])) if len(rows[2]) == 1 else rows[2]


def seen_pairs(
    rows: CsrRows, n_features: int, sets: tuple[np.ndarray, np.ndarray], n_labels: int, min_count: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``ptr`` and ``label`` as in :meth:`PairTable.seen`, and the number of rows of each pair, uint32 (n_pairs,)."""
    indptr, indices, _ = rows
    used = indices[int(indptr[0]) : int(indptr[-1])]
    by_ptr, by_row = rows_by_feature(indptr - indptr[0], used, n_features)
    return frequent_pairs(by_ptr, by_row, *sets, n_labels, np.uint64(min_count))


@dataclass(frozen=True)
class PairTable:
    """Sparse table of (feature, label) pairs that have a weight.

    Parameters
    ----------
    ptr : ndarray of uint64, shape (n_features + 1,)
    label : ndarray of uint32, shape (n_pairs,)
        The pairs of feature f are at ``ptr[f] : ptr[f + 1]``, labels ascending. A pair's position here is its
        position in the vector of weights.
    n_labels : int
    """

    ptr: Annotated[np.ndarray, pointers("features", into="pairs")]
    label: Annotated[np.ndarray, index("pairs", below="n_labels", rows="ptr")]
    n_labels: int

    @property
    def n_features(self) -> int:
        """Number of features, with or without weights."""
        return len(self.ptr) - 1

    def fits(self, n_features: int, n_labels: int) -> bool:
        """Whether the table is one of so many features and labels."""
        return (self.n_features, self.n_labels) == (n_features, n_labels)

    @property
    def n_pairs(self) -> int:
        """Number of weights."""
        return len(self.label)

    @classmethod
    def empty(cls, n_features: int, n_labels: int) -> "PairTable":
        """Table without any pair."""
        return cls(np.zeros(n_features + 1, np.uint64), np.zeros(0, np.uint32), n_labels)

    @classmethod
    def full(cls, n_features: int, n_labels: int, features: np.ndarray | None = None) -> "PairTable":
        """Table of every label for every feature (or for the features given by number)."""
        count = np.full(n_features, n_labels, np.uint64)
        if features is not None:
            count[:] = 0
            count[features] = n_labels
        ptr = np.concatenate([np.zeros(1, np.uint64), np.cumsum(count, dtype=np.uint64)])
        label = np.tile(np.arange(n_labels, dtype=np.uint32), int(ptr[-1]) // n_labels)
        return cls(ptr, label, n_labels)

    @classmethod
    def seen(
        cls, rows: CsrRows, n_features: int, sets: tuple[np.ndarray, np.ndarray], n_labels: int, min_count: int = 1
    ) -> "PairTable":
        """Pairs that occur in at least ``min_count`` rows.

        Parameters
        ----------
        rows : feature rows
        sets : (ptr, label)
            The labels that row t allows are ``label[ptr[t] : ptr[t + 1]]``.

        Notes
        -----
        O(entries x labels allowed + features x labels) time, O(entries) memory.
        """
        ptr, label, _ = seen_pairs(rows, n_features, sets, n_labels, min_count)
        return cls(ptr, label, n_labels)

    @property
    def counts(self) -> np.ndarray:
        """Number of labels that each feature has weights for, int64 (n_features,)."""
        return np.diff(self.ptr.astype(np.int64))

    @classmethod
    def of_keys(cls, keys: np.ndarray, n_features: int, n_labels: int) -> "PairTable":
        """Table of the pairs feature * n_labels + label, ascending."""
        counts = np.bincount(keys // n_labels, minlength=n_features)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
        return cls(ptr, (keys % n_labels).astype(np.uint32), n_labels)

    def restricted(self, columns: np.ndarray) -> tuple["PairTable", np.ndarray]:
        """Give the table of the features ``columns``, numbered anew, and where each of its pairs stands here."""
        starts = self.ptr[columns].astype(np.int64)
        counts = self.ptr[columns + 1].astype(np.int64) - starts
        place = ranges(starts, counts)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
        return PairTable(ptr, self.label[place], self.n_labels), place

    def grown(self, other: "PairTable", columns: np.ndarray, n_features: int) -> tuple["PairTable", np.ndarray]:
        """Add the pairs of ``other``, whose features are ``columns`` here (ascending), to a table of ``n_features``.

        Returns the table, and before which of the old pairs each new one stands (ascending). Beyond copies of the arrays
        it costs O(pairs of ``other``).
        """
        feature, label = np.repeat(columns, other.counts).astype(np.uint64), other.label
        place, found = np.empty(len(label), np.int64), np.empty(len(label), bool)
        find_pairs(self.ptr, self.label, feature, label, place, found)
        place, feature, label = place[~found], feature[~found], label[~found]
        more = np.zeros(n_features + 1, np.uint64)
        np.add.at(more, feature + np.uint64(1), np.uint64(1))
        ptr = np.cumsum(more, out=more)
        ptr[: len(self.ptr)] += self.ptr
        ptr[len(self.ptr) :] += np.uint64(self.n_pairs)
        return PairTable(ptr, np.insert(self.label, place, label), self.n_labels), place

    def of_features(self, keep: np.ndarray) -> "PairTable":
        """Return the pairs of the features marked in ``keep``, bool (n_features,)."""
        ptr = np.concatenate([[0], np.cumsum(np.where(keep, self.counts, 0))]).astype(np.uint64)
        return PairTable(ptr, self.label[np.repeat(keep, self.counts)], self.n_labels)

    def scores(self, rows: CsrRows, weights: np.ndarray) -> np.ndarray:
        """Score of every label in every row, (n_rows, n_labels); O(sum of pairs of the entries)."""
        out = np.zeros((max(len(rows[0]) - 1, 0), self.n_labels))
        add_scores(*rows, self.ptr, self.label, weights, out)
        return out

    def add_gradient(self, rows: CsrRows, row_gradient: np.ndarray, weights: np.ndarray) -> None:
        """Add the pullback of ``row_gradient`` (n_rows, n_labels) to ``weights``, in place."""
        add_row_gradient(*rows, self.ptr, self.label, np.ascontiguousarray(row_gradient, np.float64), weights)

    def add_counts(self, rows: CsrRows, labels: np.ndarray, scale: float | np.ndarray, weights: np.ndarray) -> None:
        """Add ``scale`` x the features of rows labeled ``labels`` (n_rows,) to ``weights``, in place, sparsely.

        ``scale`` is one number or one per row. A label of ``n_labels`` or more counts for nothing.
        """
        scales = np.ascontiguousarray(np.broadcast_to(np.asarray(scale, np.float64), labels.shape))
        add_label_counts(*rows, self.ptr, self.label, labels.astype(np.uint32), scales, weights)

    def check(self, n_columns: int) -> None:
        """Raise where feature rows have another number of columns than this table."""
        if n_columns != self.n_features:
            raise InputError(
                f"the data has {n_columns} features, but the model was built for {self.n_features}; encode it with "
                "the encoder that the model was trained with."
            )
