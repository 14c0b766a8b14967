"""Forward-backward over the product of several label sets without the product's transition matrix, eight chains at once.

A joint state s holds one label per task (mixed radix, last task fastest), S states in all. The score of a step s -> s'
is a sum of one transition score per task plus a score for few listed pairs of joint states. The sum over s then
factors: multiply the message by each task's transition matrix along its own axis, O(S * sum of m_k) instead of
O(S^2), and correct it for the listed pairs, whose factor exp(w) - 1 is usually sparse.

With F_k the forward message after tasks 0..k-1 and B_k the backward message after tasks K-1..k, the expected transitions
of task k are E_k[j, j'] times the sum over the other tasks of F_k[.. j ..] B_{k+1}[.. j' ..]: what both passes compute
anyway.

Chains of similar length advance in lockstep, one in each lane of a vector. Everything runs in probability space with
one scale per token. Where a scale leaves the range of float64 the chain is reported (log partition NaN), and the caller
takes the dense path in log space.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lanes import add8, exp8, fill8, fma8, load8, max8, mul8, store8, where_positive8

LANES = np.uint64(8)
ZERO, ONE, TWO, THREE, FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class FactoredSteps(NamedTuple):
    """Scores of steps; places and sizes are uint64."""

    sizes: np.ndarray
    """Labels of each task (K,)."""
    start: np.ndarray
    """Where the transitions of each task begin (K + 1,)."""
    post: np.ndarray
    """How far apart the labels of each task are among joint states (K,)."""
    E: np.ndarray
    """exp(transition scores) of all tasks, row-major, one after the other; ``flipped``: transposed."""
    flipped: np.ndarray
    pair_from: np.ndarray
    pair_to: np.ndarray
    """Listed pairs of joint states (P,)."""
    pair_factor: np.ndarray
    """Product of E over tasks times (exp(w) - 1), and times exp(w), (2, P)."""


class Room(NamedTuple):
    """Messages of one group, of each token; eight lanes everywhere."""

    e: np.ndarray
    """Factors of tokens."""
    alpha: np.ndarray
    inverse: np.ndarray
    """1 / scale of each token."""
    middle: np.ndarray
    """Forward messages after each task."""
    beta: np.ndarray
    right: np.ndarray
    """Backward messages of one token before each task; the last one before any."""
    counted: np.ndarray
    seen: np.ndarray
    """Sums over tokens for transitions and for listed pairs, without their factors."""


class Group(NamedTuple):
    """The sequences in the lanes: first row, tokens, log partition function so far, best scores of the token at hand."""

    first: np.ndarray
    length: np.ndarray
    total: np.ndarray
    tops: np.ndarray


@kernel
def along(a, a_at, E, E_at, m, post, size, out, out_at):
    """out[p, j', q] = sum_j a[p, j, q] E[j, j'], eight lanes each; E flat (m * m) from E_at on, size = p m q."""
    block = m * post
    stride = post * LANES
    for p in range(ZERO, size, block):
        for q in range(post):
            base = (p + q) * LANES
            k = ZERO
            while k + FOUR <= m:
                s0, s1, s2, s3 = fill8(0.0), fill8(0.0), fill8(0.0), fill8(0.0)
                source, e = a_at + base, E_at + k
                for _ in range(m):
                    x = load8(a, source)
                    s0 = fma8(x, fill8(E[e]), s0)
                    s1 = fma8(x, fill8(E[e + ONE]), s1)
                    s2 = fma8(x, fill8(E[e + TWO]), s2)
                    s3 = fma8(x, fill8(E[e + THREE]), s3)
                    source += stride
                    e += m
                target = out_at + base + k * stride
                store8(out, target, s0)
                store8(out, target + stride, s1)
                store8(out, target + TWO * stride, s2)
                store8(out, target + THREE * stride, s3)
                k += FOUR
            while k < m:
                s0 = fill8(0.0)
                source, e = a_at + base, E_at + k
                for _ in range(m):
                    s0 = fma8(load8(a, source), fill8(E[e]), s0)
                    source += stride
                    e += m
                store8(out, out_at + base + k * stride, s0)
                k += ONE


@kernel
def add_products(left, left_at, right, right_at, m, post, size, out, out_at):
    """out[j, j'] += sum over p, q of left[p, j, q] right[p, j', q], eight lanes each."""
    block = m * post
    stride = post * LANES
    for j in range(m):
        k = ZERO
        while k + FOUR <= m:
            s0, s1, s2, s3 = fill8(0.0), fill8(0.0), fill8(0.0), fill8(0.0)
            for p in range(ZERO, size, block):
                x_at = left_at + p * LANES + j * stride
                y_at = right_at + p * LANES + k * stride
                for _ in range(post):
                    x = load8(left, x_at)
                    s0 = fma8(x, load8(right, y_at), s0)
                    s1 = fma8(x, load8(right, y_at + stride), s1)
                    s2 = fma8(x, load8(right, y_at + TWO * stride), s2)
                    s3 = fma8(x, load8(right, y_at + THREE * stride), s3)
                    x_at += LANES
                    y_at += LANES
            o = out_at + (j * m + k) * LANES
            store8(out, o, add8(load8(out, o), s0))
            store8(out, o + LANES, add8(load8(out, o + LANES), s1))
            store8(out, o + TWO * LANES, add8(load8(out, o + TWO * LANES), s2))
            store8(out, o + THREE * LANES, add8(load8(out, o + THREE * LANES), s3))
            k += FOUR
        while k < m:
            s0 = fill8(0.0)
            for p in range(ZERO, size, block):
                x_at = left_at + p * LANES + j * stride
                y_at = right_at + p * LANES + k * stride
                for _ in range(post):
                    s0 = fma8(load8(left, x_at), load8(right, y_at), s0)
                    x_at += LANES
                    y_at += LANES
            o = out_at + (j * m + k) * LANES
            store8(out, o, add8(load8(out, o), s0))
            k += ONE


@piece
def factors(psi, first, length, t, S, x, at, tops):
    """Fill x[at :] (S, 8) with exp(score - best score of the token), 0 for lanes that have ended; tops (8,)."""
    for lane in range(LANES):
        if t < length[lane]:
            row = first[lane] + t
            for s in range(S):
                x[at + s * LANES + lane] = psi[row, s]
        else:
            for s in range(S):
                x[at + s * LANES + lane] = -np.inf
    best = load8(x, at)
    for o in range(at, at + S * LANES, LANES):
        best = max8(best, load8(x, o))
    store8(tops, ZERO, best)
    for lane in range(LANES):
        if tops[lane] == -np.inf:
            tops[lane] = 0.0
    down = mul8(load8(tops, ZERO), fill8(-1.0))
    for o in range(at, at + S * LANES, LANES):
        value = add8(load8(x, o), down)
        store8(x, o, where_positive8(add8(value, fill8(700.0)), exp8(max8(value, fill8(-699.0)))))


@piece
def rescale(alpha, at, S, t, length, tops, inverse, total):
    """Scale every lane to a sum of 1; totals become NaN where the sum leaves the range."""
    c = fill8(0.0)
    for o in range(at, at + S * LANES, LANES):
        c = add8(c, load8(alpha, o))
    store8(inverse, t * LANES, c)
    for lane in range(LANES):
        value = inverse[t * LANES + lane]
        inverse[t * LANES + lane] = 0.0
        if t < length[lane] and 1e-250 < value < 1e250:
            inverse[t * LANES + lane] = 1.0 / value
            total[lane] += tops[lane] + np.log(value)
        elif t < length[lane]:
            total[lane] = np.nan
    scale = load8(inverse, t * LANES)
    for o in range(at, at + S * LANES, LANES):
        store8(alpha, o, mul8(load8(alpha, o), scale))


@piece
def room_for(steps, S, longest):
    """Return room for the messages of a group of at most ``longest`` tokens."""
    K, row = np.uint64(len(steps.sizes)), S * LANES
    return Room(
        np.empty(longest * row),
        np.empty(longest * row),
        np.empty(longest * LANES),
        np.empty(longest * row * K),
        np.zeros(row),
        np.empty(row * (K + ONE)),
        np.empty(steps.start[K] * LANES),
        np.empty(np.uint64(len(steps.pair_from)) * LANES),
    )


@piece
def take(group, offsets, groups, g):
    """Put the sequences of a row into the lanes; returns the tokens of the longest."""
    n = ZERO
    for lane in range(LANES):
        i = groups[g, lane]
        group.total[lane], group.first[lane], group.length[lane] = 0.0, ZERO, ZERO
        if i >= 0:
            group.first[lane], group.length[lane] = np.uint64(offsets[i]), np.uint64(offsets[i + 1] - offsets[i])
        n = max(n, group.length[lane])
    return n


@piece
def step_forward(steps, room, S, before, at):
    """Fill the forward message from ``at`` on from the one before it and the token's factors."""
    row, step = S * LANES, at * np.uint64(len(steps.sizes))
    alpha, middle = room.alpha, room.middle
    along(alpha, before, steps.E, ZERO, steps.sizes[0], steps.post[0], S, middle, step)
    for k in range(ONE, np.uint64(len(steps.sizes))):
        along(middle, step, steps.E, steps.start[k], steps.sizes[k], steps.post[k], S, middle, step + row)
        step += row
    for p in range(np.uint64(len(steps.pair_from))):
        o = step + steps.pair_to[p] * LANES
        x = load8(alpha, before + steps.pair_from[p] * LANES)
        store8(middle, o, fma8(x, fill8(steps.pair_factor[0, p]), load8(middle, o)))
    for o in range(ZERO, row, LANES):
        moved = max8(load8(middle, step + o), fill8(0.0))
        store8(alpha, at + o, mul8(moved, load8(room.e, at + o)))


@piece
def forward(steps, room, group, psi, n):
    """Fill forward messages and log partition functions."""
    S = np.uint64(psi.shape[1])
    row = S * LANES
    for t in range(n):
        at = t * row
        factors(psi, group.first, group.length, t, S, room.e, at, group.tops)
        if t == ZERO:
            for o in range(row):
                room.alpha[o] = room.e[o]
        else:
            step_forward(steps, room, S, at - row, at)
        rescale(room.alpha, at, S, t, group.length, group.tops, room.inverse, group.total)


@piece
def step_back(steps, room, S, t):
    """Add what the step to token t is expected to be, and turn the backward message of t into that of t - 1."""
    K, P, row = np.uint64(len(steps.sizes)), np.uint64(len(steps.pair_from)), S * LANES
    alpha, beta, right = room.alpha, room.beta, room.right
    at, last = t * row, K * row
    before = at - row
    scale = load8(room.inverse, t * LANES)
    for o in range(ZERO, row, LANES):
        store8(right, last + o, mul8(mul8(load8(room.e, at + o), load8(beta, o)), scale))
    for p in range(P):
        x, y = load8(alpha, before + steps.pair_from[p] * LANES), load8(right, last + steps.pair_to[p] * LANES)
        store8(room.seen, p * LANES, fma8(x, y, load8(room.seen, p * LANES)))
    for up in range(K):
        k = K - ONE - up
        m, o = steps.sizes[k], (k + ONE) * row
        if k == ZERO:
            add_products(alpha, before, right, o, m, steps.post[k], S, room.counted, ZERO)
        else:
            left = at * K + (k - ONE) * row
            add_products(room.middle, left, right, o, m, steps.post[k], S, room.counted, steps.start[k] * LANES)
        along(right, o, steps.flipped, steps.start[k], m, steps.post[k], S, right, k * row)
    for o in range(ZERO, row, LANES):
        store8(beta, o, load8(right, o))
    for p in range(P):
        o = steps.pair_from[p] * LANES
        y = load8(right, last + steps.pair_to[p] * LANES)
        store8(beta, o, fma8(y, fill8(steps.pair_factor[0, p]), load8(beta, o)))
    for o in range(ZERO, row, LANES):
        store8(beta, o, max8(load8(beta, o), fill8(0.0)))


@piece
def backward(steps, room, group, n, node):
    """Fill marginals, and what the sums of steps are over each lane's tokens."""
    S = np.uint64(node.shape[1])
    row, right = S * LANES, room.right
    for sums in (room.beta, room.counted, room.seen):
        for o in range(len(sums)):
            sums[o] = 0.0
    for back in range(n):
        t = n - ONE - back
        for lane in range(LANES):
            if t + ONE == group.length[lane]:
                for s in range(S):
                    room.beta[s * LANES + lane] = 0.0 if np.isnan(group.total[lane]) else 1.0
        for o in range(ZERO, row, LANES):
            store8(right, o, mul8(load8(room.alpha, t * row + o), load8(room.beta, o)))
        for lane in range(LANES):
            if t < group.length[lane] and not np.isnan(group.total[lane]):
                for s in range(S):
                    node[group.first[lane] + t, s] = right[s * LANES + lane]
        if t > ZERO:
            step_back(steps, room, S, t)


@piece
def add_counts(steps, room, lane, w, edges, pairs):
    """Add the expected transitions and listed pairs of one lane, ``w`` times."""
    K, sizes = np.uint64(len(steps.sizes)), steps.sizes
    for o in range(steps.start[K]):
        edges[o] += w * steps.E[o] * room.counted[o * LANES + lane]
    for p in range(np.uint64(len(steps.pair_from))):
        flow = w * room.seen[p * LANES + lane]
        pairs[p] += flow * steps.pair_factor[1, p]
        rest_from, rest_to = steps.pair_from[p], steps.pair_to[p]
        for up in range(K):
            k = K - ONE - up
            a, b = rest_from % sizes[k], rest_to % sizes[k]
            rest_from //= sizes[k]
            rest_to //= sizes[k]
            edges[steps.start[k] + a * sizes[k] + b] += flow * steps.pair_factor[0, p]


@kernel
def joint_sums(psi, offsets, groups, weight, steps, node, edges, pairs, totals):
    """Log partition functions, marginals and expected counts of many sequences.

    Parameters
    ----------
    psi : (n_tokens, S) log-scores of joint states, starts and ends included; -inf forbids
    offsets : (n_sequences + 1,) int64
    groups : (n, 8) int64, the sequences that go together, each at least a token long; -1 where there is none
    weight : (n_sequences,) factor of each sequence in ``edges`` and ``pairs``
    steps : FactoredSteps
    node : (n_tokens, S) receives P(state)
    edges : (sum of m_k ** 2,) receives expected transitions, summed
    pairs : (P,) receives expected listed pairs, summed
    totals : (n_sequences,) log partition functions; NaN: out of range, or all forbidden
    """
    longest = ONE
    for g in range(groups.shape[0]):
        for lane in range(LANES):
            i = groups[g, lane]
            if i >= 0:
                longest = max(longest, np.uint64(offsets[i + 1] - offsets[i]))
    room = room_for(steps, np.uint64(psi.shape[1]), longest)
    group = Group(np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty(LANES), np.empty(LANES))
    for g in range(groups.shape[0]):
        n = take(group, offsets, groups, g)
        forward(steps, room, group, psi, n)
        backward(steps, room, group, n, node)
        for lane in range(LANES):
            i = groups[g, lane]
            if i < 0:
                continue
            totals[i] = group.total[lane]
            if not np.isnan(group.total[lane]):
                add_counts(steps, room, lane, weight[i], edges, pairs)
