"""Orders in which nodes are eliminated, and what an order costs before anything is computed."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import sort_up
from rulefield.kernels.jit import kernel

WIDEST = 40
"""Nodes of one table: it has at least two entries for each, so more cannot be afforded."""
EARLY = 1e9
"""More than any rating: what nodes that must go early are rated below others."""


class Plan(NamedTuple):
    """An order as a walk through its tree: the message of each node is read by its parent, soon after it was made.

    Row p of ``scope`` (``width[p]`` nodes, those eliminated first come first) is the table that is left when node
    ``order[p]`` is gone; the one at place ``parent[p]`` reads it (-1: it is a number). ``work`` counts entries looked at,
    ``peak`` entries of all tables that wait at one time, ``kept`` bytes of best labels.
    """

    order: np.ndarray
    parent: np.ndarray
    scope: np.ndarray
    width: np.ndarray
    work: float
    peak: float
    kept: float


@kernel
def root_of(parent, v):
    """Root of v in a union-find forest, halving paths."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@kernel
def components(n, scope_ptr, scope):
    """Nodes by connected component, and where each component begins."""
    root = np.arange(n)
    for t in range(len(scope_ptr) - 1):
        for q in range(scope_ptr[t] + 1, scope_ptr[t + 1]):
            root[root_of(root, scope[q])] = root_of(root, scope[scope_ptr[t]])
    for v in range(n):
        root[v] = root_of(root, v)
    size = np.zeros(n, np.int64)
    for v in range(n):
        size[root[v]] += 1
    begin, free, count = np.zeros(n + 1, np.int64), np.empty(n, np.int64), 0
    for v in range(n):
        if size[v]:
            free[v] = begin[count]
            count += 1
            begin[count] = begin[count - 1] + size[v]
    node = np.empty(n, np.int64)
    for v in range(n):
        node[free[root[v]]] = v
        free[root[v]] += 1
    return node, begin[: count + 1]


@kernel
def neighbor_lists(n, degree_room, pairs):
    """List nodes that share a table: of row v ``degree[v]`` are used; and whether two nodes are joined."""
    near, degree = np.empty((n, degree_room), np.int32), np.zeros(n, np.int64)
    joined = np.zeros((n, n), np.bool_)
    for k in range(len(pairs)):
        v, w = pairs[k]
        if not joined[v, w]:
            joined[v, w] = joined[w, v] = True
            near[v, degree[v]], near[w, degree[w]] = w, v
            degree[v] += 1
            degree[w] += 1
    return near, degree, joined


@kernel
def rate(v, near, degree, joined, logs, by_fill):
    """How good it is to eliminate ``v`` next (less is better): by its table, or by the edges it adds and then its table."""
    weight = logs[v]
    for k in range(degree[v]):
        weight += logs[near[v, k]]
    if not by_fill:
        return weight
    fill = 0.0
    for k in range(degree[v]):
        a = near[v, k]
        for j in range(k):
            b = near[v, j]
            if not joined[a, b]:
                fill += logs[a] * logs[b]
    return fill + 1e-3 * weight


@kernel
def greedy_order(sizes, scope_ptr, scope, early, by_fill, most, largest):
    """Eliminate what is cheapest next, ``early`` nodes (a mask) before all others of their component.

    Length 0 if a table has more than 2^``most`` entries or a component more than ``largest`` nodes (it looks at pairs).
    """
    n = len(sizes)
    node, begin = components(n, scope_ptr, scope)
    place, first = np.empty(n, np.int64), np.empty(n, np.int64)
    for c in range(len(begin) - 1):
        for k in range(begin[c], begin[c + 1]):
            place[node[k]], first[node[k]] = k, c
    pair_at = np.zeros(len(begin), np.int64)
    for t in range(len(scope_ptr) - 1):
        wide = scope_ptr[t + 1] - scope_ptr[t]
        pair_at[first[scope[scope_ptr[t]]] + 1] += wide * (wide - 1) // 2
    for c in range(1, len(pair_at)):
        pair_at[c] += pair_at[c - 1]
    pairs, filled = np.empty((pair_at[-1], 2), np.int64), pair_at.copy()
    for t in range(len(scope_ptr) - 1):
        for p in range(scope_ptr[t], scope_ptr[t + 1]):
            for q in range(scope_ptr[t], p):
                c = first[scope[p]]
                pairs[filled[c], 0] = place[scope[p]] - begin[c]
                pairs[filled[c], 1] = place[scope[q]] - begin[c]
                filled[c] += 1
    order = np.empty(n, np.int64)
    logs = np.log2(sizes.astype(np.float64))
    for c in range(len(begin) - 1):
        here = node[begin[c] : begin[c + 1]]
        if len(here) == 1:
            order[begin[c]] = here[0]
            continue
        if len(here) > largest:
            return order[:0]
        found = order_component(logs[here], pairs[pair_at[c] : pair_at[c + 1]], early[here], by_fill, most)
        if not len(found):
            return order[:0]
        for k in range(len(here)):
            order[begin[c] + k] = here[found[k]]
    return order


@kernel
def order_component(logs, pairs, early, by_fill, most):
    """Greedy order of the nodes of one component; length 0 where it is too wide."""
    n = len(logs)
    count = np.zeros(n, np.int64)
    for k in range(len(pairs)):
        count[pairs[k, 0]] += 1
        count[pairs[k, 1]] += 1
    near, degree, joined = neighbor_lists(n, min(n, count.max() + 2 * WIDEST), pairs)
    key, order = np.empty(n), np.empty(n, np.int64)
    gone, stale = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    for step in range(n):
        v, best = -1, np.inf
        for u in range(n):
            if gone[u]:
                continue
            if stale[u]:
                key[u] = rate(u, near, degree, joined, logs, by_fill) - (EARLY if early[u] else 0.0)
                stale[u] = False
            if key[u] < best:
                v, best = u, key[u]
        if rate(v, near, degree, joined, logs, False) > most or not join_neighbors(v, near, degree, joined, stale):
            return order[:0]
        order[step] = v
        gone[v] = True
        if by_fill:
            for k in range(degree[v]):
                a = near[v, k]
                for j in range(degree[a]):
                    stale[near[a, j]] = True
    return order


@kernel
def join_neighbors(v, near, degree, joined, stale):
    """Take ``v`` out and join its neighbors, which become stale; False where a list has no more room."""
    for k in range(degree[v]):
        a = near[v, k]
        stale[a] = True
        for j in range(degree[a]):
            if near[a, j] == v:
                degree[a] -= 1
                near[a, j] = near[a, degree[a]]
                break
    for k in range(degree[v]):
        a = near[v, k]
        for j in range(k):
            b = near[v, j]
            if not joined[a, b]:
                if max(degree[a], degree[b]) == near.shape[1]:
                    return False
                joined[a, b] = joined[b, a] = True
                near[a, degree[a]], near[b, degree[b]] = b, a
                degree[a] += 1
                degree[b] += 1
    return True


@kernel
def scopes_of(order, scope_ptr, scope):
    """Scopes that an order leaves, sorted by it, for each place; widths (-1 at the first: too wide) and parents."""
    n = len(order)
    rank = np.empty(n, np.int64)
    for p in range(n):
        rank[order[p]] = p
    left, width = np.empty((n, WIDEST), np.int32), np.zeros(n, np.int64)
    parent, marked = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    first = np.full(len(scope_ptr) - 1, n, np.int64)
    heads, following = np.full(n, -1, np.int64), np.full(len(scope_ptr) - 1, -1, np.int64)
    for t in range(len(first)):
        for q in range(scope_ptr[t], scope_ptr[t + 1]):
            first[t] = min(first[t], rank[scope[q]])
        heads[first[t]], following[t] = t, heads[first[t]]
    child, sibling = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for p in range(n):
        marked[p] = p
        t = heads[p]
        while t >= 0:
            for q in range(scope_ptr[t], scope_ptr[t + 1]):
                if not take(rank[scope[q]], p, marked, left, width):
                    width[0] = -1
                    return left, width, parent
            t = following[t]
        c = child[p]
        while c >= 0:
            for q in range(width[c]):
                if not take(left[c, q], p, marked, left, width):
                    width[0] = -1
                    return left, width, parent
            c = sibling[c]
        sort_up(left[p], width[p])
        if width[p]:
            up = np.int64(left[p, 0])
            parent[p] = up
            child[up], sibling[p] = p, child[up]
    return left, width, parent


@kernel
def take(r, p, marked, left, width):
    """Put place ``r`` into the scope of place ``p`` once; False where there is no room."""
    if marked[r] == p:
        return True
    if width[p] == WIDEST:
        return False
    marked[r] = p
    left[p, width[p]] = r
    width[p] += 1
    return True


@kernel
def make_plan(sizes, order, scope_ptr, scope):
    """Lay an order out as a walk (children before parents, each subtree in one go) and price it; work is inf: too wide."""
    n = len(order)
    left, width, parent = scopes_of(order, scope_ptr, scope)
    walk, place = walk_up(parent)
    scopes, widths, parents = np.empty((n, WIDEST), np.int32), np.empty(n, np.int64), np.full(n, -1, np.int64)
    entries, waiting = np.ones(n), np.zeros(n)
    if n and width[0] < 0:
        return Plan(order, parents, scopes, widths, np.inf, np.inf, np.inf)
    work, peak, kept, height = 0.0, 0.0, 0.0, 0.0
    for p in range(n):
        q = walk[p]
        widths[p] = width[q]
        parents[p] = place[parent[q]] if parent[q] >= 0 else -1
        for k in range(width[q]):
            scopes[p, k] = place[left[q, k]]
            entries[p] *= sizes[order[left[q, k]]]
        labels = sizes[order[q]]
        work += entries[p] * labels
        peak = max(peak, height + entries[p])
        kept += entries[p] / (8.0 if labels == 2 else 1.0) + 1.0
        height += entries[p] - waiting[p]
        if parents[p] >= 0:
            waiting[parents[p]] += entries[p]
            work += entries[p] * sizes[order[walk[parents[p]]]]
        else:
            height -= entries[p]
    return Plan(order[walk], parents, scopes, widths, work, peak, kept)


@kernel
def walk_up(parent):
    """Places in an order where children come before parents and each subtree is one run; also the inverse."""
    n = len(parent)
    child, sibling = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for p in range(n):
        if parent[p] >= 0:
            child[parent[p]], sibling[p] = p, child[parent[p]]
    walk, place, stack = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    filled = n
    for root in range(n - 1, -1, -1):
        if parent[root] >= 0:
            continue
        stack[0] = root
        top = 1
        while top:
            top -= 1
            v = stack[top]
            filled -= 1
            walk[filled], place[v] = v, filled
            c = child[v]
            while c >= 0:
                stack[top] = c
                top += 1
                c = sibling[c]
    return walk, place
