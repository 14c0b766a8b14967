"""Pair scores of a problem in a network whose nodes stand in another order."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel


class PairPlaces(NamedTuple):
    """Shape of each edge's table of scores, where it begins in a network, and whether it stands there transposed."""

    rows: np.ndarray  # int64 (edges,)
    columns: np.ndarray  # int64 (edges,)
    flipped: np.ndarray  # bool (edges,)
    base: np.ndarray  # int64 (edges,)


@kernel
def add_pair_scores(places, pairwise, target):
    """Add pair scores to those of the network; one pass (numpy makes ten)."""
    entry = 0
    for e in range(len(places.base)):
        rows, columns, base = places.rows[e], places.columns[e], places.base[e]
        for a in range(rows):
            for b in range(columns):
                target[base + (b * rows + a if places.flipped[e] else a * columns + b)] += pairwise[entry]
                entry += 1
