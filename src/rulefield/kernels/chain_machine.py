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
    kept: np.ndarray  # uint64 (tokens, m): the labels that have mass, the first kept_count of each row
    kept_count: np.ndarray  # uint64 (tokens,)
    width: np.ndarray  # int64 (tokens,): states that are in use
    least: np.ndarray  # float64 (tokens,): steps from here of less mass are left out
    group_step: np.ndarray  # uint64 (m,): the different machine steps that lead to one label
    group_mass: np.ndarray  # float64 (m, states): a vector of states for each of them


@kernel
def machine_scratch(longest, m, states):
    """Return scratch for chains of up to ``longest`` tokens."""
    size = longest * m * states
    return MachineSums(
        np.empty(size), np.empty(size), np.zeros((longest, m)), np.zeros((longest, m)), np.zeros((longest, m)),
        np.zeros((longest, m), np.uint64), np.zeros(longest, np.uint64), np.zeros(longest, np.int64), np.zeros(longest),
        np.zeros(m, np.uint64), np.zeros((m, states)),
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
    """Fill the sums up to each label (``before`` to ``least``); return the mass under rules and what was left out."""
    before, mass, inside = sums.before, sums.mass, sums.inside
    n, m, states = np.uint64(len(kind)), np.uint64(mass.shape[1]), np.uint64(len(machine.end))
    spent, total, one = 0.0, 0.0, np.uint64(1)
    for y in range(m):
        total += inside[0, y]
    for t in range(n):
        for i in range(t * m * states, (t + one) * m * states):
            before[i] = 0.0
        if t == 0:
            for y in range(m):
                s, share = machine.step[kind[t], y, m], inside[t, y] / total
                before[y * states + np.uint64(machine.to[s, 0])] = share * machine.pay[s, 0]
                sums.width[t] = max(sums.width[t] if y > 0 else 0, machine.to[s, 0] + 1)
        else:
            power = flipped_powers[np.uint64(0) if len(flipped_powers) == 1 else t - one]
            spent += enter_token(power, machine, kind[t], t, sums)
        spent += drop_labels(t, n, tolerance, spent, sums)
    total = 0.0
    for place in range(sums.kept_count[n - one]):
        base = ((n - one) * m + sums.kept[n - one, place]) * states
        for c in range(np.uint64(sums.width[n - one])):
            total += before[base + c] * machine.end[c]
    return total, spent


@kernel
def enter_token(power, machine, kind, t, sums):
    """Fill ``before`` and ``width`` at token ``t`` > 0; return the mass of the steps left out.

    Sources from which the machine takes the same step to a label are added up before it is taken.
    """
    before, mass, scale, inside, kept = sums.before, sums.mass, sums.scale, sums.inside, sums.kept
    group_step, gathered, to, pay, step = sums.group_step, sums.group_mass, machine.to, machine.pay, machine.step
    m, states, one = np.uint64(mass.shape[1]), np.uint64(len(machine.end)), np.uint64(1)
    past, k = t - one, np.uint64(kind)
    width, least, wide, spent = np.uint64(sums.width[past]), sums.least[past], np.uint64(0), 0.0
    for y in range(m):
        groups, worth, base = np.uint64(0), inside[t, y], (t * m + y) * states
        for place in range(sums.kept_count[past]):
            source = kept[past, place]
            share = scale[past, source] * power[y, source] * worth
            here = mass[past, source] * share
            if here == 0.0 or here < least:
                spent += here
                continue
            s, group, start = np.uint64(step[k, y, source]), np.uint64(0), (past * m + source) * states
            while group < groups and group_step[group] != s:
                group += one
            if group == groups:
                group_step[group] = s
                groups += one
                for c in range(width):
                    gathered[group, c] = 0.0
            for c in range(width):
                gathered[group, c] += share * before[start + c]
        for group in range(groups):
            s = group_step[group]
            for c in range(width):
                if gathered[group, c] > 0.0:
                    j = np.uint64(to[s, c])
                    before[base + j] += gathered[group, c] * pay[s, c]
                    wide = max(wide, j + one)
    sums.width[t] = wide
    return spent


@kernel
def drop_labels(t, n, tolerance, spent, sums):
    """Fill ``mass`` and ``kept`` of token ``t`` without the labels of least mass, and ``least``; return what these have.

    With what was ``spent`` before, they have at most three quarters of ``tolerance`` for each of the n tokens that are done;
    steps of less than ``least`` have at most the rest.
    """
    before, mass, total, dropped, count = sums.before, sums.mass[t], 0.0, 0.0, np.uint64(0)
    m = np.uint64(len(mass))
    states = np.uint64(sums.group_mass.shape[1])
    for y in range(m):
        mass[y] = 0.0
        for c in range(np.uint64(sums.width[t])):
            mass[y] += before[(t * m + y) * states + c]
        total += mass[y]
    cut = mass_cut(mass, 0, len(mass), 0.75 * tolerance * total * (t + 1) / n - spent)
    for y in range(m):
        if mass[y] < cut:
            dropped += mass[y]
            mass[y] = 0.0
        if mass[y] > 0.0:
            sums.kept[t, count] = y
            count += np.uint64(1)
    sums.kept_count[t], sums.least[t] = count, 0.25 * tolerance * total / (n * m * m)
    return dropped


@kernel
def sums_after(flipped_powers, machine, kind, sums):
    """Fill ``after``: the share of the mass that rules leave after each label and state, along what was not left out."""
    after, mass, inside, scale, kept = sums.after, sums.mass, sums.inside, sums.scale, sums.kept
    group_step, ahead, to, pay, step = sums.group_step, sums.group_mass, machine.to, machine.pay, machine.step
    n, m, states, one = np.uint64(len(kind)), np.uint64(mass.shape[1]), np.uint64(len(machine.end)), np.uint64(1)
    for y in range(m):
        for c in range(states):
            after[((n - one) * m + y) * states + c] = machine.end[c]
    for back in range(one, n):
        t = n - one - back
        k, width, least = np.uint64(kind[t + one]), np.uint64(sums.width[t]), sums.least[t]
        power = flipped_powers[np.uint64(0) if len(flipped_powers) == 1 else t]
        for i in range(t * m * states, (t + one) * m * states):
            after[i] = 0.0
        for target in range(sums.kept_count[t + one]):
            y, groups = kept[t + one, target], np.uint64(0)
            base = ((t + one) * m + y) * states
            for place in range(sums.kept_count[t]):
                source = kept[t, place]
                share = scale[t, source] * power[y, source] * inside[t + one, y]
                here = mass[t, source] * share
                if here == 0.0 or here < least:
                    continue
                s, group, start = np.uint64(step[k, y, source]), np.uint64(0), (t * m + source) * states
                while group < groups and group_step[group] != s:
                    group += one
                if group == groups:
                    group_step[group] = s
                    groups += one
                    for c in range(width):
                        ahead[group, c] = pay[s, c] * after[base + np.uint64(to[s, c])]
                for c in range(width):
                    after[start + c] += share * ahead[group, c]


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
    n, m, states = np.uint64(len(kind)), np.uint64(sums.mass.shape[1]), np.uint64(len(machine.end))
    before, after, inside, kept, one = sums.before, sums.after, sums.inside, sums.kept, np.uint64(1)
    to, pay, step = machine.to, machine.pay, machine.step
    room, arc_room, nodes, arcs, spent = 1024, 4096, np.uint64(0), np.uint64(0), 0.0
    cell, arc_ptr, mass = np.empty(room, np.uint64), np.zeros(room, np.int64), np.empty(room)
    arc_to, arc_mass = np.empty(arc_room, np.int64), np.empty(arc_room)
    layer, number = np.zeros(n + one, np.uint64), np.full(m * states, -1, np.int64)
    candidate, chance, targets = np.empty(m * states, np.uint64), np.empty(m * states), np.empty(m, np.uint64)
    for t in range(n):
        count, n_targets = np.uint64(0), np.uint64(0)
        for place in range(sums.kept_count[t]):
            y = kept[t, place]
            if sums.mass[t, y] < 0.5 * lowest * total:
                continue
            for c in range(y * states, y * states + np.uint64(sums.width[t])):
                share = before[t * m * states + c] * after[t * m * states + c] / total
                if share > 0.0:
                    candidate[count], chance[count] = c, share
                    count += one
        cut = lowest
        if tolerance > 0.0:
            cut = mass_cut(chance, 0, count, tolerance * (t + 1) / n - spent)
        for i in range(layer[t - one] if t > 0 else 0, nodes):
            number[cell[i]] = -1
        for i in range(count):
            if chance[i] < cut:
                spent += chance[i]
                continue
            if nodes + one >= room:
                cell, arc_ptr, mass = doubled(cell), doubled(arc_ptr), doubled(mass)
                room *= 2
            cell[nodes], number[candidate[i]], mass[nodes] = candidate[i], nodes, chance[i]
            y = candidate[i] // states
            if n_targets == 0 or targets[n_targets - one] != y:
                targets[n_targets] = y
                n_targets += one
            nodes += one
        layer[t + one] = nodes
        if t == 0:
            continue
        past, k, ahead = t - one, np.uint64(kind[t]), t * m * states
        power = flipped_powers[np.uint64(0) if len(flipped_powers) == 1 else past]
        least, least_arc = sums.least[past], ARC_SHARE * cut if tolerance > 0.0 else lowest
        for i in range(layer[past], layer[t]):
            source, c = cell[i] // states, cell[i] % states
            scale, whole = sums.scale[past, source], sums.mass[past, source]
            rest = 1.0 / after[past * m * states + cell[i]]
            for place in range(n_targets):
                y = targets[place]
                s = np.uint64(step[k, y, source])
                share = scale * power[y, source] * inside[t, y]
                if share * whole < least:
                    continue
                following = y * states + np.uint64(to[s, c])
                share *= pay[s, c] * after[ahead + following] * rest
                if number[following] < 0 or share <= 0.0 or mass[i] * share < least_arc:
                    continue
                if arcs == arc_room:
                    arc_to, arc_mass = doubled(arc_to), doubled(arc_mass)
                    arc_room *= 2
                arc_to[arcs], arc_mass[arcs] = number[following], share
                arcs += one
            arc_ptr[i + one] = arcs
    for i in range(layer[n - one], nodes):
        arc_ptr[i + one] = arcs
    layers, labels = np.zeros(n + one, np.int64), np.empty(nodes, np.int64)
    for t in range(n):
        layers[t + one] = layer[t + one]
    for i in range(nodes):
        labels[i] = cell[i] // states
    walk = LabelWalk(
        layers, labels, mass[: layers[1]].copy(), arc_ptr[: nodes + one], arc_to[:arcs], arc_mass[:arcs], 0.0
    )
    reached, there = node_masses(walk), 0.0
    for i in range(layer[n - one], nodes):
        there += reached[i]
    if there > 0.0:
        normalize(walk, reached, there, False)
    return walk, max(1.0 - there, 0.0) if tolerance > 0.0 or lowest > 0.0 else 0.0
