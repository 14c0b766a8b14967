"""AD3: alternating directions dual decomposition ([Martins15]), with closed-form projections of rules.

Each factor has its own copy q of the indicators it reads; a step maximizes its scores plus multipliers minus
eta / 2 times the squared distance from the consensus z, then z is the mean of the copies and the multipliers move by
eta x (z - q). Nodes are simplices; edges are solved by pairwise Frank-Wolfe steps from their last solution; rules are linear
inequalities, hard or paid by their excess.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel

EDGE_STEPS = 60
"""Frank-Wolfe steps of one edge at a time."""
EDGE_TOLERANCE = 1e-10
"""Of an edge's solution, in scores."""
ETA_EVERY = 20
"""Steps between two changes of eta, and two looks at the bound."""


class Factors(NamedTuple):
    """All factors; copy c of a factor reads indicator ``var[c]``.

    Copies of node v start at ``node_at[v]``, in the order of its labels. Edge e has copies
    ``edge_at[e] : edge_at[e + 1]`` (first node, then second), ``wide[e]`` labels at its second node and scores from
    ``pair_at[e]``. Rule r has copies ``rule_at[r] : rule_at[r + 1]`` and pays ``price`` (inf: a hard rule) for each unit of
    sum of value x copy - high above 0.
    """

    var: np.ndarray
    node_at: np.ndarray
    edge_at: np.ndarray
    wide: np.ndarray
    pair_at: np.ndarray
    rule_at: np.ndarray
    high: np.ndarray
    price: np.ndarray
    value: np.ndarray


@kernel
def fit_sum(point, total):
    """Project on the box [0, 1]^k cut by "the sum is ``total``" in place: clip(point - t) for the t that fits."""
    low, high = np.inf, -np.inf
    for i in range(len(point)):
        low, high = min(low, point[i] - 1.0), max(high, point[i])
    for _ in range(60):
        t = 0.5 * (low + high)
        reached = 0.0
        for i in range(len(point)):
            reached += min(1.0, max(0.0, point[i] - t))
        if reached > total:
            low = t
        else:
            high = t
    for i in range(len(point)):
        point[i] = min(1.0, max(0.0, point[i] - high))


@kernel
def fit_hinge(point, value, bound, price):
    """Subtract t x ``value``, 0 <= t <= price, so that the sum comes as near to ``bound`` as it can; in place."""
    over, norm = -bound, 0.0
    for i in range(len(point)):
        over += value[i] * point[i]
        norm += value[i] * value[i]
    if over > 0.0 and norm > 0.0:
        t = min(price, over / norm)
        for i in range(len(point)):
            point[i] -= t * value[i]


@kernel
def fit_edge(point, wide, scores, mass):
    """Minimize |q - point|^2 / 2 - scores . mass over joint distributions ``mass`` with margins q, in place."""
    tall = len(point) - wide
    q = np.zeros(len(point))
    for y in range(tall):
        for x in range(wide):
            q[y] += mass[y * wide + x]
            q[tall + x] += mass[y * wide + x]
    for _ in range(EDGE_STEPS):
        best, worst, high, low = 0, 0, -np.inf, np.inf
        for y in range(tall):
            slope = point[y] - q[y]
            for x in range(wide):
                i = y * wide + x
                gain = slope + point[tall + x] - q[tall + x] + scores[i]
                if gain > high:
                    best, high = i, gain
                if mass[i] > 0.0 and gain < low:
                    worst, low = i, gain
        if high - low <= EDGE_TOLERANCE:
            break
        y1, x1, y0, x0 = best // wide, best % wide, worst // wide, worst % wide
        norm = (2.0 if y1 != y0 else 0.0) + (2.0 if x1 != x0 else 0.0)
        step = min(mass[worst], (high - low) / norm)
        mass[worst] = 0.0 if step == mass[worst] else mass[worst] - step
        mass[best] += step
        q[y0] -= step
        q[tall + x0] -= step
        q[y1] += step
        q[tall + x1] += step
    overwrite(point, q)


@kernel
def solve_factors(f, pairwise, mass, aim, eta):
    """Turn the aims of all copies into the factors' solutions, in place."""
    for v in range(len(f.node_at) - 1):
        fit_sum(aim[f.node_at[v] : f.node_at[v + 1]], 1.0)
    for e in range(len(f.wide)):
        at, end = f.pair_at[e], f.pair_at[e + 1]
        fit_edge(aim[f.edge_at[e] : f.edge_at[e + 1]], f.wide[e], pairwise[at:end] / eta, mass[at:end])
    for r in range(len(f.high)):
        begin, end = f.rule_at[r], f.rule_at[r + 1]
        fit_hinge(aim[begin:end], f.value[begin:end], f.high[r], f.price[r] / eta)


@kernel
def best_hinge(slope, value, bound, price):
    """Maximum over the box of slope . u - price x max(0, value . u - bound), by its one-dimensional dual."""
    k = len(slope)
    best = np.inf
    for j in range(-2, k):
        if j == -2:
            t = 0.0
        elif j == -1:
            t = price
        elif value[j] != 0.0:
            t = slope[j] / value[j]
        else:
            continue
        if t < 0.0 or t > price or t == np.inf:
            continue
        total = t * bound
        for i in range(k):
            total += max(0.0, slope[i] - t * value[i])
        best = min(best, total)
    return best


@kernel
def dual_bound(f, pairwise, slope):
    """Sum the factors' maxima: a true bound where multipliers sum to 0 over the copies of each indicator."""
    total = 0.0
    for v in range(len(f.node_at) - 1):
        total += slope[f.node_at[v] : f.node_at[v + 1]].max()
    for e in range(len(f.wide)):
        part, wide, at = slope[f.edge_at[e] : f.edge_at[e + 1]], f.wide[e], f.pair_at[e]
        tall = len(part) - wide
        best = -np.inf
        for y in range(tall):
            for x in range(wide):
                best = max(best, part[y] + part[tall + x] + pairwise[at + y * wide + x])
        total += best
    for r in range(len(f.high)):
        begin, end = f.rule_at[r], f.rule_at[r + 1]
        total += best_hinge(slope[begin:end], f.value[begin:end], f.high[r], f.price[r])
    return total


@kernel
def ad3(f, unary, pairwise, iterations, tolerance):
    """Run AD3 until copies and consensus agree within ``tolerance``; return the consensus, the best bound and the steps."""
    n_copies, n = len(f.var), len(unary)
    degree = np.zeros(n)
    for c in range(n_copies):
        degree[f.var[c]] += 1.0
    share, aim, slope = np.empty(n_copies), np.empty(n_copies), np.empty(n_copies)
    for c in range(n_copies):
        share[c] = unary[f.var[c]] / degree[f.var[c]]
    z, multiplier, mass = np.empty(n), np.zeros(n_copies), np.zeros(len(pairwise))
    for v in range(len(f.node_at) - 1):
        z[f.node_at[v] : f.node_at[v + 1]] = 1.0 / (f.node_at[v + 1] - f.node_at[v])
    for e in range(len(f.wide)):
        mass[f.pair_at[e]] = 1.0
    eta = 0.5 * max(unary.std(), 1e-3)
    bound, done = np.inf, 0
    while done < iterations:
        done += 1
        for c in range(n_copies):
            aim[c] = z[f.var[c]] + (share[c] + multiplier[c]) / eta
        solve_factors(f, pairwise, mass, aim, eta)
        fresh = np.zeros(n)
        for c in range(n_copies):
            fresh[f.var[c]] += aim[c] / degree[f.var[c]]
        apart, moved = 0.0, 0.0
        for c in range(n_copies):
            gap = aim[c] - fresh[f.var[c]]
            multiplier[c] -= eta * gap
            apart += gap * gap
            moved += (fresh[f.var[c]] - z[f.var[c]]) ** 2
            slope[c] = share[c] + multiplier[c]
        overwrite(z, fresh)
        apart, moved = np.sqrt(apart / n_copies), np.sqrt(moved / n_copies)
        if done % ETA_EVERY == 0 or apart + moved < tolerance or done == iterations:
            bound = min(bound, dual_bound(f, pairwise, slope))
            if apart + moved < tolerance:
                break
            if apart > 3.0 * moved:
                eta *= 1.5
            elif moved > 3.0 * apart:
                eta /= 1.5
    return z, bound, done
