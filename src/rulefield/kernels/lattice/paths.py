"""Paths of a chain in the order of their score under the duals, until the next one cannot win any more."""

import heapq

import numpy as np

from rulefield.kernels.arrays import doubled, overwrite
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.dual import path_score
from rulefield.kernels.lattice.rule_tables import read_rules


@kernel
def kbest_paths(unary, arriving, charged, moved, ahead, constant, tables, classes, limit, slack, best, best_labels):
    """Best-first search over path prefixes; ``ahead`` makes its bound exact for the charged potentials.

    ``charged``, ``moved`` and ``ahead`` are the dual potentials and their completions, ``constant`` is lambda'b. A popped
    prefix is followed to its best end at once; the other labels met on the way are pushed where their bound beats ``best``.
    Every finished path is judged by the rules with the true potentials. Returns the upper bound, the best objective, the
    nodes, and whether no path is left whose bound beats the best by more than ``slack``.
    """
    n, m = unary.shape
    last = len(moved) - 1
    excesses = np.zeros(len(tables.counter_bound), np.int64)
    amounts = np.zeros(len(tables.weight), np.int64)
    labels = np.zeros(n, np.int64)
    room = 1024
    parent = np.empty(room, np.int64)
    label = np.empty(room, np.int64)
    depth = np.empty(room, np.int64)
    score = np.empty(room, np.float64)
    ends = np.empty(m)
    gains = np.empty((n, m))  # a token's score and all that can follow it
    for t in range(n):
        for here in range(m):
            gains[t, here] = charged[t, here] + ahead[t, here]
    used = 0
    heap = [(0.0, np.int64(-1))]
    heap.pop()
    for first in range(m):
        bound = constant + gains[0, first]
        if bound > -np.inf and bound > best + slack:
            parent[used] = -1
            label[used] = first
            depth[used] = 0
            score[used] = charged[0, first]
            heapq.heappush(heap, (-bound, np.int64(used)))
            used += 1
    while len(heap) > 0:
        negative, node = heapq.heappop(heap)
        if -negative <= best + slack:
            return best, best, used, True
        if used >= limit:
            return -negative, best, used, False
        while used + n * m > room:  # not inside the next loop, which would then load each array anew at every access
            parent = doubled(parent)
            label = doubled(label)
            depth = doubled(depth)
            score = doubled(score)
            room *= 2
        while depth[node] < n - 1:
            t = depth[node] + 1
            here = label[node]
            step = min(t - 1, last)
            top = -np.inf
            choice = -1
            for to in range(m):
                ends[to] = moved[step, to, here] + gains[t, to]
                if ends[to] > top:
                    top = ends[to]
                    choice = to
            following = np.int64(-1)
            so_far = constant + score[node]
            wanted = best + slack
            for to in range(m):
                bound = so_far + ends[to]
                if to != choice and not bound > wanted:
                    continue
                parent[used] = node
                label[used] = to
                depth[used] = t
                score[used] = score[node] + moved[step, to, here] + charged[t, to]
                if to == choice:
                    following = np.int64(used)
                else:
                    heapq.heappush(heap, (-bound, np.int64(used)))
                used += 1
            node = following
        while node >= 0:
            labels[depth[node]] = label[node]
            node = parent[node]
        reached = path_score(unary, arriving, labels)
        objective = reached - read_rules(tables, classes, labels, m, reached - best, False, amounts, excesses)
        if objective > best:
            best = objective
            overwrite(best_labels, labels)
    return best, best, used, True
