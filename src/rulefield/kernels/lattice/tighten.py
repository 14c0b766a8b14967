"""Better duals on a lattice: terms that are not exact yet are priced anew where only few paths are left."""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.sites import site_charges

FIRST_PACE, SLOWER, PATIENCE = 0.2, 0.7, 3  # share of Polyak's step; shorter where so many passes brought nothing


@kernel
def charge_all(lattice, sites, charges, sign):
    """Add ``sign`` times what sites are charged with to all scores, in place. O(arcs)."""
    layer, arc_ptr, arc_to = lattice.layer, lattice.arc_ptr, lattice.arc_to
    reach, score = lattice.reach, lattice.arc_score
    for i in range(layer[1]):
        reach[i] += sign * charges[sites.start[i]]
    for i in range(layer[1], len(reach)):
        reach[i] = -np.inf
    for i in range(layer[-2]):
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            score[a] += sign * charges[sites.arc[a]]
            reach[arc_to[a]] = max(reach[arc_to[a]], reach[i] + score[a])


@kernel
def charged_path(lattice, sites, charges, ahead, following):
    """Return the score of the best path under charges and its first node; -inf and -1 where there is none. O(arcs).

    ``ahead`` (nodes,) and ``following`` (nodes,), the best arc from each node, are filled on the way.
    """
    layer, arc_ptr, arc_to = lattice.layer, lattice.arc_ptr, lattice.arc_to
    score, of_arc = lattice.arc_score, sites.arc
    last = layer[-2]
    for i in range(last, layer[-1]):
        ahead[i] = 0.0
    for back in range(last):
        i = last - 1 - back
        top, best = -np.inf, np.int64(-1)
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            total = score[a] - charges[of_arc[a]] + ahead[arc_to[a]]
            if total > top:
                top, best = total, a
        ahead[i] = top
        following[i] = best
    top, first = -np.inf, np.int64(-1)
    for i in range(layer[1]):
        total = lattice.reach[i] - charges[sites.start[i]] + ahead[i]
        if total > top:
            top, first = total, i
    return top, first


@kernel
def path_excesses(lattice, sites, bounds, first, following, excesses):
    """Fill how far the path from node ``first`` is above the bound of each counter (counters,)."""
    for c in range(len(excesses)):
        excesses[c] = -bounds[c]
    site, node = sites.start[first], first
    for t in range(len(lattice.layer) - 1):
        for e in range(sites.ptr[site], sites.ptr[site + 1]):
            excesses[sites.counter[e]] += sites.gain[e]
        if t < len(lattice.layer) - 2:
            arc = following[node]
            site, node = sites.arc[arc], lattice.arc_to[arc]


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
def tighten(lattice, sites, bounds, free, caps, duals, constant, goal, most_passes, stop, conflict):
    """Lower the best path of a lattice toward ``goal`` by better duals of the counters that are ``free``.

    Minimizes D(lambda) = max over paths of score(y) - lambda'(tally(y) - bound) over 0 <= lambda <= caps by subgradient steps
    (Polyak's, shortened), each one pass over the arcs: duals that are best for the whole chain are not so for the paths that
    are left once some terms are exact. ``lattice`` (scores and ``reach``; not ``ahead``) and ``duals`` (counters,) become
    those of the least bound met. ``conflict`` (counters,) is raised, in every pass, by how far the best path is from each
    bound: what stays far from it whatever its dual needs to be exact.

    Returns
    -------
    (constant, passes)
        What is now added to every score.
    """
    nodes, charges = len(lattice.label), np.empty(len(sites.ptr) - 1)
    site_charges(sites, duals, charges)
    charge_all(lattice, sites, charges, 1.0)
    for c in range(len(duals)):
        constant -= duals[c] * bounds[c]
    now, excesses = duals.copy(), np.zeros(len(duals), np.int64)
    ahead, following = np.empty(nodes), np.zeros(nodes, np.int64)
    bound, pace, still, passes = np.inf, FIRST_PACE, 0, 0
    while passes < most_passes and not stop[0]:
        passes += 1
        site_charges(sites, now, charges)
        value, first = charged_path(lattice, sites, charges, ahead, following)
        value += constant
        for c in range(len(now)):
            value += now[c] * bounds[c]
        still += 1
        if value < bound:
            bound, still = value, 0
            overwrite(duals, now)
        if value <= goal:
            break
        if still >= PATIENCE:
            pace, still = SLOWER * pace, 0
        path_excesses(lattice, sites, bounds, first, following, excesses)
        for c in range(len(now)):
            if free[c]:
                conflict[c] += abs(excesses[c])
        if not step_duals(now, excesses, free, caps, pace * (value - goal)):
            break
    site_charges(sites, duals, charges)
    charge_all(lattice, sites, charges, -1.0)
    for c in range(len(duals)):
        constant += duals[c] * bounds[c]
    return constant, passes
