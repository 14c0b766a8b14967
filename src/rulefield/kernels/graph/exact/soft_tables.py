"""A pairwise problem as costs of 0 or more, for search under soft arc consistency; infinity forbids."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel


class Soft(NamedTuple):
    """A problem as costs, and the state of the search.

    Arcs of node v are ``ptr[v] : ptr[v + 1]``; arc k leads to ``to[k]``, its reverse is ``back[k]``, its cost table
    (rows: labels of v) begins at ``cost_at[k]``, what it gave to labels of v at ``half[k]`` of ``f``.
    """

    at: np.ndarray
    ptr: np.ndarray
    to: np.ndarray
    back: np.ndarray
    cost_at: np.ndarray
    cost: np.ndarray
    half: np.ndarray
    unary: np.ndarray  # as given, to evaluate labelings
    f: np.ndarray
    vals: np.ndarray
    pos: np.ndarray
    size: np.ndarray
    hint: np.ndarray  # of (arc, label): where its support was last
    pick: np.ndarray  # of a node: its existential support
    weight: np.ndarray  # of arcs: contradictions met
    flags: np.ndarray  # (4, n): queues Q, R, S and P
    work: np.ndarray  # entries looked at
    room: np.ndarray  # of a node's labels


@kernel
def cost_of(s, labels):
    """Cost of a labeling from the tables as given."""
    total = 0.0
    for v in range(len(labels)):
        total += s.unary[s.at[v] + labels[v]]
        for k in range(s.ptr[v], s.ptr[v + 1]):
            w = s.to[k]
            if w > v:
                total += s.cost[s.cost_at[k] + labels[v] * (s.at[w + 1] - s.at[w]) + labels[w]]
    return total
