"""AD3: alternating directions dual decomposition ([Martins15]), with closed-form projections of rules.

Each factor has its own copy q of the indicators it reads; a step maximizes its scores plus multipliers minus
eta / 2 times the squared distance from the consensus z, then z is the mean of the copies and the multipliers move by
eta x (z - q). Nodes are simplices; edges are solved by pairwise Frank-Wolfe steps from their last solution; rules are
projections after a sort.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel

COUNT, OUTPUT, HINGE = 0, 1, 2
EDGE_STEPS = 60
EDGE_TOLERANCE = 1e-10
ETA_EVERY = 20


class Factors(NamedTuple):
    """All factors; copy c of a factor reads indicator ``var[c]``.

    Copies of node v start at ``node_at[v]``, in the order of its labels. Edge e has copies
    ``edge_at[e] : edge_at[e + 1]`` (first node, then second), ``wide[e]`` labels at its second node and scores from
    ``pair_at[e]``. Rule r has copies ``rule_at[r] : rule_at[r + 1]``; ``value`` is -1 where a literal is negated;
    kind COUNT: low <= number of true literals <= high; OUTPUT: the last literal equals "any of the others"; HINGE:
    pays ``price`` x max(0, sum of value x copy - high).
    """

    var: np.ndarray
    node_at: np.ndarray
    edge_at: np.ndarray
    wide: np.ndarray
    pair_at: np.ndarray
    rule_at: np.ndarray
    kind: np.ndarray
    low: np.ndarray
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
def fit_count(point, low, high):
    """Project on the box cut by low <= sum <= high, in place."""
    total = 0.0
    for i in range(len(point)):
        total += min(1.0, max(0.0, point[i]))
    if total < low:
        fit_sum(point, low)
    elif total > high:
        fit_sum(point, high)
    else:
        for i in range(len(point)):
            point[i] = min(1.0, max(0.0, point[i]))


@kernel
def sort_down(values):
    """Sort a few numbers, largest first, in place (numba's general sort takes long to compile)."""
    for i in range(1, len(values)):
        x = values[i]
        j = i
        while j > 0 and values[j - 1] < x:
            values[j] = values[j - 1]
            j -= 1
        values[j] = x


@kernel
def fit_output(point):
    """Project on the hull of "last = any of the others" in place ([Martins15], OR with output)."""
    k = len(point) - 1
    inputs = point[:k].copy()
    sort_down(inputs)
    mean = point[k]
    for i in range(k):
        if inputs[i] <= mean:
            break
        mean = (mean * (i + 1) + inputs[i]) / (i + 2)
    trial = np.empty(k + 1)
    total = 0.0
    for i in range(k):
        trial[i] = min(1.0, max(0.0, min(point[i], mean)))
        total += trial[i]
    trial[k] = min(1.0, max(0.0, mean))
    if total >= trial[k]:
        overwrite(point, trial)
        return
    point[k] = 1.0 - point[k]
    fit_sum(point, 1.0)
    point[k] = 1.0 - point[k]


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
    for r in range(len(f.kind)):
        begin, end = f.rule_at[r], f.rule_at[r + 1]
        part, value = aim[begin:end], f.value[begin:end]
        if f.kind[r] == HINGE:
            fit_hinge(part, value, f.high[r], f.price[r] / eta)
            continue
        for i in range(len(part)):
            part[i] = part[i] if value[i] > 0 else 1.0 - part[i]
        if f.kind[r] == COUNT:
            fit_count(part, f.low[r], f.high[r])
        else:
            fit_output(part)
        for i in range(len(part)):
            part[i] = part[i] if value[i] > 0 else 1.0 - part[i]


@kernel
def best_rule(f, r, slope):
    """Maximum of slope . copies over one rule's polytope (hinge: minus what it pays, over the box)."""
    value = f.value[f.rule_at[r] : f.rule_at[r + 1]]
    if f.kind[r] == HINGE:
        return best_hinge(slope, value, f.high[r], f.price[r])
    gain, constant = slope.copy(), 0.0
    for i in range(len(gain)):
        if value[i] < 0:
            constant += slope[i]
            gain[i] = -slope[i]
    if f.kind[r] == COUNT:
        sort_down(gain)
        total = 0.0
        for i in range(len(gain)):
            if i < f.low[r] or (gain[i] > 0.0 and i < f.high[r]):
                total += gain[i]
        return constant + total
    k = len(gain) - 1
    inputs = 0.0
    for i in range(k):
        inputs += max(0.0, gain[i])
    if inputs == 0.0 and k > 0:
        inputs = gain[:k].max()
    return constant + max(0.0, gain[k] + inputs if k > 0 else 0.0)


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
    for r in range(len(f.kind)):
        total += best_rule(f, r, slope[f.rule_at[r] : f.rule_at[r + 1]])
    return total


@kernel
def ad3(f, unary, pairwise, z, multiplier, mass, eta, iterations, tolerance, goal):
    """Run AD3 from the given consensus, multipliers and edge solutions; all are changed in place.

    Stops when copies and consensus agree within ``tolerance``, or the bound reaches ``goal``. Returns the best bound,
    iterations, eta and the last disagreement.
    """
    n_copies = len(f.var)
    degree = np.zeros(len(z))
    for c in range(n_copies):
        degree[f.var[c]] += 1.0
    share = np.empty(n_copies)
    for c in range(n_copies):
        share[c] = unary[f.var[c]] / degree[f.var[c]]
    aim, slope = np.empty(n_copies), np.empty(n_copies)
    bound, done, apart = np.inf, 0, np.inf
    while done < iterations:
        done += 1
        for c in range(n_copies):
            aim[c] = z[f.var[c]] + (share[c] + multiplier[c]) / eta
        solve_factors(f, pairwise, mass, aim, eta)
        fresh = np.zeros(len(z))
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
            if apart + moved < tolerance or bound <= goal:
                break
            if apart > 3.0 * moved:
                eta *= 1.5
            elif moved > 3.0 * apart:
                eta /= 1.5
    return bound, done, eta, apart
