"""Least cost among the paths of a lattice whose score reaches a floor: label setting over pairs (score, cost)."""

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel


@kernel
def arc_scores(lattice, unary, arriving, rate):
    """Split the arcs' scores, score - rate x cost, into (first score, first cost, arc score, arc cost).

    ``unary`` and ``arriving`` are the model's own potentials.
    """
    layer, label = lattice.layer, lattice.label
    last = len(arriving) - 1
    first_score = np.empty(layer[1])
    first_cost = np.empty(layer[1])
    score = np.empty(len(lattice.arc_to))
    cost = np.empty(len(lattice.arc_to))
    for i in range(layer[1]):
        first_score[i] = unary[0, label[i]]
        first_cost[i] = max(first_score[i] - lattice.reach[i], 0.0) / rate
    for t in range(1, len(layer) - 1):
        for i in range(layer[t - 1], layer[t]):
            for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
                here = label[lattice.arc_to[a]]
                score[a] = unary[t, here] + arriving[min(t - 1, last), here, label[i]]
                cost[a] = max(score[a] - lattice.arc_score[a], 0.0) / rate
    return first_score, first_cost, score, cost


@kernel
def best_ahead(lattice, score, cost):
    """Return the highest score and the least cost of a way from each node to the end (not always one way)."""
    layer = lattice.layer
    n = len(layer) - 1
    most = np.zeros(len(lattice.label))
    least = np.zeros(len(lattice.label))
    for back in range(layer[n - 1]):
        i = layer[n - 1] - 1 - back
        most[i] = -np.inf
        least[i] = np.inf
        for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
            j = lattice.arc_to[a]
            most[i] = max(most[i], score[a] + most[j])
            least[i] = min(least[i], cost[a] + least[j])
    return most, least


@kernel
def cheapest_path(lattice, unary, arriving, rate, floor, ceiling, lagrangian, limit, tie, labels):
    """Find the path of least cost with score >= ``floor`` and cost <= ``ceiling``; ties (up to ``tie``) go to the score.

    Scores of the lattice, ``ahead`` filled, are score - rate x cost; paths for which that is below ``lagrangian`` are not
    wanted. At most ``limit`` labels (score, cost) are kept. Returns the cost, ``inf`` if there is no such path, how many
    labels were used, and whether all was searched; ``labels`` (n,) takes the path.
    """
    layer, arc_ptr, arc_to, ahead = lattice.layer, lattice.arc_ptr, lattice.arc_to, lattice.ahead
    n = len(layer) - 1
    first_score, first_cost, arc_score, arc_cost = arc_scores(lattice, unary, arriving, rate)
    most, least = best_ahead(lattice, arc_score, arc_cost)
    head = np.full(len(lattice.label), -1, np.int64)  # newest label of each node, then along ``older``
    room = 4096
    score = np.empty(room)
    cost = np.empty(room)
    older = np.empty(room, np.int64)
    parent = np.empty(room, np.int64)
    at = np.empty(room, np.int64)
    alive = np.ones(room, np.bool_)
    used = 0
    for t in range(n):
        first, last = (0, 1) if t == 0 else (layer[t - 1], layer[t])
        for i in range(first, last):
            origin = np.int64(-1) if t == 0 else head[i]
            while t == 0 or origin >= 0:
                if t == 0 or alive[origin]:
                    start, stop = (layer[0], layer[1]) if t == 0 else (arc_ptr[i], arc_ptr[i + 1])
                    for a in range(start, stop):
                        j = a if t == 0 else arc_to[a]
                        s = first_score[a] if t == 0 else score[origin] + arc_score[a]
                        c = first_cost[a] if t == 0 else cost[origin] + arc_cost[a]
                        if s + most[j] < floor or c + least[j] > ceiling or s - rate * c + ahead[j] < lagrangian:
                            continue
                        beaten = False
                        k = head[j]
                        while k >= 0:
                            if alive[k]:
                                if score[k] >= s and cost[k] <= c + tie:
                                    beaten = True
                                    break
                                if s >= score[k] and c <= cost[k] + tie:
                                    alive[k] = False
                            k = older[k]
                        if beaten:
                            continue
                        if used == limit:
                            return np.inf, -np.inf, used, False
                        if used == room:
                            score, cost, alive = doubled(score), doubled(cost), doubled(alive)
                            older, parent, at = doubled(older), doubled(parent), doubled(at)
                            room *= 2
                        score[used] = s
                        cost[used] = c
                        older[used] = head[j]
                        parent[used] = origin
                        at[used] = j
                        alive[used] = True
                        head[j] = used
                        used += 1
                if t == 0:
                    break
                origin = older[origin]
    best = np.int64(-1)
    for j in range(layer[n - 1], layer[n]):
        k = head[j]
        while k >= 0:
            better = best < 0 or cost[k] < cost[best] - tie
            if alive[k] and (better or (cost[k] <= cost[best] + tie and score[k] > score[best])):
                best = k
            k = older[k]
    if best < 0:
        return np.inf, -np.inf, used, True
    found_cost, found_score = cost[best], score[best]
    for back in range(n):
        labels[n - 1 - back] = lattice.label[at[best]]
        best = parent[best]
    return found_cost, found_score, used, True
