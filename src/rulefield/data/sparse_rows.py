"""Sparse rows as plain arrays: importing scipy.sparse takes longer than labeling a text does."""

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulefield.exceptions import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
    """Whether a value is a matrix or an array of scipy.sparse; where nobody loaded that, it is not."""
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
