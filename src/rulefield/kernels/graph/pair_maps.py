"""Pair scores of a problem in a network whose nodes stand in another order."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel


class PairPlaces(NamedTuple):
    """Where each edge's table of scores stands in a network.

    ``base`` is where it begins there, -1 for a loop, whose diagonal belongs to the scores of its node, at ``start``; a
    ``flipped`` table stands there transposed.
    """

    first: np.ndarray  # int64 (edges,)
    second: np.ndarray  # int64 (edges,)
    sizes: np.ndarray  # int64 (nodes,): labels
    flipped: np.ndarray  # bool (edges,)
    base: np.ndarray  # int64 (edges,)
    start: np.ndarray  # int64 (nodes + 1,): of the problem's scores of nodes


@kernel
def add_pair_scores(places, pairwise, unary, target):
    """Add pair scores to those of the network, and those of loops to ``unary``; one pass (numpy makes ten)."""
    entry = 0
    for e in range(len(places.first)):
        rows, columns, base = places.sizes[places.first[e]], places.sizes[places.second[e]], places.base[e]
        for a in range(rows):
            for b in range(columns):
                if base < 0:
                    if a == b:
                        unary[places.start[places.first[e]] + a] += pairwise[entry]
                elif places.flipped[e]:
                    target[base + b * rows + a] += pairwise[entry]
                else:
                    target[base + a * columns + b] += pairwise[entry]
                entry += 1
