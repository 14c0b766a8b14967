"""Sequences of feature vectors and their labels: arrays of all tokens, and where each sequence ends."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulefield.data.limits import WAY_OUT, usable
from rulefield.exceptions import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, init=False)
class Sequences:
    """Features of all tokens of all sequences, one row per token, sequences one after the other.

    It behaves as a 1-D container of sequences: ``len(X)`` counts sequences, ``X[3]``, ``X[2:9]``, ``X[[0, 4]]``
    and ``X[mask]`` give the :class:`Sequences` of those, so that scikit-learn's splitters and searches work on it.

    Parameters
    ----------
    matrix : csr_array, or ndarray of float64, shape (n_tokens, n_features)
        Anything that converts to one of these without loss; kept without a copy where it already is one.
        Sparse data are float64 with int32 ``indices`` and ``indptr``; if all are 1, as for lists of features, they
        may be :func:`rulefield.data.sequences.ones`.
    lengths : ndarray of int64, shape (n_sequences,)
        Tokens in each sequence; they add up to ``n_tokens``. Zero is allowed (an empty sequence).
    scores : ndarray of float64, shape (n_tokens, n_labels), optional
        Log-scores of labels from elsewhere, which a chain adds to its own (see :class:`rulefield.Scored`).
    """

    entries: Any  # ndarray, csr_array or SparseRows: what kernels read
    lengths: np.ndarray
    scores: np.ndarray | None

    def __init__(self, matrix: Any, lengths: Any, scores: np.ndarray | None = None):
        lengths = _as_lengths(lengths)
        entries = _as_entries(matrix)
        total = int(lengths.sum())
        if total != entries.shape[0]:
            raise InputError(
                f"lengths must add up to the number of rows of the matrix ({entries.shape[0]}); "
                f"got {len(lengths)} lengths that add up to {total}."
            )
        if scores is not None and len(scores) != total:
            raise InputError(f"scores must have one row per token ({total}); got {len(scores)}.")
        self._keep(entries, lengths, scores)

    def _keep(self, entries: Any, lengths: np.ndarray, scores: np.ndarray | None) -> None:
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "scores", scores)

    @classmethod
    def _trusted(cls, entries: Any, lengths: np.ndarray, scores: np.ndarray | None = None) -> "Sequences":
        """Make an object from parts that are known to be right (slices of a checked one)."""
        made = object.__new__(cls)
        made._keep(entries, lengths, scores)
        return made

    @cached_property
    def matrix(self) -> Any:
        """Features of all tokens, a csr_array or an ndarray, (n_tokens, n_features)."""
        return self.entries.as_csr() if isinstance(self.entries, SparseRows) else self.entries

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of each sequence, and the number of rows, (n_sequences + 1,)."""
        return offsets_of(self.lengths)

    @property
    def is_sparse(self) -> bool:
        """Whether ``matrix`` is a csr_array."""
        return not isinstance(self.entries, np.ndarray)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences."""
        return int(self.entries.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of ``matrix``."""
        return int(self.entries.shape[1])

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
        taken = taken_rows(self.entries, rows) if self.is_sparse else np.ascontiguousarray(self.entries[rows])
        return Sequences._trusted(taken, lengths, scores)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"Sequences({len(self)} sequences, {self.n_tokens} tokens, {self.n_features} {kind} features)"


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the running total of lengths, from 0: (n + 1,) int64."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


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


def _as_entries(matrix: Any) -> Any:
    if isinstance(matrix, SparseRows) or is_sparse(matrix):
        rows = matrix if isinstance(matrix, SparseRows) else _as_csr(matrix)
        if not is_ones(rows.data):
            _check_finite(rows.data, lambda i: _csr_place(rows, i))
        return rows
    try:
        dense = np.ascontiguousarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"the feature matrix must be numeric, sparse or dense; got {type(matrix).__name__}."
        ) from error
    if dense.ndim != 2:
        raise InputError(f"the feature matrix must be 2-D (n_tokens, n_features); got shape {dense.shape}.")
    _check_finite(dense.ravel(), lambda i: divmod(i, dense.shape[1]))
    return dense


def _as_csr(matrix: Any) -> Any:
    """Give a matrix of scipy the form that kernels read: a csr_array of float64 with int32 indices."""
    from scipy.sparse import csr_array

    if matrix.ndim != 2:
        raise InputError(f"the feature matrix must be 2-D (n_tokens, n_features); got {matrix.ndim} dimensions.")
    made = csr_array(matrix, dtype=np.float64)
    if made.indices.dtype == np.int32 and made.indptr.dtype == np.int32:
        return made
    check_entries(max(made.nnz, made.shape[1]))
    parts = (made.data, made.indices.astype(np.int32), made.indptr.astype(np.int32))
    return csr_array(parts, shape=made.shape)


def _csr_place(matrix: Any, entry: int) -> tuple[int, int]:
    row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
    return row, int(matrix.indices[entry])


def _check_finite(values: np.ndarray, place: Any) -> None:
    if (good := usable(values)).all():
        return
    entry = int(np.flatnonzero(~good)[0])
    row, column = place(entry)
    raise InputError(f"features {WAY_OUT}; row {row}, column {column} is {values[entry]}.")


class SparseRows(NamedTuple):
    """The arrays of a CSR matrix, named as scipy names them.

    Parameters
    ----------
    data : ndarray of float64, shape (n_entries,)
        Where all are 1, as for lists of features, they may be :func:`ones`.
    indices : ndarray of int32, shape (n_entries,)
        Column of each entry.
    indptr : ndarray of int32, shape (n_rows + 1,)
        The entries of row i are at ``indptr[i] : indptr[i + 1]``.
    shape : (n_rows, n_columns)
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    def as_csr(self) -> "csr_array":
        """Return the matrix that scipy knows, over the same arrays."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=self.shape)


def is_sparse(value: object) -> bool:
    """Return whether a value is a matrix or an array of scipy.sparse; it is none if that module was never loaded."""
    loaded = sys.modules.get("scipy.sparse")
    return loaded is not None and bool(loaded.issparse(value))


def taken_rows(matrix: Any, rows: slice | np.ndarray) -> SparseRows:
    """Take some rows of a csr_array or of :class:`SparseRows`: a slice shares their entries, an array copies them."""
    if isinstance(rows, slice):
        indptr = matrix.indptr[rows.start : rows.stop + 1]
        entries: Any = slice(int(indptr[0]), int(indptr[-1]))
        indptr = indptr - indptr[0]
    else:
        starts = matrix.indptr[rows].astype(np.int64)
        counts = matrix.indptr[rows + 1] - starts
        entries, indptr = ranges(starts, counts), pointers32(np.cumsum(counts))
    indices = matrix.indices[entries]
    data = ones(len(indices)) if is_ones(matrix.data) else matrix.data[entries]
    return SparseRows(data, indices, indptr, (len(indptr) - 1, matrix.shape[1]))


def ones(n: int) -> np.ndarray:
    """Return n ones in the room of one: values of a matrix that only says which features a token has."""
    return np.broadcast_to(np.float64(1.0), (n,))


def is_ones(values: np.ndarray) -> bool:
    """Whether values come from :func:`ones`."""
    return values.strides == (0,)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(start, start + length)`` over all pairs, without a Python loop."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def pointers32(ends: np.ndarray) -> np.ndarray:
    """Return 0 and the running totals ``ends`` as the int32 pointers of a CSR matrix; refuse more than they can count."""
    check_entries(int(ends[-1]) if len(ends) else 0)
    pointers = np.zeros(len(ends) + 1, dtype=np.int32)
    pointers[1:] = ends
    return pointers


def check_entries(total: int) -> None:
    """Refuse more entries than int32 can count."""
    most = np.iinfo(np.int32).max
    if total > most:
        raise InputError(
            f"one Sequences holds at most {most} features of tokens; got {total}: write a corpus with "
            "rf.write_corpus and fit that."
        )


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
