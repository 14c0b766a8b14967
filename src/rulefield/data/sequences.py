"""Sequences of feature vectors: one matrix of tokens, and where each sequence ends."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rulefield.data.limits import WAY_OUT, usable
from rulefield.exceptions import InputError


@dataclass(frozen=True, eq=False)
class Sequences:
    """Features of all tokens of all sequences, one row per token, sequences one after the other.

    It behaves as a 1-D container of sequences: ``len(X)`` counts sequences, ``X[3]``, ``X[2:9]``, ``X[[0, 4]]``
    and ``X[mask]`` give the :class:`Sequences` of those, so that scikit-learn's splitters and searches work on it.

    Parameters
    ----------
    matrix : csr_array, or ndarray of float64, shape (n_tokens, n_features)
        Anything that converts to one of these without loss; kept without a copy where it already is one.
        Sparse data are float64 with int32 ``indices`` and ``indptr``; where all are 1, as for lists of features, they
        may be :func:`ones`.
    lengths : ndarray of int64, shape (n_sequences,)
        Tokens in each sequence; they add up to ``n_tokens``. Zero is allowed (an empty sequence).
    scores : ndarray of float64, shape (n_tokens, n_labels), optional
        Log-scores of labels from elsewhere, which a chain adds to its own (see :class:`rulefield.Scored`).
    """

    matrix: Any
    lengths: np.ndarray
    scores: np.ndarray | None = None

    def __post_init__(self) -> None:
        lengths = _as_lengths(self.lengths)
        matrix = _as_matrix(self.matrix)
        total = int(lengths.sum())
        if total != matrix.shape[0]:
            raise InputError(
                f"lengths must add up to the number of rows of the matrix ({matrix.shape[0]}); "
                f"got {len(lengths)} lengths that add up to {total}."
            )
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "lengths", lengths)
        if self.scores is not None and len(self.scores) != total:
            raise InputError(f"scores must have one row per token ({total}); got {len(self.scores)}.")

    @classmethod
    def _trusted(cls, matrix: Any, lengths: np.ndarray, scores: np.ndarray | None = None) -> "Sequences":
        """Make an object from parts that are known to be right (slices of a checked one)."""
        made = object.__new__(cls)
        object.__setattr__(made, "matrix", matrix)
        object.__setattr__(made, "lengths", lengths)
        object.__setattr__(made, "scores", scores)
        return made

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of each sequence, and the number of rows, (n_sequences + 1,)."""
        return offsets_of(self.lengths)

    @property
    def is_sparse(self) -> bool:
        """Whether ``matrix`` is a csr_array."""
        return sp.issparse(self.matrix)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences."""
        return int(self.matrix.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of ``matrix``."""
        return int(self.matrix.shape[1])

    @property
    def shape(self) -> tuple[int]:
        """``(n_sequences,)``: to scikit-learn a sequence is a sample."""
        return (len(self.lengths),)

    @property
    def empty(self) -> np.ndarray:
        """Numbers of the sequences without tokens."""
        return np.flatnonzero(self.lengths == 0)

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator["Sequences"]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> "Sequences":
        if isinstance(key, tuple):  # scikit-learn indexes with (key, ...)
            key = _strip_ellipsis(key)
        first, last, picked = _resolve(key, len(self))
        if picked is None:
            rows: Any = slice(self.offsets[first], self.offsets[last])
            return self._rows(rows, self.lengths[first:last])
        lengths = self.lengths[picked]
        rows = ranges(self.offsets[picked], lengths)
        return self._rows(rows, lengths)

    def _rows(self, rows: Any, lengths: np.ndarray) -> "Sequences":
        scores = None if self.scores is None else np.ascontiguousarray(self.scores[rows])
        return Sequences._trusted(_take_rows(self.matrix, rows), lengths, scores)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"Sequences({len(self)} sequences, {self.n_tokens} tokens, {self.n_features} {kind} features)"


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the running total of lengths, from 0: (n + 1,) int64."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def pointers32(ends: np.ndarray) -> np.ndarray:
    """Return 0 and the running totals ``ends`` as the int32 pointers of a csr_array; refuse more than they can count."""
    total = int(ends[-1]) if len(ends) else 0
    _check_entries(total)
    pointers = np.zeros(len(ends) + 1, dtype=np.int32)
    pointers[1:] = ends
    return pointers


def _check_entries(total: int) -> None:
    most = np.iinfo(np.int32).max
    if total > most:
        raise InputError(
            f"one Sequences holds at most {most} features of tokens; got {total}: write a corpus with "
            "rf.write_corpus and fit that."
        )


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(start, start + length)`` over all pairs, without a Python loop."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def _strip_ellipsis(key: tuple) -> Any:
    if len(key) == 2 and key[1] is Ellipsis:
        return key[0]
    raise IndexError(f"Sequences has one axis, its sequences; it cannot be indexed with {key!r}.")


def _resolve(key: Any, n: int) -> tuple[int, int, np.ndarray | None]:
    """Turn an index into a contiguous range (first, last, None) or (0, 0, sequence numbers)."""
    if isinstance(key, (int, np.integer)):
        i = int(key) + (n if key < 0 else 0)
        if not 0 <= i < n:
            raise IndexError(f"sequence {int(key)} does not exist; there are {n}.")
        return i, i + 1, None
    if isinstance(key, slice):
        first, last, step = key.indices(n)
        if step == 1:
            return first, max(first, last), None
        return 0, 0, np.arange(first, last, step)
    picked = np.asarray(key)
    if picked.dtype == bool:
        if picked.shape != (n,):
            raise IndexError(f"a boolean index must have shape ({n},), one entry per sequence; got {picked.shape}.")
        return 0, 0, np.flatnonzero(picked)
    picked = picked.astype(np.int64) if picked.size == 0 else picked
    if picked.ndim != 1 or not np.issubdtype(picked.dtype, np.integer):
        raise IndexError(f"index sequences with an int, a slice, a 1-D int array or a mask; got {key!r}.")
    picked = np.where(picked < 0, picked + n, picked)
    if picked.size and (picked.min() < 0 or picked.max() >= n):
        raise IndexError(f"a sequence number is outside 0..{n - 1}: {picked.min()}..{picked.max()}.")
    return 0, 0, picked


def ones(n: int) -> np.ndarray:
    """Return n ones in the room of one: values of a matrix that only says which features a token has."""
    return np.broadcast_to(np.float64(1.0), (n,))


def is_ones(values: np.ndarray) -> bool:
    """Whether values come from :func:`ones`."""
    return values.strides == (0,)


def _take_rows(matrix: Any, rows: Any) -> Any:
    if sp.issparse(matrix) and is_ones(matrix.data):  # scipy would write all the ones down
        indices, indptr = _taken_pattern(matrix, rows)
        return sp.csr_array((ones(len(indices)), indices, indptr), shape=(len(indptr) - 1, matrix.shape[1]))
    taken = matrix[rows]
    if sp.issparse(taken):
        return _narrow(taken)
    return np.ascontiguousarray(taken)


def _taken_pattern(matrix: sp.csr_array, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and pointers of some rows."""
    if isinstance(rows, slice):
        indptr = matrix.indptr[rows.start : rows.stop + 1]
        return matrix.indices[indptr[0] : indptr[-1]], indptr - indptr[0]
    starts = matrix.indptr[rows].astype(np.int64)
    counts = matrix.indptr[rows + 1] - starts
    return matrix.indices[ranges(starts, counts)], pointers32(np.cumsum(counts))


def _narrow(matrix: Any) -> sp.csr_array:
    """Give a csr_array int32 indices (scipy may return int64)."""
    if matrix.indices.dtype == np.int32 and matrix.indptr.dtype == np.int32:
        return matrix
    _check_entries(max(matrix.nnz, matrix.shape[1]))
    parts = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    return sp.csr_array(parts, shape=matrix.shape)


def _as_lengths(lengths: Any) -> np.ndarray:
    array = np.asarray(lengths)
    if array.size == 0:
        array = np.zeros(0, dtype=np.int64)
    if array.ndim != 1:
        raise InputError(f"lengths must be a 1-D list, one number per sequence; got shape {array.shape}.")
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"lengths must be whole numbers; got values of type {array.dtype}.")
    if (array < 0).any():
        bad = int(np.flatnonzero(array < 0)[0])
        raise InputError(f"lengths must not be negative; sequence {bad} has length {array[bad]}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _as_matrix(matrix: Any) -> Any:
    if sp.issparse(matrix):
        if matrix.ndim != 2:
            raise InputError(f"the feature matrix must be 2-D (n_tokens, n_features); got {matrix.ndim} dimensions.")
        result = _narrow(sp.csr_array(matrix, dtype=np.float64))
        if not is_ones(result.data):
            _check_finite(result.data, lambda i: _csr_place(result, i))
        return result
    try:
        dense = np.ascontiguousarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the feature matrix must be numeric, sparse or dense; got {type(matrix).__name__}."
        ) from error
    if dense.ndim != 2:
        raise InputError(f"the feature matrix must be 2-D (n_tokens, n_features); got shape {dense.shape}.")
    _check_finite(dense.ravel(), lambda i: divmod(i, dense.shape[1]))
    return dense


def _csr_place(matrix: sp.csr_array, entry: int) -> tuple[int, int]:
    row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
    return row, int(matrix.indices[entry])


def _check_finite(values: np.ndarray, place: Any) -> None:
    if (good := usable(values)).all():
        return
    entry = int(np.flatnonzero(~good)[0])
    row, column = place(entry)
    raise InputError(f"features {WAY_OUT}; row {row}, column {column} is {values[entry]}.")
