"""One term of a rule, its counters or its automaton, as it reads a lattice: what it collects, and what is still to come."""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.rule_tables import NEVER

MOST_CODES = np.int64(1) << np.int64(60)  # joint states of a rule's counters are numbered below this

FEW_STATES, MOST_CELLS = 32, 100_000
"""States after a letter, and nodes x states, up to which the amounts to come are worked out for every node; above both they
are worked out for the letters of each token, which costs less and prunes less."""


class CounterTerm(NamedTuple):
    """Counters of a rule over a lattice; their running sums, clipped to what can still decide, are one number."""

    weight: float
    once: bool
    limits: np.ndarray  # int64 (counters,)
    rates: np.ndarray  # float64 (counters,): what the lattice charges for a unit
    base: np.ndarray  # int64 (counters,): least running sum
    radix: np.ndarray  # int64 (counters,)
    at_start: np.ndarray  # int64 (first nodes, counters): what entering a node of the first layer adds
    at_arc: np.ndarray  # int64 (arcs, counters)
    span: np.ndarray  # int64 (nodes, counters, 2): the least and the largest running sum that still decides
    states: int  # joint states that may be told apart
    fits: bool  # whether their numbers are small enough


class AutomatonTerm(NamedTuple):
    """The automaton of a rule over a lattice."""

    weight: float
    once: bool
    sure: int
    certain: bool  # one run per labeling
    letters: int
    letter: np.ndarray  # int64 (nodes,)
    site: np.ndarray  # int64 (nodes,): the row of each node in ``least`` and ``most``
    slot: np.ndarray  # int64 (letters, states)
    initial: np.ndarray
    step_ptr: np.ndarray
    step_to: np.ndarray
    step_amount: np.ndarray
    least: np.ndarray  # int64 (sites, slots): least amount still to come
    most: np.ndarray
    prices: np.ndarray  # float64 (n, m), empty where the lattice charges nothing
    to_come: np.ndarray  # int64 (n, states), of the whole chain: behind the prices
    charges_ahead: np.ndarray  # float64 (nodes,)


@kernel
def counter_gains(lattice, tables, row, m, counter, k, at_start, at_arc):
    """Fill column k: what ``counter`` collects on entering each first node and along each arc."""
    node, edge = tables.node, tables.edge
    first_at, node_at, edge_at = tables.first_at[counter], tables.node_at[counter], tables.edge_at[counter]
    layer, label, arc_ptr, arc_to = lattice.layer, lattice.label, lattice.arc_ptr, lattice.arc_to
    for i in range(layer[1]):
        at_start[i, k] = node[first_at + np.int64(row[0]) * m + label[i]]
    for t in range(1, len(layer) - 1):
        cell = np.int64(row[t]) * m
        for i in range(layer[t - 1], layer[t]):
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                here = label[arc_to[a]]
                gain = np.int64(node[node_at + cell + here])
                if edge_at >= 0:
                    gain += edge[edge_at + (cell + label[i]) * m + here]
                at_arc[a, k] = gain


@kernel
def counter_span(lattice, at_arc, limit, k, span):
    """Fill column k: between which running sums (nodes, counters, 2) what a counter can still collect decides."""
    layer, arc_ptr, arc_to = lattice.layer, lattice.arc_ptr, lattice.arc_to
    for i in range(layer[-2], layer[-1]):
        span[i, k, 0] = limit
        span[i, k, 1] = limit
    for back in range(layer[-2]):
        i = layer[-2] - 1 - back
        low, high = NEVER, -NEVER
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            gain, j = at_arc[a, k], arc_to[a]
            low = min(low, span[j, k, 0] - gain)
            high = max(high, span[j, k, 1] - gain)
        span[i, k, 0] = low
        span[i, k, 1] = high


@kernel
def entered_states(states, letters, step_ptr, step_to):
    """Give numbers, per letter, to the states that reading it leads to: (slots (letters, states), -1 elsewhere; the most).

    An automaton that remembers the label before has many states, of which few can follow a letter.
    """
    slot = np.full((letters, states), -1, np.int64)
    width = np.int64(1)
    for letter in range(letters):
        count = np.int64(0)
        for q in range(states):
            for b in range(step_ptr[q * letters + letter], step_ptr[q * letters + letter + 1]):
                if slot[letter, step_to[b]] < 0:
                    slot[letter, step_to[b]] = count
                    count += 1
        width = max(width, count)
    return slot, width


@kernel
def letter_sites(lattice, letter, letters, by_node):
    """Group the nodes of each layer by their letter (``by_node``: not at all): layer, arc_ptr, arc_to, site of each node.

    Groups are joined by an arc if two of their nodes are, so what every path through the groups pays at least, every path of
    the lattice pays.
    """
    layer, arc_ptr, arc_to = lattice.layer, lattice.arc_ptr, lattice.arc_to
    site = np.arange(len(letter))
    if by_node:
        return layer, arc_ptr, arc_to, site
    n, groups = len(layer) - 1, np.int64(0)
    group_layer, newest = np.zeros(n + 1, np.int64), np.full(letters, -1, np.int64)
    for t in range(n):
        for i in range(layer[t], layer[t + 1]):
            if newest[letter[i]] < group_layer[t]:
                newest[letter[i]] = groups
                groups += 1
            site[i] = newest[letter[i]]
        group_layer[t + 1] = groups
    joined, used = np.zeros((groups, letters), np.bool_), np.int64(0)
    for i in range(layer[-2]):
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            joined[site[i], letter[arc_to[a]]] = True
    first = np.zeros((n, letters), np.int64)
    for t in range(n):
        for i in range(layer[t], layer[t + 1]):
            first[t, letter[i]] = site[i]
    group_ptr, group_to = np.zeros(groups + 1, np.int64), np.empty(groups * letters, np.int64)
    for t in range(n):
        for g in range(group_layer[t], group_layer[t + 1]):
            for a in range(letters):
                if joined[g, a]:
                    group_to[used] = first[t + 1, a]
                    used += 1
            group_ptr[g + 1] = used
    return group_layer, group_ptr, group_to[:used], site


@kernel
def automaton_to_come(
    layer, arc_ptr, arc_to, letter, letters, slot, final, step_ptr, step_to, step_amount, least, most, most_steps,
    stop,
):  # fmt: skip
    """Fill the least and largest amounts (sites, slots) still to come; ``NEVER`` if no run goes on to the end.

    Returns the number of steps looked at; it ends early if that exceeds ``most_steps`` or ``stop`` is set.
    """
    work = np.int64(0)
    n = len(layer) - 1
    states, width = len(final), least.shape[1]
    states_of = np.full((letters, width), -1, np.int64)
    for a in range(letters):
        for q in range(states):
            if slot[a, q] >= 0:
                states_of[a, slot[a, q]] = q
    for back in range(len(letter)):
        i = len(letter) - 1 - back
        if work > most_steps or stop[0]:
            break
        for s in range(width):
            q = states_of[letter[i], s]
            if q < 0:
                break
            least[i, s] = NEVER
            most[i, s] = -NEVER
            if i >= layer[n - 1]:
                if final[q] >= 0:
                    least[i, s] = final[q]
                    most[i, s] = final[q]
                continue
            low = NEVER
            high = -NEVER
            work += arc_ptr[i + 1] - arc_ptr[i]
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                j = arc_to[a]
                cell = q * letters + letter[j]
                for b in range(step_ptr[cell], step_ptr[cell + 1]):
                    k = slot[letter[j], step_to[b]]
                    if least[j, k] < NEVER:
                        low = min(low, step_amount[b] + least[j, k])
                        high = max(high, step_amount[b] + most[j, k])
            least[i, s] = low
            most[i, s] = high
    return work


@kernel
def most_charged(lattice, prices):
    """Return the largest total of ``prices`` (n, m) that a path can still meet after each node (empty: no prices)."""
    layer, label = lattice.layer, lattice.label
    most = np.zeros(len(label) if len(prices) > 0 else 0)
    for back in range(len(layer) - 2 if len(prices) > 0 else 0):
        t = len(layer) - 3 - back
        for i in range(layer[t], layer[t + 1]):
            for a in range(lattice.arc_ptr[i], lattice.arc_ptr[i + 1]):
                j = lattice.arc_to[a]
                most[i] = max(most[i], most[j] + prices[t + 1, label[j]])
    return most


@kernel
def node_letters(lattice, tables, row, m, automaton):
    """Letter that the automaton reads at each node (nodes,)."""
    table, at = tables.letter, tables.letter_at[automaton]
    letter = np.empty(len(lattice.label), np.int64)
    for t in range(len(lattice.layer) - 1):
        for i in range(lattice.layer[t], lattice.layer[t + 1]):
            letter[i] = table[at + np.int64(row[t]) * m + lattice.label[i]]
    return letter


@kernel
def counter_term(lattice, tables, row, m, rule, low, high, duals):
    """Return counters ``low : high`` as they read a lattice."""
    count, nodes = high - low, len(lattice.label)
    span = np.empty((nodes, count, 2), np.int64)
    at_start = np.zeros((lattice.layer[1], count), np.int64)
    at_arc = np.zeros((len(lattice.arc_to), count), np.int64)
    base, radix = np.zeros(count, np.int64), np.ones(count, np.int64)
    limits = tables.counter_bound[low:high]
    size = np.int64(1)
    fits = True
    for k in range(count):
        counter_gains(lattice, tables, row, m, low + k, k, at_start, at_arc)
        counter_span(lattice, at_arc, np.int64(limits[k]), k, span)
        lowest = NEVER
        highest = -NEVER
        for i in range(nodes):
            lowest = min(lowest, span[i, k, 0])
            highest = max(highest, span[i, k, 1])
        base[k] = lowest
        radix[k] = size
        values = max(highest - lowest + 1, 1)
        fits = fits and size <= MOST_CODES // values
        size *= values if fits else 1
    return CounterTerm(
        tables.weight[rule],
        tables.once[rule],
        limits,
        duals[low:high],
        base,
        radix,
        at_start,
        at_arc,
        span,
        size,
        fits,
    )


@kernel
def automaton_term(lattice, tables, row, m, rule, prices, to_come, most_steps, stop):
    """Return a rule's automaton as it reads a lattice that charges ``prices`` for it, and the number of steps looked at."""
    automaton = tables.rule_automaton[rule]
    states, letters = tables.states[automaton], tables.letters[automaton]
    state_at, arc_at = tables.state_at[automaton], tables.arc_at[automaton]
    step_ptr = tables.arc_ptr[arc_at : arc_at + states * letters + 1]
    slot, width = entered_states(states, letters, step_ptr, tables.arc_to)
    letter = node_letters(lattice, tables, row, m, automaton)
    by_node = width <= FEW_STATES or len(letter) * width <= MOST_CELLS
    layer, arc_ptr, arc_to, site = letter_sites(lattice, letter, letters, by_node)
    sites = layer[-1]
    of_site = np.empty(sites, np.int64)
    for i in range(len(letter)):
        of_site[site[i]] = letter[i]
    least, most = np.empty((sites, width), np.int64), np.empty((sites, width), np.int64)
    final = tables.final[state_at : state_at + states]
    work = automaton_to_come(
        layer, arc_ptr, arc_to, of_site, letters, slot, final, step_ptr, tables.arc_to, tables.arc_amount, least, most,
        most_steps, stop,
    )  # fmt: skip
    work += step_ptr[-1] - step_ptr[0]
    term = AutomatonTerm(
        tables.weight[rule], tables.once[rule], tables.sure[rule], tables.deterministic[automaton], letters,
        letter, site, slot, tables.initial[state_at : state_at + states], step_ptr, tables.arc_to, tables.arc_amount,
        least, most, prices, to_come, most_charged(lattice, prices),
    )  # fmt: skip
    return term, work


@kernel
def worst_term(terms, waiting, weight, once, excesses, amounts, duals, charged):
    """Of the terms (rule, low, high, states) that wait, the one whose cost most exceeds its charge; then of fewest states.

    ``charged`` (rules,) is what prices of automata charge a rule with; counters are charged by their duals.
    """
    chosen = -1
    widest = -np.inf
    for k in range(len(terms)):
        if not waiting[k]:
            continue
        r, low, high = terms[k, 0], terms[k, 1], terms[k, 2]
        amount = np.int64(0) if high > low else amounts[r]
        difference = -charged[r]
        for c in range(low, high):
            amount += max(excesses[c], 0)
            difference -= duals[c] * excesses[c]
        if amount > 0:
            difference += weight[r] * (1 if once[r] else amount)
        if chosen < 0 or difference > widest or (difference == widest and terms[k, 3] < terms[chosen, 3]):
            chosen = k
            widest = difference
    return chosen
