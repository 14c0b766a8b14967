"""Tree-reweighted sum-product over a whole batch of graphs, with messages kept between calls.

The log-partition bound of Wainwright, Jaakkola and Willsky (A new class of upper bounds on the log partition
function,
2005, eq. 33 and 58); with every edge weight 1 on a forest it is ordinary, exact sum-product.
"""

import numpy as np

from rulefield.kernels.jit import kernel

TINY = 1e-300
SMALL = 1e-200  # of a scaled exponential: below it, logarithms are used
LARGEST = 690.0  # of an exponent


@kernel
def scaled_exponentials(pairwise, pairwise_offset, rho, out):
    """Fill out = exp((pairwise - its edge's largest) / rho)."""
    for e in range(np.uint64(rho.shape[0])):
        begin, end = pairwise_offset[e], pairwise_offset[e + np.uint64(1)]
        top = -np.inf
        for k in range(begin, end):
            top = max(top, pairwise[k])
        if top == -np.inf:
            top = 0.0
        for k in range(begin, end):
            out[k] = np.exp((pairwise[k] - top) / rho[e])


@kernel
def sweeps(
    offset,
    edges,
    edge_pointer,
    pairwise_offset,
    exponential,
    message_offset,
    forward,
    backward,
    rho,
    belief,
    messages,
    linear,
    n_sweeps,
    tolerance,
):
    """Pass messages in each graph until they move less than ``tolerance``; return the sweeps of the slowest.

    ``forward`` lists the edges of each graph in the order in which they carry messages towards their higher node, those
    of one source together, ``backward`` towards their lower node. Message 2e goes to edges[e, 1], message 2e + 1 to
    edges[e, 0]; ``linear`` sums to 1 over a message's labels and ``messages`` is its logarithm. ``belief`` (like unary)
    is kept equal to unary + sum of rho x messages. Exponentials are taken once for each source, not for each message.
    """
    one, two, zero = np.uint64(1), np.uint64(2), np.uint64(0)
    widest = np.uint64(0)
    for v in range(np.uint64(offset.shape[0] - 1)):
        widest = max(widest, offset[v + one] - offset[v])
    own, scratch, fresh = np.empty(widest), np.empty(widest), np.empty(widest)
    slowest = 0
    for g in range(np.uint64(edge_pointer.shape[0] - 1)):
        for sweep in range(n_sweeps):
            change = 0.0
            for down in range(2):
                current, top = np.uint64(offset.shape[0]), 0.0
                for k in range(edge_pointer[g], edge_pointer[g + one]):
                    e = forward[k] if down == 0 else backward[k]
                    i, j = edges[e, zero], edges[e, one]
                    to_second = (i < j) == (down == 0)
                    source, target = (i, j) if to_second else (j, i)
                    sent, back = (two * e, two * e + one) if to_second else (two * e + one, two * e)
                    sent, back = message_offset[sent], message_offset[back]
                    at_source, at_target, at = offset[source], offset[target], pairwise_offset[e]
                    n_from, n_to = offset[source + one] - at_source, offset[target + one] - at_target
                    if source != current:
                        current, top = source, -np.inf
                        for a in range(n_from):
                            top = max(top, belief[at_source + a])
                        for a in range(n_from):
                            own[a] = np.exp(belief[at_source + a] - top)
                    for a in range(n_from):
                        scratch[a] = own[a] / linear[back + a]
                        if own[a] < SMALL and belief[at_source + a] > -np.inf:
                            scratch[a] = np.exp(min(belief[at_source + a] - top - messages[back + a], LARGEST))
                    mass = 0.0
                    if to_second:
                        for b in range(n_to):
                            fresh[b] = 0.0
                        for a in range(n_from):
                            x = scratch[a]
                            for b in range(n_to):
                                fresh[b] += exponential[at + a * n_to + b] * x
                        for b in range(n_to):
                            mass += fresh[b]
                    else:
                        for b in range(n_to):
                            total = 0.0
                            for a in range(n_from):
                                total += exponential[at + b * n_from + a] * scratch[a]
                            fresh[b] = total
                            mass += total
                    scale, weight = 1.0 / mass, rho[e]
                    for b in range(n_to):
                        share = max(fresh[b] * scale, TINY)
                        change = max(change, abs(share - linear[sent + b]))
                        linear[sent + b] = share
                        new = np.log(share)
                        belief[at_target + b] += weight * (new - messages[sent + b])
                        messages[sent + b] = new
            slowest = max(slowest, sweep + 1)
            if change <= tolerance:
                break
    return slowest


@kernel
def pseudo_marginals(
    node_pointer,
    edge_pointer,
    offset,
    unary,
    edges,
    pairwise,
    pairwise_offset,
    exponential,
    message_offset,
    rho,
    belief,
    messages,
    node,
    edge,
    values,
):
    """Fill node and edge marginals from beliefs and messages, and each graph's log-partition value."""
    one, two, zero = np.uint64(1), np.uint64(2), np.uint64(0)
    for g in range(np.uint64(values.shape[0])):
        value = 0.0
        for v in range(node_pointer[g], node_pointer[g + one]):
            top, mass = -np.inf, 0.0
            for k in range(offset[v], offset[v + one]):
                top = max(top, belief[k])
            for k in range(offset[v], offset[v + one]):
                node[k] = np.exp(belief[k] - top)
                mass += node[k]
            for k in range(offset[v], offset[v + one]):
                node[k] /= mass
                if node[k] > 0.0:
                    value += node[k] * (unary[k] - np.log(node[k]))
        for e in range(edge_pointer[g], edge_pointer[g + one]):
            i, j = edges[e, zero], edges[e, one]
            to_j, to_i = message_offset[two * e], message_offset[two * e + one]
            n_i, n_j = offset[i + one] - offset[i], offset[j + one] - offset[j]
            at = pairwise_offset[e]
            top_i, top_j = -np.inf, -np.inf
            for a in range(n_i):
                top_i = max(top_i, belief[offset[i] + a] - messages[to_i + a])
            for b in range(n_j):
                top_j = max(top_j, belief[offset[j] + b] - messages[to_j + b])
            mass = 0.0
            for a in range(n_i):
                left = np.exp(belief[offset[i] + a] - messages[to_i + a] - top_i)
                for b in range(n_j):
                    k = at + a * n_j + b
                    edge[k] = left * exponential[k]
            for b in range(n_j):
                right = np.exp(belief[offset[j] + b] - messages[to_j + b] - top_j)
                for a in range(n_i):
                    k = at + a * n_j + b
                    edge[k] *= right
                    mass += edge[k]
            for a in range(n_i):
                for b in range(n_j):
                    k = at + a * n_j + b
                    edge[k] /= mass
                    if edge[k] > 0.0:
                        independent = node[offset[i] + a] * node[offset[j] + b]
                        value += edge[k] * (pairwise[k] - rho[e] * np.log(edge[k] / max(independent, TINY)))
        values[g] = value
