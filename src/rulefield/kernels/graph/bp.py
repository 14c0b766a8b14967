"""Belief propagation: sum-product on forests (exact), tree-reweighted and loopy elsewhere; messages are logarithms.

[Wainwright05]: with edge
weight w in (0, 1], the message from t to s is log sum over y of exp(score / w + theta_t(y) - message(s to t)), where
theta_t is the node's score plus w x message over all its edges. w = 1 everywhere is ordinary belief propagation.
"""

import numpy as np

from rulefield.kernels.graph.sweep import ONE
from rulefield.kernels.jit import kernel


@kernel
def bp_sweep(net, unary, pairwise, weight, message, ahead, damping, theta):
    """Send all messages to later (or earlier) nodes, in order; returns the largest change of a message."""
    n = len(net.node_at) - 1
    change = 0.0
    for step in range(n):
        v = np.uint64(step if ahead else n - 1 - step)
        begin = np.uint64(net.node_at[v])
        size = np.uint64(net.node_at[v + ONE]) - begin
        inc, mid, end = net.inc_ptr[v], net.inc_mid[v], net.inc_ptr[v + ONE]
        for y in range(size):
            theta[y] = unary[begin + y]
        for k in range(inc, end):
            recv = net.inc_recv[k]
            for y in range(size):
                theta[y] += weight[k] * message[recv + y]
        for k in range(mid if ahead else inc, end if ahead else mid):
            other = net.inc_other[k]
            out_size = np.uint64(net.node_at[other + ONE]) - np.uint64(net.node_at[other])
            recv = np.uint64(net.inc_recv[k])
            row_step = out_size if ahead else np.uint64(1)
            column_step = np.uint64(1) if ahead else size
            to = np.uint64(net.inc_send[k])
            pair = np.uint64(net.inc_pair[k])
            moved = send_sum(
                theta, size, message, recv, pairwise, pair, row_step, column_step, weight[k], to, out_size, damping
            )
            change = max(change, moved)
    return change


@kernel
def send_sum(theta, size, message, recv, pairwise, pair, row_step, column_step, weight, to, out_size, damping):
    """One message, normalized to maximum 0; returns how much it changed."""
    fresh = np.empty(out_size)
    top = -np.inf
    for z in range(out_size):
        best = -np.inf
        for y in range(size):
            if theta[y] > -np.inf:
                best = max(
                    best, theta[y] - message[recv + y] + pairwise[pair + y * row_step + z * column_step] / weight
                )
        total = 0.0
        if best > -np.inf:
            for y in range(size):
                if theta[y] > -np.inf:
                    score = pairwise[pair + y * row_step + z * column_step] / weight
                    total += np.exp(theta[y] - message[recv + y] + score - best)
        fresh[z] = best + np.log(total) if best > -np.inf else -np.inf
        top = max(top, fresh[z])
    change = 0.0
    for z in range(out_size):
        old = message[to + z]
        value = fresh[z] - top if top > -np.inf else -np.inf
        if value > -np.inf and old > -np.inf:
            change = max(change, abs(value - old))
            value = damping * old + (1.0 - damping) * value
        elif value != old:
            change = np.inf
        message[to + z] = value
    return change


@kernel
def bp(net, unary, pairwise, weight, message, iterations, tolerance, damping):
    """Alternate sweeps until messages change by less than ``tolerance``; returns rounds and whether they do."""
    widest = 1
    for v in range(len(net.node_at) - 1):
        widest = max(widest, np.int64(net.node_at[v + 1]) - np.int64(net.node_at[v]))
    theta = np.empty(widest)
    done, change = 0, np.inf
    while done < iterations and change > tolerance:
        done += 1
        change = 0.0
        for ahead in (False, True):
            change = max(change, bp_sweep(net, unary, pairwise, weight, message, ahead, damping, theta))
    return done, change <= tolerance


@kernel
def bp_beliefs(net, unary, pairwise, weight, message, node, edge):
    """Fill node and edge marginals; returns sum of E[score] + entropies - weight x mutual informations.

    That is log Z on forests with weight 1, an upper bound with tree-reweighted messages at their fixed point, and the
    Bethe estimate with weight 1 on other graphs. -inf where no labeling is allowed.
    """
    n = len(net.node_at) - 1
    total = 0.0
    log_belief = np.empty(len(unary))
    for v in range(n):
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        for y in range(end - begin):
            value = unary[begin + y]
            for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
                value += weight[k] * message[np.int64(net.inc_recv[k]) + y]
            log_belief[begin + y] = value
        if not normalize(log_belief, begin, end):
            return -np.inf
        for i in range(begin, end):
            node[i] = np.exp(log_belief[i])
            if node[i] > 0.0:
                total += node[i] * (unary[i] - log_belief[i])
    for v in range(n):
        begin = np.int64(net.node_at[v])
        size = np.int64(net.node_at[v + 1]) - begin
        for k in range(net.inc_mid[v], net.inc_ptr[v + 1]):
            there = np.int64(net.node_at[net.inc_other[k]])
            wide = np.int64(net.node_at[net.inc_other[k] + 1]) - there
            pair, recv, sent = np.int64(net.inc_pair[k]), np.int64(net.inc_recv[k]), np.int64(net.inc_send[k])
            for y in range(size):
                for z in range(wide):
                    i = pair + y * wide + z
                    if log_belief[begin + y] == -np.inf or log_belief[there + z] == -np.inf:
                        edge[i] = -np.inf
                    else:
                        edge[i] = pairwise[i] / weight[k] + log_belief[begin + y] - message[recv + y]
                        edge[i] += log_belief[there + z] - message[sent + z]
            if not normalize(edge, pair, pair + size * wide):
                return -np.inf
            for y in range(size):
                for z in range(wide):
                    i = pair + y * wide + z
                    log_edge = edge[i]
                    edge[i] = np.exp(log_edge)
                    if edge[i] > 0.0:
                        apart = log_edge - log_belief[begin + y] - log_belief[there + z]
                        total += edge[i] * (pairwise[i] - weight[k] * apart)
    return total


@kernel
def normalize(values, begin, end):
    """Subtract log sum exp in place; False where all are -inf."""
    top = -np.inf
    for i in range(begin, end):
        top = max(top, values[i])
    if top == -np.inf:
        return False
    total = 0.0
    for i in range(begin, end):
        total += np.exp(values[i] - top)
    shift = top + np.log(total)
    for i in range(begin, end):
        values[i] -= shift
    return True
