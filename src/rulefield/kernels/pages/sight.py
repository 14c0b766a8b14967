"""Which boxes of a page see each other, and which separators lie between them."""

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel


@kernel
def visible_pairs(low, high, order):
    """Pairs of boxes with nothing between them, looking across ``low`` to ``high`` in the given order, from near to far.

    A sweep: the skyline holds, for every stretch of the axis, the last box that covered it. A new box sees the boxes
    of the stretches that it covers. O(n (log n + s)), s the boxes that stand side by side in the skyline. Returns the first
    and the second box of each pair, and the length over which they see each other.
    """
    n = len(order)
    begin = np.empty(2 * n + 2)  # of the stretches of the skyline, ascending
    owner = np.empty(2 * n + 2, np.int64)
    begin[0], owner[0], size = -np.inf, -1, 1
    last_pair = np.full(n, -1, np.int64)
    room = 4 * n + 16
    first, second = np.empty(room, np.int64), np.empty(room, np.int64)
    shared = np.empty(room)
    count = 0
    for k in range(n):
        v = order[k]
        a, b = low[v], high[v]
        if b <= a:
            continue
        i = np.searchsorted(begin[:size], a, side="right") - 1
        j, start_of_new = i, count
        while j < size and begin[j] < b:
            u = owner[j]
            end = begin[j + 1] if j + 1 < size else np.inf
            seen = min(end, b) - max(begin[j], a)
            if u >= 0 and seen > 0.0:
                at = last_pair[u]
                if at >= start_of_new and second[at] == v:
                    shared[at] += seen
                else:
                    if count == room:
                        first, second, shared = doubled(first), doubled(second), doubled(shared)
                        room *= 2
                    first[count], second[count], shared[count] = u, v, seen
                    last_pair[u] = count
                    count += 1
            j += 1
        tail_owner, tail_end = owner[j - 1], begin[j] if j < size else np.inf
        keep_head = 1 if begin[i] < a else 0
        keep_tail = 1 if tail_end > b else 0
        grown = size - (j - i) + keep_head + 1 + keep_tail
        rest = size - j
        target = i + keep_head + 1 + keep_tail
        if target > j:
            for m in range(rest - 1, -1, -1):
                begin[target + m], owner[target + m] = begin[j + m], owner[j + m]
        elif target < j:
            for m in range(rest):
                begin[target + m], owner[target + m] = begin[j + m], owner[j + m]
        at = i + keep_head
        begin[at], owner[at] = a, v
        if keep_tail:
            begin[at + 1], owner[at + 1] = b, tail_owner
        size = grown
    return first[:count], second[:count], shared[:count]


@kernel
def cuts_of_diagonals(separators, boxes, horizontal):
    """Count the boxes that each diagonal of each separator runs through, int64 (n_separators, 2): falling, rising."""
    out = np.zeros((len(separators), 2), np.int64)
    for s in range(len(separators)):
        x1, y1, x2, y2 = separators[s]
        for v in range(len(boxes)):
            left, top, right, bottom = boxes[v]
            if right < x1 or left > x2 or bottom < y1 or top > y2:
                continue
            for rising in range(2):
                if horizontal[s]:
                    share = min(max((0.5 * (left + right) - x1) / max(x2 - x1, 1e-12), 0.0), 1.0)
                    at = y1 + (y2 - y1) * (1.0 - share if rising else share)
                    out[s, rising] += top < at < bottom
                else:
                    share = min(max((0.5 * (top + bottom) - y1) / max(y2 - y1, 1e-12), 0.0), 1.0)
                    at = x1 + (x2 - x1) * (1.0 - share if rising else share)
                    out[s, rising] += left < at < right
    return out


@kernel
def separators_between(place, start, end, separators, rising, wanted, slack):
    """Count the separators that cross each line of sight, and tell where the nearest stands.

    A line of sight stands at ``place`` on the axis along the separators and runs from ``start`` to ``end`` across it.
    ``separators`` (m, 4) begin and end along the axis, begin and end across it; ``rising`` says which diagonal each is,
    ``wanted`` which count, ``slack`` how far beyond its ends one still counts. Returns the counts, how far behind ``start``
    the first one between stands (inf: none) and its number (-1: none).
    """
    count = np.zeros(len(place), np.int64)
    nearest, which = np.full(len(place), np.inf), np.full(len(place), -1, np.int64)
    for k in range(len(place)):
        for s in range(len(separators)):
            begin, stop, low, high = separators[s]
            if (
                not wanted[s]
                or place[k] < begin - slack
                or place[k] > stop + slack
                or high < start[k]
                or low > end[k]
            ):
                continue
            share = min(max((place[k] - begin) / max(stop - begin, 1e-12), 0.0), 1.0)
            at = low + (high - low) * (1.0 - share if rising[s] else share)
            if start[k] < at < end[k]:
                count[k] += 1
                if at - start[k] < nearest[k]:
                    nearest[k], which[k] = at - start[k], s
    return count, nearest, which
