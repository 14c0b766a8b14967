"""Better duals on a lattice: terms that are not exact yet are priced anew where only few paths are left."""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.dual import priced
from rulefield.kernels.lattice.rule_tables import rule_amounts

FIRST_PACE, SLOWER, PATIENCE = 0.2, 0.7, 3  # share of Polyak's step; shorter where so many passes brought nothing


@kernel
def charge_all(lattice, charged, moved, edges, sign):
    """Add what labels (n, m) and, if ``edges``, steps (k, to, from) are charged with to all scores, in place. O(arcs)."""
    layer, label, arc_ptr, arc_to = lattice.layer, lattice.label, lattice.arc_ptr, lattice.arc_to
    reach, score, last = lattice.reach, lattice.arc_score, len(moved) - 1
    for i in range(layer[1]):
        reach[i] += sign * charged[0, label[i]]
    for i in range(layer[1], len(reach)):
        reach[i] = -np.inf
    for t in range(1, len(layer) - 1):
        step = min(t - 1, last)
        for i in range(layer[t - 1], layer[t]):
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arc_to[a]
                charge = charged[t, label[j]]
                if edges:
                    charge += moved[step, label[j], label[i]]
                score[a] += sign * charge
                reach[j] = max(reach[j], reach[i] + score[a])


@kernel
def charged_path(lattice, charged, moved, edges, ahead, following, labels):
    """Return the score of the best path under charges and fill its labels; -inf where there is none. O(arcs).

    ``ahead`` (nodes,), here with a node's own charge, and ``following`` (nodes,) are filled on the way.
    """
    layer, label, arc_ptr, arc_to = lattice.layer, lattice.label, lattice.arc_ptr, lattice.arc_to
    reach, score = lattice.reach, lattice.arc_score
    n, last = len(layer) - 1, len(moved) - 1
    for i in range(layer[n - 1], layer[n]):
        ahead[i] = charged[n - 1, label[i]]
    for back in range(n - 1):
        t = n - 2 - back
        step = min(t, last)
        for i in range(layer[t], layer[t + 1]):
            top, best = -np.inf, np.int64(-1)
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arc_to[a]
                total = score[a] + ahead[j]
                if edges:
                    total += moved[step, label[j], label[i]]
                if total > top:
                    top, best = total, j
            ahead[i] = top + charged[t, label[i]]
            following[i] = best
    top, node = -np.inf, np.int64(-1)
    for i in range(layer[1]):
        if reach[i] + ahead[i] > top:
            top, node = reach[i] + ahead[i], i
    if node >= 0:
        labels[0] = label[node]
        for t in range(1, n):
            node = following[node]
            labels[t] = label[node]
    return top


@kernel
def step_duals(now, excesses, free, caps, size):
    """Move the free duals along the excesses by ``size`` over their squared length; False where none can move."""
    square = 0.0
    for c in range(len(now)):
        if free[c] and ((excesses[c] > 0 and now[c] < caps[c]) or (excesses[c] < 0 and now[c] > 0.0)):
            square += float(excesses[c]) * float(excesses[c])
    if square == 0.0:
        return False
    for c in range(len(now)):
        if free[c]:
            now[c] = min(max(now[c] + size / square * excesses[c], 0.0), caps[c])
    return True


@kernel
def tighten(lattice, tables, classes, m, free, caps, duals, constant, goal, most_passes, stop, conflict):
    """Lower the best path of a lattice towards ``goal`` by better duals of the counters that are ``free``.

    Minimises D(lambda) = max over paths of score(y) - lambda'(tally(y) - bound) over 0 <= lambda <= caps by subgradient steps
    (Polyak's, shortened), each one pass over the arcs: duals that are best for the whole chain are not so for the paths that
    are left once some terms are exact. ``lattice`` (scores and ``reach``; not ``ahead``) and ``duals`` (counters,) become
    those of the least bound met. ``conflict`` (counters,) is raised, in every pass, by how far the best path is from each
    bound: what stays far from it whatever its dual needs to be exact.

    Returns
    -------
    (constant, passes)
        What is now added to every score.
    """
    n, nodes = len(lattice.layer) - 1, len(lattice.label)
    edges = False
    for c in range(len(duals)):
        edges = edges or (free[c] and tables.edge_at[c] >= 0)
    nothing, no_step = np.zeros((n, m)), np.zeros((1, m, m))
    charged, moved = priced(nothing, no_step, tables, classes, duals)
    charge_all(lattice, charged, moved, edges, -1.0)
    for c in range(len(duals)):
        constant -= duals[c] * tables.counter_bound[c]
    now, labels = duals.copy(), np.zeros(n, np.int64)
    ahead, following = np.empty(nodes), np.zeros(nodes, np.int64)
    amounts, excesses = np.zeros(len(tables.weight), np.int64), np.zeros(len(duals), np.int64)
    bound, pace, still, passes = np.inf, FIRST_PACE, 0, 0
    while passes < most_passes and not stop[0]:
        passes += 1
        charged, moved = priced(nothing, no_step, tables, classes, now)
        value = charged_path(lattice, charged, moved, edges, ahead, following, labels) + constant
        for c in range(len(now)):
            value += now[c] * tables.counter_bound[c]
        still += 1
        if value < bound:
            bound, still = value, 0
            overwrite(duals, now)
        if value <= goal:
            break
        if still >= PATIENCE:
            pace, still = SLOWER * pace, 0
        rule_amounts(tables, classes, labels, m, amounts, excesses)
        for c in range(len(now)):
            conflict[c] += abs(excesses[c])
        if not step_duals(now, excesses, free, caps, pace * (value - goal)):
            break
    charged, moved = priced(nothing, no_step, tables, classes, duals)
    charge_all(lattice, charged, moved, edges, 1.0)
    for c in range(len(duals)):
        constant += duals[c] * tables.counter_bound[c]
    return constant, passes
