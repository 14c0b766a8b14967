"""Chains times the machine of their rules: sums over labelings by dense vectors of the machine's states, label by label.

Masses are probabilities of the chain without rules, times what rules cost so far. Rules only cost, so what is left out, the
labels and steps of least mass, bounds the error.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.chain.sums import SAFE_SUM
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.sums import normalize
from rulefield.kernels.lattice.walk import LabelWalk, mass_cut, node_masses, walk_kbest

ARC_SHARE = 0.02  # of the mass below which nodes are dropped: arcs of less are not kept
FIRST_KBEST_CHANCE = 0.01  # least probability of the labels and states among which the k best are searched first
LEAST_KBEST_CHANCE = 1e-12  # if even this is too much, all labels and states are searched
BELOW_KBEST = 0.999  # share of the k-th best probability that is searched for, because of rounding


class MachineSums(NamedTuple):
    """Scratch for chains of up to so many tokens; vectors of states lie at ``(t * m + label) * states``."""

    before: np.ndarray  # float64 (tokens x m x states,): mass of the labelings up to a label that lead to a state
    after: np.ndarray  # float64 (tokens x m x states,): share of the mass that rules leave after it
    mass: np.ndarray  # float64 (tokens, m): of each label, all states together; 0: dropped
    inside: np.ndarray  # float64 (tokens, m): worth of a label and of what follows it
    scale: np.ndarray  # float64 (tokens, m): the share of a step is scale x exp(step) x inside
    width: np.ndarray  # int64 (tokens,): states that are in use
    least: np.ndarray  # float64 (tokens,): steps of less mass are left out


@kernel
def machine_scratch(longest, m, states):
    """Return scratch for chains of up to ``longest`` tokens."""
    size = longest * m * states
    return MachineSums(
        np.empty(size), np.empty(size), np.zeros((longest, m)), np.zeros((longest, m)), np.zeros((longest, m)),
        np.zeros(longest, np.int64), np.zeros(longest),
    )  # fmt: skip


@kernel
def fill_shares(unary, beta, flipped_powers, sums):
    """Fill ``inside`` and ``scale``; return whether no sum may have underflowed."""
    n, m = np.uint64(unary.shape[0]), np.uint64(unary.shape[1])
    inside, scale = sums.inside, sums.scale
    safe, shared = True, len(flipped_powers) == 1
    for t in range(n):
        top = -np.inf
        for y in range(m):
            top = max(top, unary[t, y] + beta[t, y])
        for y in range(m):
            inside[t, y] = np.exp(unary[t, y] + beta[t, y] - top)
    for t in range(n - np.uint64(1)):
        power = flipped_powers[np.uint64(0) if shared else t]
        for y in range(m):
            scale[t, y] = 0.0
        for to in range(m):
            worth = inside[t + np.uint64(1), to]
            for y in range(m):
                scale[t, y] += worth * power[to, y]
        for y in range(m):
            if scale[t, y] > SAFE_SUM:
                scale[t, y] = 1.0 / scale[t, y]
            else:
                safe = safe and (beta[t, y] == -np.inf or unary[t, y] == -np.inf)
                scale[t, y] = 0.0
    return safe


@kernel
def sums_before(flipped_powers, machine, kind, tolerance, sums):
    """Fill ``before``, ``mass``, ``width`` and ``least``; return the mass under rules and what was left out."""
    before, mass, inside, scale = sums.before, sums.mass, sums.inside, sums.scale
    n, m, states = np.uint64(len(kind)), np.uint64(mass.shape[1]), np.uint64(len(machine.end))
    to, pay, step, order, end = machine.to, machine.pay, machine.step, machine.order, machine.end
    gathered, shared = np.zeros(len(end)), len(flipped_powers) == 1
    spent, total = 0.0, 0.0
    one = np.uint64(1)
    for t in range(n):
        wide = np.uint64(0)
        for i in range(t * m * states, (t + one) * m * states):
            before[i] = 0.0
        k = kind[t]
        if t == 0:
            total = 0.0
            for y in range(m):
                total += inside[t, y]
            for y in range(m):
                s, share = step[k, y, m], inside[t, y] / total
                before[y * states + np.uint64(to[s, 0])] = share * pay[s, 0]
                wide = max(wide, np.uint64(to[s, 0]) + one)
        else:
            width, past, least = np.uint64(sums.width[t - one]), (t - one) * m, sums.least[t - one]
            power = flipped_powers[np.uint64(0) if shared else t - one]
            for y in range(m):
                worth, base = inside[t, y], (t * m + y) * states
                current = np.int64(-1)
                for place in range(m + one):
                    source = np.uint64(0) if place == m else np.uint64(order[k, y, place])
                    share = 0.0 if place == m else scale[t - one, source] * power[y, source] * worth
                    here = mass[t - one, source] * share
                    if place < m and (here == 0.0 or here < least):
                        spent += here
                        continue
                    s = np.int64(-1) if place == m else step[k, y, source]
                    if s != current:
                        if current >= 0:
                            for c in range(width):
                                if gathered[c] > 0.0:
                                    j = np.uint64(to[current, c])
                                    before[base + j] += gathered[c] * pay[current, c]
                                    wide = max(wide, j + one)
                        for c in range(width):
                            gathered[c] = 0.0
                        current = s
                    if place < m:
                        start = (past + source) * states
                        for c in range(width):
                            gathered[c] += share * before[start + c]
        sums.width[t] = wide
        total = 0.0
        for y in range(m):
            mass[t, y] = 0.0
            base = (t * m + y) * states
            for c in range(wide):
                mass[t, y] += before[base + c]
            total += mass[t, y]
        cut = mass_cut(mass[t], 0, mass.shape[1], 0.75 * tolerance * total * (t + 1) / n - spent)
        for y in range(m):
            if mass[t, y] < cut:
                spent += mass[t, y]
                mass[t, y] = 0.0
        sums.least[t] = 0.25 * tolerance * total / (n * m * m)
    total = 0.0
    for y in range(m):
        base = ((n - one) * m + y) * states
        for c in range(np.uint64(sums.width[n - one]) if mass[n - one, y] > 0.0 else np.uint64(0)):
            total += before[base + c] * end[c]
    return total, spent


@kernel
def sums_after(flipped_powers, machine, kind, sums):
    """Fill ``after``: the share of the mass that rules leave after each label and state, along what was not left out."""
    after, mass, inside, scale = sums.after, sums.mass, sums.inside, sums.scale
    n, m, states = np.uint64(len(kind)), np.uint64(mass.shape[1]), np.uint64(len(machine.end))
    to, pay, step, order, end = machine.to, machine.pay, machine.step, machine.order, machine.end
    ahead, shared = np.zeros(len(end)), len(flipped_powers) == 1
    one = np.uint64(1)
    for y in range(m):
        for c in range(states):
            after[((n - one) * m + y) * states + c] = end[c]
    for back in range(one, n):
        t = n - one - back
        k, width, least = kind[t + one], np.uint64(sums.width[t]), sums.least[t]
        power = flipped_powers[np.uint64(0) if shared else t]
        for i in range(t * m * states, (t + one) * m * states):
            after[i] = 0.0
        for y in range(m):
            if mass[t + one, y] == 0.0:
                continue
            base, current = ((t + one) * m + y) * states, np.int64(-1)
            for place in range(m):
                source = np.uint64(order[k, y, place])
                share = scale[t, source] * power[y, source] * inside[t + one, y]
                here = mass[t, source] * share
                if here == 0.0 or here < least:
                    continue
                if step[k, y, source] != current:
                    current = step[k, y, source]
                    for c in range(width):
                        ahead[c] = pay[current, c] * after[base + np.uint64(to[current, c])]
                start = (t * m + source) * states
                for c in range(width):
                    after[start + c] += share * ahead[c]


@kernel
def machine_marginals(sums, n, states, total, node):
    """Fill ``node`` (n, m) with the probabilities of labels."""
    m = np.uint64(node.shape[1])
    for t in range(np.uint64(n)):
        for y in range(m):
            found, base = 0.0, (t * m + y) * np.uint64(states)
            for c in range(np.uint64(sums.width[t]) if sums.mass[t, y] > 0.0 else np.uint64(0)):
                found += sums.before[base + c] * sums.after[base + c]
            node[t, y] = found / total


@kernel
def drawn_place(left, shares):
    """Return the first place at which the sum of shares exceeds ``left``, or the last place with a share."""
    place = np.int64(0)
    for i in range(len(shares)):
        if shares[i] > 0.0:
            place = i
            left -= shares[i]
            if left < 0.0:
                break
    return place


@kernel
def machine_samples(flipped_powers, machine, kind, sums, uniform, labels):
    """Draw labelings: ``uniform`` (draws, n) of [0, 1) numbers in, ``labels`` (draws, n) out; ``after`` must be filled."""
    mass, inside, scale, before, after = sums.mass, sums.inside, sums.scale, sums.before, sums.after
    m, states, one = np.int64(mass.shape[1]), np.int64(len(machine.end)), np.int64(1)
    to, pay, step = machine.to, machine.pay, machine.step
    first, share = np.zeros(m * states), np.zeros(m)
    for y in range(m):
        for c in range(sums.width[0] if mass[0, y] > 0.0 else 0):
            first[y * states + c] = before[y * states + c] * after[y * states + c]
    total = first.sum()
    for draw in range(len(labels)):
        cell = drawn_place(uniform[draw, 0] * total, first)
        label, state = cell // states, cell % states
        labels[draw, 0] = label
        for t in range(one, len(kind)):
            power, rest = flipped_powers[0 if len(flipped_powers) == 1 else t - one], 0.0
            for y in range(m):
                here = scale[t - one, label] * power[y, label] * inside[t, y]
                share[y] = 0.0
                if mass[t, y] > 0.0 and mass[t - one, label] * here >= sums.least[t - one]:
                    s = step[kind[t], y, label]
                    share[y] = here * pay[s, state] * after[(t * m + y) * states + to[s, state]]
                rest += share[y]
            following = drawn_place(uniform[draw, t] * rest, share)
            state = to[step[kind[t], following, label], state]
            labels[draw, t] = label = following


@kernel
def machine_kbest(flipped_powers, machine, kind, total, sums, labels, chances):
    """Fill the k best labelings (k, n) and their probabilities (k,), 0 if there are fewer.

    They are searched in a walk of the labels and states of at least some probability. Those of less are on no labeling that
    is as likely as the k-th best found, once that one is as likely as this.
    """
    k, lowest = len(chances), FIRST_KBEST_CHANCE
    while True:
        walk, more = machine_walk(flipped_powers, machine, kind, total, 0.0, lowest, sums)
        chances[:] = 0.0
        count = walk_kbest(walk, k, labels, chances)
        for i in range(count):
            chances[i] *= 1.0 - more
        if lowest == 0.0 or (count == k and chances[k - 1] >= lowest):
            break
        lowest = BELOW_KBEST * chances[k - 1] if count == k else lowest * FIRST_KBEST_CHANCE
        lowest = lowest if lowest > LEAST_KBEST_CHANCE else 0.0


@kernel
def machine_walk(flipped_powers, machine, kind, total, tolerance, lowest, sums):
    """Return a walk over labels and states, and the share of the mass that is not in it.

    It has no labels, states and steps that carry at most ``tolerance`` of the mass together, or less than ``lowest`` each.
    """
    n, m, states = len(kind), sums.mass.shape[1], len(machine.end)
    before, after, inside, cells, one = sums.before, sums.after, sums.inside, m * states, np.int64(1)
    to, pay, step = machine.to, machine.pay, machine.step
    room, arc_room, nodes, arcs, spent, cut = 1024, 4096, 0, 0, 0.0, 0.0
    label, cell, arc_ptr, mass = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.zeros(room, np.int64),
        np.empty(room),
    )
    arc_to, arc_mass = np.empty(arc_room, np.int64), np.empty(arc_room)
    layer, number, chance = np.zeros(n + 1, np.int64), np.full(cells, -1, np.int64), np.zeros(cells)
    for t in range(n):
        for y in range(m):
            alive = sums.mass[t, y] > 0.0
            for c in range(states):
                i = t * cells + y * states + c
                chance[y * states + c] = before[i] * after[i] / total if alive and c < sums.width[t] else 0.0
        cut = lowest
        if tolerance > 0.0:
            cut = mass_cut(chance, 0, cells, tolerance * (t + 1) / n - spent)
        for i in range(cells):
            number[i] = -1
            if chance[i] <= 0.0 or chance[i] < cut:
                spent += chance[i]
                continue
            if nodes + 1 >= room:
                label, cell, arc_ptr, mass = doubled(label), doubled(cell), doubled(arc_ptr), doubled(mass)
                room *= 2
            label[nodes], cell[nodes], number[i], mass[nodes] = i // states, i, nodes, chance[i]
            nodes += 1
        layer[t + 1] = nodes
        power = flipped_powers[0 if len(flipped_powers) == 1 else max(t - one, 0)]
        least_arc, least = ARC_SHARE * cut if tolerance > 0.0 else lowest, sums.least[t - 1]
        for i in range(layer[t - 1] if t > 0 else 0, layer[t] if t > 0 else 0):
            source, c = label[i], cell[i] % states
            rest, scale, whole = (
                1.0 / after[(t - 1) * cells + cell[i]],
                sums.scale[t - 1, source],
                sums.mass[t - 1, source],
            )
            for y in range(m):
                s = step[kind[t], y, source]
                j = number[y * states + to[s, c]]
                if j < 0:
                    continue
                share = scale * power[y, source] * inside[t, y]
                if share * whole < least:
                    continue
                share *= pay[s, c] * after[t * cells + cell[j]] * rest
                if share <= 0.0 or mass[i] * share < least_arc:
                    continue
                if arcs == arc_room:
                    arc_to, arc_mass = doubled(arc_to), doubled(arc_mass)
                    arc_room *= 2
                arc_to[arcs], arc_mass[arcs] = j, share
                arcs += 1
            arc_ptr[i + 1] = arcs
    for i in range(layer[n - 1], nodes):
        arc_ptr[i + 1] = arcs
    walk = LabelWalk(
        layer, label[:nodes], mass[: layer[1]].copy(), arc_ptr[: nodes + 1], arc_to[:arcs], arc_mass[:arcs], 0.0
    )
    reached, kept = node_masses(walk), 0.0
    for i in range(layer[n - 1], nodes):
        kept += reached[i]
    if kept > 0.0:
        normalize(walk, reached, kept, False)
    return walk, max(1.0 - kept, 0.0) if tolerance > 0.0 or lowest > 0.0 else 0.0
