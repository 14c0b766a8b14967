"""Where counters count on a lattice: all arcs of one step between the same labels are one site.

Lattices that were refined have many arcs over few sites, and few counters count at each: duals are charged by site.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel


class Sites(NamedTuple):
    """What counters collect at site s: ``gain[e]`` for ``counter[e]``, e in ``ptr[s] : ptr[s + 1]``."""

    start: np.ndarray  # int64 (first nodes,): the site of entering each
    arc: np.ndarray  # int64 (arcs,)
    ptr: np.ndarray  # int64 (sites + 1,)
    counter: np.ndarray  # int64 (entries,)
    gain: np.ndarray  # int64 (entries,)


@kernel
def counters_by_label(tables, m):
    """Return the counters to which a label adds, or from which it takes, somewhere: (ptr (m + 1,), counters). O(tables)."""
    count = len(tables.counter_bound)
    touched = np.zeros((count, m), np.bool_)
    for c in range(count):
        for kind in range(tables.counter_classes[c]):
            for here in range(m):
                cell = kind * m + here
                if tables.node[tables.node_at[c] + cell] != 0 or tables.node[tables.first_at[c] + cell] != 0:
                    touched[c, here] = True
        if tables.edge_at[c] >= 0:
            for row in range(tables.counter_classes[c] * m):
                for here in range(m):
                    if tables.edge[tables.edge_at[c] + row * m + here] != 0:
                        touched[c, here] = True
    ptr = np.zeros(m + 1, np.int64)
    counters = np.empty(touched.sum(), np.int64)
    found = 0
    for here in range(m):
        for c in range(count):
            if touched[c, here]:
                counters[found] = c
                found += 1
        ptr[here + 1] = found
    return ptr, counters


@kernel
def lattice_sites(lattice, tables, classes, m, free, label_ptr, label_counters):
    """Return the sites of a lattice with the ``free`` counters; the last two are from ``counters_by_label``. O(arcs)."""
    layer, label, arc_ptr, arc_to = lattice.layer, lattice.label, lattice.arc_ptr, lattice.arc_to
    start, arc = np.empty(layer[1], np.int64), np.empty(len(arc_to), np.int64)
    ptr, counter, gain = np.zeros(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    sites, entries, known = 0, 0, np.full(m * m, -1, np.int64)
    for t in range(len(layer) - 1):
        of_layer = sites
        for i in range(0 if t == 0 else layer[t - 1], 1 if t == 0 else layer[t]):
            before = np.int64(0) if t == 0 else label[i]
            for a in range(0 if t == 0 else arc_ptr[i], layer[1] if t == 0 else arc_ptr[i + 1]):
                here = label[a] if t == 0 else label[arc_to[a]]
                site = known[before * m + here]
                if site < of_layer:
                    site = sites
                    known[before * m + here] = site
                    sites += 1
                    if sites == len(ptr):
                        ptr = doubled(ptr)
                    while entries + label_ptr[here + 1] - label_ptr[here] > len(gain):
                        counter, gain = doubled(counter), doubled(gain)
                    for e in range(label_ptr[here], label_ptr[here + 1]):
                        c = label_counters[e]
                        if not free[c]:
                            continue
                        cell = np.int64(classes[tables.counter_rule[c], t]) * m
                        amount = np.int64(
                            tables.node[(tables.first_at[c] if t == 0 else tables.node_at[c]) + cell + here]
                        )
                        if t > 0 and tables.edge_at[c] >= 0:
                            amount += tables.edge[tables.edge_at[c] + (cell + before) * m + here]
                        if amount != 0:
                            counter[entries], gain[entries] = c, amount
                            entries += 1
                    ptr[sites] = entries
                if t == 0:
                    start[a] = site
                else:
                    arc[a] = site
    return Sites(start, arc, ptr[: sites + 1], counter[:entries], gain[:entries])


@kernel
def site_charges(sites, duals, charges):
    """Fill what duals (counters,) charge at each site (sites,)."""
    for s in range(len(charges)):
        total = 0.0
        for e in range(sites.ptr[s], sites.ptr[s + 1]):
            total += duals[sites.counter[e]] * sites.gain[e]
        charges[s] = total
