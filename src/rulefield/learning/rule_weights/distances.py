"""How far labelings are from the gold labels: segments that are found, gold, or both."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.encode.spans import SegmentTable


class SegmentCounts(NamedTuple):
    """Segments of labelings, at every level, (n_labelings,) each."""

    gold: np.ndarray
    found: np.ndarray
    right: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """Segments that are found but not gold, or gold but not found."""
        return self.gold + self.found - 2 * self.right


def count_segments(
    table: SegmentTable, gold: Sequence[np.ndarray], labelings: Sequence[np.ndarray], owner: np.ndarray
) -> SegmentCounts:
    """Compare the segments of labelings with those of gold labels; labeling j is one of sequence ``owner[j]``."""
    counts = SegmentCounts(*np.zeros((3, len(labelings)), dtype=np.int64))
    if not len(labelings):
        return counts
    sizes, lengths = (np.array([len(row) for row in rows], dtype=np.int64) for rows in (gold, labelings))
    gold_ids, ids = (np.concatenate(rows).astype(np.int64) for rows in (gold, labelings))
    labeling = np.repeat(np.arange(len(labelings)), lengths)
    sequence = np.repeat(np.arange(len(gold)), sizes)
    shift = (np.cumsum(sizes) - sizes)[owner] - (np.cumsum(lengths) - lengths)
    for level in range(table.depth):
        first, last, kind = table.find(gold_ids, sizes, level)
        stop, kinds = np.full((2, len(gold_ids)), -1, dtype=np.int64)
        stop[first], kinds[first] = last, kind
        counts.gold[:] += np.bincount(sequence[first], minlength=len(gold))[owner]
        first, last, kind = table.find(ids, lengths, level)
        own = labeling[first]
        there = first + shift[own]
        same = (stop[there] == last + shift[own]) & (kinds[there] == kind)
        counts.found[:] += np.bincount(own, minlength=len(labelings))
        counts.right[:] += np.bincount(own[same], minlength=len(labelings))
    return counts
