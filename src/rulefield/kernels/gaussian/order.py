"""An order of the nodes of a graph in which its Cholesky factor has few entries: nested dissection."""

import numpy as np

from rulefield.kernels.jit import kernel

SMALLEST = 32  # regions up to this size are left as they are


@kernel
def _levels(indptr, indices, region, mine, root, queue, level):
    """Breadth-first levels of the nodes of one region that ``root`` reaches; return their number (queue is filled)."""
    queue[0] = root
    level[root] = 0
    region[root] = -mine - 2  # visited
    head, tail = 0, 1
    while head < tail:
        i = queue[head]
        head += 1
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if region[j] == mine:
                region[j] = -mine - 2
                level[j] = level[i] + 1
                queue[tail] = j
                tail += 1
    for k in range(tail):
        region[queue[k]] = mine
    return tail


@kernel
def dissect(indptr, indices, order):
    """Fill ``order`` (new position -> node) by nested dissection: the middle breadth-first level separates a region.

    A. George and J. W. H. Liu, An automatic nested dissection algorithm, 1978. O(edges log n).
    """
    n = order.shape[0]
    region = np.zeros(n, np.int64)
    level = np.zeros(n, np.int64)
    queue = np.empty(n, np.int64)
    begin, end, name = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    for i in range(n):
        order[i] = i
    begin[0], end[0], name[0] = 0, n, 0
    depth, names = 1, 1
    while depth > 0:
        depth -= 1
        lo, hi, mine = begin[depth], end[depth], name[depth]
        if hi - lo <= SMALLEST:
            continue
        reached = _levels(indptr, indices, region, mine, order[lo], queue, level)
        if reached < hi - lo:  # several components: the reached one first
            for k in range(reached):
                region[queue[k]] = names
            at = lo + reached
            for k in range(lo, hi):
                if region[order[k]] == mine:
                    level[at - lo - reached] = order[k]
                    at += 1
            for k in range(at - lo - reached):
                order[lo + reached + k] = level[k]
            for k in range(reached):
                order[lo + k] = queue[k]
            begin[depth], end[depth], name[depth] = lo, lo + reached, names
            begin[depth + 1], end[depth + 1], name[depth + 1] = lo + reached, hi, mine
            depth += 2
            names += 1
            continue
        reached = _levels(indptr, indices, region, mine, queue[reached - 1], queue, level)  # from a far end
        middle = level[queue[reached // 2]]
        last = level[queue[reached - 1]]
        if last < 2:
            continue  # as good as a clique
        middle = min(max(middle, 1), last - 1)
        before, cut = 0, 0
        for k in range(reached):
            before += level[queue[k]] < middle
            cut += level[queue[k]] == middle
        after = reached - before - cut  # queue is sorted by level: before, separator, after
        for k in range(before):
            order[lo + k] = queue[k]
            region[queue[k]] = names
        for k in range(after):
            order[lo + before + k] = queue[before + cut + k]
            region[queue[before + cut + k]] = names + 1
        for k in range(cut):
            order[hi - cut + k] = queue[before + k]
            region[queue[before + k]] = -1
        begin[depth], end[depth], name[depth] = lo, lo + before, names
        begin[depth + 1], end[depth + 1], name[depth + 1] = lo + before, hi - cut, names + 1
        depth += 2
        names += 2
