"""Training data and transitions laid out for the likelihood kernel: weights in a work space, features as addresses in it.

The *work space* is a permuted copy of the state weights: first padded rows of the features with many labels, then
weights that several shards touch, then those that one shard touches alone. Only the first two parts need a gradient
buffer for each shard; in text most weights belong to the third.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rulefield.exceptions import InputError
from rulefield.kernels.arrays import put_at, take_at
from rulefield.kernels.chain.train import Packed
from rulefield.kernels.chain.train_pack import (
    NOWHERE,
    UNSEEN,
    count_entries,
    fill_entries,
    pair_positions,
    place_features,
)
from rulefield.kernels.chain.train_steps import DenseSteps, SparseSteps
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import CsrRows, PairTable

LANES = 8
OFTEN = 8
"""Uses from which a padded row pays: what seldom occurs costs what it takes in memory. In large data, whose features meet
more labels, rows of rare ones made evaluations a tenth slower."""
MOST_PLACES = 2**32 - 1  # addresses are 32 bits wide


def padded(n_labels: int) -> int:
    """Labels rounded up to whole vectors."""
    return -(-n_labels // LANES) * LANES


def row_threshold(n_labels: int) -> int:
    """Labels from which a feature is cheaper as a padded row: a vector of eight costs about as much as two pairs."""
    return max(3, 2 * padded(n_labels) // LANES)


def taken(source: np.ndarray, places: np.ndarray) -> np.ndarray:
    """source[places], of float64."""
    values = np.empty(len(places))
    take_at(source, places, values)
    return values


@dataclass(frozen=True)
class Packing:
    """Packed features, and how the work space maps to the state weights.

    ``position`` is the place of each state weight in the work space, ``n_work`` (a spare place) if the data never touches it.
    Shards share the first ``n_shared`` places; ``own_from`` are the first places of each shard's own, and the number of all.
    """

    packed: Packed
    position: np.ndarray
    n_shared: int
    own_from: np.ndarray

    @property
    def n_work(self) -> int:
        """Number of places."""
        return int(self.own_from[-1])

    def weights(self, state: np.ndarray, into: np.ndarray | None = None) -> np.ndarray:
        """Work space of the state weights, (n_work + 1,); in an array of zeros, if one is given."""
        work = np.zeros(self.n_work + 1) if into is None else into
        put_at(work, self.position, state)
        return work

    def state(self, work: np.ndarray) -> np.ndarray:
        """Undo :meth:`weights`: the state weights, or their counts, from a work space."""
        return taken(work, self.position)

    def rows(self, first: int, last: int, table: PairTable) -> CsrRows:
        """Undo :func:`pack` for the tokens ``first`` to ``last``; features without weights are lost. For a few tokens."""
        packed, tokens, features, values = self.packed, [], [], []
        for ptr, places, value in (
            (packed.row_ptr, packed.rows, packed.row_values),
            (packed.pair_ptr, packed.pairs, packed.pair_values),
        ):
            begin, end = int(ptr[first]), int(ptr[last])
            feature, is_first = self._feature_at(places[begin:end], table)
            keep = is_first if places is packed.pairs else np.ones(end - begin, bool)
            ends = ptr[first + 1 : last + 1].astype(np.int64) - begin
            tokens.append(np.searchsorted(ends, np.arange(end - begin), side="right")[keep])
            features.append(feature[keep].astype(np.uint32))
            values.append(value[begin:end][keep] if packed.value_step else np.ones(int(keep.sum())))
        token = np.concatenate(tokens)
        order = np.argsort(token, kind="stable")
        indptr = np.searchsorted(token[order], np.arange(last - first + 1)).astype(np.uint64)
        return indptr, np.concatenate(features)[order], np.concatenate(values)[order]

    def _feature_at(self, places: np.ndarray, table: PairTable) -> tuple[np.ndarray, np.ndarray]:
        """Features at places of the work space, and whether a place is that of a feature's first weight."""
        by_place, sorted_places = self._by_place
        weight = by_place[np.searchsorted(sorted_places, places)]  # a row may begin with labels that have none
        feature = np.searchsorted(table.ptr.astype(np.int64), weight, side="right") - 1
        return feature, table.ptr[feature] == weight.astype(np.uint64)

    @cached_property
    def _by_place(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.position, kind="stable")
        return order, self.position[order]


def given_scores(given: np.ndarray | None, n_labels: int) -> np.ndarray:
    """Scores from elsewhere as kernels read them: (n_tokens, n_labels), no rows where there are none."""
    return np.zeros((0, n_labels)) if given is None else np.ascontiguousarray(given, dtype=np.float64)


def pack(rows: CsrRows, table: PairTable, shard_tokens: np.ndarray, given: np.ndarray | None = None) -> Packing:
    """Lay out the feature rows of all tokens for training; ``shard_tokens`` are the first tokens of shards, and the end.

    ``given`` are scores from elsewhere to add, (n_tokens, n_labels).
    """
    indptr, indices, values = rows
    width = padded(table.n_labels)
    n_features = len(table.ptr) - 1
    home, address = np.full(n_features, UNSEEN), np.full(n_features, NOWHERE)
    row_from = np.uint64(row_threshold(table.n_labels))
    is_row, n_shared, own_from = place_features(
        indptr, indices, table.ptr, shard_tokens, row_from, np.uint32(OFTEN), np.uint64(width), home, address
    )
    n_work = int(own_from[-1])
    if n_work >= MOST_PLACES:
        raise InputError(
            f"the model has more weights than fit ({n_work} places, at most {MOST_PLACES}); keep only seen "
            "feature/label pairs or raise min_count."
        )
    row_ptr, pair_ptr = count_entries(indptr, indices, table.ptr, is_row)
    valued = bool(len(values)) and not (values == 1.0).all()
    n_rows, n_pairs = int(row_ptr[-1]), int(pair_ptr[-1])
    packed = Packed(
        row_ptr=row_ptr,
        rows=np.empty(n_rows, np.uint32),
        row_values=np.ones(n_rows + 1 if valued else 1),
        pair_ptr=pair_ptr,
        pairs=np.empty(n_pairs, np.uint32),
        pair_label=np.empty(n_pairs, np.uint16),
        pair_values=np.ones(n_pairs + 1 if valued else 1),
        given=given_scores(given, table.n_labels),
        value_step=np.uint64(valued),
    )
    fill_entries(indptr, indices, values, table.ptr, table.label, address, is_row, *packed[:-2])
    position = np.full(table.n_pairs, n_work, np.uint32)
    pair_positions(table.ptr, table.label, address, is_row, position)
    return Packing(packed, position, int(n_shared), own_from)


# --- transitions ------------------------------------------------------------------------------------

# exp of it is 1e20: the bound that the kernel's watch over underflow needs
LARGEST_WEIGHT = 46.0
# entries cost about as much as eight places of a full matrix, which vectors work through
SPARSE_SHARE = 1 / 8


@dataclass(frozen=True)
class TransitionFactors:
    """Plan of the transitions of a model: full matrices, or the few entries that differ from 0 or 1."""

    model: ChainModel
    base: float = field(init=False)
    sparse: bool = field(init=False)
    entry: np.ndarray = field(init=False)
    by_target: np.ndarray = field(init=False)
    place: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        model, m = self.model, self.model.n_labels
        weighted = np.zeros((m, m), bool)
        weighted[model.transition_from, model.transition_to] = True
        differ_from_one = weighted | ~model.allowed
        base = 1.0 if differ_from_one.sum() < model.allowed.sum() else 0.0
        entry = np.flatnonzero(differ_from_one if base else model.allowed)
        transition = model.transition_from.astype(np.int64) * m + model.transition_to
        values = {
            "base": base,
            "sparse": bool(len(entry) < SPARSE_SHARE * m * m),
            "entry": entry,
            "by_target": np.lexsort((entry // m, entry % m)),
            "place": np.searchsorted(entry, transition),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def buffer_size(self) -> int:
        """Length of the kernel's sums over steps."""
        return len(self.entry) if self.sparse else self.model.n_labels * padded(self.model.n_labels)

    def steps(self, theta: np.ndarray) -> DenseSteps | SparseSteps | None:
        """Factors for the kernel; None if a weight is too large for probability space."""
        if np.abs(self.model.layout.transition(theta)).max(initial=0.0) > LARGEST_WEIGHT:
            return None
        m, width = self.model.n_labels, padded(self.model.n_labels)
        factor = np.exp(self.model.pairwise(theta))
        forward, backward = np.zeros((m, width)), np.zeros((m, width))
        forward[:, :m], backward[:, :m] = factor, factor.T
        if not self.sparse:
            return DenseSteps(forward.ravel(), backward.ravel())
        entry, by_target = self.entry, self.by_target
        excess = factor.ravel()[entry] - self.base
        return SparseSteps(
            base=self.base,
            forward=forward.ravel(),
            backward=backward.ravel(),
            by_from_ptr=_pointers(entry // m, m),
            to=(entry % m).astype(np.uint32),
            from_excess=excess,
            by_to_ptr=_pointers(entry[by_target] % m, m),
            source=(entry[by_target] // m).astype(np.uint32),
            to_excess=excess[by_target],
        )

    def expected_counts(self, theta: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return how often each transition weight is expected to be used, from the kernel's sums over steps."""
        model, m = self.model, self.model.n_labels
        factor = np.exp(model.layout.transition(theta))
        if self.sparse:
            return factor * sums[self.place]
        return factor * sums.reshape(m, -1)[model.transition_from, model.transition_to]


def _pointers(group: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n))]).astype(np.uint64)
