"""How far labelings are from the gold labels."""

from collections.abc import Callable, Sequence

import numpy as np

from rulefield.encode.spans import SegmentTable

Distance = Callable[[np.ndarray, Sequence[np.ndarray]], np.ndarray]
"""How far labelings are from the gold labels (n,): one number each."""


def wrong_labels(gold: np.ndarray, labelings: Sequence[np.ndarray]) -> np.ndarray:
    """Tokens whose label is wrong."""
    return np.array([float((labels != gold).sum()) for labels in labelings])


class WrongSpans:
    """Segments, at every level, that are found but not gold or gold but not found.

    Parameters
    ----------
    table : SegmentTable
    """

    def __init__(self, table: SegmentTable):
        self.table = table

    def __call__(self, gold: np.ndarray, labelings: Sequence[np.ndarray]) -> np.ndarray:
        """Distances of labelings (n,) from the gold labels."""
        k, n = len(labelings), len(gold)
        ids, lengths = np.concatenate([gold, *labelings]), np.full(k + 1, n, dtype=np.int64)
        wrong = np.zeros(k)
        for level in range(self.table.depth):
            first, last, kind = self.table.find(ids, lengths, level)
            stop, kinds = np.full((2, (k + 1) * n), -1, dtype=np.int64)
            stop[first], kinds[first] = last % n, kind
            stop, kinds = stop.reshape(k + 1, n), kinds.reshape(k + 1, n)
            found = stop >= 0
            right = found[0] & found[1:] & (stop[1:] == stop[0]) & (kinds[1:] == kinds[0])
            wrong += found[1:].sum(axis=1) + found[0].sum() - 2 * right.sum(axis=1)
        return wrong
