"""Depth-first search whose bound is soft arc consistency (EDAC), for pairwise problems with forbidden pairs and many labels.

Costs are 0 or more and are to be minimized; infinity forbids. Moving costs between the tables of neighbors changes no
labeling's total, and what every label of a node pays moves into one constant ``zero``, the lower bound. EDAC ([deGivry05])
is a fixed point of such moves. Unlike a sweep over the whole graph it is kept
incrementally: a search node pays for what its decision changed.

A state is one flat vector ``f``: unary costs, then for each arc what its edge has given to each label of its own end,
then ``zero``. Domains are sparse sets: living labels of v are ``vals[at[v] : at[v] + size[v]]``, and a removed label is
swapped behind them, so that undoing a removal is undoing a size.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.graph.exact.soft_moves import cost_of, existential, lift, prune, remove, support
from rulefield.kernels.jit import kernel

LOOPS = 60
"""Rounds of EDAC in one search node; what is left to move after these is not worth its time."""
SHARE = 1e-8
"""Of the gap: smaller moves are not made."""


class OpenDecisions(NamedTuple):
    """Open decisions: the state before each, the node and the label that was tried."""

    f: np.ndarray
    size: np.ndarray
    node: np.ndarray
    label: np.ndarray


@kernel
def blame(s, k):
    """Remember the arc at which a contradiction was met."""
    s.weight[k] += 1.0
    s.weight[s.back[k]] += 1.0


@kernel
def queue_later(s, v):
    """Put the neighbors after ``v`` into queue P: their full supports at ``v`` may be gone."""
    for k in range(s.ptr[v + 1] - 1, s.ptr[v] - 1, -1):
        if s.to[k] < v:
            break
        s.flags[3, s.to[k]] = 1


@kernel
def look_for_existential_supports(s, eps, top):
    """Empty queue P, and what queue S adds to it; 1: something was queued, 0: nothing, -1: a contradiction."""
    R, S, P = s.flags[1], s.flags[2], s.flags[3]
    n, some = len(s.size), 0
    for v in range(n):
        if S[v]:
            S[v], P[v] = 0, 1
            queue_later(s, v)
    for v in range(n):
        if not P[v]:
            continue
        P[v], some = 0, 1
        if existential(s, v, eps, top):
            R[v] = 1
            queue_later(s, v)
        if not s.size[v] or s.f[-1] >= top:
            if s.ptr[v + 1] > s.ptr[v]:
                blame(s, s.ptr[v])
            return -1
    return some


@kernel
def give_supports(s, w, full, eps, top):
    """Give the neighbors of ``w`` supports there (``full``: the earlier ones full supports); False: a contradiction."""
    for k in range(s.ptr[w], s.ptr[w + 1]):
        v = s.to[k]
        if full and v > w:
            break
        rose = support(s, v, s.back[k], full, eps, top)
        if rose:
            s.flags[1, v] = s.flags[2, v] = 1
        if not s.size[v] or s.f[-1] >= top:
            blame(s, k)
            return False
    return True


@kernel
def empty_queue(s, full, eps, top):
    """Empty queue R (``full``, last node first) or Q; 1: something was queued, 0: nothing, -1: a contradiction."""
    n, some = len(s.size), 0
    queue = s.flags[1] if full else s.flags[0]
    for step in range(n):
        w = n - 1 - step if full else step
        if queue[w]:
            queue[w], some = 0, 1
            if not give_supports(s, w, full, eps, top):
                return -1
    return some


@kernel
def prune_all(s, top):
    """Forbid labels that cost too much; 1: some were, 0: none, -1: a node has none left."""
    some = 0
    for v in range(len(s.size)):
        if prune(s, v, top):
            s.flags[0, v] = some = 1
            if not s.size[v]:
                return -1
            lift(s, v)
    return some


@kernel
def propagate(s, top):
    """Establish EDAC from what the queues hold; False where no labeling cheaper than ``top`` is left."""
    if prune_all(s, top) < 0:
        return False
    for v in range(len(s.size)):
        lift(s, v)
    for _ in range(LOOPS):
        gap = top - s.f[-1]
        if gap <= 0.0:
            return False
        eps = SHARE * gap if gap < np.inf else 1e-9
        s.work[0] += len(s.vals)
        found = look_for_existential_supports(s, eps, top)
        if found < 0:
            return False
        some = found
        for full in (True, False):
            found = empty_queue(s, full, eps, top)
            if found < 0:
                return False
            some |= found
        found = prune_all(s, top)
        if found < 0:
            return False
        if not (some | found):
            return True
    s.flags[:] = 0
    return True


@kernel
def choose(s, last):
    """Node to branch on: the one of the last contradiction, else few labels and many contradictions; -1: all decided."""
    if last >= 0 and s.size[last] > 1:
        return last
    chosen, best = -1, np.inf
    for v in range(len(s.size)):
        if s.size[v] > 1:
            weight = 1.0
            for k in range(s.ptr[v], s.ptr[v + 1]):
                if s.size[s.to[k]] > 1:
                    weight += s.weight[k]
            ratio = s.size[v] / weight
            if ratio < best:
                chosen, best = v, ratio
    return chosen


@kernel
def cheapest(s, v):
    """Label of ``v`` to try first: its existential support where that is free, else the cheapest."""
    begin = s.at[v]
    best, least = s.vals[begin], np.inf
    for i in range(begin, begin + s.size[v]):
        a = s.vals[i]
        cost = s.f[begin + a]
        if cost < least or (cost == least and a == s.pick[v]):
            best, least = a, cost
    return best


@kernel
def soft_search(s, rows, depth, best, labels, slack, limit, last):
    """Search until no decision is open or ``limit`` entries were looked at; open decisions are of different nodes.

    ``depth`` is the number of open decisions, -1 at the very beginning. Returns it (0: done), the best cost (its labels in
    ``labels``) and the node of the last contradiction.
    """
    s.work[0] = 0
    n = len(s.size)
    if depth < 0:
        s.flags[:3] = 1
        depth = 0
        alive = propagate(s, best - slack)
    else:
        alive = False
    while True:
        if alive:
            v = choose(s, last)
            if v < 0:
                found = np.empty(n, np.int64)
                for w in range(n):
                    found[w] = s.vals[s.at[w]]
                cost = cost_of(s, found)
                if cost < best:
                    best = cost
                    overwrite(labels, found)
                alive = False
            else:
                a = cheapest(s, v)
                overwrite(rows.f[depth], s.f)
                overwrite(rows.size[depth], s.size)
                rows.node[depth] = v
                rows.label[depth] = a
                depth += 1
                for i in range(s.at[v] + s.size[v] - 1, s.at[v] - 1, -1):
                    if s.vals[i] != a:
                        remove(s, v, s.vals[i])
                s.flags[:] = 0
                s.flags[:3, v] = 1
                alive = propagate(s, best - slack)
                s.work[0] += len(s.f) // 16 + len(s.to)
                if not alive:
                    last = v
        if not alive:
            if depth == 0:
                return 0, best, last
            if s.work[0] > limit:
                return depth, best, last
            depth -= 1
            overwrite(s.f, rows.f[depth])
            overwrite(s.size, rows.size[depth])
            v, a = rows.node[depth], rows.label[depth]
            s.flags[:] = 0
            if s.f[-1] >= best - slack:
                continue
            remove(s, v, a)
            s.flags[:3, v] = 1
            s.work[0] += len(s.f) // 16 + len(s.to)
            alive = s.size[v] > 0 and propagate(s, best - slack)
            if not alive:
                last = v
