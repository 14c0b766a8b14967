"""Compiled rules as flat arrays, and the amounts that a labeling breaks them by."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.amounts import NEVER, least_run, only_run
from rulefield.kernels.jit import kernel


class RuleTables(NamedTuple):
    """All rules of one problem, in arrays that kernels read; nothing here depends on the input.

    Rule r is read by its counters ``rule_counter[r] : rule_counter[r + 1]`` or, where ``rule_automaton[r] >= 0``, by
    that automaton. Tables of all counters and automata lie one after the other; ``*_at`` says where each begins.
    """

    weight: np.ndarray  # float64 (rules,), inf where hard
    once: np.ndarray  # bool (rules,)
    local: np.ndarray  # bool (rules,): already folded into the potentials
    sure: np.ndarray  # int64 (rules,): amount of a rule read by an automaton that no labeling avoids; taken out
    rule_counter: np.ndarray  # int64 (rules + 1,)
    rule_automaton: np.ndarray  # int64 (rules,), -1: read by counters
    counter_rule: np.ndarray  # int64 (counters,)
    counter_bound: np.ndarray  # int64 (counters,)
    counter_classes: np.ndarray  # int64 (counters,): token classes that its tables tell apart
    counter_plain: np.ndarray  # bool (counters,): only counts labels, all tokens alike
    counter_top: np.ndarray  # int64 (counters,): largest size of what one token adds
    counter_fall: np.ndarray  # int64 (counters,): most that one token takes away
    node_at: np.ndarray  # int64 (counters,)
    first_at: np.ndarray  # int64 (counters,)
    edge_at: np.ndarray  # int64 (counters,), -1: no edge table
    node: np.ndarray  # int32, all node and first tables, (classes, labels) each
    edge: np.ndarray  # int32, all edge tables, (classes, labels, labels) each
    states: np.ndarray  # int64 (automata,)
    letters: np.ndarray  # int64 (automata,)
    deterministic: np.ndarray  # bool (automata,): one run for every labeling, never dying
    letter_at: np.ndarray  # int64 (automata,)
    state_at: np.ndarray  # int64 (automata,)
    arc_at: np.ndarray  # int64 (automata,)
    letter: np.ndarray  # int32, (classes, labels) each
    initial: np.ndarray  # int32
    final: np.ndarray  # int32
    arc_ptr: np.ndarray  # int64, absolute positions in arc_to
    arc_to: np.ndarray  # int32
    arc_amount: np.ndarray  # int32


@kernel
def tally_value(node, edge, first_at, node_at, edge_at, classes, labels, m):
    """Sum of one tally over a labeling; its tables begin at ``*_at`` (``edge_at`` -1: none)."""
    before = np.int64(labels[0])
    total = np.int64(node[first_at + np.int64(classes[0]) * m + before])
    for t in range(1, len(labels)):
        here = np.int64(labels[t])
        row = np.int64(classes[t]) * m
        total += node[node_at + row + here]
        if edge_at >= 0:
            total += edge[edge_at + (row + before) * m + here]
        before = here
    return total


@kernel
def rule_amounts(tables, classes, labels, m, amounts, excesses):
    """Fill ``amounts`` (rules,) and ``excesses`` (counters,) of a labeling; return what non-local rules cost.

    The cost is ``inf`` where a hard rule is broken. O(n x rules).
    """
    return read_rules(tables, classes, labels, m, np.inf, True, amounts, excesses)


@kernel
def read_rules(tables, classes, labels, m, enough, local_too, amounts, excesses):
    """Return what non-local rules cost; fill amounts and excesses of rules, one by one until that is ``enough``."""
    # each look at a field of ``tables`` counts its references: take them out of the loop
    node, edge, bound, plain = tables.node, tables.edge, tables.counter_bound, tables.counter_plain
    first_at, node_at, edge_at = tables.first_at, tables.node_at, tables.edge_at
    weight, once, local, sure = tables.weight, tables.once, tables.local, tables.sure
    rule_counter, rule_automaton, deterministic = tables.rule_counter, tables.rule_automaton, tables.deterministic
    letter_at, states, letters = tables.letter_at, tables.states, tables.letters
    state_at, arc_at, letter = tables.state_at, tables.arc_at, tables.letter
    initial, final = tables.initial, tables.final
    arc_ptr, arc_to, arc_amount = tables.arc_ptr, tables.arc_to, tables.arc_amount
    times = np.zeros(m, np.int64)
    for t in range(len(labels)):
        times[labels[t]] += 1
    cost = 0.0
    for r in range(len(amounts)):
        if local[r] and not local_too:
            continue
        amount = np.int64(0)
        for c in range(rule_counter[r], rule_counter[r + 1]):
            if plain[c]:
                total = np.int64(0)
                for here in range(m):
                    total += node[node_at[c] + here] * times[here]
            else:
                total = tally_value(node, edge, first_at[c], node_at[c], edge_at[c], classes[r], labels, m)
            excesses[c] = total - bound[c]
            amount += max(excesses[c], 0)
        k = rule_automaton[r]
        if k >= 0:
            if deterministic[k]:
                amount = only_run(
                    letter_at[k], letters[k], state_at[k], arc_at[k],
                    letter, initial, final, arc_ptr, arc_to, arc_amount, classes[r], labels, m,
                )  # fmt: skip
            else:
                amount = least_run(
                    letter_at[k], states[k], letters[k], state_at[k], arc_at[k],
                    letter, initial, final, arc_ptr, arc_to, arc_amount, classes[r], labels, m,
                )  # fmt: skip
            amount -= sure[r]
        amounts[r] = amount
        if amount > 0 and not local[r]:
            cost += weight[r] * (1.0 if once[r] else float(amount))
            if cost >= enough and not local_too:
                break
    return cost


@kernel
def fold_local(tables, classes, unary, pairwise, m, take_out):
    """Subtract what local rules cost from ``unary`` (n, m) and ``pairwise`` (k, m, m), in place; return the rest.

    With ``take_out``, what all labels of a token (all pairs of a step) would pay alike is not subtracted but returned, so
    that large costs that no labeling avoids do not drown the scores.
    ``pairwise`` must be one matrix per step (k = n - 1) where a local rule has an edge table of several classes.
    """
    n = len(unary)
    unavoidable = 0.0
    for r in range(len(tables.weight)):
        if not tables.local[r]:
            continue
        c = tables.rule_counter[r]
        weight = tables.weight[r]
        shared = take_out and weight < np.inf
        for t in range(n):
            at = (tables.first_at[c] if t == 0 else tables.node_at[c]) + np.int64(classes[r, t]) * m
            least = tables.node[at] if shared else 0
            for here in range(m if shared else 0):
                least = min(least, tables.node[at + here])
            if least != 0:
                unavoidable += weight * least
            for here in range(m):
                if tables.node[at + here] != least:
                    unary[t, here] -= weight * (tables.node[at + here] - least)
        if tables.edge_at[c] < 0 or n < 2:
            continue
        for t in range(len(pairwise)):
            at = tables.edge_at[c] + np.int64(classes[r, t + 1]) * m * m
            least = tables.edge[at] if shared else 0
            for i in range(m * m if shared else 0):
                least = min(least, tables.edge[at + i])
            if least != 0:
                unavoidable += weight * least * ((n - 1) if len(pairwise) == 1 else 1)
            for i in range(m):
                for j in range(m):
                    if tables.edge[at + i * m + j] != least:
                        pairwise[t, i, j] -= weight * (tables.edge[at + i * m + j] - least)
    return unavoidable


@kernel
def take_out_maxima(unary, arriving):
    """Subtract each token's and each step's maximum, in place; return their sum, and whether NaN or +inf was met.

    Rows without any allowed entry stay as they are. ``arriving`` is one matrix, or one per step.
    """
    n, m = unary.shape
    total = 0.0
    wrong = False
    for t in range(n):
        top = -np.inf
        for here in range(m):
            wrong = wrong or not unary[t, here] < np.inf
            top = max(top, unary[t, here])
        if top > -np.inf:
            total += top
            for here in range(m):
                unary[t, here] -= top
    if n < 2:
        return total, wrong
    for t in range(len(arriving)):
        top = -np.inf
        for i in range(m):
            for j in range(m):
                wrong = wrong or not arriving[t, i, j] < np.inf
                top = max(top, arriving[t, i, j])
        if top > -np.inf:
            total += top * ((n - 1) if len(arriving) == 1 else 1)
            for i in range(m):
                for j in range(m):
                    arriving[t, i, j] -= top
    return total, wrong


@kernel
def unavoidable_excess(tables, classes, counter, unary):
    """Return how much a counter exceeds its bound at the least, token by token; 0 where it need not. O(n m^2)."""
    n, m = unary.shape
    total = -tables.counter_bound[counter]
    for t in range(n):
        row = np.int64(classes[t]) * m
        at = (tables.first_at[counter] if t == 0 else tables.node_at[counter]) + row
        low = NEVER
        for here in range(m):
            if unary[t, here] > -np.inf:
                low = min(low, tables.node[at + here])
        total += low
        if t > 0 and tables.edge_at[counter] >= 0:
            low = NEVER
            for before in range(m):
                for here in range(m):
                    if unary[t - 1, before] > -np.inf and unary[t, here] > -np.inf:
                        low = min(low, tables.edge[tables.edge_at[counter] + (row + before) * m + here])
            total += low
    return max(total, np.int64(0))
