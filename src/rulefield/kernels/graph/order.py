"""Orders of a graph's nodes."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def breadth_first(pointer, neighbor):
    """Nodes in breadth-first order from the first unvisited node of each component; returns order, components."""
    n = len(pointer) - 1
    order = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    filled, components = 0, 0
    for root in range(n):
        if seen[root]:
            continue
        components += 1
        seen[root] = True
        order[filled] = root
        head = filled
        filled += 1
        while head < filled:
            v = order[head]
            head += 1
            for k in range(pointer[v], pointer[v + 1]):
                w = neighbor[k]
                if not seen[w]:
                    seen[w] = True
                    order[filled] = w
                    filled += 1
    return order, components
