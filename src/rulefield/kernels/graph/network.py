"""Orders of a graph's nodes, and pair scores of a problem in a network whose nodes stand in another order."""

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


@kernel
def breadth_first(pointer, neighbor):
    """Nodes in breadth-first order from the first unvisited node of each component; returns order, components."""
    n = len(pointer) - 1
    order = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    filled, components = 0, 0
    for root in range(n):
        if seen[root]:
            continue
        components += 1
        seen[root] = True
        order[filled] = root
        head = filled
        filled += 1
        while head < filled:
            v = order[head]
            head += 1
            for k in range(pointer[v], pointer[v + 1]):
                w = neighbor[k]
                if not seen[w]:
                    seen[w] = True
                    order[filled] = w
                    filled += 1
    return order, components
