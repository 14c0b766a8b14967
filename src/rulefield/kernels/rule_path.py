"""Rules taken one after the other, each the one that makes labels of held-out sequences likeliest; then dropped one by one.

Labelings of a sequence are rows ``first[i]`` to ``first[i + 1]``; their shares are their masses (exp of their worth)
over the total. A rule is a column of a sparse table: rows that break it and the units that they pay for. If all rows of
a sequence pay alike, the rule says nothing about it; such entries are left out beforehand (:func:`mark_constant`).
"""

import numpy as np

from rulefield.kernels.jit import kernel

CLOSE_WEIGHT = 1e-4
"""Largest change of a weight, in nats, that ends the sweeps over the rules that were taken."""
MOST_STEP = 1.0
"""Largest change of a weight in one step: Newton's steps are wild where a rule is broken almost surely."""


@kernel
def mark_constant(indptr, rows, units, owner, first, keep, constant):
    """Mark the entries (keep) of sequences whose rows pay differently, and one (constant) of each other sequence."""
    for r in range(indptr.shape[0] - 1):
        a = indptr[r]
        while a < indptr[r + 1]:
            i = owner[rows[a]]
            b, same = a, True
            while b < indptr[r + 1] and owner[rows[b]] == i:
                same = same and units[b] == units[a]
                b += 1
            same = same and b - a == first[i + 1] - first[i]
            keep[a:b] = not same
            constant[a] = same
            a = b


@kernel
def weigh_labelings(first, worth, mass, total):
    """Set the mass of each labeling, 1 for the best of its sequence, and the total of each sequence."""
    for i in range(first.shape[0] - 1):
        top = -np.inf
        for j in range(first[i], first[i + 1]):
            top = max(top, worth[j])
        total[i] = 0.0
        for j in range(first[i], first[i + 1]):
            mass[j] = np.exp(worth[j] - top)
            total[i] += mass[j]


@kernel
def moments(r, indptr, rows, units, owner, member, target, mass, total):
    """Return by how much expected units exceed those of the targets, their variance, and expected broken sequences.

    Sums are over sequences that are ``member``.
    """
    excess, variance, broken = 0.0, 0.0, 0.0
    a = indptr[r]
    while a < indptr[r + 1]:
        i = owner[rows[a]]
        mean, square, paid, share = 0.0, 0.0, 0.0, 0.0
        while a < indptr[r + 1] and owner[rows[a]] == i:
            p, u = mass[rows[a]], units[a]
            mean += p * u
            square += p * u * u
            share += p
            if rows[a] == target[i]:
                paid = u
            a += 1
        if member[i]:
            mean /= total[i]
            excess += mean - paid
            variance += square / total[i] - mean * mean
            broken += share / total[i]
    return excess, variance, broken


@kernel
def second_order_gain(excess, variance, price):
    """Return what a weight raises the log likelihood by, to second order: a rule's price, or less if that is better."""
    step = min(price, excess / variance) if variance > 0.0 else price
    return step * (excess - 0.5 * variance * step)


@kernel
def pay(r, change, indptr, rows, units, owner, mass, total):
    """Raise the weight of rule r by ``change``."""
    once = np.exp(-change)
    for a in range(indptr[r], indptr[r + 1]):
        before = mass[rows[a]]
        mass[rows[a]] = before * (once if units[a] == 1.0 else np.exp(-change * units[a]))
        total[owner[rows[a]]] += mass[rows[a]] - before


@kernel
def loss_without(r, weight, indptr, rows, units, owner, member, target, mass, total):
    """Return what the log likelihood falls by if rule r, of this weight, is dropped and other weights stay."""
    loss, a = 0.0, indptr[r]
    while a < indptr[r + 1]:
        i = owner[rows[a]]
        freed, paid = 0.0, 0.0
        while a < indptr[r + 1] and owner[rows[a]] == i:
            freed += mass[rows[a]] * (np.exp(weight * units[a]) - 1.0)
            if rows[a] == target[i]:
                paid = units[a]
            a += 1
        if member[i]:
            loss += np.log(1.0 + freed / total[i]) - weight * paid
    return loss


@kernel
def reweigh(taken, sweeps, weight, prior, l2, indptr, rows, units, owner, member, target, mass, total):
    """Find the best weights of rules that were taken: Newton's method on one after the other, until none moves."""
    for _ in range(sweeps):
        moved = 0.0
        for r in taken:
            excess, variance, _ = moments(r, indptr, rows, units, owner, member, target, mass, total)
            step = (excess - l2 * (weight[r] - prior[r])) / (variance + l2)
            step = max(min(step, MOST_STEP), -MOST_STEP, -weight[r])
            if abs(step) > CLOSE_WEIGHT:
                weight[r] += step
                pay(r, step, indptr, rows, units, owner, mass, total)
            moved = max(moved, abs(step))
        if moved <= CLOSE_WEIGHT:
            return


@kernel
def follow_path(
    indptr, rows, units, owner, first, member, target, worth, constant, gold, n_counted, free, l2, prior_share,
    least_price, least_gain, sweeps, n_forced, prior, order, weights,
):  # fmt: skip
    """Take rules one by one; return how many were taken.

    ``order[:n_forced]`` are taken from the beginning, at their ``prior`` prices. A further rule among those that are
    ``free`` is drawn to ``prior_share`` of its residual price (see ``rulefield.learning.rule_weights.residual``) beyond
    what rules before it say; that must be ``least_price`` at least. It is the one whose price, or a lower weight if
    that is better, raises the log likelihood most, to second order, and by ``least_gain`` at least. As rules are taken,
    the gains of others fall, as a rule: only the largest is computed again ([Minoux78]). ``weights[k - n_forced]`` are
    the weights (n_rules,) of the first k rules, after so many ``sweeps`` over them at most.
    """
    weight, mass, total = np.zeros(prior.shape[0]), np.empty(worth.shape[0]), np.empty(first.shape[0] - 1)
    gains, fresh = np.where(free, np.inf, -np.inf), np.zeros(free.shape[0], np.bool_)
    weigh_labelings(first, worth, mass, total)
    for r in order[:n_forced]:
        gains[r] = -np.inf
        weight[r] = prior[r]
        pay(r, prior[r], indptr, rows, units, owner, mass, total)
    k = n_forced
    while True:
        reweigh(order[:k], sweeps, weight, prior, l2, indptr, rows, units, owner, member, target, mass, total)
        weights[k - n_forced] = weight
        if k == order.shape[0]:
            return k
        fresh[:] = False
        while True:
            r = np.argmax(gains)
            if gains[r] <= least_gain:
                return k
            if fresh[r]:
                break
            fresh[r] = True
            excess, variance, broken = moments(r, indptr, rows, units, owner, member, target, mass, total)
            m = broken + constant[r]
            price = np.log(m + 0.5) - np.log(max(n_counted - m, 0.0) + 0.5)
            price += np.log(n_counted - gold[r] + 0.5) - np.log(gold[r] + 0.5)
            if excess <= 0.0 or price < least_price:
                gains[r] = 0.0
            else:
                gains[r] = second_order_gain(excess, variance, price)
                prior[r] = prior_share * price
        gains[r] = -np.inf
        order[k] = r
        k += 1


@kernel
def shorten_path(
    indptr,
    rows,
    units,
    owner,
    first,
    member,
    target,
    worth,
    l2,
    sweeps,
    n_forced,
    expense,
    prior,
    losses,
    order,
    weights,
):
    """Drop rules one by one, down to those that are forced: each time the one whose loss, for its ``expense``, is least.

    ``order`` (rules) is arranged so that the first k are those that are left as k remain, and ``weights[k - n_forced]``
    are their weights; the last row holds those to begin with. ``losses[k - n_forced]`` is the loss at which the last of
    k is dropped.
    """
    weight, mass, total = np.zeros(prior.shape[0]), np.empty(worth.shape[0]), np.empty(first.shape[0] - 1)
    weigh_labelings(first, worth, mass, total)
    for r in order:
        weight[r] = weights[order.shape[0] - n_forced, r]
        pay(r, weight[r], indptr, rows, units, owner, mass, total)
    for k in range(order.shape[0], n_forced - 1, -1):
        reweigh(order[:k], sweeps, weight, prior, l2, indptr, rows, units, owner, member, target, mass, total)
        weights[k - n_forced] = weight
        worst, least = k - 1, np.inf
        for j in range(n_forced, k):
            r = order[j]
            loss = loss_without(r, weight[r], indptr, rows, units, owner, member, target, mass, total) / expense[r]
            if loss < least:
                worst, least = j, loss
        losses[k - n_forced] = least
        if k > n_forced:
            r = order[worst]
            order[worst : k - 1] = order[worst + 1 : k].copy()
            order[k - 1] = r
            pay(r, -weight[r], indptr, rows, units, owner, mass, total)
            weight[r] = 0.0
