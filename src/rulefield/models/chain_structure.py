"""Which weights a labeled data set gives a chain reason to have."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InputError
from rulefield.kernels.chain.train_features import merge_counts
from rulefield.models.pairs import CsrRows, PairTable, csr_rows, seen_pairs

Allowed = tuple[np.ndarray, np.ndarray, np.ndarray]
Sets = tuple[np.ndarray, np.ndarray]
Counted = tuple[np.ndarray, np.ndarray]
"""Ascending keys, and how often each was seen."""


@dataclass(frozen=True)
class Structure:
    """Weights to have: state pairs, transitions, starts, ends, conditioned steps; and what is permitted."""

    pairs: PairTable
    transitions: np.ndarray
    start: np.ndarray
    end: np.ndarray
    step_pairs: PairTable
    allowed: Allowed


def structure_of(
    sequences: Sequences,
    labels: Labels,
    *,
    allowed: Allowed | None,
    all_states: bool,
    all_transitions: bool,
    min_count: int,
    transition_features: np.ndarray | None,
) -> Structure:
    """Choose weights as :meth:`rulefield.models.chain.ChainModel.build` says."""
    n_labels = labels.n_labels
    permitted = permitted_masks(allowed, n_labels)
    rows = csr_rows(sequences.entries, 0, sequences.entries.shape[0])
    n_features = sequences.entries.shape[1]
    ends = seen_ends(labels)
    pairs = (
        PairTable.full(n_features, n_labels)
        if all_states
        else PairTable.seen(rows, n_features, known_sets(labels), n_labels, min_count)
    )
    return Structure(
        pairs=pairs,
        transitions=permitted[0].copy() if all_transitions else seen_steps(labels) & permitted[0],
        start=permitted[1].copy() if all_transitions else ends[0] & permitted[1],
        end=permitted[2].copy() if all_transitions else ends[1] & permitted[2],
        step_pairs=_step_pairs(rows, n_features, labels, permitted[0], transition_features, min_count),
        allowed=permitted,
    )


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


def _step_pairs(
    rows: CsrRows,
    n_features: int,
    labels: Labels,
    permitted: np.ndarray,
    features: np.ndarray | None,
    min_count: int,
) -> PairTable:
    """Pairs (feature, from * n_labels + to) of the chosen features that the data has seen."""
    m = labels.n_labels
    if features is None or len(features) == 0:
        return PairTable.empty(n_features, m * m)
    chosen = np.zeros(n_features, bool)
    chosen[np.asarray(features)] = True
    arrive, masks = _arrivals(labels.offsets), label_masks(labels)
    steps = np.zeros((len(masks), m * m), bool)
    steps[arrive] = (masks[arrive - 1][:, :, None] & masks[arrive][:, None, :] & permitted).reshape(-1, m * m)
    table = PairTable.seen(rows, n_features, _as_sets(steps), m * m, min_count)
    count = (table.ptr[1:] - table.ptr[:-1]).astype(np.int64)
    keep = np.repeat(chosen, count)
    ptr = np.concatenate([[0], np.cumsum(np.where(chosen, count, 0))]).astype(np.uint64)
    return PairTable(ptr, table.label[keep], m * m)


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
    """Choose the weights that :func:`structure_of` chooses from the whole data.

    Parameters
    ----------
    parts : iterable of (SeenWeights, columns)
        ``columns`` are the numbers of the part's features in the whole.
    n_features, n_labels : int
    allowed, all_states, all_transitions, min_count
        As for :meth:`rulefield.models.chain.ChainModel.build`.
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
    return Structure(
        pairs=pairs,
        transitions=permitted[0].copy() if all_transitions else transitions & permitted[0],
        start=permitted[1].copy() if all_transitions else start & permitted[1],
        end=permitted[2].copy() if all_transitions else end & permitted[2],
        step_pairs=PairTable.empty(n_features, n_labels**2),
        allowed=permitted,
    )


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
