"""Tree-reweighted sum-product over a whole batch of graphs, with messages kept between calls.

The log-partition bound of Wainwright, Jaakkola and Willsky (A new class of upper bounds on the log partition
function, 2005, eq. 33 and 58); with every edge weight 1 on a forest it is ordinary, exact sum-product.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel

TINY = 1e-300
"""Least share of a message: what is impossible keeps it."""
PATIENCE = 10
"""Sweeps in which the largest change of a message must fall by a tenth; else messages go half of their way from then on."""
SMALL = 1e-200
"""Scaled exponential below which logarithms are used."""
LARGEST = 690.0
"""Of an exponent."""


class GraphLayout(NamedTuple):
    """The structure of some graphs; all but ``rho`` (the weights of edges) are uint64.

    Scores of node v begin at ``offset[v]``, those of edge e at ``pair_offset[e]``; message 2e goes to ``edges[e, 1]``,
    message 2e + 1 to ``edges[e, 0]``, message k begins at ``message_offset[k]``. ``forward`` lists the edges of each graph in
    the order in which they carry messages toward their higher node, those of one source together, ``backward`` toward their
    lower one.
    """

    node_pointer: np.ndarray
    edge_pointer: np.ndarray
    offset: np.ndarray
    edges: np.ndarray
    pair_offset: np.ndarray
    message_offset: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    rho: np.ndarray


class State(NamedTuple):
    """Exponentials of pair scores, and what sweeps change.

    ``linear`` sums to 1 over a message's labels and ``messages`` is its logarithm; ``belief`` (like unary) is kept equal to
    unary + sum of rho x messages.
    """

    exponential: np.ndarray
    belief: np.ndarray
    messages: np.ndarray
    linear: np.ndarray


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
def sweeps(layout, state, n_sweeps, tolerance):
    """Pass messages in each graph until they move less than ``tolerance``; return the sweeps of the slowest.

    A node sends again only when what it received since has moved by more than ``tolerance`` in all: where most of a graph
    has settled, a sweep costs what is left. Messages that go in circles (strong weights on many loops) are damped.
    """
    offset, edge_pointer = layout.offset, layout.edge_pointer
    n_nodes = np.uint64(offset.shape[0] - 1)
    widest = np.uint64(0)
    for v in range(n_nodes):
        widest = max(widest, offset[v + np.uint64(1)] - offset[v])
    scratch = np.empty((3, widest))
    moved = np.full((2, n_nodes), np.inf)
    slowest = 0
    for g in range(np.uint64(edge_pointer.shape[0] - 1)):
        begin, end = edge_pointer[g], edge_pointer[g + np.uint64(1)]
        share_of_way, before = 1.0, np.inf
        for sweep in range(n_sweeps):
            change = 0.0
            for down in range(2):
                order = layout.forward[begin:end] if down == 0 else layout.backward[begin:end]
                largest = _one_way(layout, state, order, down == 0, moved, scratch, tolerance, share_of_way)
                change = max(change, largest)
            slowest = max(slowest, sweep + 1)
            if change <= tolerance:
                break
            if sweep % PATIENCE == PATIENCE - 1:
                share_of_way = 0.5 if change > 0.9 * before else share_of_way
                before = change
    return slowest


@kernel
def _one_way(layout, state, order, upward, moved, scratch, tolerance, share_of_way):
    """Send the messages of one graph toward higher (or lower) nodes; return the largest change of one.

    ``moved`` (2, n_nodes): how far the messages to each node have moved since it last sent upward, and downward.
    Messages go ``share_of_way`` toward what they should be. Exponentials are taken once for each source, not for each
    message.
    """
    one, two, zero = np.uint64(1), np.uint64(2), np.uint64(0)
    offset, edges, pair_offset, message_offset = (
        layout.offset,
        layout.edges,
        layout.pair_offset,
        layout.message_offset,
    )
    exponential, belief, messages, linear = state
    own, ratio, fresh = scratch[0], scratch[1], scratch[2]
    current, top, quiet, change = np.uint64(offset.shape[0]), 0.0, False, 0.0
    way = zero if upward else one
    for e in order:
        i, j = edges[e, zero], edges[e, one]
        to_second = (i < j) == upward
        source, target = (i, j) if to_second else (j, i)
        at_source, at_target, at = offset[source], offset[target], pair_offset[e]
        n_from, n_to = offset[source + one] - at_source, offset[target + one] - at_target
        if source != current:
            current, top = source, -np.inf
            quiet = moved[way, source] <= tolerance
            if not quiet:
                moved[way, source] = 0.0
                for a in range(n_from):
                    top = max(top, belief[at_source + a])
                for a in range(n_from):
                    own[a] = np.exp(belief[at_source + a] - top)
        if quiet:
            continue
        sent, back = (two * e, two * e + one) if to_second else (two * e + one, two * e)
        sent, back = message_offset[sent], message_offset[back]
        for a in range(n_from):
            ratio[a] = own[a] / linear[back + a]
            if own[a] < SMALL and belief[at_source + a] > -np.inf:
                ratio[a] = np.exp(min(belief[at_source + a] - top - messages[back + a], LARGEST))
        mass = 0.0
        if to_second:
            for b in range(n_to):
                fresh[b] = 0.0
            for a in range(n_from):
                x = ratio[a]
                for b in range(n_to):
                    fresh[b] += exponential[at + a * n_to + b] * x
            for b in range(n_to):
                mass += fresh[b]
        else:
            for b in range(n_to):
                total = 0.0
                for a in range(n_from):
                    total += exponential[at + b * n_from + a] * ratio[a]
                fresh[b] = total
                mass += total
        scale, weight, step = 1.0 / mass, layout.rho[e], 0.0
        for b in range(n_to):
            share = max(fresh[b] * scale, TINY)
            step = max(step, abs(share - linear[sent + b]))
            new = np.log(share)
            if share_of_way < 1.0:
                new = messages[sent + b] + share_of_way * (new - messages[sent + b])
                share = max(np.exp(new), TINY)
            linear[sent + b] = share
            belief[at_target + b] += weight * (new - messages[sent + b])
            messages[sent + b] = new
        change = max(change, step)
        moved[zero, target] += step
        moved[one, target] += step
    return change


@kernel
def pseudo_marginals(layout, state, unary, pairwise, node, edge, values):
    """Fill node and edge marginals from beliefs and messages, and each graph's log-partition value.

    The value is the sum of expected scores and entropies of nodes, minus rho times the mutual information of edges. With
    log q(a, b) = (score - its largest) / rho + left(a) + right(b) - log mass the edge's score cancels: no logarithm is
    taken for each pair of labels.
    """
    one, two, zero = np.uint64(1), np.uint64(2), np.uint64(0)
    node_pointer, edge_pointer, offset, edges, pair_offset, message_offset, _, _, rho = layout
    exponential, belief, messages, _ = state
    norm = np.empty(offset.shape[0] - 1)
    for g in range(np.uint64(values.shape[0])):
        value = 0.0
        for v in range(node_pointer[g], node_pointer[g + one]):
            begin, end = offset[v], offset[v + one]
            norm[v] = _shares(belief, begin, end, node)
            for k in range(begin, end):
                if node[k] > 0.0:
                    value += node[k] * (unary[k] - belief[k] + norm[v])
        for e in range(edge_pointer[g], edge_pointer[g + one]):
            i, j, at = edges[e, zero], edges[e, one], pair_offset[e]
            to_j, to_i = message_offset[two * e], message_offset[two * e + one]
            n_i, n_j = offset[i + one] - offset[i], offset[j + one] - offset[j]
            top, top_i, top_j = -np.inf, -np.inf, -np.inf
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
                    top = max(top, pairwise[k])
            for b in range(n_j):
                right = np.exp(belief[offset[j] + b] - messages[to_j + b] - top_j)
                for a in range(n_i):
                    k = at + a * n_j + b
                    edge[k] *= right
                    mass += edge[k]
            messages_score = 0.0
            for a in range(n_i):
                for b in range(n_j):
                    k = at + a * n_j + b
                    edge[k] /= mass
                    messages_score += edge[k] * (messages[to_i + a] + messages[to_j + b])
            apart = norm[i] - top_i + norm[j] - top_j - messages_score - np.log(mass)
            value += (top if top > -np.inf else 0.0) - rho[e] * apart
        values[g] = value


@kernel
def _shares(belief, begin, end, node):
    """Fill node = exp(belief) / sum of one node's; return the logarithm of the sum."""
    top, mass = -np.inf, 0.0
    for k in range(begin, end):
        top = max(top, belief[k])
    for k in range(begin, end):
        node[k] = np.exp(belief[k] - top)
        mass += node[k]
    for k in range(begin, end):
        node[k] /= mass
    return top + np.log(mass)
