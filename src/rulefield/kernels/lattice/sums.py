"""Sums, samples and the k best paths of a lattice."""

import heapq

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel


@kernel
def sums_ahead(lattice, ahead):
    """Fill ``ahead`` (nodes,): log of the sum of exp(score) of all ways from each node to the end; return the total's log.

    Each sum is taken relative to its largest term, so scores of any size are safe. O(arcs).
    """
    layer, arc_ptr, arc_to, arc_score = lattice.layer, lattice.arc_ptr, lattice.arc_to, lattice.arc_score
    n = len(layer) - 1
    ahead[layer[n - 1] :] = 0.0
    for back in range(layer[n - 1]):
        i = layer[n - 1] - 1 - back
        top = -np.inf
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            top = max(top, arc_score[a] + ahead[arc_to[a]])
        if top == -np.inf:
            ahead[i] = top
            continue
        total = 0.0
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            total += np.exp(arc_score[a] + ahead[arc_to[a]] - top)
        ahead[i] = top + np.log(total)
    top = -np.inf
    for i in range(layer[1]):
        top = max(top, lattice.reach[i] + ahead[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(layer[1]):
        total += np.exp(lattice.reach[i] + ahead[i] - top)
    return top + np.log(total)


@kernel
def lattice_marginals(lattice, ahead, log_total, node, edge):
    """Add the probability of every label (n, m) and step (n - 1, m, m) to ``node`` and ``edge``."""
    layer, label = lattice.layer, lattice.label
    probability = np.zeros(len(label))
    for i in range(layer[1]):
        probability[i] = np.exp(lattice.reach[i] + ahead[i] - log_total)
    for t in range(len(layer) - 1):
        for i in range(layer[t], layer[t + 1]):
            node[t, label[i]] += probability[i]
            for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
                j = lattice.arc_to[a]
                if ahead[j] == -np.inf or probability[i] == 0.0:
                    continue
                p = probability[i] * np.exp(lattice.arc_score[a] + ahead[j] - ahead[i])
                probability[j] += p
                edge[t, label[i], label[j]] += p


@kernel
def lattice_samples(lattice, ahead, log_total, uniform, labels):
    """Draw paths: ``uniform`` (draws, n) of [0, 1) numbers in, ``labels`` (draws, n) out."""
    layer = lattice.layer
    for draw in range(len(labels)):
        left = uniform[draw, 0]
        node = np.int64(-1)
        for i in range(layer[1]):
            p = np.exp(lattice.reach[i] + ahead[i] - log_total)
            if p > 0.0:
                node = i
                left -= p
                if left < 0.0:
                    break
        labels[draw, 0] = lattice.label[node]
        for t in range(1, len(layer) - 1):
            left = uniform[draw, t]
            following = np.int64(-1)
            for a in range(lattice.arc_ptr[node], lattice.arc_ptr[node + 1]):
                p = np.exp(lattice.arc_score[a] + ahead[lattice.arc_to[a]] - ahead[node])
                if p > 0.0:
                    following = lattice.arc_to[a]
                    left -= p
                    if left < 0.0:
                        break
            node = following
            labels[draw, t] = lattice.label[node]


@kernel
def lattice_kbest(lattice, k, labels):
    """Fill ``labels`` (k, n) with the k best paths, best first; return how many there are.

    ``lattice.ahead`` must hold the best completions: a prefix then knows its best end, and each path costs one
    walk along it.
    """
    layer, ahead = lattice.layer, lattice.ahead
    n = len(layer) - 1
    room = 1024
    parent = np.empty(room, np.int64)
    place = np.empty(room, np.int64)
    depth = np.empty(room, np.int64)
    score = np.empty(room, np.float64)
    used = 0
    heap = [(0.0, np.int64(-1))]
    heap.pop()
    for i in range(layer[1]):
        if ahead[i] > -np.inf and lattice.reach[i] > -np.inf:
            if used == room:
                parent, place, depth, score = (
                    doubled(parent), doubled(place), doubled(depth), doubled(score)
                )  # fmt: skip
                room *= 2
            parent[used] = -1
            place[used] = i
            depth[used] = 0
            score[used] = lattice.reach[i]
            heapq.heappush(heap, (-(score[used] + ahead[i]), np.int64(used)))
            used += 1
    found = 0
    while len(heap) > 0 and found < k:
        _, node = heapq.heappop(heap)
        while depth[node] < n - 1:
            i = place[node]
            top = -np.inf
            choice = np.int64(-1)
            for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
                if lattice.arc_score[a] + ahead[lattice.arc_to[a]] > top:
                    top = lattice.arc_score[a] + ahead[lattice.arc_to[a]]
                    choice = a
            following = np.int64(-1)
            for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
                j = lattice.arc_to[a]
                if ahead[j] == -np.inf or lattice.arc_score[a] == -np.inf:
                    continue
                if used == room:
                    parent, place, depth, score = (
                        doubled(parent), doubled(place), doubled(depth), doubled(score)
                    )  # fmt: skip
                    room *= 2
                parent[used] = node
                place[used] = j
                depth[used] = depth[node] + 1
                score[used] = score[node] + lattice.arc_score[a]
                if a == choice:
                    following = np.int64(used)
                else:
                    heapq.heappush(heap, (-(score[used] + ahead[j]), np.int64(used)))
                used += 1
            node = following
        while node >= 0:
            labels[found, depth[node]] = lattice.label[place[node]]
            node = parent[node]
        found += 1
    return found
