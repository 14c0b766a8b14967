"""The terms of rules as one machine: joint states of counters and automata are numbered, steps between them tabulated once.

What a label adds to counters and which letters automata read there, after another label, is one *step* of the machine; few
steps differ. A machine is made for many sequences whose rules have the same tables; it fits rules that are deterministic,
whose counters only rise or only fall, and which need few states.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel

MOST_STATES, MOST_CELLS, MOST_KINDS = 256, 16_384, 1 << 20
"""States of a machine, states x steps, and kinds of tokens x pairs of labels."""
PLACES, MOST_TERMS, LARGEST = 1 << 13, 40, np.int64(1) << np.int64(23)
"""Of the table of numbers, states of a row, and values that a state may have."""
SETTLED, PAID = np.int64(-1), LARGEST
"""States of an automaton that has nothing more to say, and of counters that are paid once and were."""


class Machine(NamedTuple):
    """A deterministic machine with costs; it begins in state 0."""

    fits: bool
    step: np.ndarray  # int64 (kinds, m, m + 1): the step at a label [to] after another (m: at the first token)
    to: np.ndarray  # int64 (steps, states)
    pay: np.ndarray  # float64 (steps, states): exp(-cost)
    end: np.ndarray  # float64 (states,): exp(-cost) of ending there


class RowNumbers(NamedTuple):
    """Numbers of rows of integers: each prefix has a number, found by that of the prefix before it and the next value."""

    keys: np.ndarray  # uint64 (places,), 0: free
    numbers: np.ndarray  # int64 (places,)
    counts: np.ndarray  # int64 (levels + 1,); the last counts keys


@kernel
def new_numbers(levels):
    """Return an empty table for rows of so many values."""
    return RowNumbers(np.zeros(PLACES, np.uint64), np.zeros(PLACES, np.int64), np.zeros(levels + 1, np.int64))


@kernel
def number_of(table, row):
    """Return the number of a row, in the order of their first appearance; -1 if the table is full."""
    keys, numbers, counts = table
    found = np.int64(0)
    for level in range(len(row)):
        if row[level] > LARGEST or row[level] < -LARGEST or counts[-1] > PLACES // 2:
            return np.int64(-1)
        key = (np.uint64(level + 1) << np.uint64(50)) | (np.uint64(found) << np.uint64(25))
        key |= np.uint64(row[level] + LARGEST)
        at = ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & np.uint64(PLACES - 1)
        while keys[at] != 0 and keys[at] != key:
            at = (at + np.uint64(1)) & np.uint64(PLACES - 1)
        if keys[at] == 0:
            keys[at], numbers[at] = key, counts[level]
            counts[level] += 1
            counts[-1] += 1
        found = numbers[at]
    return found


@kernel
def kinds_of(terms, classes, tokens, rules, kind):
    """Fill ``kind`` (tokens,), the kind of each token that the rules tell apart.

    Return token classes of each kind, (kinds, terms), or none if there are too many. ``classes`` are those of chains that lie
    one after the other: (rules, n) each, flat.
    """
    table, row = new_numbers(len(terms)), np.zeros(len(terms), np.int64)
    seen, count = np.zeros((PLACES, len(terms)), np.int64), 0
    for i in range(len(tokens) - 1):
        first, n = tokens[i], tokens[i + 1] - tokens[i]
        for t in range(n):
            for x in range(len(terms)):
                row[x] = classes[first * rules + terms[x, 0] * n + t]
            k = number_of(table, row)
            if k < 0:
                return seen[:0]
            if k >= count:
                seen[k], count = row, k + 1
            kind[first + t] = k
    return seen[:count]


@kernel
def read_step(tables, terms, classes, m, before, here, row):
    """Fill ``row``: what each counter adds and each automaton reads at a label after another (m: at the first token)."""
    at = 0
    for x in range(len(terms)):
        cell, low, high = classes[x] * m, terms[x, 1], terms[x, 2]
        for c in range(low, high):
            gain = np.int64(tables.node[(tables.first_at[c] if before == m else tables.node_at[c]) + cell + here])
            if before < m and tables.edge_at[c] >= 0:
                gain += tables.edge[tables.edge_at[c] + (cell + before) * m + here]
            row[at] = gain
            at += 1
        if high == low:
            row[at] = tables.letter[tables.letter_at[tables.rule_automaton[terms[x, 0]]] + cell + here]
            at += 1


@kernel
def steps_of(tables, terms, kinds, m, width, step):
    """Fill the steps of all kinds; return what each step reads (steps, width), none if they are too many."""
    table, row = new_numbers(width), np.zeros(width, np.int64)
    seen, count = np.zeros((MOST_CELLS, width), np.int64), 0
    for k in range(len(kinds)):
        for here in range(m):
            for before in range(m + 1):
                read_step(tables, terms, kinds[k], m, before, here, row)
                s = number_of(table, row)
                if s < 0 or s >= MOST_CELLS:
                    return seen[:0]
                if s >= count:
                    seen[s], count = row, s + 1
                step[k, here, before] = s
    return seen[:count]


@kernel
def follow(tables, terms, rises, falls, state, read, after):
    """Fill the joint state after a step; return what the step costs."""
    at, cost = 0, 0.0
    for x in range(len(terms)):
        r, low, high = terms[x, 0], terms[x, 1], terms[x, 2]
        amount, once = np.int64(0), tables.once[r]
        if state[at] == PAID or (high == low and state[at] == SETTLED):
            for _ in range(max(high - low, 1)):
                after[at] = state[at]
                at += 1
            continue
        first = at
        for c in range(low, high):
            value, bound = state[at] + read[at], tables.counter_bound[c]
            if value > bound and not falls[at]:
                amount += value - bound
                value = bound
            after[at] = bound if value < bound and not rises[at] else value
            at += 1
        if high == low:
            k = tables.rule_automaton[r]
            arc = tables.arc_ptr[tables.arc_at[k] + state[at] * tables.letters[k] + read[at]]
            amount, after[at] = np.int64(tables.arc_amount[arc]), np.int64(tables.arc_to[arc])
            at += 1
        if amount > 0:
            cost += tables.weight[r] if once else tables.weight[r] * amount
            for k in range(first if once else at, at):
                after[k] = PAID if high > low else SETTLED
    return cost


@kernel
def cost_of_end(tables, terms, state):
    """Return what it costs to end in a joint state."""
    at, cost = 0, 0.0
    for x in range(len(terms)):
        r, low, high = terms[x, 0], terms[x, 1], terms[x, 2]
        amount = np.int64(0)
        for c in range(low, high):
            amount += max(state[at] - tables.counter_bound[c], 0) if state[at] != PAID else 0
            at += 1
        if high == low:
            k = tables.rule_automaton[r]
            amount = np.int64(0) if state[at] == SETTLED else np.int64(tables.final[tables.state_at[k] + state[at]])
            cost += np.inf if amount < 0 else 0.0
            at += 1
        if amount > 0:
            cost += tables.weight[r] if tables.once[r] else tables.weight[r] * amount
    return cost


@kernel
def first_state(tables, terms, state):
    """Fill the joint state before all tokens; return whether all automata are deterministic and begin at no cost."""
    at = 0
    for x in range(len(terms)):
        for _ in range(terms[x, 1], terms[x, 2]):
            state[at] = 0
            at += 1
        if terms[x, 1] == terms[x, 2]:
            k = tables.rule_automaton[terms[x, 0]]
            if not tables.deterministic[k]:
                return False
            state[at] = 0
            while tables.initial[tables.state_at[k] + state[at]] < 0:
                state[at] += 1
            if tables.initial[tables.state_at[k] + state[at]] > 0:
                return False
            at += 1
    return True


@kernel
def machine_of(tables, terms, kinds, m):
    """Return the machine of the terms of rules for tokens of these kinds, whose classes are (kinds, terms)."""
    width = 0
    for x in range(len(terms)):
        width += max(terms[x, 2] - terms[x, 1], 1)
    none = np.zeros((0, 0, 0), np.int64)
    nothing = Machine(False, none, none[0:0].reshape((0, 0)), np.zeros((0, 0)), np.zeros(0))
    states, after = np.zeros((MOST_STATES, width), np.int64), np.zeros(width, np.int64)
    if width > MOST_TERMS or not first_state(tables, terms, states[0]):
        return nothing
    if len(kinds) == 0 or len(kinds) * m * m > MOST_KINDS:
        return nothing
    step = np.zeros((len(kinds), m, m + 1), np.int64)
    reads = steps_of(tables, terms, kinds, m, width, step)
    rises, falls = np.zeros(width, np.bool_), np.zeros(width, np.bool_)
    for s in range(len(reads)):
        for k in range(width):
            rises[k], falls[k] = rises[k] or reads[s, k] > 0, falls[k] or reads[s, k] < 0
    if len(reads) == 0 or np.any(rises & falls):
        return nothing
    most = min(MOST_STATES, MOST_CELLS // len(reads))
    to, pay, end = np.zeros((len(reads), most), np.int64), np.zeros((len(reads), most)), np.zeros(most)
    table, count, i = new_numbers(width), np.int64(1), np.int64(0)
    if most == 0 or number_of(table, states[0]) < 0:
        return nothing
    while i < count:
        end[i] = np.exp(-cost_of_end(tables, terms, states[i]))
        for s in range(len(reads)):
            cost = follow(tables, terms, rises, falls, states[i], reads[s], after)
            if cost == np.inf:
                continue
            j = number_of(table, after)
            if j < 0 or j >= most:
                return nothing
            if j == count:
                states[j] = after
                count += 1
            to[s, i], pay[s, i] = j, np.exp(-cost)
        i += 1
    return Machine(True, step, to[:, :count].copy(), pay[:, :count].copy(), end[:count])
