"""A walk times the counters and automata of its rules: the distribution of labelings under rules, in one forward pass.

Rules only cost. So the mass of a node of the product, times what the plain walk holds after it, bounds what all labelings
through it can add under the rules. The pass drops nodes of least mass as long as their bounds add up to little; their sum
bounds the error of every probability.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lattice.rule_tables import NEVER
from rulefield.kernels.lattice.terms import (
    automaton_to_come,
    counter_gains,
    counter_span,
    entered_states,
    node_letters,
)
from rulefield.kernels.lattice.walk import LEAST_MASS, LabelWalk, mass_cut

SETTLED = np.int64(-1)  # the state of an automaton that has nothing more to say
PAID = NEVER  # the state of the counters of a rule that is paid once, and was
MOST_BRANCHES = 64  # runs that automata which guess may follow along one arc; the mass of more counts as left out
EVERYTHING = np.int64(1) << np.int64(60)
ARC_SHARE = 0.02  # of the mass below which nodes were dropped: arcs of less are not followed


@kernel
def sums_ahead(lattice, ahead):
    """Fill ``ahead`` (nodes,): log of the sum of exp(score) of all ways from each node to the end; return the total's log.

    Each sum is taken relative to its largest term, so scores of any size are safe. O(arcs).
    """
    layer, arc_ptr, arc_to, arc_score = lattice.layer, lattice.arc_ptr, lattice.arc_to, lattice.arc_score
    n = len(layer) - 1
    ahead[layer[n - 1] :] = 0.0
    for back in range(layer[n - 1]):
        i = layer[n - 1] - 1 - back
        top = -np.inf
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            top = max(top, arc_score[a] + ahead[arc_to[a]])
        if top == -np.inf:
            ahead[i] = top
            continue
        total = 0.0
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            total += np.exp(arc_score[a] + ahead[arc_to[a]] - top)
        ahead[i] = top + np.log(total)
    top = -np.inf
    for i in range(layer[1]):
        top = max(top, lattice.reach[i] + ahead[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(layer[1]):
        total += np.exp(lattice.reach[i] + ahead[i] - top)
    return top + np.log(total)


class TermReaders(NamedTuple):
    """The terms of rules that can cost something on a walk, as they read it."""

    term: np.ndarray  # int64 (terms, 5): rule, first and last state of a row, automaton or -1, its place among those
    sure: np.ndarray  # int64 (terms,): amount that no labeling avoids; taken out
    at_start: np.ndarray  # int64 (first nodes, counters): what entering a node of the first layer adds
    at_arc: np.ndarray  # int64 (arcs, counters)
    span: np.ndarray  # int64 (nodes, counters, 2): the least and the largest running sum that still decides
    letter: np.ndarray  # int64 (automata, nodes)
    least: np.ndarray  # int64 (automata, nodes, slots): least amount still to come
    most: np.ndarray  # int64 (automata, nodes, slots)
    slot: np.ndarray  # int64 (automata, letters, states)
    states: int  # length of a row: counters first, then automata
    counters: int


@kernel
def slots_of(tables):
    """Return slots of the states that letters lead to (automata, letters, states), and how many each automaton has."""
    count = len(tables.states)
    letters, states = np.int64(1), np.int64(1)
    for k in range(count):
        letters, states = max(letters, tables.letters[k]), max(states, tables.states[k])
    slots, widths = np.full((count, letters, states), -1, np.int64), np.ones(count, np.int64)
    for k in range(count):
        at, cells = tables.arc_at[k], tables.states[k] * tables.letters[k]
        slot, width = entered_states(
            tables.states[k], tables.letters[k], tables.arc_ptr[at : at + cells + 1], tables.arc_to
        )
        widths[k] = width
        for a in range(tables.letters[k]):
            for q in range(tables.states[k]):
                slots[k, a, q] = slot[a, q]
    return slots, widths


@kernel
def counters_at_start(walk, limit_low, limit_high, at_start, span):
    """Return whether counters ``limit_low : limit_high`` may cost anything, and the least amount that they cost."""
    open_, least = False, NEVER
    for i in range(walk.layer[1]):
        amount = np.int64(0)
        for k in range(limit_low, limit_high):
            open_ = open_ or at_start[i, k] > span[i, k, 0]
            amount += max(at_start[i, k] - span[i, k, 1], 0)
        least = min(least, amount)
    return open_, least


@kernel
def automaton_at_start(walk, tables, k, letter, slot, least, most):
    """Return whether automaton ``k`` may cost anything, and the least amount that it costs (``NEVER``: no run ends)."""
    first, arcs, letters = tables.state_at[k], tables.arc_at[k], tables.letters[k]
    low, high = NEVER, np.int64(0)
    for i in range(walk.layer[1]):
        for q in range(tables.states[k]):
            begun = np.int64(tables.initial[first + q])
            cell = arcs + q * letters + letter[i]
            for b in range(
                tables.arc_ptr[cell] if begun >= 0 else tables.arc_ptr[cell + 1], tables.arc_ptr[cell + 1]
            ):
                s = slot[letter[i], tables.arc_to[b]]
                if least[i, s] < NEVER:
                    low = min(low, begun + tables.arc_amount[b] + least[i, s])
                    high = max(high, begun + tables.arc_amount[b] + most[i, s])
    return high > 0 or low >= NEVER, low


@kernel
def readers_of(walk, tables, terms, classes, m, slots, widths):
    """Return the terms (rule, low, high, ...) that can cost something on a walk."""
    counters, automata, widest = np.int64(0), np.int64(0), np.int64(1)
    for x in range(len(terms)):
        counters += terms[x, 2] - terms[x, 1]
        if terms[x, 2] == terms[x, 1]:
            automata += 1
            widest = max(widest, widths[tables.rule_automaton[terms[x, 0]]])
    nodes, stop = len(walk.label), np.zeros(1, np.bool_)
    at_start, at_arc = np.zeros((walk.layer[1], counters), np.int64), np.zeros((len(walk.arc_to), counters), np.int64)
    span, letter = np.empty((nodes, counters, 2), np.int64), np.empty((automata, nodes), np.int64)
    least, most = np.empty((automata, nodes, widest), np.int64), np.empty((automata, nodes, widest), np.int64)
    term, sure = np.empty((len(terms), 5), np.int64), np.zeros(len(terms), np.int64)
    slot = np.empty((automata, slots.shape[1], slots.shape[2]), np.int64)
    active, used, machines = 0, np.int64(0), np.int64(0)
    for x in range(len(terms)):
        r, low, high = terms[x, 0], terms[x, 1], terms[x, 2]
        for c in range(low, high):
            counter_gains(walk, tables, classes[r], m, c, used + c - low, at_start, at_arc)
            counter_span(walk, at_arc, tables.counter_bound[c], used + c - low, span)
        if high > low:
            costs, amount = counters_at_start(walk, used, used + high - low, at_start, span)
            if costs:
                term[active, 0], term[active, 1], term[active, 2], term[active, 3] = r, used, used + high - low, -1
                sure[active] = amount
                active += 1
                used += high - low
            continue
        k = tables.rule_automaton[r]
        letter[machines] = node_letters(walk, tables, classes[r], m, k)
        slot[machines] = slots[k]
        states, at = tables.states[k], tables.state_at[k]
        arcs, cells = tables.arc_at[k], tables.states[k] * tables.letters[k]
        automaton_to_come(
            walk.layer, walk.arc_ptr, walk.arc_to, letter[machines], tables.letters[k], slots[k, :, :states],
            tables.final[at : at + states], tables.arc_ptr[arcs : arcs + cells + 1], tables.arc_to, tables.arc_amount,
            least[machines, :, : widths[k]], most[machines, :, : widths[k]], EVERYTHING, stop,
        )  # fmt: skip
        costs, amount = automaton_at_start(
            walk, tables, k, letter[machines], slots[k], least[machines], most[machines]
        )
        if costs:
            term[active, 0], term[active, 3], term[active, 4] = r, k, machines
            sure[active] = amount
            active += 1
            machines += 1
    for x in range(active):
        if term[x, 3] >= 0:
            term[x, 1], term[x, 2] = used + term[x, 4], used + term[x, 4] + 1
    return TermReaders(
        term[:active], sure[:active], at_start, at_arc, span, letter, least, most, slot, used + machines, used
    )


@piece
def price(weight, once, amount):
    """Return what an amount costs."""
    return 0.0 if amount <= 0 else (weight if once else weight * amount)


@piece
def plus(a, b, logs):
    """Return the sum of two masses."""
    if not logs:
        return a + b
    top = max(a, b)
    return top if top == -np.inf else top + np.log(np.exp(a - top) + np.exp(b - top))


class Product(NamedTuple):
    """A product while it is built: node i is node ``coarse[i]`` of the walk, its rules in the states ``row[i]``."""

    coarse: np.ndarray  # int64 (room,)
    row: np.ndarray  # int64 (room, states)
    mark: np.ndarray  # uint64 (room,): of coarse and row
    mass: np.ndarray  # float64 (room,)
    arc_ptr: np.ndarray  # int64 (room + 1,)
    arc_to: np.ndarray  # int64 (arc room,)
    arc_mass: np.ndarray  # float64 (arc room,)
    bucket: np.ndarray  # int64 (power of two,): nodes by their mark; those of older layers count as none


@kernel
def grown_rows(rows):
    """Return rows with twice the room."""
    bigger = np.empty((2 * len(rows), rows.shape[1]), np.int64)
    for i in range(len(rows)):
        for k in range(rows.shape[1]):
            bigger[i, k] = rows[i, k]
    return bigger


@kernel
def with_room(product, nodes, arcs, first):
    """Return the product with room for one more node and for ``MOST_BRANCHES`` more arcs."""
    coarse, row, mark, mass, arc_ptr, arc_to, arc_mass, bucket = product
    if nodes + 1 >= len(coarse):
        coarse, mark, mass, arc_ptr = doubled(coarse), doubled(mark), doubled(mass), doubled(arc_ptr)
        row = grown_rows(row)
    if arcs + 1 >= len(arc_to):
        arc_to, arc_mass = doubled(arc_to), doubled(arc_mass)
    if 2 * (nodes - first) >= len(bucket):
        bucket = np.full(2 * len(bucket), -1, np.int64)
        for j in range(first, nodes):
            at = mark[j] & np.uint64(len(bucket) - 1)
            while bucket[at] >= first:
                at = (at + np.uint64(1)) & np.uint64(len(bucket) - 1)
            bucket[at] = j
    return Product(coarse, row, mark, mass, arc_ptr, arc_to, arc_mass, bucket)


@kernel
def sum_of_masses(mass, first, last, logs):
    """Return the sum of the masses ``first : last``, or the log of the sum of their exponentials."""
    total = -np.inf if logs else 0.0
    for i in range(first, last):
        total = plus(total, mass[i], logs)
    return total


@kernel
def drop_least(mass, first, last, budget, most_nodes):
    """Drop (0) the nodes ``first : last`` of least mass: as many as the budget allows, and more if over ``most_nodes`` stay.

    Returns their mass, the mass below which nodes were dropped, and whether ``most_nodes`` was met.
    """
    cut, kept, dropped = mass_cut(mass, first, last, budget), 0, 0.0
    for i in range(first, last):
        kept += mass[i] >= cut
    full = kept > most_nodes
    while kept > most_nodes:
        cut, kept = (2.0 * cut if cut > 0.0 else LEAST_MASS), 0
        for i in range(first, last):
            kept += mass[i] >= cut
    for i in range(first, last):
        if mass[i] < cut:
            dropped += mass[i]
            mass[i] = 0.0
    return dropped, cut, full


@kernel
def finished_walk(walk, product, layer, start, arcs):
    """Return the nodes and arcs of a product as a walk, not yet normalized."""
    n, nodes = len(layer) - 1, layer[-1]
    for i in range(layer[n - 1], nodes):
        product.arc_ptr[i + 1] = arcs
    label = np.empty(nodes, np.int64)
    for i in range(nodes):
        label[i] = walk.label[product.coarse[i]]
    return LabelWalk(
        layer, label, start, product.arc_ptr[: nodes + 1], product.arc_to[:arcs], product.arc_mass[:arcs], 0.0
    )


@kernel
def multiply(walk, tables, readers, tolerance, most_nodes, logs):
    """Return the product of a walk with its rules, without nodes that carry at most ``tolerance`` of its mass.

    A layer has at most ``most_nodes``; the mass of others is left out. With ``logs`` masses are logarithms, and nothing
    else is left out. Returns the product, not yet normalized, the masses of its nodes (0: dropped), the mass of all
    labelings in it, a bound on what was left out of the walk, and whether ``most_nodes`` was met.
    """
    # No pieces or kernels inside the loops: numba counts references to every array that one is given, at every arc.
    layer, old_ptr, old_to, old_mass, n = walk.layer, walk.arc_ptr, walk.arc_to, walk.arc_mass, len(walk.layer) - 1
    term, sure, at_start, at_arc, span, letter, least, most, slot, width, _ = readers
    weight_of, once_of, initial, certain_of = tables.weight, tables.once, tables.initial, tables.deterministic
    states_of, letters_of, state_at, arc_at = tables.states, tables.letters, tables.state_at, tables.arc_at
    step_ptr, step_to, step_amount, begins = tables.arc_ptr, tables.arc_to, tables.arc_amount, walk.start
    room = max(256, 4 * len(walk.label))
    nothing = -np.inf if logs else 0.0
    product = Product(
        np.empty(room, np.int64), np.empty((room, width), np.int64), np.empty(room, np.uint64), np.empty(room),
        np.zeros(room + 1, np.int64), np.empty(4 * room, np.int64), np.empty(4 * room), np.full(256, -1, np.int64),
    )  # fmt: skip
    coarse, row, mark, mass, arc_ptr, arc_to, arc_mass, bucket = product
    rows, costs = np.zeros((MOST_BRANCHES, width), np.int64), np.zeros(MOST_BRANCHES)
    new_layer, start = np.zeros(n + 1, np.int64), np.zeros(0)
    nodes, arcs, before, spent, lost, full, least_arc = 0, 0, 0, 0.0, nothing, False, 0.0
    for t in range(n):
        first = nodes
        for i in range(0 if t == 0 else new_layer[t - 1], 1 if t == 0 else new_layer[t]):
            source, so_far = np.int64(-1), (0.0 if logs else 1.0)
            begin, end = np.int64(0), layer[1]
            if t > 0:
                source, so_far = coarse[i], mass[i]
                begin, end = old_ptr[source], old_ptr[source + 1]
                end = begin if so_far == nothing else end
            for a in range(begin, end):
                target = a if t == 0 else old_to[a]
                share = begins[a] if t == 0 else old_mass[a]
                if not logs and so_far * share < least_arc:
                    spent += so_far * share
                    continue
                runs = 1
                costs[0] = 0.0
                for x in range(len(term)):
                    rule, low, high, machine = term[x, 0], term[x, 1], term[x, 2], term[x, 3]
                    weight, once = weight_of[rule], once_of[rule]
                    known = 0.0
                    if t == 0 and sure[x] > 0:
                        known = weight if once else weight * sure[x]
                    if machine < 0:
                        amount = np.int64(0)
                        if t > 0 and once and row[i, low] == PAID:
                            for k in range(low, high):
                                rows[0, k] = PAID
                        else:
                            for k in range(low, high):
                                value = at_start[a, k] if t == 0 else row[i, k] + at_arc[a, k]
                                top = span[target, k, 1]
                                if value > top:
                                    amount += value - top
                                    value = top
                                rows[0, k] = max(value, span[target, k, 0])
                            if once and amount > 0:
                                for k in range(low, high):
                                    rows[0, k] = PAID
                        for b in range(runs):
                            if amount > 0:
                                costs[b] += weight if once else weight * amount
                            costs[b] -= known
                            for k in range(low if b > 0 else high, high):
                                rows[b, k] = rows[0, k]
                        continue
                    state = np.int64(0) if t == 0 else row[i, low]
                    if t > 0 and state == SETTLED:
                        for b in range(runs):
                            rows[b, low] = SETTLED
                        continue
                    place, states, letters = term[x, 4], states_of[machine], letters_of[machine]
                    certain, read = certain_of[machine], letter[place, target]
                    paid = t > 0 and state >= states
                    from_state = np.int64(0) if t == 0 else (state - states if paid else state)
                    until = states if t == 0 else from_state + 1
                    branches, many = 0, runs
                    for q in range(from_state, until):
                        owed = np.int64(initial[state_at[machine] + q])
                        if t > 0:
                            owed = -least[place, source, slot[place, letter[place, source], q]]
                        elif owed < 0:
                            continue
                        cell = arc_at[machine] + q * letters + read
                        for step in range(step_ptr[cell], step_ptr[cell + 1]):
                            to = np.int64(step_to[step])
                            here = slot[place, read, to]
                            if least[place, target, here] >= NEVER:
                                continue
                            amount = owed + step_amount[step] + least[place, target, here]
                            if paid:
                                to, amount = to + states, np.int64(0)
                            elif once and amount > 0:
                                to = SETTLED if certain else to + states
                            elif certain and least[place, target, here] == most[place, target, here]:
                                to = SETTLED
                            cost = -known
                            if amount > 0:
                                cost += weight if once else weight * amount
                            if branches == 0:
                                following, added = to, cost
                            else:
                                for b in range(many):
                                    if runs == MOST_BRANCHES:
                                        full = True
                                        lost = plus(lost, so_far + share if logs else so_far * share, logs)
                                        break
                                    for k in range(width):
                                        rows[runs, k] = rows[b, k]
                                    rows[runs, low], costs[runs] = to, costs[b] + cost
                                    runs += 1
                            branches += 1
                    if branches == 0:
                        runs = 0
                        break
                    for b in range(many):
                        rows[b, low] = following
                        costs[b] += added
                for b in range(runs):
                    weight = share
                    if costs[b] != 0.0:
                        weight = share - costs[b] if logs else share * np.exp(-costs[b])
                    worth = so_far + weight if logs else so_far * weight
                    if worth == nothing:
                        continue
                    if nodes + 1 >= len(coarse) or arcs + 1 >= len(arc_to) or 2 * (nodes - first) >= len(bucket):
                        product = with_room(
                            Product(coarse, row, mark, mass, arc_ptr, arc_to, arc_mass, bucket), nodes, arcs, first
                        )
                        coarse, row, mark, mass, arc_ptr, arc_to, arc_mass, bucket = product
                    own = np.uint64(target + 1) * np.uint64(0x9E3779B97F4A7C15)
                    for k in range(width):
                        own = (own ^ np.uint64(rows[b, k] + 2)) * np.uint64(0xFF51AFD7ED558CCD)
                        own ^= own >> np.uint64(32)
                    at = own & np.uint64(len(bucket) - 1)
                    j = bucket[at]
                    while j >= first:
                        if mark[j] == own and coarse[j] == target:
                            same = True
                            for k in range(width):
                                same = same and row[j, k] == rows[b, k]
                            if same:
                                break
                        at = (at + np.uint64(1)) & np.uint64(len(bucket) - 1)
                        j = bucket[at]
                    if j < first:
                        j = nodes
                        bucket[at] = j
                        coarse[j], mark[j], mass[j] = target, own, nothing
                        for k in range(width):
                            row[j, k] = rows[b, k]
                        nodes += 1
                    mass[j] = plus(mass[j], worth, logs)
                    if t > 0:
                        arc_to[arcs], arc_mass[arcs] = j, weight
                        arcs += 1
            if t > 0:
                arc_ptr[i + 1] = arcs
        new_layer[t + 1] = nodes
        if t == 0:
            start = mass[:nodes].copy()
        if not logs:
            total = sum_of_masses(mass, first, nodes, False)
            budget = tolerance * total * (t + 1) / n - spent
            dropped, cut, crowded = drop_least(mass, first, nodes, budget, most_nodes)
            least_arc = min(ARC_SHARE * cut, 0.25 * tolerance * total / (n * (arcs - before + 256)))
            before, spent, full = arcs, spent + dropped, full or crowded
        elif nodes - first > most_nodes:
            full = True
            lost = plus(lost, sum_of_masses(mass, first + most_nodes, nodes, True), True)
            mass[first + most_nodes : nodes] = nothing
    total = sum_of_masses(mass, new_layer[n - 1], nodes, logs)
    product = Product(coarse, row, mark, mass, arc_ptr, arc_to, arc_mass, bucket)
    made = finished_walk(walk, product, new_layer, start, arcs)
    return made, mass, total, lost if logs else lost + spent, full


@kernel
def normalize(walk, mass, total, logs):
    """Turn a product into a walk of probabilities, in place; ``mass`` (nodes,) tells which nodes were dropped (0)."""
    layer, arc_ptr, arc_to, arc_mass = walk.layer, walk.arc_ptr, walk.arc_to, walk.arc_mass
    n = len(layer) - 1
    nothing = -np.inf if logs else 0.0
    ahead = np.full(len(walk.label), nothing)
    for back in range(len(walk.label)):
        i = len(walk.label) - 1 - back
        if mass[i] == nothing:
            continue
        if i >= layer[n - 1]:
            ahead[i] = 0.0 if logs else 1.0
            continue
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            j = arc_to[a]
            ahead[i] = plus(ahead[i], arc_mass[a] + ahead[j] if logs else arc_mass[a] * ahead[j], logs)
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            j = arc_to[a]
            if ahead[i] == nothing or ahead[j] == nothing:
                arc_mass[a] = 0.0
            elif logs:
                arc_mass[a] = np.exp(arc_mass[a] + ahead[j] - ahead[i])
            else:
                arc_mass[a] = arc_mass[a] * ahead[j] / ahead[i]
    for i in range(layer[1]):
        if mass[i] == nothing:
            walk.start[i] = 0.0
        else:
            walk.start[i] = np.exp(walk.start[i] + ahead[i] - total) if logs else walk.start[i] * ahead[i] / total
    for i in range(layer[n - 1]):  # dropped nodes lead nowhere
        if mass[i] == nothing:
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                arc_mass[a] = 0.0


class Ruled(NamedTuple):
    """The distribution of a walk under rules."""

    walk: LabelWalk
    log_mass: float  # log of the mass that rules leave, of the plain walk's 1
    left_out: float  # bound on the share of the mass under rules that is not in ``walk``
    full: bool  # whether more nodes were needed than allowed


@kernel
def under_rules(walk, tables, terms, classes, m, slots, widths, tolerance, most_nodes, logs):
    """Return the distribution of a walk under the terms of rules, with about ``tolerance`` of the mass left out."""
    readers = readers_of(walk, tables, terms, classes, m, slots, widths)
    paid = sure_cost(readers, tables)
    if paid == np.inf:
        return Ruled(walk, -np.inf, 1.0 if walk.left_out > 0.0 else 0.0, False)
    made, mass, total, lost, full = multiply(walk, tables, readers, tolerance, most_nodes, logs)
    log_mass = total if logs else np.log(total)
    outside = plus(lost if logs else np.log(lost), np.log(walk.left_out) + paid, True)  # rules may cost that nothing
    left = 0.0 if outside == -np.inf else 1.0 / (1.0 + np.exp(min(log_mass - outside, 700.0)))
    if log_mass > -np.inf:
        normalize(made, mass, total, logs)
    return Ruled(made, log_mass - paid, left, full)


@kernel
def sure_cost(readers, tables):
    """Return what the rules cost every labeling; ``inf`` if a hard one cannot be obeyed."""
    total = 0.0
    for x in range(len(readers.term)):
        rule = readers.term[x, 0]
        if readers.sure[x] > 0:
            total += price(tables.weight[rule], tables.once[rule], readers.sure[x])
    return total
