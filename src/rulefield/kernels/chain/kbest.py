"""The k best labelings of a chain, best first.

Every labeling but the best is a *deviation* of a better one: it keeps that one's labels after some position,
takes a worse label there, and goes on to the left as well as it can ([Eppstein98]; [Huang05],
algorithm 3, for chains). A heap of deviations therefore yields the labelings in order.
"""

from heapq import heappop, heappush

import numpy as np

from rulefield.kernels.chain.viterbi import ONE, ZERO, forward_max, trace_back
from rulefield.kernels.jit import kernel


@kernel
def next_choice(alpha_row, steps, to, at_end, value, label):
    """Return (value, label) of the choice after the given one, in order of falling value and rising label.

    A choice f is worth alpha_row[f] + steps[f, to], or alpha_row[f] at the end of the chain. ``-inf``: none is left.
    """
    best, where = -np.inf, ZERO
    for f in range(np.uint64(alpha_row.shape[0])):
        x = alpha_row[f] if at_end else alpha_row[f] + steps[f, to]
        if (x < value or (x == value and f > label)) and x > best:
            best, where = x, f
    return best, where


@kernel
def k_best(unary, pairwise, labels, scores):
    """Fill labels (k, n) and scores (k,) with the best labelings, all different; return how many there are.

    Needs n > 0 and k > 0. O(n m^2 + k n (m + log(k n))) time, O(k n + n m) memory.
    Forbidden labelings are never returned.
    """
    n, m = np.uint64(unary.shape[0]), np.uint64(unary.shape[1])
    last = n - ONE
    shared = pairwise.shape[0] == 1
    alpha = np.empty((unary.shape[0], unary.shape[1]))
    forward_max(unary, pairwise, alpha)
    value, label = next_choice(alpha[last], pairwise[ZERO], ZERO, True, np.inf, m)
    # a deviation: minus its score, the labeling it leaves, where, to which label, the worth of that choice
    heap = [(-value, 0, last, label, value)]
    found = 0
    while value > -np.inf and found < labels.shape[0] and len(heap) > 0:
        cost, parent, place, label, worth = heappop(heap)
        path = labels[found]
        path[place + ONE :] = labels[parent, place + ONE :]
        path[place] = label
        trace_back(pairwise, alpha, place, path)
        scores[found] = -cost
        for t in range(place + ONE):
            at_end = t == last
            step = ZERO if shared or at_end else t
            to = ZERO if at_end else np.uint64(path[t + ONE])
            here = np.uint64(path[t])
            now = worth if t == place else alpha[t, here] + pairwise[step, here, to]
            then, other = next_choice(alpha[t], pairwise[step], to, at_end, now, here)
            if then > -np.inf:
                heappush(heap, (cost + (now - then), found, t, other, then))
        found += 1
    return found
