"""A pairwise problem as costs of 0 or more (infinity forbids), and moves of costs between the tables of neighbors.

No labeling's total changes by moves, the constant that all pay may rise.

``eps`` is the least cost worth moving, ``top`` what a labeling must stay below; a label that cannot is removed.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel, piece


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


@piece
def lacking(s, k, a, full, eps):
    """Return by how much every pair of label ``a`` (of arc ``k``'s own end) costs more than its edge gave it.

    ``full``: with the unary cost at the other end. 0 if the label's last support still costs no more than ``eps``.
    """
    w = s.to[k]
    there, theirs, here = s.at[w], s.half[s.back[k]], s.half[k] + a
    row = s.cost_at[k] + a * (s.at[w + 1] - there)
    given = s.f[here]
    b = s.hint[here - s.at[-1]]
    if s.pos[there + b] < there + s.size[w]:
        value = s.cost[row + b] - given - s.f[theirs + b]
        if full:
            value += s.f[there + b]
        if value <= eps:
            return 0.0
    least, where = np.inf, 0
    for j in range(there, there + s.size[w]):
        b = s.vals[j]
        value = s.cost[row + b] - s.f[theirs + b]
        if full:
            value += s.f[there + b]
        if value < least:
            least, where = value, b
    s.work[0] += s.size[w]
    s.hint[here - s.at[-1]] = where
    return least - given


@kernel
def support(s, v, k, full, eps, top):
    """Give every label of ``v`` a support (a pair that costs 0) at the other end of arc ``k``; True if one began to cost.

    ``full``: the unary cost of its label there is 0 as well; it moves into the pairs as far as that is needed.
    """
    begin, P = s.at[v], s.room
    rose, any_gain = False, False
    s.work[0] += s.size[v]
    i = begin
    while i < begin + s.size[v]:
        a = s.vals[i]
        least = lacking(s, k, a, full, eps)
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
    if not s.size[v]:
        return rose
    if any_gain:
        if full:
            fetch_unary(s, v, k, P)
        s.work[0] += s.size[v]
        for i in range(begin, begin + s.size[v]):
            a = s.vals[i]
            s.f[begin + a] += P[a]
            s.f[s.half[k] + a] += P[a]
    if any_gain or full:
        lift(s, v)
    return rose


@kernel
def fetch_unary(s, v, k, P):
    """Move unary costs at the other end of arc ``k`` into its pairs, so that label a of ``v`` can take ``P[a]`` there."""
    w, begin = s.to[k], s.at[v]
    there, theirs, mine = s.at[w], s.half[s.back[k]], s.half[k]
    q = s.at[w + 1] - there
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


@kernel
def existential(s, v, eps, top):
    """Raise the constant where no label of ``v`` has full supports everywhere; True where a label began to cost."""
    begin, a = s.at[v], s.pick[v]
    least = np.inf
    for turn in range(s.size[v] + 1):
        if turn > 0:
            a = s.vals[begin + turn - 1]
        elif s.pos[begin + a] >= begin + s.size[v]:
            continue
        total = s.f[begin + a]
        if total >= least:
            continue
        for k in range(s.ptr[v], s.ptr[v + 1]):
            if s.to[k] > v:
                break  # later neighbors give full supports already
            s.work[0] += 1
            total += max(0.0, lacking(s, k, a, True, eps))
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
        if support(s, v, k, True, eps, top):
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
