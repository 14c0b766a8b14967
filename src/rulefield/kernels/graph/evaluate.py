"""What a labeling of a graph is worth, from the definitions alone: the checker that no engine shares.

Sums are compensated (Neumaier 1974), so that their error is that of one addition and not of all of them.
"""

import numpy as np

from rulefield.kernels.jit import kernel

XOR, ANY_OF, OR_OUT, AND_OUT = range(4)  # the numbers of problem.logic.Logic
EXCESS = 1e-9
"""A row is not broken by less than that: its sums have rounding errors."""
MOST_FREE = 16
"""Auxiliary variables that are tried in all combinations: 65,536."""


@kernel
def score_of(n_labels, unary, edges, pairwise, labels):
    """Score of one labeling."""
    total, lost = 0.0, 0.0
    at = 0
    for v in range(len(n_labels)):
        term = unary[at + labels[v]]
        at += n_labels[v]
        if term == -np.inf:
            return -np.inf
        total, lost = add(total, lost, term)
    at = 0
    for e in range(len(edges)):
        i, j = edges[e, 0], edges[e, 1]
        term = pairwise[at + labels[i] * n_labels[j] + labels[j]]
        at += n_labels[i] * n_labels[j]
        if term == -np.inf:
            return -np.inf
        total, lost = add(total, lost, term)
    return total + lost


@kernel
def add(total, lost, term):
    """One more term of a compensated sum."""
    fresh = total + term
    if abs(total) >= abs(term):
        lost += (total - fresh) + term
    else:
        lost += (term - fresh) + total
    return fresh, lost


@kernel
def costs_of_factors(kind, pointer, node, label, negated, limit, weight, rule, labels, amount, cost):
    """Add to each rule how many of its factors the labeling breaks, and what they cost."""
    for f in range(len(kind)):
        begin, end = pointer[f], pointer[f + 1]
        count, last = 0, False
        for a in range(begin, end):
            last = (labels[node[a]] == label[a]) != negated[a]
            count += last
        if not holds(kind[f], count, last, end - begin, limit[f]):
            amount[rule[f]] += 1.0
            cost[rule[f]] += weight[f]


@kernel
def holds(kind, count, last, size, limit):
    """Whether a factor with ``count`` true atoms of ``size`` holds; ``last`` is the truth of its last atom."""
    inputs = count - last
    if kind == XOR:
        return count == 1
    if kind == ANY_OF:
        return count >= 1
    if kind == OR_OUT:
        return (inputs > 0) == last
    if kind == AND_OUT:
        return size == 0 or (inputs == size - 1) == last
    return count <= limit


@kernel
def excess_of(pointer, node, label, value, bound, r, labels):
    """How far one row exceeds its bound; 0 where it holds."""
    total, lost = 0.0, 0.0
    for a in range(pointer[r], pointer[r + 1]):
        if labels[node[a]] == label[a]:
            total, lost = add(total, lost, value[a])
    over = total + lost - bound[r]
    return over if over > EXCESS else 0.0


@kernel
def costs_of_rows(pointer, node, label, value, bound, weight, rule, labels, amount, cost):
    """Add to each rule by how much the labeling exceeds its rows, and what that costs."""
    for r in range(len(bound)):
        over = excess_of(pointer, node, label, value, bound, r, labels)
        if over > 0.0:
            amount[rule[r]] += over
            cost[rule[r]] += weight[r] * over


@kernel
def settle_defined(pointer, node, label, value, bound, by_pointer, by_row, n_nodes, labels):
    """Make each auxiliary variable 1 where the rows that define it (``by_row``) allow it, first to last; in place."""
    for j in range(len(by_pointer) - 1):
        labels[n_nodes + j] = 1
        for k in range(by_pointer[j], by_pointer[j + 1]):
            if excess_of(pointer, node, label, value, bound, by_row[k], labels) > 0.0:
                labels[n_nodes + j] = 0
                break


@kernel
def settle_freely(pointer, node, label, value, bound, weight, chosen, members, labels):
    """Give auxiliary variables ``members`` the values that cost least over the rows ``chosen``; in place."""
    best, best_cost = np.int64(0), np.inf
    for code in range(-1, 1 << len(members)):  # -1: as they are
        if code >= 0:
            for k in range(len(members)):
                labels[members[k]] = (code >> k) & 1
        total, broken = 0.0, 0.0
        for k in range(len(chosen)):
            over = excess_of(pointer, node, label, value, bound, chosen[k], labels)
            if over > 0.0:
                if weight[chosen[k]] == np.inf:
                    broken += over
                    break
                total += weight[chosen[k]] * over
        if broken > 0.0:
            total = np.inf
        if code < 0:
            for k in range(len(members)):
                best |= np.int64(labels[members[k]]) << k
            best_cost = total
        elif total < best_cost:
            best, best_cost = np.int64(code), total
    for k in range(len(members)):
        labels[members[k]] = (best >> k) & 1


@kernel
def center(values, pointer):
    """Return the values less the largest of each group (groups that are all -inf stay), and the sum of what was taken."""
    out = np.empty_like(values)
    total, lost = 0.0, 0.0
    for g in range(len(pointer) - 1):
        top = -np.inf
        for k in range(pointer[g], pointer[g + 1]):
            top = max(top, values[k])
        if top == -np.inf:
            top = 0.0
        for k in range(pointer[g], pointer[g + 1]):
            out[k] = values[k] - top
        total, lost = add(total, lost, top)
    return out, total + lost
