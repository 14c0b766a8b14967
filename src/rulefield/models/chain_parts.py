"""The weights of a chain chosen from parts of its data, one part at a time: the same as from all of it at once."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.kernels.chain.train_features import merge_counts
from rulefield.models.chain import ChainModel
from rulefield.models.chain_structure import (
    Allowed,
    Structure,
    known_sets,
    permitted_masks,
    seen_ends,
    seen_steps,
)
from rulefield.models.pairs import PairTable, csr_rows, seen_pairs

Counted = tuple[np.ndarray, np.ndarray]
"""Ascending keys, and how often each was seen."""


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


def model_of_parts(
    parts: Iterable[tuple[SeenWeights, np.ndarray]],
    n_features: int,
    n_labels: int,
    *,
    allowed: Allowed | None = None,
    all_states: bool = False,
    all_transitions: bool = False,
    start_end: bool = True,
    min_count: int = 1,
) -> ChainModel:
    """Make the model that :meth:`ChainModel.build` makes of the whole data.

    Parameters
    ----------
    parts : iterable of (SeenWeights, columns)
        ``columns`` are the numbers of the part's features in the whole.
    n_features, n_labels : int
    allowed, all_states, all_transitions, start_end, min_count
        As for :meth:`ChainModel.build`.
    """
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
    structure = Structure(
        pairs=pairs,
        transitions=permitted[0].copy() if all_transitions else transitions & permitted[0],
        start=permitted[1].copy() if all_transitions else start & permitted[1],
        end=permitted[2].copy() if all_transitions else end & permitted[2],
        step_pairs=PairTable.empty(n_features, n_labels**2),
        allowed=permitted,
    )
    return ChainModel._from_structure(structure, n_labels, n_features, start_end)


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
