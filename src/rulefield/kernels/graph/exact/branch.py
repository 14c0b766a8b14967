"""Depth-first branch and bound on the TRW-S bound, resumable, with labels forbidden by their own bounds.

An open subproblem is its node scores (with -inf at forbidden labels) and its messages, from which its sweeps start.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.graph.sweep import slack, trws, workspace
from rulefield.kernels.jit import kernel

DEGREE_WEIGHT = 0.12
"""What a neighbor of a node is worth against mean leads of its best label; 0.05 did as well on random problems."""
PROGRESS = 0.005
"""Share of the gap that a round must close to be followed by another."""


class Stack(NamedTuple):
    """Open subproblems, one in each row; the last is the next."""

    unary: np.ndarray
    edge: np.ndarray
    prefix: np.ndarray
    suffix: np.ndarray
    bound: np.ndarray


@kernel
def push(stack, depth, unary, messages, bound):
    """Store the current subproblem in row ``depth``."""
    stack.unary[depth] = unary
    stack.edge[depth] = messages.edge
    stack.prefix[depth] = messages.prefix
    stack.suffix[depth] = messages.suffix
    stack.bound[depth] = bound


@kernel
def branch(net, scores, messages, stack, depth, value, best_labels, node_limit, rounds):
    """Search until the stack is empty, has no room for two more, or ``node_limit`` nodes were visited.

    Returns the number of open subproblems, the best value (its labels in ``best_labels``) and the nodes visited.
    """
    work = workspace(net)
    nodes = 0
    while depth > 0 and nodes < node_limit and depth + 1 < len(stack.bound):
        depth -= 1
        bound = stack.bound[depth]
        if bound <= value + slack(net, value):
            continue
        nodes += 1
        overwrite(scores.unary, stack.unary[depth])
        overwrite(messages.edge, stack.edge[depth])
        overwrite(messages.prefix, stack.prefix[depth])
        overwrite(messages.suffix, stack.suffix[depth])
        bound, value, _ = trws(net, scores, messages, rounds, 0.0, PROGRESS, bound, value, best_labels, work)
        if bound <= value + slack(net, value):
            continue
        v, pick = undecided(net, scores.unary, messages)
        if v < 0:
            continue
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        push(stack, depth, scores.unary, messages, bound)
        stack.unary[depth, begin + pick] = -np.inf
        push(stack, depth + 1, scores.unary, messages, bound)
        for y in range(end - begin):
            if y != pick:
                stack.unary[depth + 1, begin + y] = -np.inf
        depth += 2
    return depth, value, nodes


@kernel
def reparametrized(net, unary, messages):
    """Score of every label with all messages to its node."""
    theta = unary.copy()
    for v in range(len(net.node_at) - 1):
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        for k in range(net.inc_ptr[v], net.inc_ptr[v + 1]):
            recv = np.int64(net.inc_recv[k])
            for y in range(end - begin):
                theta[begin + y] += messages.edge[recv + y]
        for k in range(net.at_ptr[v], net.at_ptr[v + 1]):
            p = net.at_pos[k]
            for y in range(end - begin):
                letter = np.int64(net.letter[np.int64(net.letter_at[p]) + y])
                theta[begin + y] += messages.read[np.int64(net.read_at[p]) + letter]
    return theta


@kernel
def margins(net, unary, messages):
    """Best label of each node under the reparametrized scores, and its lead over the second (inf: no second)."""
    theta = reparametrized(net, unary, messages)
    n = len(net.node_at) - 1
    leads, picks = np.full(n, np.inf), np.zeros(n, np.int64)
    for v in range(n):
        begin, end = np.int64(net.node_at[v]), np.int64(net.node_at[v + 1])
        first, second = -np.inf, -np.inf
        for y in range(end - begin):
            if theta[begin + y] > first:
                first, second = theta[begin + y], first
                picks[v] = y
            elif theta[begin + y] > second:
                second = theta[begin + y]
        if second > -np.inf:
            leads[v] = first - second
    return leads, picks


@kernel
def undecided(net, unary, messages):
    """Choose the node to branch on and its best label: a near tie, many neighbors; -1 where all are decided."""
    leads, picks = margins(net, unary, messages)
    total, count = 0.0, 0
    for v in range(len(leads)):
        if leads[v] < np.inf:
            total += leads[v]
            count += 1
    chosen, best = -1, -np.inf
    scale = total / max(count, 1) + 1e-300
    for v in range(len(leads)):
        if leads[v] < np.inf:
            edges = np.int64(net.inc_ptr[v + 1]) - np.int64(net.inc_ptr[v])
            automata = np.int64(net.at_ptr[v + 1]) - np.int64(net.at_ptr[v])
            merit = DEGREE_WEIGHT * (edges + automata) - leads[v] / scale
            if merit > best:
                chosen, best = v, merit
    return chosen, picks[chosen] if chosen >= 0 else 0
