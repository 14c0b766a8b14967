"""Depth-first search whose bound is soft arc consistency (EDAC), for pairwise problems with forbidden pairs and many labels.

Costs are 0 or more and are to be minimised; infinity forbids. Moving costs between the tables of neighbours changes no
labelling's total, and what every label of a node pays moves into one constant ``zero``, the lower bound. EDAC ([deGivry05])
is a fixed point of such moves. Unlike a sweep over the whole graph it is kept
incrementally: a search node pays for what its decision changed.

A state is one flat vector ``f``: unary costs, then for each arc what its edge has given to each label of its own end,
then ``zero``. Domains are sparse sets: living labels of v are ``vals[at[v] : at[v] + size[v]]``, and a removed label is
swapped behind them, so that undoing a removal is undoing a size.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel

LOOPS = 60
"""Rounds of EDAC in one search node; what is left to move after these is not worth its time."""
SHARE = 1e-8
"""Of the gap: smaller moves are not made."""


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
    unary: np.ndarray  # as given, to evaluate labellings
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


class OpenDecisions(NamedTuple):
    """Open decisions: the state before each, the node and the label that was tried."""

    f: np.ndarray
    size: np.ndarray
    node: np.ndarray
    label: np.ndarray


@kernel
def soft_problem(net, unary, pairwise, messages):
    """Return the problem of a network without automata, in terms of what its messages leave: costs of 0 or more.

    Also returns the constant: a labelling's score is the constant minus its cost.
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
def remove(s, v, a):
    """Take label ``a`` out of the domain of ``v``."""
    begin = s.at[v]
    last = begin + s.size[v] - 1
    here = s.pos[begin + a]
    other = s.vals[last]
    s.vals[here], s.vals[last] = other, a
    s.pos[begin + other], s.pos[begin + a] = here, last
    s.size[v] -= 1


@kernel
def lift(s, v):
    """Move the least unary cost of ``v`` into the constant."""
    begin = s.at[v]
    least = np.inf
    for i in range(begin, begin + s.size[v]):
        least = min(least, s.f[begin + s.vals[i]])
    if least > 0.0:
        for i in range(begin, begin + s.size[v]):
            s.f[begin + s.vals[i]] -= least
        s.f[-1] += least


@kernel
def support(s, v, k, eps, top):
    """Give every label of ``v`` a support at the other end of arc ``k``; True where a label began to cost."""
    w = s.to[k]
    begin, there, mine, theirs = s.at[v], s.at[w], s.half[k], s.half[s.back[k]]
    q = s.at[w + 1] - there
    rose, changed = False, False
    s.work[0] += s.size[v]
    i = begin
    while i < begin + s.size[v]:
        a = s.vals[i]
        row = s.cost_at[k] + a * q
        b = s.hint[mine + a - s.at[-1]]
        given = s.f[mine + a]
        if s.pos[there + b] < there + s.size[w] and s.cost[row + b] - given - s.f[theirs + b] <= eps:
            i += 1
            continue
        least, where = np.inf, 0
        for j in range(there, there + s.size[w]):
            b = s.vals[j]
            value = s.cost[row + b] - s.f[theirs + b]
            if value < least:
                least, where = value, b
        s.work[0] += s.size[w]
        least -= given
        s.hint[mine + a - s.at[-1]] = where
        if least > eps:
            changed = True
            if s.f[begin + a] <= eps:
                rose = True
            if s.f[-1] + s.f[begin + a] + least >= top:
                remove(s, v, a)
                s.flags[0, v] = 1
                continue
            s.f[begin + a] += least
            s.f[mine + a] += least
        i += 1
    if changed and s.size[v]:
        lift(s, v)
    return rose


@kernel
def full_support(s, v, k, eps, top):
    """Give every label of ``v`` a full support at the other end of arc ``k``: table and unary costs there both 0."""
    w = s.to[k]
    begin, there, mine, theirs = s.at[v], s.at[w], s.half[k], s.half[s.back[k]]
    q = s.at[w + 1] - there
    P = s.room
    rose, any_gain = False, False
    s.work[0] += s.size[v]
    i = begin
    while i < begin + s.size[v]:
        a = s.vals[i]
        row = s.cost_at[k] + a * q
        given = s.f[mine + a]
        b = s.hint[mine + a - s.at[-1]]
        if s.pos[there + b] < there + s.size[w] and (
            s.cost[row + b] - given - s.f[theirs + b] + s.f[there + b] <= eps
        ):
            P[a] = 0.0
            i += 1
            continue
        least, where = np.inf, 0
        for j in range(there, there + s.size[w]):
            b = s.vals[j]
            value = s.cost[row + b] - s.f[theirs + b] + s.f[there + b]
            if value < least:
                least, where = value, b
        s.work[0] += s.size[w]
        s.hint[mine + a - s.at[-1]] = where
        least -= given
        if least > eps and s.f[-1] + s.f[begin + a] + least >= top:
            remove(s, v, a)
            s.flags[0, v] = 1
            continue
        P[a] = least if least > eps else 0.0
        if P[a] > 0.0:
            any_gain = True
            if s.f[begin + a] <= eps:
                rose = True
        i += 1
    if not any_gain or not s.size[v]:
        if s.size[v]:
            lift(s, v)
        return rose
    for j in range(there, there + s.size[w]):
        b = s.vals[j]
        if s.f[there + b] <= 0.0:
            continue
        most = 0.0
        for i in range(begin, begin + s.size[v]):
            a = s.vals[i]
            if P[a] > 0.0:
                value = P[a] - (s.cost[s.cost_at[k] + a * q + b] - s.f[mine + a] - s.f[theirs + b])
                most = max(most, value)
        if most > 0.0:
            moved = min(most, s.f[there + b])
            s.f[there + b] -= moved
            s.f[theirs + b] -= moved
    s.work[0] += s.size[v]
    for i in range(begin, begin + s.size[v]):
        a = s.vals[i]
        s.f[begin + a] += P[a]
        s.f[mine + a] += P[a]
    lift(s, v)
    return rose


@kernel
def existential(s, v, eps, top):
    """Raise the constant where no label of ``v`` has full supports everywhere; True where a label began to cost."""
    begin = s.at[v]
    a = s.pick[v]
    order_first = s.pos[begin + a] < begin + s.size[v]
    least = np.inf
    for turn in range(s.size[v] + 1):
        if turn == 0:
            if not order_first:
                continue
        else:
            a = s.vals[begin + turn - 1]
        total = s.f[begin + a]
        if total >= least:
            continue
        for k in range(s.ptr[v], s.ptr[v + 1]):
            w = s.to[k]
            if w > v:
                break  # later neighbours give full supports already
            there, theirs = s.at[w], s.half[s.back[k]]
            q = s.at[w + 1] - there
            row, given = s.cost_at[k] + a * q, s.f[s.half[k] + a]
            s.work[0] += 1
            b = s.hint[s.half[k] + a - s.at[-1]]
            low = np.inf
            if s.pos[there + b] < there + s.size[w]:
                low = s.cost[row + b] - s.f[theirs + b] + s.f[there + b]
            if low - given > eps:
                where = b
                for j in range(there, there + s.size[w]):
                    b = s.vals[j]
                    value = s.cost[row + b] - s.f[theirs + b] + s.f[there + b]
                    if value < low:
                        low, where = value, b
                s.work[0] += s.size[w]
                s.hint[s.half[k] + a - s.at[-1]] = where
            total += max(0.0, low - given)
            if total >= least:
                break
        if total < least:
            least = total
            s.pick[v] = a
            if least <= eps:
                return False
    rose = False
    for k in range(s.ptr[v], s.ptr[v + 1]):
        if s.to[k] > v:
            break
        if full_support(s, v, k, eps, top):
            rose = True
        if not s.size[v]:
            return True
    return rose


@kernel
def prune(s, v, top):
    """Forbid labels that cost too much by themselves; True where one was."""
    begin = s.at[v]
    i, some = begin, False
    while i < begin + s.size[v]:
        a = s.vals[i]
        if s.f[-1] + s.f[begin + a] >= top:
            remove(s, v, a)
            some = True
        else:
            i += 1
    return some


@kernel
def blame(s, k):
    """Remember the arc at which a contradiction was met."""
    s.weight[k] += 1.0
    s.weight[s.back[k]] += 1.0


@kernel
def propagate(s, top):
    """Establish EDAC from what the queues hold; False where no labelling cheaper than ``top`` is left."""
    n = len(s.size)
    Q, R, S, P = s.flags[0], s.flags[1], s.flags[2], s.flags[3]
    for v in range(n):
        if prune(s, v, top):
            Q[v] = 1
        if not s.size[v]:
            return False
        lift(s, v)
    for _ in range(LOOPS):
        gap = top - s.f[-1]
        if gap <= 0.0:
            return False
        eps = SHARE * gap if gap < np.inf else 1e-9
        some = False
        s.work[0] += len(s.vals)
        for v in range(n):
            if S[v]:
                S[v] = 0
                P[v] = 1
                for k in range(s.ptr[v + 1] - 1, s.ptr[v] - 1, -1):
                    if s.to[k] < v:
                        break
                    P[s.to[k]] = 1
        for v in range(n):
            if P[v]:
                P[v] = 0
                some = True
                if existential(s, v, eps, top):
                    R[v] = 1
                    for k in range(s.ptr[v + 1] - 1, s.ptr[v] - 1, -1):
                        if s.to[k] < v:
                            break
                        P[s.to[k]] = 1
                if not s.size[v] or s.f[-1] >= top:
                    if s.ptr[v + 1] > s.ptr[v]:
                        blame(s, s.ptr[v])
                    return False
        for w in range(n - 1, -1, -1):
            if R[w]:
                R[w] = 0
                some = True
                for k in range(s.ptr[w], s.ptr[w + 1]):
                    v = s.to[k]
                    if v > w:
                        break
                    if full_support(s, v, s.back[k], eps, top):
                        R[v] = 1
                        S[v] = 1
                    if not s.size[v] or s.f[-1] >= top:
                        blame(s, k)
                        return False
        for w in range(n):
            if Q[w]:
                Q[w] = 0
                some = True
                for k in range(s.ptr[w], s.ptr[w + 1]):
                    v = s.to[k]
                    if support(s, v, s.back[k], eps, top):
                        R[v] = 1
                        S[v] = 1
                    if not s.size[v] or s.f[-1] >= top:
                        blame(s, k)
                        return False
        for v in range(n):
            if prune(s, v, top):
                Q[v] = 1
                some = True
                if not s.size[v]:
                    return False
                lift(s, v)
        if not some:
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
def cost_of(s, labels):
    """Cost of a labelling from the tables as given."""
    total = 0.0
    for v in range(len(labels)):
        total += s.unary[s.at[v] + labels[v]]
        for k in range(s.ptr[v], s.ptr[v + 1]):
            w = s.to[k]
            if w > v:
                total += s.cost[s.cost_at[k] + labels[v] * (s.at[w + 1] - s.at[w]) + labels[w]]
    return total


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
                    labels[:] = found
                alive = False
            else:
                a = cheapest(s, v)
                rows.f[depth] = s.f
                rows.size[depth] = s.size
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
            s.f[:] = rows.f[depth]
            s.size[:] = rows.size[depth]
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
