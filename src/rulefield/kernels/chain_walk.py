"""Chains as walks, with and without rules: probabilities of labelings, labels and segments, k best and samples in batches."""

import numpy as np

from rulefield.kernels.chain.sums import backward_sum, exponentials, flip
from rulefield.kernels.chain_machine import (
    fill_shares,
    machine_kbest,
    machine_marginals,
    machine_samples,
    machine_scratch,
    machine_walk,
    sums_after,
    sums_before,
)
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.lattice import chain_lattice
from rulefield.kernels.lattice.rule_tables import fold_local
from rulefield.kernels.lattice.sums import Ruled, slots_of, sums_ahead, under_rules
from rulefield.kernels.lattice.walk import (
    LEAST_MASS,
    LabelWalk,
    lattice_walk,
    log_walk,
    node_masses,
    span_masses,
    walk_kbest,
    walk_marginals,
    walk_samples,
)

ATTEMPTS = 4
"""Lattices of less and less loss that are tried before nothing is left out."""
SUM, BOTH_WAYS, WALK = 0, 1, 2
"""What is wanted of a chain: the sum over its labelings, sums in both directions, or a walk."""
LEAST_SHARE = 1e-200
"""Share of the mass that rules must leave for dense sums to be exact: what underflows is far below it."""


@kernel
def by_machine(back_powers, machine, kind, loss, wanted, sums, node):
    """Return the distribution of a chain under rules from dense sums, its walk if wanted, at most ``loss`` left out.

    ``node`` (n, m) or empty is filled with the probabilities of labels. The mass is 0 if it is too small for dense sums.
    """
    n, nowhere = len(kind), np.zeros(0, np.int64)
    walk = LabelWalk(nowhere, nowhere, np.zeros(0), nowhere, nowhere, np.zeros(0), 0.0)
    total, lost = sums_before(back_powers, machine, kind, loss, sums)
    if total < LEAST_SHARE:
        return Ruled(walk, -np.inf, 1.0, False)
    left_out = lost / (lost + total)
    if wanted >= BOTH_WAYS:
        sums_after(back_powers, machine, kind, sums)
    if len(node):
        machine_marginals(sums, n, len(machine.end), total, node)
    if wanted == WALK:
        walk, more = machine_walk(back_powers, machine, kind, total, loss, 0.0, sums)
        left_out = min(left_out + more, 1.0)
    return Ruled(walk, np.log(total), left_out, False)


@kernel
def by_walk(unary, flipped, beta, tables, terms, classes, slots, widths, loss, most_nodes, node):
    """Return the same from the product of a walk with the terms of rules, one node after the other."""
    m = unary.shape[1]
    lattice = chain_lattice(unary, flipped, beta, 0.0, -np.inf)
    ahead = np.empty(len(lattice.label))
    total = sums_ahead(lattice, ahead)
    walk = lattice_walk(lattice, ahead, total, loss)
    ruled = under_rules(walk, tables, terms, classes, m, slots, widths, loss, most_nodes, False)
    whole = len(walk.label) == len(lattice.label) and len(walk.arc_to) == len(lattice.arc_to)
    if ruled.log_mass == -np.inf and not whole and loss > 0.0:  # what underflowed has some mass
        return Ruled(walk, -np.inf, max(ruled.left_out, LEAST_MASS), ruled.full)
    if ruled.log_mass == -np.inf and not whole:
        walk = log_walk(lattice, ahead, total)
        ruled = under_rules(walk, tables, terms, classes, m, slots, widths, 0.0, most_nodes, True)
    if len(node) and ruled.log_mass > -np.inf:
        node[:] = 0.0
        walk_marginals(ruled.walk, node_masses(ruled.walk), node)
    return ruled


@kernel
def chain_under_rules(
    unary, flipped, back_powers, beta, tables, terms, classes, slots, widths, machine, kind, sums,
    tolerance, most_nodes, most_dense, labels, chances, wanted, node,
):  # fmt: skip
    """Return the distribution of a chain under rules, and whether it was summed by the machine.

    At most ``tolerance`` of its mass is left out if ``most_nodes`` allow. ``labels`` (k, n) and ``chances`` (k,) are filled
    with the k best, for which as little is left out as makes them sure; ``node`` (n, m) or empty with the probabilities of
    labels.
    """
    dense = machine.fits and unary.size * len(machine.end) <= most_dense
    dense = dense and fill_shares(unary, beta, back_powers, sums)
    k, loss = len(chances), 0.5 * tolerance
    for attempt in range(ATTEMPTS):
        loss = 0.0 if attempt == ATTEMPTS - 1 else loss
        if dense:
            ruled = by_machine(back_powers, machine, kind, loss, wanted, sums, node)
            dense = ruled.log_mass > -np.inf
        if not dense:
            ruled = by_walk(unary, flipped, beta, tables, terms, classes, slots, widths, loss, most_nodes, node)
        if ruled.log_mass == -np.inf:
            if ruled.left_out == 0.0 or ruled.full:
                break
            loss *= 1e-6
            continue
        enough = tolerance
        if k > 0:
            if dense:
                machine_kbest(back_powers, machine, kind, np.exp(ruled.log_mass), sums, labels, chances)
            else:
                chances[:] = 0.0
                walk_kbest(ruled.walk, k, labels, chances)
            enough = min(tolerance, 0.5 * chances[k - 1])
        if ruled.left_out <= enough or ruled.full:
            break
        loss *= max(1e-9, 0.25 * enough / ruled.left_out)
    return ruled, dense


@kernel
def chances_batch(
    unary, pairwise, tokens, steps, tables, terms, classes, machine, kind, folds, folds_steps, tolerance, most_nodes,
    most_dense, log_mass, left_out, full, node, spans, span_ptr, starts, kinds, span_chance,
    k, best, best_chance, uniform, drawn,
):  # fmt: skip
    """Sum over the labelings of chains that lie one after the other and whose rules have the same tables.

    Parameters
    ----------
    unary : (tokens, m); chain i has the rows ``tokens[i] : tokens[i + 1]``, at least one
    pairwise : (matrices, m, m), [from, to]; chain i has the matrices ``steps[i, 0] : steps[i, 1]``, one or one per step
    classes : token classes of the rules, of one chain after the other, (rules, n) each, flat
    machine, kind : the machine of the rules, and the kind of each token
    folds, folds_steps : whether local rules go into the scores of labels, and of steps
    most_dense : tokens x labels x states up to which a chain is multiplied by the machine of its rules
    log_mass, left_out, full : filled, (chains,): log of the sum of exp(score - penalties); bound on the share of it that was
        left out; whether more nodes were needed than ``most_nodes`` of a layer
    node : (tokens, m) or empty: filled with the probabilities of labels
    spans, span_ptr, starts, kinds, span_chance : segments of chain i, ``span_ptr[i] : span_ptr[i + 1]``, and their
        probabilities (see :func:`span_masses`); tokens count from the chain's first
    k, best, best_chance : the k best labelings (k x tokens, chain by chain) and their probabilities (chains, k)
    uniform, drawn : (draws x tokens,) numbers in [0, 1) and the labelings drawn by them, chain by chain
    """
    m, rules = unary.shape[1], len(tables.weight)
    slots, widths = slots_of(tables)
    longest = 0
    for i in range(len(tokens) - 1):
        if (tokens[i + 1] - tokens[i]) * m * len(machine.end) <= most_dense:
            longest = max(longest, tokens[i + 1] - tokens[i])
    sums = machine_scratch(longest, m, len(machine.end))
    wanted = WALK if len(span_chance) else (BOTH_WAYS if len(node) or k > 0 or len(drawn) else SUM)
    tops, powers = exponentials(pairwise)
    flipped, back_powers = flip(pairwise), flip(powers)
    draws = len(drawn) // max(len(unary), 1)
    for i in range(len(tokens) - 1):
        first, last = tokens[i], tokens[i + 1]
        n, a, b = last - first, steps[i, 0], steps[i, 1]
        seen = classes[first * rules : last * rules].reshape((rules, n))
        scores, top, back, back_power = unary[first:last], tops[a:b], flipped[a:b], back_powers[a:b]
        paid = 0.0
        if folds:
            scores, moves = scores.copy(), pairwise[a:b]
            if folds_steps:
                moves = np.empty((max(n - 1, 1), m, m))
                for t in range(len(moves)):
                    moves[t] = pairwise[min(a + t, b - 1)]
            paid = fold_local(tables, seen, scores, moves, m, True)
            if folds_steps:
                top, power = exponentials(moves)
                back, back_power = flip(moves), flip(power)
        beta = np.empty((n, m))
        total = backward_sum(scores, back, back_power, top, beta)
        left_out[i], full[i] = 0.0, False
        log_mass[i] = total - paid
        if total == -np.inf:
            continue
        labels = best[k * first : k * last].reshape((k, n))
        ruled, dense = chain_under_rules(
            scores, back, back_power, beta, tables, terms, seen, slots, widths, machine, kind[first:last], sums,
            tolerance, most_nodes, most_dense, labels, best_chance[i], wanted, node[first:last] if len(node) else node,
        )  # fmt: skip
        log_mass[i] += ruled.log_mass
        left_out[i], full[i] = ruled.left_out, ruled.full
        if ruled.log_mass == -np.inf:
            continue
        walk = ruled.walk
        if len(span_chance):
            asked = spans[span_ptr[i] : span_ptr[i + 1]]
            span_masses(walk, node_masses(walk), asked, starts, kinds, span_chance[span_ptr[i] : span_ptr[i + 1]])
        if draws > 0:
            numbers = uniform[draws * first : draws * last].reshape((draws, n))
            rows = drawn[draws * first : draws * last].reshape((draws, n))
            if dense:
                machine_samples(back_power, machine, kind[first:last], sums, numbers, rows)
            else:
                walk_samples(walk, numbers, rows)
