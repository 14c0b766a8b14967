"""Exact sums over all labellings of small graphs of binary nodes."""

import numpy as np

from rulefield.kernels.jit import kernel


@kernel
def binary_sums(node_pointer, edge_pointer, edges, unary, pairwise, node, edge, values):
    """Fill node and edge marginals and each graph's log-partition value, by summing over all its labellings.

    Scores of all labellings are built node by node, O(2^n (n + edges / n)); marginals are sums over supersets of one or two
    nodes, all of which one zeta transform gives, O(n 2^n).

    Parameters
    ----------
    node_pointer, edge_pointer : int64, shape (n_graphs + 1,)
    edges : int64, shape (n_edges, 2), nodes of the union
    unary : float64, shape (2 n_nodes,)
    pairwise : float64, shape (4 n_edges,)
    node, edge, values : float64, to fill
    """
    for g in range(len(values)):
        first, n = node_pointer[g], node_pointer[g + 1] - node_pointer[g]
        size = 1 << n
        score = np.zeros(size)
        for k in range(n):
            half = 1 << k
            for s in range(half):
                score[half + s] = score[s] + unary[2 * (first + k) + 1]
                score[s] += unary[2 * (first + k)]
            for e in range(edge_pointer[g], edge_pointer[g + 1]):
                i, j = edges[e, 0] - first, edges[e, 1] - first
                if max(i, j) != k:
                    continue
                step = 1 << min(i, j)
                for own in range(2):
                    for other in range(2):
                        gain = pairwise[4 * e + (2 * other + own if j == k else 2 * own + other)]
                        for begin in range(own * half + other * step, (own + 1) * half, 2 * step):
                            for s in range(begin, begin + step):
                                score[s] += gain
        top = score.max()
        if top == -np.inf:
            values[g] = -np.inf
            node[2 * first : 2 * (first + n)] = 0.5
            edge[4 * edge_pointer[g] : 4 * edge_pointer[g + 1]] = 0.25
            continue
        for s in range(size):
            score[s] = np.exp(score[s] - top)
        for k in range(n):
            step = 1 << k
            for begin in range(0, size, 2 * step):
                for s in range(begin, begin + step):
                    score[s] += score[s + step]
        total = score[0]
        values[g] = top + np.log(total)
        for k in range(n):
            share = min(score[1 << k] / total, 1.0)
            node[2 * (first + k)], node[2 * (first + k) + 1] = 1.0 - share, share
        for e in range(edge_pointer[g], edge_pointer[g + 1]):
            i, j = edges[e, 0] - first, edges[e, 1] - first
            both = score[(1 << i) | (1 << j)] / total
            a, b = score[1 << i] / total, score[1 << j] / total
            edge[4 * e + 3] = both
            edge[4 * e + 2] = max(a - both, 0.0)
            edge[4 * e + 1] = max(b - both, 0.0)
            edge[4 * e] = max(1.0 - a - b + both, 0.0)
