"""Layered graphs of partial labelings: what is left of a chain when bounds have removed the rest.

A node of layer t stands for a label at token t together with the state of the rules that have been
refined so far; a path from the first layer to the last is a labeling (with one run of those rules).
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel


class Lattice(NamedTuple):
    """Nodes of layer t are ``layer[t] : layer[t + 1]``; arcs of node i are ``arc_ptr[i] : arc_ptr[i + 1]``."""

    layer: np.ndarray  # int64 (n + 1,)
    label: np.ndarray  # int64 (nodes,)
    reach: np.ndarray  # float64 (nodes,): best score of a way here; in the first layer the node's own score
    ahead: np.ndarray  # float64 (nodes,): best score of a way from here to the end
    arc_ptr: np.ndarray  # int64 (nodes + 1,)
    arc_to: np.ndarray  # int64 (arcs,)
    arc_score: np.ndarray  # float64 (arcs,)


@kernel
def chain_lattice(unary, arriving, ahead, constant, threshold):
    """Return the lattice of all labels and steps of a chain whose max-marginal beats ``threshold``.

    ``ahead`` (n, m) are the chain's completions, ``constant`` is added to every score before it is compared.
    O(n m^2).
    """
    n, m = unary.shape
    last = len(arriving) - 1
    layer = np.zeros(n + 1, np.int64)
    label = np.empty(n * m, np.int64)
    reach = np.empty(n * m)
    rest = np.empty(n * m)
    arc_ptr = np.zeros(n * m + 1, np.int64)
    room = 4 * n * m
    arc_to = np.empty(room, np.int64)
    arc_score = np.empty(room)
    arcs = 0
    nodes = 0
    place = np.full(m, -1, np.int64)
    for here in range(m):
        bound = constant + unary[0, here] + ahead[0, here]
        if bound > -np.inf and bound > threshold:
            label[nodes] = here
            reach[nodes] = unary[0, here]
            rest[nodes] = ahead[0, here]
            nodes += 1
    layer[1] = nodes
    for t in range(1, n):
        place[:] = -1
        step = min(t - 1, last)
        for i in range(layer[t - 1], layer[t]):
            here = label[i]
            for to in range(m):
                score = arriving[step, to, here] + unary[t, to]
                bound = constant + reach[i] + score + ahead[t, to]
                if not (bound > -np.inf and bound > threshold):
                    continue
                j = place[to]
                if j < 0:
                    j = nodes
                    place[to] = j
                    label[j] = to
                    reach[j] = -np.inf
                    rest[j] = ahead[t, to]
                    nodes += 1
                reach[j] = max(reach[j], reach[i] + score)
                if arcs == room:
                    arc_to, arc_score = doubled(arc_to), doubled(arc_score)
                    room *= 2
                arc_to[arcs] = j
                arc_score[arcs] = score
                arcs += 1
            arc_ptr[i + 1] = arcs
        layer[t + 1] = nodes
    for i in range(layer[n - 1], nodes):
        arc_ptr[i + 1] = arcs
    return Lattice(
        layer,
        label[:nodes].copy(),
        reach[:nodes].copy(),
        rest[:nodes].copy(),
        arc_ptr[: nodes + 1].copy(),
        arc_to[:arcs].copy(),
        arc_score[:arcs].copy(),
    )


@kernel
def fill_ahead(lattice, threshold):
    """Fill ``ahead`` from the arcs (backward Viterbi); return the best score of a whole path. O(arcs).

    Nodes on no path whose score beats ``threshold`` get -inf.
    """
    layer, ahead = lattice.layer, lattice.ahead
    n = len(layer) - 1
    ahead[layer[n - 1] :] = 0.0
    for back in range(n - 1):
        t = n - 2 - back
        for i in range(layer[t], layer[t + 1]):
            top = -np.inf
            for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
                total = lattice.arc_score[a] + ahead[lattice.arc_to[a]]
                if total > top:
                    top = total
            ahead[i] = top if lattice.reach[i] + top > threshold else -np.inf
    best = -np.inf
    for i in range(layer[0], layer[1]):
        best = max(best, lattice.reach[i] + ahead[i])
    return best


@kernel
def lattice_path(lattice, labels):
    """Follow the best path of a lattice whose ``ahead`` is filled; False where there is none."""
    layer, ahead = lattice.layer, lattice.ahead
    node = np.int64(-1)
    top = -np.inf
    for i in range(layer[0], layer[1]):
        if lattice.reach[i] + ahead[i] > top:
            top = lattice.reach[i] + ahead[i]
            node = i
    if node < 0:
        return False
    labels[0] = lattice.label[node]
    for t in range(1, len(layer) - 1):
        top = -np.inf
        following = np.int64(-1)
        for a in range(lattice.arc_ptr[node], lattice.arc_ptr[node + 1]):
            total = lattice.arc_score[a] + ahead[lattice.arc_to[a]]
            if total > top:
                top = total
                following = lattice.arc_to[a]
        node = following
        labels[t] = lattice.label[node]
    return True
