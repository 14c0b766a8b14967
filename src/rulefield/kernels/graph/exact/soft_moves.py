"""Moves of costs between the tables of neighbors: no labeling's total changes, the constant that all pay may rise.

``eps`` is the least cost worth moving, ``top`` what a labeling must stay below; a label that cannot is removed.
"""

import numpy as np

from rulefield.kernels.jit import kernel


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
                break  # later neighbors give full supports already
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
