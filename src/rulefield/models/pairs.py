"""Which weights a labeled data set gives reason to have: a sparse table of (feature, label) pairs, transitions of a chain."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rulefield.data.sequences import Labels, Sequences, is_ones, ranges
from rulefield.exceptions import InputError
from rulefield.forms import index, pointers
from rulefield.kernels.chain.train_features import (
    add_label_counts,
    add_row_gradient,
    add_scores,
    frequent_pairs,
    merge_counts,
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
    def full(cls, n_features: int, n_labels: int) -> "PairTable":
        """Table of every label for every feature."""
        ptr = np.arange(n_features + 1, dtype=np.uint64) * np.uint64(n_labels)
        return cls(ptr, np.tile(np.arange(n_labels, dtype=np.uint32), n_features), n_labels)

    @classmethod
    def seen(
        cls, rows: CsrRows, n_features: int, sets: tuple[np.ndarray, np.ndarray], n_labels: int, min_count: int = 1
    ) -> "PairTable":
        """Pairs that occur in at least ``min_count`` rows.

        ``sets`` are (ptr, label): the labels that row t allows are ``label[ptr[t] : ptr[t + 1]]``. O(entries x labels allowed
        + features x labels) time, O(entries) memory.
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


# --- the weights of a chain --------------------------------------------------------------------------

Allowed = tuple[np.ndarray, np.ndarray, np.ndarray]
Sets = tuple[np.ndarray, np.ndarray]
Counted = tuple[np.ndarray, np.ndarray]
"""Ascending keys, and how often each was seen."""


@dataclass(frozen=True)
class Structure:
    """Weights to have: state pairs, transitions, starts, ends; and what is permitted."""

    pairs: PairTable
    transitions: np.ndarray
    start: np.ndarray
    end: np.ndarray
    allowed: Allowed


def structure_of(
    sequences: Sequences,
    labels: Labels,
    *,
    allowed: Allowed | None,
    all_states: bool,
    all_transitions: bool,
    min_count: int,
) -> Structure:
    """Choose weights as :meth:`rulefield.models.chain.ChainModel.build` says."""
    n_labels = labels.n_labels
    permitted = permitted_masks(allowed, n_labels)
    rows = csr_rows(sequences.entries, 0, sequences.entries.shape[0])
    n_features = sequences.entries.shape[1]
    pairs = (
        PairTable.full(n_features, n_labels)
        if all_states
        else PairTable.seen(rows, n_features, known_sets(labels), n_labels, min_count)
    )
    return _structure(pairs, permitted, None if all_transitions else (seen_steps(labels), *seen_ends(labels)))


def _structure(pairs: PairTable, permitted: Allowed, seen: Allowed | None) -> Structure:
    """Return the weights of what was seen (None: of everything) as far as it is permitted."""
    transitions, start, end = (mask & own for mask, own in zip(permitted, permitted if seen is None else seen))
    return Structure(pairs, transitions, start, end, permitted)


def label_masks(labels: Labels) -> np.ndarray:
    """Labels that each token allows, bool (n_tokens, n_labels)."""
    if labels.allowed is not None:
        return labels.allowed.view(bool)
    return np.equal.outer(labels.ids, np.arange(labels.n_labels))


def permitted_masks(allowed: Allowed | None, n_labels: int) -> Allowed:
    """Masks of permitted transitions, starts and ends; all by default."""
    if allowed is None:
        return np.ones((n_labels, n_labels), bool), np.ones(n_labels, bool), np.ones(n_labels, bool)
    masks = tuple(np.ascontiguousarray(mask, dtype=bool) for mask in allowed)
    shapes = ((n_labels, n_labels), (n_labels,), (n_labels,))
    for name, mask, shape in zip(("transition", "start", "end"), masks, shapes):
        if mask.shape != shape:
            raise InputError(f"the mask of permitted {name}s must have shape {shape}; got {mask.shape}.")
    return masks[0], masks[1], masks[2]


def known_sets(labels: Labels, any_known: bool | None = None) -> Sets:
    """Label sets of tokens about which something is known; all sets where nothing is known anywhere.

    ``any_known`` says so for the data that these labels are a part of.
    """
    if labels.allowed is None:
        return np.arange(len(labels.ids) + 1, dtype=np.uint64), labels.ids.astype(np.uint32)
    masks = label_masks(labels)
    known = np.logical_not(masks.all(axis=1))
    return _as_sets(masks & known[:, None] if (known.any() if any_known is None else any_known) else masks)


def _as_sets(masks: np.ndarray) -> Sets:
    ptr = np.concatenate([np.zeros(1, np.uint64), np.cumsum(masks.sum(axis=1), dtype=np.uint64)])
    return ptr, np.nonzero(masks)[1].astype(np.uint32)


def _arrivals(offsets: np.ndarray) -> np.ndarray:
    """Numbers of the tokens that have a token before them in their sequence."""
    first = np.zeros(int(offsets[-1]) + 1, bool)
    first[offsets[:-1]] = True
    return np.flatnonzero(~first[:-1])


def seen_steps(labels: Labels) -> np.ndarray:
    """Transitions that occur, or may, bool (n_labels, n_labels)."""
    arrive, m = _arrivals(labels.offsets), labels.n_labels
    if labels.allowed is None:
        steps = labels.ids[arrive - 1].astype(np.int64) * m + labels.ids[arrive]
        return np.bincount(steps, minlength=m * m).reshape(m, m) > 0
    before, after = (labels.allowed[t].astype(np.float32) for t in (arrive - 1, arrive))
    return before.T @ after > 0


def seen_ends(labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Labels that begin, and that end a sequence, or may, bool (n_labels,) each."""
    filled = labels.lengths > 0
    first = labels.offsets[:-1][filled]
    last = labels.offsets[1:][filled] - 1
    masks = label_masks(labels)
    return masks[first].any(axis=0), masks[last].any(axis=0)


# --- the same from parts of the data, one at a time -----------------------------------------------


@dataclass(frozen=True)
class SeenWeights:
    """What a part gives reason for: pairs of its features and labels with their counts, transitions, starts, ends."""

    feature: np.ndarray
    label: np.ndarray
    count: np.ndarray
    transitions: np.ndarray
    start: np.ndarray
    end: np.ndarray


def seen_weights(sequences: Sequences, labels: Labels, any_known: bool) -> SeenWeights:
    """Look through one part; ``any_known`` says whether some label of the whole data is known."""
    rows = csr_rows(sequences.entries, 0, sequences.n_tokens)
    ptr, label, count = seen_pairs(rows, sequences.n_features, known_sets(labels, any_known), labels.n_labels)
    feature = np.repeat(np.arange(sequences.n_features, dtype=np.int32), (ptr[1:] - ptr[:-1]).astype(np.int64))
    return SeenWeights(feature, label, count, seen_steps(labels), *seen_ends(labels))


def structure_of_parts(
    parts: Iterable[tuple[SeenWeights, np.ndarray]],
    n_features: int,
    n_labels: int,
    *,
    allowed: Allowed | None = None,
    all_states: bool = False,
    all_transitions: bool = False,
    min_count: int = 1,
) -> Structure:
    """Choose the weights that :func:`structure_of` chooses from the whole data; parts come with their columns in it."""
    permitted = permitted_masks(allowed, n_labels)
    transitions, start, end = (np.zeros(mask.shape, bool) for mask in permitted)
    piles: list[Counted] = []
    for seen, columns in parts:
        transitions, start, end = transitions | seen.transitions, start | seen.start, end | seen.end
        if not all_states:
            _heap(piles, _keyed(seen, columns, n_labels))
    if all_states:
        pairs = PairTable.full(n_features, n_labels)
    else:
        keys, counts = _all_merged(piles)
        pairs = PairTable.of_keys(keys[counts >= min_count], n_features, n_labels)
    return _structure(pairs, permitted, None if all_transitions else (transitions, start, end))


def _keyed(seen: SeenWeights, columns: np.ndarray, n_labels: int) -> Counted:
    keys = columns[seen.feature].astype(np.int64) * n_labels + seen.label
    order = np.argsort(keys)
    return keys[order], seen.count[order].astype(np.int64)


def _heap(piles: list[Counted], new: Counted) -> None:
    """Put a list on piles that fall in size, merging those of about one size: each key moves O(log parts) times."""
    while piles and len(piles[-1][0]) <= 2 * len(new[0]):
        new = _merged(piles.pop(), new)
    piles.append(new)


def _all_merged(piles: list[Counted]) -> Counted:
    total: Counted = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    while piles:
        total = _merged(piles.pop(), total)
    return total


def _merged(a: Counted, b: Counted) -> Counted:
    keys, counts = (np.empty(len(a[0]) + len(b[0]), np.int64) for _ in range(2))
    n = merge_counts(*a, *b, keys, counts)
    return keys[:n].copy(), counts[:n].copy()
