"""Dual decomposition for a chain with soft and hard counters: an iteration costs about one Viterbi pass."""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.certificate import EPSILON, SLACK, rounding_error_kernel
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.rule_tables import rule_amounts


@kernel
def completions(unary, arriving, ahead):
    """Fill ``ahead[t, l]``: the best score of tokens t + 1, ..., n - 1 after label l at t (backward Viterbi).

    ``arriving`` (k, m, m) is the transposed pairwise table, indexed [to, from], so that the inner loop runs over
    neighboring cells and the compiler can use vector instructions. O(n m^2).
    """
    n, m = unary.shape
    last = len(arriving) - 1
    for here in range(m):
        ahead[n - 1, here] = 0.0
    for back in range(n - 1):
        t = n - 2 - back
        step = min(t, last)
        row = ahead[t]
        for here in range(m):
            row[here] = -np.inf
        for to in range(m):
            gain = unary[t + 1, to] + ahead[t + 1, to]
            if gain == -np.inf:
                continue
            scores = arriving[step, to]
            for here in range(m):
                total = scores[here] + gain
                row[here] = total if total > row[here] else row[here]


@kernel
def best_path(unary, arriving, ahead, labels):
    """Read the best path off ``completions``; return its score (-inf: every path is forbidden)."""
    n, m = unary.shape
    last = len(arriving) - 1
    best = -np.inf
    here = 0
    for label in range(m):
        if unary[0, label] + ahead[0, label] > best:
            best = unary[0, label] + ahead[0, label]
            here = label
    labels[0] = here
    if best == -np.inf:
        return best
    for t in range(1, n):
        top = -np.inf
        choice = 0
        for to in range(m):
            total = arriving[min(t - 1, last), to, here] + (unary[t, to] + ahead[t, to])
            if total > top:
                top = total
                choice = to
        here = choice
        labels[t] = here
    return best


@kernel
def path_score(unary, arriving, labels):
    """Score of a labeling under transposed pairwise tables."""
    last = len(arriving) - 1
    total = unary[0, labels[0]]
    for t in range(1, len(labels)):
        total += unary[t, labels[t]] + arriving[min(t - 1, last), labels[t], labels[t - 1]]
    return total


@kernel
def priced(lowered, arriving, tables, classes, duals):
    """Potentials minus what the duals charge: (unary, transposed pairwise), the latter a new array only if needed."""
    n, m = lowered.shape
    edges = False
    per_step = False
    for c in range(len(duals)):
        if duals[c] > 0.0 and tables.edge_at[c] >= 0:
            edges = True
            per_step = per_step or tables.counter_classes[c] > 1
    moved = arriving
    if edges and n > 1:
        if per_step and len(arriving) == 1:
            moved = np.empty((n - 1, m, m))
            for t in range(n - 1):
                for i in range(m):
                    for j in range(m):
                        moved[t, i, j] = arriving[0, i, j]
        else:
            moved = arriving.copy()
    everywhere = np.zeros(m)
    for c in range(len(duals)):
        if duals[c] > 0.0 and tables.counter_plain[c]:
            for here in range(m):
                everywhere[here] += duals[c] * tables.node[tables.node_at[c] + here]
    charged = np.empty((n, m))
    for t in range(n):
        for here in range(m):
            charged[t, here] = lowered[t, here] - everywhere[here]
    for c in range(len(duals)):
        if duals[c] <= 0.0 or tables.counter_plain[c]:
            continue
        row = classes[tables.counter_rule[c]]
        for t in range(n):
            at = (tables.first_at[c] if t == 0 else tables.node_at[c]) + np.int64(row[t]) * m
            for here in range(m):
                charged[t, here] -= duals[c] * tables.node[at + here]
        if tables.edge_at[c] < 0 or n < 2:
            continue
        for t in range(len(moved)):
            at = tables.edge_at[c] + np.int64(row[t + 1]) * m * m
            for i in range(m):
                for j in range(m):
                    moved[t, j, i] -= duals[c] * tables.edge[at + i * m + j]
    return charged, moved


@kernel
def passes_paper_test(excesses, duals, caps):
    """Whether every row is met exactly or has a dual of 0 or its cap: the test that [Anzaroot14] prints."""
    between = False
    for c in range(len(duals)):
        between = between or (excesses[c] != 0 and duals[c] != 0.0 and duals[c] != caps[c])
    return not between


@kernel
def dual_error(tables, duals, n, constant, value):
    """Bound on the rounding error of a path's score near ``value`` under potentials that the duals charge.

    Scores are <= 0 before they are charged. A counter that only adds makes charged scores <= 0 too, so that no partial
    sum is larger than the whole; one that takes away lifts partial sums by at most n times its dual and what a token
    takes away. Forming the potentials adds the error of each charge.
    """
    lift = abs(value) + abs(constant)
    charge = 0.0
    active = 0
    for c in range(len(duals)):
        if duals[c] > 0.0:
            active += 1
            charge += duals[c] * tables.counter_top[c]
            lift += duals[c] * (abs(tables.counter_bound[c]) + 2 * n * tables.counter_fall[c])
    terms = 2 * n + len(tables.weight) + active
    return rounding_error_kernel(terms, lift) + EPSILON * n * (active + 2) * charge


@kernel
def soft_dd(
    unary, arriving, lowered, constant, tables, classes, caps, max_iterations, paper_stop, duals, best_labels
):
    """Minimize D(lambda) = max_y <w - A'lambda, y> + lambda'b over 0 <= lambda <= caps; keep the best labeling met.

    Steps are Polyak's, aimed at the best value known (or, while no feasible labeling is known, at a level below
    the bound) and shortened whenever the bound stands still. Only rows that a labeling has broken ever get a dual.

    ``lowered`` (n, m) is ``unary`` minus what is known of rules that have no counters; ``constant`` belongs to it. ``duals``
    (counters,), where the steps begin, end as those of the best bound, ``best_labels`` (n,) as the best labeling. Returns the
    upper bound, its rounding error added, the best objective, the iterations, and whether a stopping test held (the
    certificate or, if asked for and after the first dual step, the paper's test).
    """
    n, m = unary.shape
    count = len(duals)
    now = duals.copy()
    excesses = np.zeros(count, np.int64)
    amounts = np.zeros(len(tables.weight), np.int64)
    labels = np.zeros(n, np.int64)
    ahead = np.empty((n, m))
    bound = np.inf  # the least value met
    proved = np.inf  # the same with its rounding error
    best = -np.inf
    terms = 2 * n + len(tables.weight)
    pace = 1.0
    below = -1.0
    still = 0
    for iteration in range(1, max_iterations + 1):
        charged, moved = priced(lowered, arriving, tables, classes, now)
        completions(charged, moved, ahead)
        value = best_path(charged, moved, ahead, labels)
        if value == -np.inf:
            return -np.inf, -np.inf, iteration, True
        value += constant
        for c in range(count):
            if now[c] > 0.0:
                value += now[c] * tables.counter_bound[c]
        cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
        objective = path_score(unary, arriving, labels) - cost
        if objective > best:
            best = objective
            overwrite(best_labels, labels)
        still = 0 if value < bound - 1e-6 * (1.0 + abs(bound)) else still + 1
        if below > 0.0 and value < bound - 0.5 * below:
            below *= 2.0
        if value < bound:
            bound = value
            proved = min(proved, value + dual_error(tables, now, n, constant, value))
            overwrite(duals, now)
        if best > -np.inf and bound - best <= SLACK + rounding_error_kernel(terms, best):
            return proved, best, iteration, True
        if paper_stop and iteration > 1 and passes_paper_test(excesses, now, caps):
            overwrite(best_labels, labels)
            return proved, objective, iteration, True
        square = 0.0
        for c in range(count):
            free = (excesses[c] > 0 and now[c] < caps[c]) or (excesses[c] < 0 and now[c] > 0.0)
            if free:
                square += float(excesses[c] * excesses[c])
        if square == 0.0:
            return proved, best, iteration, False
        if still >= 3:
            pace *= 0.6
            below *= 0.6
            still = 0
        if best > -np.inf:
            goal = best
        else:
            if below < 0.0:
                below = max(1.0, 0.1 * abs(value))
            goal = bound - below
        step = pace * (value - goal) / square
        leap = iteration == 1 and not paper_stop
        for c in range(count):
            if leap and excesses[c] > 0 and caps[c] < np.inf:
                now[c] = caps[c]
            else:
                now[c] = min(max(now[c] + step * excesses[c], 0.0), caps[c])
    return proved, best, max_iterations, False
