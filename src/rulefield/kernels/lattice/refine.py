"""Split the nodes of a lattice by the state of one more rule.

Every refinement multiplies the lattice with the state machine of one rule and, on the way, drops what
cannot beat a threshold: the completion scores of the coarser lattice are the bound. A counter's running
sum is clipped, at each node, to the values between which the rest of the sequence can still decide; what it
exceeds that range by is paid at once, and an automaton pays at once the least that is still to come. So equal
futures meet in one node and bounds tighten early.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.lattice.rule_tables import NEVER
from rulefield.kernels.lattice.terms import automaton_term, counter_term

SETTLED = np.int64(-1)  # the state of a rule that has nothing more to say

STEPS_PER_ARC = 8  # steps of an automaton between two nodes, looked at before refining, cost as much as one arc
HOPS_PER_ARC = 4  # nodes of one bucket that are passed by cost as much as one arc
MOST_BUCKETS, MOST_IN_LAYER = 64, 1 << 18  # per coarse node, and for all of a layer: they should stay in the cache


class Fine(NamedTuple):
    """A lattice while it is built: node i is node ``coarse[i]`` of the one before, in state ``code[i]`` of the term."""

    coarse: np.ndarray  # int64 (room,)
    code: np.ndarray  # int64 (room,)
    reach: np.ndarray  # float64 (room,)
    chained: np.ndarray  # int64 (room,): the node made before in the same bucket, -1 where there is none
    arc_ptr: np.ndarray  # int64 (room + 1,)
    arc_to: np.ndarray  # int64 (room for arcs,)
    arc_score: np.ndarray  # float64 (room for arcs,)
    newest: (
        np.ndarray
    )  # int64 (coarse nodes of a layer, buckets): the node made last, by the end of its state's number
    layer: np.ndarray  # int64 (n + 1,)
    used: np.ndarray  # int64 (3,): nodes, arcs, work (arcs looked at and nodes made)


@kernel
def compacted(lattice, threshold):
    """Return what of a lattice lies on a path whose score beats ``threshold``, renumbered. O(arcs)."""
    layer, reach, ahead, arc_ptr = lattice.layer, lattice.reach, lattice.ahead, lattice.arc_ptr
    n = len(layer) - 1
    number = np.full(len(reach), -1, np.int64)
    new_layer = np.zeros(n + 1, np.int64)
    nodes = 0
    for t in range(n):
        for i in range(layer[t], layer[t + 1]):
            if ahead[i] > -np.inf and reach[i] + ahead[i] > threshold:
                number[i] = nodes
                nodes += 1
        new_layer[t + 1] = nodes
    label = np.empty(nodes, np.int64)
    new_reach = np.empty(nodes)
    new_ahead = np.empty(nodes)
    new_ptr = np.zeros(nodes + 1, np.int64)
    arc_to = np.empty(len(lattice.arc_to), np.int64)
    arc_score = np.empty(len(lattice.arc_to))
    arcs = 0
    for i in range(len(reach)):
        k = number[i]
        if k < 0:
            continue
        label[k] = lattice.label[i]
        new_reach[k] = reach[i]
        new_ahead[k] = ahead[i]
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            j = lattice.arc_to[a]
            if number[j] >= 0 and reach[i] + lattice.arc_score[a] + ahead[j] > threshold:
                arc_to[arcs] = number[j]
                arc_score[arcs] = lattice.arc_score[a]
                arcs += 1
        new_ptr[k + 1] = arcs
    return Lattice(new_layer, label, new_reach, new_ahead, new_ptr, arc_to[:arcs], arc_score[:arcs])


@kernel
def empty_fine(lattice, states):
    """Return a lattice without nodes that is to refine another one by a term of so many states."""
    widest = np.int64(1)
    for t in range(len(lattice.layer) - 1):
        widest = max(widest, lattice.layer[t + 1] - lattice.layer[t])
    buckets = 1
    while buckets < min(states, MOST_BUCKETS) and 2 * buckets * widest <= MOST_IN_LAYER:
        buckets *= 2
    room, arc_room = max(1024, len(lattice.label)), max(4096, len(lattice.arc_to))
    return Fine(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64),
        np.zeros(room + 1, np.int64), np.empty(arc_room, np.int64), np.empty(arc_room),
        np.empty((widest, buckets), np.int64), np.zeros(len(lattice.layer), np.int64),
        np.array([0, 0, len(lattice.arc_to)], np.int64),
    )  # fmt: skip


@kernel
def with_room(fine, nodes, arcs):
    """Return the lattice with room for so many more nodes and arcs."""
    coarse, code, reach, chained, arc_ptr, arc_to, arc_score, newest, layer, used = fine
    while used[0] + nodes > len(coarse):
        coarse, code, reach, chained, arc_ptr = (
            doubled(coarse), doubled(code), doubled(reach), doubled(chained), doubled(arc_ptr),
        )  # fmt: skip
    while used[1] + arcs > len(arc_to):
        arc_to, arc_score = doubled(arc_to), doubled(arc_score)
    return Fine(coarse, code, reach, chained, arc_ptr, arc_to, arc_score, newest, layer, used)


@kernel
def begin_layer(fine, lattice, t, branches, limit):
    """Return the lattice with room for layer t, where each arc from the layer before has so many ``branches``."""
    for i in range(lattice.layer[t + 1] - lattice.layer[t]):
        for bucket in range(fine.newest.shape[1]):
            fine.newest[i, bucket] = -1
    arcs = lattice.layer[1]
    if t > 0:
        arcs = np.int64(0)
        for i in range(fine.layer[t - 1], fine.layer[t]):
            arcs += lattice.arc_ptr[fine.coarse[i] + 1] - lattice.arc_ptr[fine.coarse[i]]
    arcs *= branches
    return with_room(fine, min(arcs, limit - fine.used[0]) + 1, arcs)


@kernel
def counters_layer(t, lattice, term, fine, constant, threshold, limit, most_work, stop):
    """Add layer t > 0, counters exact; False where a limit is met."""
    # No pieces inside: numba counts references to arrays that a piece is given, at every arc, which doubles the time.
    weight, once, limits, rates, base, radix, _, at_arc, span, _, _ = term
    coarse, code, reach, chained, arc_ptr, arc_to, arc_score, newest, layer, used = fine
    old_ptr, old_to, old_score, ahead = lattice.arc_ptr, lattice.arc_to, lattice.arc_score, lattice.ahead
    first_node, mask = np.uint64(lattice.layer[t]), np.int64(newest.shape[1] - 1)
    counters = len(limits)
    values = np.zeros(counters, np.int64)
    nodes, arcs, work, hops = used[0], np.uint64(used[1]), used[2], np.int64(0)
    for i in range(np.uint64(layer[t - 1]), np.uint64(layer[t])):
        source, state, so_far = np.uint64(coarse[i]), code[i], reach[i]
        first, after = np.uint64(old_ptr[source]), np.uint64(old_ptr[source + np.uint64(1)])
        rest = state
        for k in range(counters - 1, -1, -1):
            values[k] = rest // radix[k] + base[k]
            rest = rest % radix[k]
        work += np.int64(after - first) * (1 + counters) // 2 + hops // HOPS_PER_ARC
        hops = np.int64(0)
        if work > most_work or stop[0]:
            used[0], used[2] = nodes, work
            return False
        for a in range(first, after):
            target, total = np.uint64(old_to[a]), old_score[a]
            following, amount, correction = np.int64(0), np.int64(0), 0.0
            for k in range(counters):
                gain = at_arc[a, k]
                value, top = values[k] + gain, span[target, k, 1]
                if value > top:
                    amount += value - top
                    value = top
                else:
                    value = max(value, span[target, k, 0])
                following += (value - base[k]) * radix[k]
                total += rates[k] * gain
                correction += rates[k] * (limits[k] - value)
            if state == SETTLED:
                amount = np.int64(0)
            if state == SETTLED or (once and amount > 0):
                following, correction = SETTLED, 0.0
                for k in range(counters):
                    correction += rates[k] * (limits[k] - span[target, k, 0])
            if amount > 0:
                total -= weight if once else weight * amount
            if not constant + so_far + total + ahead[target] + correction > threshold:
                continue
            place, bucket = target - first_node, np.uint64(following & mask)
            j = newest[place, bucket]
            while j >= 0 and code[np.uint64(j)] != following:
                j = chained[np.uint64(j)]
                hops += 1
            if j < 0:
                j = nodes
                coarse[np.uint64(j)], code[np.uint64(j)], reach[np.uint64(j)] = target, following, -np.inf
                chained[np.uint64(j)], newest[place, bucket] = newest[place, bucket], j
                nodes += 1
                work += 1
                if nodes > limit:
                    used[0], used[2] = nodes, work
                    return False
            reach[np.uint64(j)] = max(reach[np.uint64(j)], so_far + total)
            arc_to[arcs], arc_score[arcs] = j, total
            arcs += np.uint64(1)
        arc_ptr[i + np.uint64(1)] = arcs
    layer[t + 1] = nodes
    used[0], used[1], used[2] = nodes, arcs, work
    return True


@kernel
def first_counters_layer(lattice, term, fine, constant, threshold):
    """Add the first layer, counters exact."""
    weight, once, limits, rates, base, radix, at_start, _, span, _, _ = term
    nodes = np.int64(0)
    for i in range(lattice.layer[1]):
        following, amount, total, correction = np.int64(0), np.int64(0), lattice.reach[i], 0.0
        for k in range(len(limits)):
            value, top = at_start[i, k], span[i, k, 1]
            if value > top:
                amount += value - top
                value = top
            else:
                value = max(value, span[i, k, 0])
            following += (value - base[k]) * radix[k]
            total += rates[k] * at_start[i, k]
            correction += rates[k] * (limits[k] - value)
        if once and amount > 0:
            following, correction = SETTLED, 0.0
            for k in range(len(limits)):
                correction += rates[k] * (limits[k] - span[i, k, 0])
        if amount > 0:
            total -= weight if once else weight * amount
        if constant + total + lattice.ahead[i] + correction > threshold:
            fine.coarse[nodes], fine.code[nodes], fine.reach[nodes] = i, following, total
            nodes += 1
    fine.layer[1] = nodes
    fine.used[0] = nodes
    fine.used[2] += lattice.layer[1]


@piece
def automaton_step(
    source, target, code, letter, site, letters, slot, initial, sure, step_ptr, step_to, step_amount, least, most,
    certain, once, out,
):  # fmt: skip
    """Advance an automaton to node ``target``: fill ``out`` with (state, amount paid) of each run, return how many.

    ``source`` is -1 at the first token; the amount ``sure``, which every run pays, is left out there. A run
    that has paid a rule that is paid once, or whose amount to come is certain, is settled.
    """
    found = 0
    first, last = (np.int64(0), np.int64(len(initial))) if source < 0 else (code, code + 1)
    if code == SETTLED:
        out[0, 0] = SETTLED
        out[0, 1] = 0
        found, last = 1, first  # one way out: with two, numba counts references to all arrays at every arc
    for q in range(first, last):
        owed = np.int64(initial[q]) if source < 0 else -least[site[source], slot[letter[source], q]]
        if source < 0:
            if owed < 0:
                continue
            owed -= sure
        cell = q * letters + letter[target]
        for b in range(step_ptr[cell], step_ptr[cell + 1]):
            to = np.int64(step_to[b])
            place = slot[letter[target], to]
            coming = least[site[target], place]
            if coming >= NEVER:
                continue
            amount = owed + step_amount[b] + coming
            if (once and amount > 0) or (certain and coming == most[site[target], place]):
                to = SETTLED
            out[found, 0] = to
            out[found, 1] = amount
            found += 1
    return found


@kernel
def automaton_layer(t, lattice, term, fine, constant, threshold, limit, most_work, stop):
    """Add layer t, the automaton exact; False where a limit is met."""
    (
        weight, once, sure, certain, letters, letter, site, slot, initial, step_ptr, step_to, step_amount,
        least, most, prices, to_come, charges_ahead,
    ) = term  # fmt: skip
    coarse, code, reach, chained, arc_ptr, arc_to, arc_score, newest, layer, used = fine
    old_ptr, old_to, old_score, ahead, label, first_score = (
        lattice.arc_ptr, lattice.arc_to, lattice.arc_score, lattice.ahead, lattice.label, lattice.reach,
    )  # fmt: skip
    out = np.empty((max(len(step_to), 1), 2), np.int64)
    is_priced = len(prices) > 0
    first_node, mask = lattice.layer[t], np.int64(newest.shape[1] - 1)
    nodes, arcs, work, hops = used[0], used[1], used[2], np.int64(0)
    for i in range(0 if t == 0 else layer[t - 1], 1 if t == 0 else layer[t]):
        source = np.int64(-1) if t == 0 else coarse[i]
        state = np.int64(0) if t == 0 else code[i]
        so_far = 0.0 if t == 0 else reach[i]
        first, after = (np.int64(0), lattice.layer[1]) if t == 0 else (old_ptr[source], old_ptr[source + 1])
        work += after - first + hops // HOPS_PER_ARC
        hops = np.int64(0)
        if work > most_work or stop[0]:
            used[0], used[1], used[2] = nodes, arcs, work
            return False
        for a in range(first, after):
            target = a if t == 0 else old_to[a]
            score = first_score[a] if t == 0 else old_score[a]
            if is_priced:
                score += prices[t, label[target]]
            elif not constant + so_far + score + ahead[target] > threshold:
                continue
            found = automaton_step(
                source, target, state, letter, site, letters, slot, initial, sure, step_ptr, step_to,
                step_amount, least, most, certain, once, out,
            )  # fmt: skip
            for s in range(found):
                following, amount = out[s, 0], out[s, 1]
                total = score
                if amount > 0:
                    total -= weight if once else weight * amount
                correction = 0.0
                if is_priced:
                    correction = charges_ahead[target]
                    if following != SETTLED:
                        later = least[site[target], slot[letter[target], following]]
                        correction = weight * (later - to_come[t, following])
                if not constant + so_far + total + ahead[target] + correction > threshold:
                    continue
                place, bucket = np.uint64(target - first_node), np.uint64(following & mask)
                j = newest[place, bucket]
                while j >= 0 and code[np.uint64(j)] != following:
                    j = chained[np.uint64(j)]
                    hops += 1
                if j < 0:
                    j = nodes
                    coarse[np.uint64(j)], code[np.uint64(j)], reach[np.uint64(j)] = target, following, -np.inf
                    chained[np.uint64(j)], newest[place, bucket] = newest[place, bucket], j
                    nodes += 1
                    work += 1
                    if nodes > limit:
                        used[0], used[1], used[2] = nodes, arcs, work
                        return False
                reach[np.uint64(j)] = max(reach[np.uint64(j)], so_far + total)
                if t > 0:
                    arc_to[arcs], arc_score[arcs] = j, total
                    arcs += 1
        if t > 0:
            arc_ptr[i + 1] = arcs
    layer[t + 1] = nodes
    used[0], used[1], used[2] = nodes, arcs, work
    return True


@kernel
def finished(lattice, fine, done):
    """Return the refined lattice without spare room; ``ahead`` is not yet filled."""
    nodes, arcs = fine.used[0], fine.used[1]
    if not done:  # only its size counts
        fine.layer[-1] = nodes
    label = np.empty(nodes, np.int64)
    for i in range(nodes):
        label[i] = lattice.label[fine.coarse[i]]
    for i in range(fine.layer[-2], nodes):
        fine.arc_ptr[i + 1] = arcs
    return Lattice(
        fine.layer, label, fine.reach[:nodes], np.empty(nodes), fine.arc_ptr[: nodes + 1], fine.arc_to[:arcs],
        fine.arc_score[:arcs],
    )  # fmt: skip


@kernel
def refine_by_counters(lattice, tables, row, m, rule, low, high, duals, constant, threshold, limit, most_work, stop):
    """Multiply a lattice, ``ahead`` filled, by counters ``low : high`` of a rule whose token classes are ``row`` (n,).

    ``duals`` are what the scores charge for each counter; the refined ones no longer charge for low : high. Only paths with
    constant + score > threshold are wanted, nodes with ``ahead`` = -inf are ignored. ``limit`` is for nodes, ``most_work``
    for arcs looked at and nodes made; another thread may set ``stop`` when time is over. Returns whether no limit was met,
    the refined lattice, ``ahead`` not yet filled, its constant, and the work.
    """
    lattice = compacted(lattice, threshold - constant)
    term = counter_term(lattice, tables, row, m, rule, low, high, duals)
    fine = empty_fine(lattice, term.states)
    done = term.fits
    for k in range(high - low):
        constant -= term.rates[k] * term.limits[k]
    if done:
        fine = begin_layer(fine, lattice, 0, 1, limit)
        first_counters_layer(lattice, term, fine, constant, threshold)
    for t in range(1, len(lattice.layer) - 1 if done else 0):
        fine = begin_layer(fine, lattice, t, 1, limit)
        done = counters_layer(t, lattice, term, fine, constant, threshold, limit, most_work, stop)
        if not done:
            break
    return done, finished(lattice, fine, done), constant, fine.used[2]


@kernel
def refine_by_automaton(
    lattice, tables, row, m, rule, prices, to_come, base_price, constant, threshold, limit, most_work, stop
):
    """Multiply a lattice by a rule's automaton; the rest as in ``refine_by_counters``.

    ``prices``, ``to_come``, ``base_price`` are what the scores charge for it (see ``automaton_prices``; prices times weight),
    empty if they charge nothing.
    """
    lattice = compacted(lattice, threshold - constant)
    most_steps = STEPS_PER_ARC * most_work
    term, steps = automaton_term(lattice, tables, row, m, rule, prices, to_come, most_steps, stop)
    fine = empty_fine(lattice, len(term.initial))
    fine.used[2] += steps // STEPS_PER_ARC
    branches = np.int64(1)
    for cell in range(len(term.step_ptr) - 1):
        branches = max(branches, term.step_ptr[cell + 1] - term.step_ptr[cell])
    constant += base_price
    done = steps <= most_steps and not stop[0]
    for t in range(len(lattice.layer) - 1 if done else 0):
        most = branches * len(term.initial) if t == 0 else branches
        fine = begin_layer(fine, lattice, t, most, limit)
        done = automaton_layer(t, lattice, term, fine, constant, threshold, limit, most_work, stop)
        if not done:
            break
    return done, finished(lattice, fine, done), constant, fine.used[2]
