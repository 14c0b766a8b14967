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
def soft_problem(net, unary, pairwise, messages):
    """Return the problem of a network without automata, in terms of what its messages leave: costs of 0 or more.

    Also returns the constant: a labeling's score is the constant minus its cost.
    """
    n = len(net.node_at) - 1
    at = net.node_at.astype(np.int64)
    ptr = net.inc_ptr.astype(np.int64)
    to = net.inc_other.astype(np.int64)
    n_arcs = len(to)
    back = np.empty(n_arcs, np.int64)
    cost_at = np.zeros(n_arcs + 1, np.int64)
    half = np.zeros(n_arcs + 1, np.int64)
    half[0] = at[n]
    for v in range(n):
        for k in range(ptr[v], ptr[v + 1]):
            w = to[k]
            cost_at[k + 1] = cost_at[k] + (at[v + 1] - at[v]) * (at[w + 1] - at[w])
            half[k + 1] = half[k] + at[v + 1] - at[v]
            for j in range(ptr[w], ptr[w + 1]):
                if to[j] == v:
                    back[k] = j
    theta = unary.copy()
    for v in range(n):
        for k in range(ptr[v], ptr[v + 1]):
            recv = np.int64(net.inc_recv[k])
            for a in range(at[v + 1] - at[v]):
                theta[at[v] + a] += messages[recv + a]
    constant = 0.0
    for v in range(n):
        best = -np.inf
        for i in range(at[v], at[v + 1]):
            best = max(best, theta[i])
        if best == -np.inf:
            return -np.inf, at, ptr, to, back, cost_at, np.zeros(0), half, theta
        constant += best
        for i in range(at[v], at[v + 1]):
            theta[i] = best - theta[i]
    cost = np.empty(cost_at[n_arcs])
    for v in range(n):
        for k in range(ptr[v], ptr[v + 1]):
            w = to[k]
            if w < v:
                continue
            m, q = at[v + 1] - at[v], at[w + 1] - at[w]
            pair, recv, send = np.int64(net.inc_pair[k]), np.int64(net.inc_recv[k]), np.int64(net.inc_send[k])
            best = -np.inf
            for a in range(m):
                for b in range(q):
                    score = pairwise[pair + a * q + b]
                    if theta[at[v] + a] < np.inf and theta[at[w] + b] < np.inf and score > -np.inf:
                        score -= messages[recv + a] + messages[send + b]
                        best = max(best, score)
                    else:
                        score = -np.inf
                    cost[cost_at[k] + a * q + b] = score
            if best == -np.inf:
                return -np.inf, at, ptr, to, back, cost_at, cost, half, theta
            constant += best
            for a in range(m):
                for b in range(q):
                    value = best - cost[cost_at[k] + a * q + b]
                    cost[cost_at[k] + a * q + b] = value
                    cost[cost_at[back[k]] + b * m + a] = value
    return constant, at, ptr, to, back, cost_at, cost, half, theta


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
