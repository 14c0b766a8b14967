"""Split the nodes of a lattice by the state of one more rule.

Every refinement multiplies the lattice with the state machine of one rule and, on the way, drops what
cannot beat a threshold: the completion scores of the coarser lattice are the bound. A counter's running
sum is clipped, at each node, to the values between which the rest of the sequence can still decide; what it
exceeds that range by is paid at once, and an automaton pays at once the least that is still to come. So equal
futures meet in one node and bounds tighten early.
"""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.lattice.rule_tables import NEVER

SETTLED = np.int64(-1)  # the state of a rule that has nothing more to say
MOST_CODES = np.int64(1) << np.int64(60)  # joint states of a rule's counters are numbered below this


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
def counter_gains(lattice, tables, row, m, counter, at_start, at_arc):
    """Fill what ``counter`` collects on entering each first node and along each arc."""
    node, edge = tables.node, tables.edge
    first_at, node_at, edge_at = tables.first_at[counter], tables.node_at[counter], tables.edge_at[counter]
    layer, label, arc_ptr, arc_to = lattice.layer, lattice.label, lattice.arc_ptr, lattice.arc_to
    for i in range(layer[1]):
        at_start[i] = node[first_at + np.int64(row[0]) * m + label[i]]
    for t in range(1, len(layer) - 1):
        cell = np.int64(row[t]) * m
        for i in range(layer[t - 1], layer[t]):
            for a in range(arc_ptr[i], arc_ptr[i + 1]):
                here = label[arc_to[a]]
                at_arc[a] = node[node_at + cell + here]
                if edge_at >= 0:
                    at_arc[a] += edge[edge_at + (cell + label[i]) * m + here]


@kernel
def counter_to_come(lattice, at_arc, least, most):
    """Fill the least and largest sum (nodes,) that a counter can still collect after each node."""
    layer, arc_ptr, arc_to = lattice.layer, lattice.arc_ptr, lattice.arc_to
    n = len(layer) - 1
    for i in range(layer[n - 1], layer[n]):
        least[i] = 0
        most[i] = 0
    for back in range(layer[n - 1]):
        i = layer[n - 1] - 1 - back
        low = NEVER
        high = -NEVER
        for a in range(arc_ptr[i], arc_ptr[i + 1]):
            low = min(low, at_arc[a] + least[arc_to[a]])
            high = max(high, at_arc[a] + most[arc_to[a]])
        least[i] = low
        most[i] = high


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
def automaton_to_come(lattice, letter, letters, slot, final, step_ptr, step_to, step_amount, least, most):
    """Fill the least and largest amounts (nodes, slots) still to come; ``NEVER`` where no run goes on to the end."""
    layer, arc_ptr, arc_to = lattice.layer, lattice.arc_ptr, lattice.arc_to
    n = len(layer) - 1
    states, width = len(final), least.shape[1]
    states_of = np.full((letters, width), -1, np.int64)
    for a in range(letters):
        for q in range(states):
            if slot[a, q] >= 0:
                states_of[a, slot[a, q]] = q
    for back in range(len(letter)):
        i = len(letter) - 1 - back
        for s in range(width):
            least[i, s] = NEVER
            most[i, s] = -NEVER
            q = states_of[letter[i], s]
            if q < 0:
                break
            if i >= layer[n - 1]:
                if final[q] >= 0:
                    least[i, s] = final[q]
                    most[i, s] = final[q]
                continue
            low = NEVER
            high = -NEVER
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
def automaton_step(
    source,
    target,
    code,
    letter,
    letters,
    slot,
    initial,
    sure,
    step_ptr,
    step_to,
    step_amount,
    least,
    most,
    certain,
    keep_runs,
    once,
    out,
):
    """Advance an automaton to node ``target``: fill ``out`` with (state, amount paid) of each run, return how many.

    ``source`` is -1 at the first token; the amount ``sure``, which every run pays, is left out there. A run
    that has paid a rule that is paid once, or whose amount to come is
    certain, is settled; not so where ``keep_runs`` asks for one path per labelling and the automaton guesses (then
    a paid run goes on, shifted by the number of states).
    """
    if code == SETTLED:
        out[0, 0] = SETTLED
        out[0, 1] = 0
        return 1
    states = len(initial)
    paid = code >= states
    state = code - states if paid else code
    found = 0
    first, last = (np.int64(0), np.int64(states)) if source < 0 else (state, state + 1)
    for q in range(first, last):
        owed = np.int64(initial[q]) if source < 0 else -least[source, slot[letter[source], q]]
        if source < 0:
            if owed < 0:
                continue
            owed -= sure
        cell = q * letters + letter[target]
        for b in range(step_ptr[cell], step_ptr[cell + 1]):
            to = np.int64(step_to[b])
            place = slot[letter[target], to]
            if least[target, place] >= NEVER:
                continue
            amount = owed + step_amount[b] + least[target, place]
            if paid:
                to += states
                amount = 0
            elif once and amount > 0:
                to = to + states if keep_runs and not certain else SETTLED
            elif certain and least[target, place] == most[target, place]:
                to = SETTLED
            out[found, 0] = to
            out[found, 1] = amount
            found += 1
    return found


@kernel
def doubled(array):
    """Return ``array`` with twice the room."""
    bigger = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        bigger[i] = array[i]
    return bigger


@kernel
def refine(
    lattice,
    tables,
    row,
    m,
    rule,
    low,
    high,
    duals,
    prices,
    to_come,
    base_price,
    constant,
    threshold,
    limit,
    keep_runs,
    most_work,
    stop,
):
    """Multiply a lattice by counters ``low : high`` of a rule, or by its automaton where there are none.

    Parameters
    ----------
    lattice : Lattice
        ``ahead`` filled; nodes with ``ahead`` = -inf are ignored.
    row : ndarray of uint16, shape (n,)
        The rule's token classes.
    duals : ndarray of float64, shape (counters,)
        What the scores of ``lattice`` charge for each counter; the refined ones no longer charge for low : high.
    prices, to_come, base_price : ndarray (n, m), ndarray (n, states), float
        What the scores of ``lattice`` charge for the automaton (see ``automaton_prices``; prices times weight); empty
        where they charge nothing.
    constant, threshold : float
        Only paths with constant + score > threshold are wanted.
    limit : int
        Largest number of nodes.
    keep_runs : bool
        Keep exactly one path per labelling (for sums), not only the best one.
    most_work : int
        Largest number of arcs looked at.
    stop : ndarray of bool, shape (1,)
        Looked at now and then; another thread may set it when time is over.

    Returns
    -------
    (done, lattice, constant, work)
        The refined lattice, ``ahead`` not yet filled, and its constant; ``done`` False where it would pass a limit; arcs
        looked at.
    """
    lattice = compacted(lattice, threshold - constant)
    layer, label, ahead = lattice.layer, lattice.label, lattice.ahead
    old_ptr, old_to, old_score = lattice.arc_ptr, lattice.arc_to, lattice.arc_score
    n = len(layer) - 1
    coarse_nodes = len(label)
    counters = high - low
    automaton = max(tables.rule_automaton[rule], 0)
    weight = tables.weight[rule]
    hard = weight == np.inf
    once = tables.once[rule]
    states = np.int64(0) if counters > 0 else tables.states[automaton]
    letters = np.int64(0)
    certain = False
    letter = np.zeros(0, np.int64)
    slot = np.zeros((0, 0), np.int64)
    width = np.int64(0)
    initial = final = step_to = step_amount = tables.initial[:0]
    step_ptr = tables.arc_ptr[:0]
    if counters == 0:
        letters, certain = tables.letters[automaton], tables.deterministic[automaton]
        letter = node_letters(lattice, tables, row, m, automaton)
        state_at, arc_at = tables.state_at[automaton], tables.arc_at[automaton]
        initial, final = tables.initial[state_at : state_at + states], tables.final[state_at : state_at + states]
        step_ptr = tables.arc_ptr[arc_at : arc_at + states * letters + 1]
        step_to, step_amount = tables.arc_to, tables.arc_amount
        slot, width = entered_states(states, letters, step_ptr, step_to)
    shape = (counters, coarse_nodes) if counters > 0 else (coarse_nodes, width)
    least = np.empty(shape, np.int64)
    most = np.empty_like(least)
    limits = tables.counter_bound[low:high]
    rates = duals[low:high]
    at_start = np.zeros((counters, layer[1]), np.int64)
    at_arc = np.zeros((counters, len(old_to)), np.int64)
    base = np.zeros(counters, np.int64)
    radix = np.ones(counters, np.int64)
    values = np.zeros(counters, np.int64)
    size = np.int64(1)
    for k in range(counters):
        counter_gains(lattice, tables, row, m, low + k, at_start[k], at_arc[k])
        counter_to_come(lattice, at_arc[k], least[k], most[k])
        lowest = NEVER
        highest = -NEVER
        for i in range(coarse_nodes):
            lowest = min(lowest, -most[k, i])
            highest = max(highest, -least[k, i])
        base[k] = limits[k] + lowest
        radix[k] = size
        if size > MOST_CODES // max(highest - lowest + 1, 1):
            return False, lattice, constant, len(old_to)
        size *= max(highest - lowest + 1, 1)
        constant -= rates[k] * limits[k]
    if counters == 0:
        automaton_to_come(lattice, letter, letters, slot, final, step_ptr, step_to, step_amount, least, most)
    out = np.empty((max(len(step_to), 1), 2), np.int64)
    is_priced = len(prices) > 0
    constant += base_price
    charges_ahead = most_charged(lattice, prices)

    room = max(1024, coarse_nodes)
    arc_room = max(4096, len(lattice.arc_to))
    coarse = np.empty(room, np.int64)
    code = np.empty(room, np.int64)
    reach = np.empty(room)
    chained = np.empty(room, np.int64)
    arc_ptr = np.zeros(room + 1, np.int64)
    arc_to = np.empty(arc_room, np.int64)
    arc_score = np.empty(arc_room)
    fine_layer = np.zeros(n + 1, np.int64)
    head = np.full(coarse_nodes, -1, np.int64)
    nodes = 0
    arcs = 0
    work = len(old_to)
    done = True
    for t in range(n):
        first, last = (0, 1) if t == 0 else (fine_layer[t - 1], fine_layer[t])
        for i in range(first, last):
            source = np.int64(-1)
            state = np.int64(0)
            so_far = constant
            arc_first, arc_last = layer[0], layer[1]
            if t > 0:
                source = coarse[i]
                state = code[i]
                so_far += reach[i]
                arc_first, arc_last = old_ptr[source], old_ptr[source + 1]
                rest = state
                for k in range(counters - 1, -1, -1):
                    values[k] = rest // radix[k] + base[k]
                    rest = rest % radix[k]
            work += arc_last - arc_first
            if work > most_work or stop[0]:
                done = False
                break
            for a in range(arc_first, arc_last):
                target = a if t == 0 else old_to[a]
                score = lattice.reach[a] if t == 0 else old_score[a]
                if counters == 0 and not is_priced and not so_far + score + ahead[target] > threshold:
                    continue
                correction = 0.0
                found = 1
                if counters > 0:
                    following = np.int64(0)
                    amount = np.int64(0)
                    settled = 0.0
                    for k in range(counters):
                        gain = at_start[k, a] if t == 0 else at_arc[k, a]
                        value = values[k] + gain
                        top = limits[k] - least[k, target]
                        if value > top:
                            amount += value - top
                            value = top
                        else:
                            value = max(value, limits[k] - most[k, target])
                        following += (value - base[k]) * radix[k]
                        score += rates[k] * gain
                        correction += rates[k] * (limits[k] - value)
                        settled += rates[k] * most[k, target]
                    if state == SETTLED:
                        amount = 0
                    if state == SETTLED or (once and amount > 0):
                        following = SETTLED
                        correction = settled
                    out[0, 0] = following
                    out[0, 1] = amount
                else:
                    if is_priced:
                        score += prices[t, label[target]]
                    found = automaton_step(
                        source, target, state, letter, letters, slot, initial, tables.sure[rule], step_ptr, step_to,
                        step_amount, least, most, certain, keep_runs, once, out,
                    )  # fmt: skip
                for s in range(found):
                    total = score
                    if out[s, 1] > 0:
                        if hard:
                            continue
                        total -= weight if once else weight * out[s, 1]
                    if is_priced:
                        q = out[s, 0]
                        if q == SETTLED or q >= states:
                            correction = charges_ahead[target]
                        else:
                            correction = weight * (least[target, slot[letter[target], q]] - to_come[t, q])
                    if not so_far + total + ahead[target] + correction > threshold:
                        continue
                    j = head[target]
                    while j >= 0 and code[j] != out[s, 0]:
                        j = chained[j]
                    if j < 0:
                        if nodes == limit:
                            done = False
                            break
                        if nodes == room:
                            coarse, code, reach = doubled(coarse), doubled(code), doubled(reach)
                            chained = doubled(chained)
                            arc_ptr = doubled(arc_ptr)
                            room *= 2
                        j = nodes
                        nodes += 1
                        coarse[j] = target
                        code[j] = out[s, 0]
                        reach[j] = -np.inf
                        chained[j] = head[target]
                        head[target] = j
                    reach[j] = max(reach[j], so_far - constant + total)
                    if t > 0:
                        if arcs == arc_room:
                            arc_to, arc_score = doubled(arc_to), doubled(arc_score)
                            arc_room *= 2
                        arc_to[arcs] = j
                        arc_score[arcs] = total
                        arcs += 1
                if not done:
                    break
            if t > 0:
                arc_ptr[i + 1] = arcs
            if not done:
                break
        fine_layer[t + 1] = nodes
        if not done:
            break
    fine_label = np.empty(nodes, np.int64)
    for i in range(nodes):
        fine_label[i] = label[coarse[i]]
    for i in range(fine_layer[n - 1], nodes):
        arc_ptr[i + 1] = arcs
    refined = Lattice(
        fine_layer, fine_label, reach[:nodes], np.empty(nodes), arc_ptr[: nodes + 1], arc_to[:arcs], arc_score[:arcs]
    )
    return done, refined, constant, work


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
