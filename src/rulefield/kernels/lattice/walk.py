"""Distributions over labelings as walks: layers of nodes, each arc with the probability that it is taken from its node.

A chain, a segment lattice, and either of them times rules all take this form once their sums are known; marginals, the k
best, samples and probabilities of segments are read off it in one pass each.
"""

import heapq
from math import frexp
from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel

BINS = 200
"""Powers of two that masses are sorted by; smaller ones share the last bin."""
LEAST_MASS = 1e-290
"""What underflowed is counted as this."""


class LabelWalk(NamedTuple):
    """Nodes of layer t are ``layer[t] : layer[t + 1]``; arcs of node i are ``arc_ptr[i] : arc_ptr[i + 1]``.

    Masses are probabilities, or their logarithms where a walk was made so; ``left_out`` never is.
    """

    layer: np.ndarray  # int64 (n + 1,)
    label: np.ndarray  # int64 (nodes,)
    start: np.ndarray  # float64 (first nodes,)
    arc_ptr: np.ndarray  # int64 (nodes + 1,)
    arc_to: np.ndarray  # int64 (arcs,)
    arc_mass: np.ndarray  # float64 (arcs,)
    left_out: float  # mass of the labelings that are not in the walk


@kernel
def largest_cut(bins, budget):
    """Return a power of two such that the masses below it, summed by powers of two in ``bins``, are within the budget."""
    total = 0.0
    for back in range(BINS):
        k = BINS - 1 - back
        total += bins[k]
        if total > budget:
            return 2.0 ** float(-k - 1) if k < BINS - 1 else 0.0
    return 1.0


@kernel
def add_to_bins(bins, mass):
    """Add a mass to the bin of its power of two: bin k holds those in [2^-(k + 1), 2^-k)."""
    if mass > 0.0:
        _, power = frexp(mass)
        bins[min(max(-power, 0), BINS - 1)] += mass


@kernel
def mass_cut(masses, first, last, budget):
    """Return a cut: the masses ``first : last`` below it add up to no more than the budget."""
    bins = np.zeros(BINS)
    for i in range(first, last):
        add_to_bins(bins, masses[i])
    return largest_cut(bins, budget)


@kernel
def lattice_walk(lattice, ahead, log_total, tolerance):
    """Return the walk of a lattice without the nodes and arcs that carry at most ``tolerance`` of its mass.

    ``ahead`` (nodes,) and ``log_total`` are those of :func:`rulefield.kernels.lattice.sums.sums_ahead`.
    """
    layer, arc_ptr, arc_to, arc_score = lattice.layer, lattice.arc_ptr, lattice.arc_to, lattice.arc_score
    n, nodes = len(layer) - 1, len(lattice.label)
    mass, number = np.zeros(nodes), np.full(nodes, -1, np.int64)
    share = np.zeros(len(arc_to))
    for i in range(layer[1]):
        mass[i] = np.exp(lattice.reach[i] + ahead[i] - log_total)
    new_layer, label = np.zeros(n + 1, np.int64), np.empty(nodes, np.int64)
    start, new_ptr = np.zeros(layer[1]), np.zeros(nodes + 1, np.int64)
    new_to, new_mass = np.empty(len(arc_to), np.int64), np.empty(len(arc_to))
    kept, arcs, spent = 0, 0, 0.0
    old = np.empty(nodes, np.int64)
    for t in range(n):
        cut = mass_cut(mass, layer[t], layer[t + 1], tolerance * (t + 1) / (2 * n) - spent)
        for i in range(layer[t], layer[t + 1]):
            if mass[i] <= 0.0 or mass[i] < cut:
                spent += mass[i]
                mass[i] = 0.0
                continue
            number[i] = kept
            old[kept] = i
            label[kept] = lattice.label[i]
            if t == 0:
                start[kept] = mass[i]
            kept += 1
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                share[a] = np.exp(arc_score[a] + ahead[arc_to[a]] - ahead[i])
                mass[arc_to[a]] += mass[i] * share[a]
        new_layer[t + 1] = kept
    for t in range(n - 1):
        bins = np.zeros(BINS)
        for k in range(new_layer[t], new_layer[t + 1]):
            i = old[k]
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                add_to_bins(bins, mass[i] * share[a])
        cut = largest_cut(bins, tolerance * (n + t + 1) / (2 * n) - spent)
        for k in range(new_layer[t], new_layer[t + 1]):
            i = old[k]
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                j, here = number[arc_to[a]], mass[i] * share[a]
                if j < 0 or here <= 0.0 or here < cut:
                    spent += 0.0 if j < 0 else here  # what leads to a node that was dropped is counted there
                    continue
                new_to[arcs], new_mass[arcs] = j, share[a]
                arcs += 1
            new_ptr[k + 1] = arcs
    for k in range(new_layer[n - 1], kept):
        new_ptr[k + 1] = arcs
    return LabelWalk(
        new_layer, label[:kept], start[: new_layer[1]], new_ptr[: kept + 1], new_to[:arcs], new_mass[:arcs], spent
    )  # fmt: skip


@kernel
def log_walk(lattice, ahead, log_total):
    """Return the whole walk of a lattice whose nodes all lead to the end, with logarithms of masses."""
    start, arc_mass = np.empty(lattice.layer[1]), np.empty(len(lattice.arc_to))
    for i in range(len(start)):
        start[i] = lattice.reach[i] + ahead[i] - log_total
    for i in range(len(lattice.label)):
        for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
            arc_mass[a] = lattice.arc_score[a] + ahead[lattice.arc_to[a]] - ahead[i]
    return LabelWalk(lattice.layer, lattice.label, start, lattice.arc_ptr, lattice.arc_to, arc_mass, 0.0)


@kernel
def node_masses(walk):
    """Return the probability of every node of a walk whose masses are probabilities."""
    mass = np.zeros(len(walk.label))
    for i in range(walk.layer[1]):
        mass[i] = walk.start[i]
    for i in range(len(walk.label)):
        if mass[i] > 0.0:
            for a in range(walk.arc_ptr[i], walk.arc_ptr[i + 1]):
                mass[walk.arc_to[a]] += mass[i] * walk.arc_mass[a]
    return mass


@kernel
def walk_marginals(walk, mass, node):
    """Add the probability of every label to ``node`` (n, m)."""
    for t in range(len(walk.layer) - 1):
        for i in range(walk.layer[t], walk.layer[t + 1]):
            node[t, walk.label[i]] += mass[i]


@kernel
def walk_samples(walk, uniform, labels):
    """Draw labelings: ``uniform`` (draws, n) of [0, 1) numbers in, ``labels`` (draws, n) out."""
    for draw in range(len(labels)):
        total = 0.0
        for i in range(walk.layer[1]):
            total += walk.start[i]
        left, node = uniform[draw, 0] * total, np.int64(0)
        for i in range(walk.layer[1]):
            if walk.start[i] > 0.0:
                node = i
                left -= walk.start[i]
                if left < 0.0:
                    break
        labels[draw, 0] = walk.label[node]
        for t in range(1, len(walk.layer) - 1):
            total = 0.0
            for a in range(walk.arc_ptr[node], walk.arc_ptr[node + 1]):
                total += walk.arc_mass[a]
            left, following = uniform[draw, t] * total, np.int64(0)
            for a in range(walk.arc_ptr[node], walk.arc_ptr[node + 1]):
                if walk.arc_mass[a] > 0.0:
                    following = walk.arc_to[a]
                    left -= walk.arc_mass[a]
                    if left < 0.0:
                        break
            node = following
            labels[draw, t] = walk.label[node]


@kernel
def span_masses(walk, mass, spans, starts, kinds, chances):
    """Fill ``chances`` (spans,): the probability that a segment stands exactly so.

    Parameters
    ----------
    spans : int64 (spans, 4): first token, token after the last, kind, level
    starts : bool (levels, m + 1, m): whether a segment begins at a label after another (m: at the first token)
    kinds : int32 (levels, m): kind of the segment that a label lies in, -1 for none
    """
    layer, label, arc_ptr, arc_to, arc_mass = walk.layer, walk.label, walk.arc_ptr, walk.arc_to, walk.arc_mass
    n, m = len(layer) - 1, kinds.shape[1]
    held = np.zeros(len(label))
    for s in range(len(spans)):
        first, stop, kind, level = spans[s, 0], spans[s, 1], spans[s, 2], spans[s, 3]
        held[layer[first] : layer[stop]] = 0.0
        if first == 0:
            for i in range(layer[1]):
                if kinds[level, label[i]] == kind and starts[level, m, label[i]]:
                    held[i] = mass[i]
        for i in range(layer[first - 1] if first > 0 else 0, layer[first] if first > 0 else 0):
            for a in range(arc_ptr[i] if mass[i] > 0.0 else arc_ptr[i + 1], arc_ptr[i + 1]):
                j = arc_to[a]
                if kinds[level, label[j]] == kind and starts[level, label[i], label[j]]:
                    held[j] += mass[i] * arc_mass[a]
        for i in range(layer[first], layer[stop - 1]):
            for a in range(arc_ptr[i] if held[i] > 0.0 else arc_ptr[i + 1], arc_ptr[i + 1]):
                j = arc_to[a]
                if kinds[level, label[j]] == kind and not starts[level, label[i], label[j]]:
                    held[j] += held[i] * arc_mass[a]
        total = 0.0
        for i in range(layer[stop - 1], layer[stop]):
            if stop == n:
                total += held[i]
                continue
            for a in range(arc_ptr[i] if held[i] > 0.0 else arc_ptr[i + 1], arc_ptr[i + 1]):
                j = arc_to[a]
                if kinds[level, label[j]] < 0 or starts[level, label[i], label[j]]:
                    total += held[i] * arc_mass[a]
        chances[s] = min(total, 1.0)


@kernel
def walk_kbest(walk, k, labels, chances):
    """Fill ``labels`` (k, n) with the k most probable paths, best first, and ``chances`` (k,); return how many there are.

    Best completions tell every prefix its best end, so that each path costs one walk along it.
    """
    layer, arc_ptr, arc_to = walk.layer, walk.arc_ptr, walk.arc_to
    n = len(layer) - 1
    score, ahead = np.log(walk.arc_mass), np.zeros(len(walk.label))
    for back in range(layer[n - 1]):
        i = layer[n - 1] - 1 - back
        ahead[i] = -np.inf
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            ahead[i] = max(ahead[i], score[a] + ahead[arc_to[a]])
    room, used = 1024, 0
    parent, place, depth = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    reach = np.empty(room)
    heap = [(0.0, np.int64(-1))]
    heap.pop()
    for i in range(layer[1]):
        if walk.start[i] > 0.0 and ahead[i] > -np.inf:
            if used == room:
                parent, place, depth, reach = doubled(parent), doubled(place), doubled(depth), doubled(reach)
                room *= 2
            parent[used], place[used], depth[used], reach[used] = -1, i, 0, np.log(walk.start[i])
            heapq.heappush(heap, (-(reach[used] + ahead[i]), np.int64(used)))
            used += 1
    count = 0
    while len(heap) > 0 and count < k:
        worth, node = heapq.heappop(heap)
        chances[count] = np.exp(-worth)
        while depth[node] < n - 1:
            i = place[node]
            top, choice = -np.inf, np.int64(-1)
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                if score[a] + ahead[arc_to[a]] > top:
                    top, choice = score[a] + ahead[arc_to[a]], a
            following = np.int64(-1)
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arc_to[a]
                if ahead[j] == -np.inf or score[a] == -np.inf:
                    continue
                if used == room:
                    parent, place, depth, reach = doubled(parent), doubled(place), doubled(depth), doubled(reach)
                    room *= 2
                parent[used], place[used], depth[used] = node, j, depth[node] + 1
                reach[used] = reach[node] + score[a]
                if a == choice:
                    following = np.int64(used)
                else:
                    heapq.heappush(heap, (-(reach[used] + ahead[j]), np.int64(used)))
                used += 1
            node = following
        while node >= 0:
            labels[count, depth[node]] = walk.label[place[node]]
            node = parent[node]
        count += 1
    return count
