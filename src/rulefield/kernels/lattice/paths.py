"""Paths of a chain in the order of their score under the duals, until the next one cannot win any more."""

import heapq

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.dual import overwrite, path_score
from rulefield.kernels.lattice.rule_tables import rule_amounts


@kernel
def grown(array, size):
    """Return a copy of ``array`` with twice the room."""
    bigger = np.empty(size * 2, array.dtype)
    for i in range(size):
        bigger[i] = array[i]
    return bigger


@kernel
def kbest_paths(unary, arriving, charged, moved, ahead, constant, tables, classes, limit, slack, best, best_labels):
    """Best-first search over path prefixes; ``ahead`` makes its bound exact for the charged potentials.

    ``charged``, ``moved`` and ``ahead`` are the dual potentials and their completions, ``constant`` is lambda'b. A
    popped prefix is followed to its best end at once; the other labels met on the way are pushed where their
    bound beats ``best``. Every finished path is judged by all rules with the true potentials.

    Returns
    -------
    (upper bound, best objective, nodes, exhausted)
        ``exhausted``: no path is left whose bound beats the best by more than ``slack``.
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
    used = 0
    heap = [(0.0, np.int64(-1))]
    heap.pop()
    for first in range(m):
        bound = constant + charged[0, first] + ahead[0, first]
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
        while depth[node] < n - 1:
            t = depth[node] + 1
            here = label[node]
            top = -np.inf
            choice = -1
            for to in range(m):
                reach = score[node] + moved[min(t - 1, last), to, here] + charged[t, to]
                if reach + ahead[t, to] > top:
                    top = reach + ahead[t, to]
                    choice = to
            following = np.int64(-1)
            for to in range(m):
                reach = score[node] + moved[min(t - 1, last), to, here] + charged[t, to]
                bound = constant + reach + ahead[t, to]
                if to != choice and not (bound > -np.inf and bound > best + slack):
                    continue
                if used == room:
                    parent = grown(parent, room)
                    label = grown(label, room)
                    depth = grown(depth, room)
                    score = grown(score, room)
                    room *= 2
                parent[used] = node
                label[used] = to
                depth[used] = t
                score[used] = reach
                if to == choice:
                    following = np.int64(used)
                else:
                    heapq.heappush(heap, (-bound, np.int64(used)))
                used += 1
            node = following
        while node >= 0:
            labels[depth[node]] = label[node]
            node = parent[node]
        cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
        objective = path_score(unary, arriving, labels) - cost
        if objective > best:
            best = objective
            overwrite(best_labels, labels)
    return best, best, used, True
