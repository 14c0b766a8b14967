"""Reparametrizations of a pairwise graph: sequential message passing ([Kolmogorov06]) that keeps what each edge gave away.

Message 2e + s of edge e is what it gives, label by label, to its node on side s; a node's score has all that it was given
added, an edge's score has what it gave taken off. A labeling's total never changes.
"""

import numpy as np

from rulefield.kernels.jit import kernel

HOPELESS = -1e12
"""Given to a label that no label of the other node goes with."""


@kernel
def pass_messages(order, edges, unary_at, pair_at, pair, around_ptr, around, alive, node, message, backward):
    """Go once through the nodes; each shares its score among the edges to later nodes, which pass on their maxima.

    Parameters
    ----------
    order : (nodes,), rank of each node
    around_ptr, around : edges at each node, 2e + side
    alive : bool, by label: others are not looked at
    node : scores of labels, messages added; changed
    message : (edges, 2, most labels); changed
    """
    n = len(order)
    place = np.empty(n, np.int64)
    for v in range(n):
        place[order[v]] = v
    for step in range(n):
        v = place[n - 1 - step] if backward else place[step]
        later = 0
        for a in range(around_ptr[v], around_ptr[v + 1]):
            u = edges[around[a] // 2, 1 - around[a] % 2]
            later += (order[u] < order[v]) if backward else (order[u] > order[v])
        if later == 0:
            continue
        share = 1.0 / max(later, around_ptr[v + 1] - around_ptr[v] - later)
        low, high = unary_at[v], unary_at[v + 1]
        own = node[low:high].copy()
        top = -np.inf
        for a in range(high - low):
            if alive[low + a] and own[a] > top:
                top = own[a]
        if top == -np.inf:
            continue
        for at in range(around_ptr[v], around_ptr[v + 1]):
            e, side = around[at] // 2, around[at] % 2
            u = edges[e, 1 - side]
            if ((order[u] < order[v]) if backward else (order[u] > order[v])) == 0:
                continue
            for a in range(high - low):
                if alive[low + a]:
                    give = share * (own[a] - top)
                    message[e, side, a] -= give
                    node[low + a] -= give
            send(e, side, edges, unary_at, pair_at, pair, alive, node, message)


@kernel
def send(e, side, edges, unary_at, pair_at, pair, alive, node, message):
    """Let an edge give its node on the other side all that it can, label by label."""
    v, u = edges[e, side], edges[e, 1 - side]
    low, width, other = unary_at[v], unary_at[v + 1] - unary_at[v], unary_at[u]
    wide = unary_at[u + 1] - other
    for b in range(wide):
        if not alive[other + b]:
            continue
        best = -np.inf
        for a in range(width):
            if alive[low + a]:
                score = pair[pair_at[e] + (a * wide + b if side == 0 else b * width + a)] - message[e, side, a]
                best = max(best, score)
        best = best if best > HOPELESS else HOPELESS
        node[other + b] += best - message[e, 1 - side, b]
        message[e, 1 - side, b] = best


@kernel
def edge_tops(edges, unary_at, pair_at, pair, alive, message, tops):
    """Fill the best score of each edge, less its messages, over the labels that are alive."""
    for e in range(len(edges)):
        i, j = edges[e, 0], edges[e, 1]
        wide = unary_at[j + 1] - unary_at[j]
        best = -np.inf
        for a in range(unary_at[i + 1] - unary_at[i]):
            if alive[unary_at[i] + a]:
                for b in range(wide):
                    if alive[unary_at[j] + b]:
                        score = pair[pair_at[e] + a * wide + b] - message[e, 0, a] - message[e, 1, b]
                        best = max(best, score)
        tops[e] = best
