"""Local search over labellings under rules: relabel a few neighbouring tokens, or exchange the labels of two.

What a move changes is computed from what it touches: the score of its steps, the counters that count a label at a touched
token, the automata that read another letter there.
"""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.dual import overwrite, path_score
from rulefield.kernels.lattice.rule_tables import least_run, rule_amounts

LONGEST = 3  # tokens that one move gives the same label
KICK = 3  # moves that leave a local optimum
LEAST_GAIN = 1e-9
LOOKS_PER_MOVE = 8


@kernel
def counters_at(tables, m):
    """Counters that count something where a token has a label: (pointers (m + 1,), numbers)."""
    count = len(tables.counter_bound)
    counts = np.zeros((m, count), np.bool_)
    for c in range(count):
        if tables.local[tables.counter_rule[c]]:
            continue
        for k in range(tables.counter_classes[c]):
            for here in range(m):
                touched = tables.node[tables.node_at[c] + k * m + here] != 0
                touched = touched or tables.node[tables.first_at[c] + k * m + here] != 0
                if tables.edge_at[c] >= 0:
                    for before in range(m):
                        touched = touched or tables.edge[tables.edge_at[c] + (k * m + before) * m + here] != 0
                counts[here, c] = counts[here, c] or touched
    pointer = np.zeros(m + 1, np.int64)
    for here in range(m):
        pointer[here + 1] = pointer[here]
        for c in range(count):
            pointer[here + 1] += counts[here, c]
    numbers = np.empty(pointer[m], np.int64)
    at = 0
    for here in range(m):
        for c in range(count):
            if counts[here, c]:
                numbers[at] = c
                at += 1
    return pointer, numbers


@kernel
def counted(node, edge, first_at, node_at, edge_at, kind, labels, m, t):
    """Return what token t of class ``kind``, with the step to it, adds to a counter whose tables begin at ``*_at``."""
    here = np.int64(labels[t])
    row = np.int64(kind) * m
    if t == 0:
        return np.int64(node[first_at + row + here])
    total = np.int64(node[node_at + row + here])
    if edge_at >= 0:
        total += edge[edge_at + (row + np.int64(labels[t - 1])) * m + here]
    return total


@kernel
def paid(price, once, amount):
    """Return what an amount of a rule costs at a price."""
    if amount <= 0:
        return 0.0
    return price if once else price * amount


@kernel
def local_search(unary, arriving, tables, classes, penalty, most_moves, seed, stop, start, best_labels):
    """Climb from a labelling by relabelling runs of tokens and exchanging two, kick, climb again: (best value, moves tried).

    Hard rules cost ``penalty`` per unit, and as much more each time the climb ends at a labelling that breaks them
    (breakout). ``best_labels`` takes the best labelling that breaks none (value ``-inf``: none was met). Deterministic for a
    ``seed``. A move costs about as many operations as counters count the labels that it touches.
    """
    n, m = unary.shape
    last = len(arriving) - 1
    rules, counters = len(tables.weight), len(tables.counter_bound)
    pointer, numbers = counters_at(tables, m)
    # each look at a field of ``tables`` counts its references: take them out of the loop
    node, edge, first_at, node_at, edge_at = tables.node, tables.edge, tables.first_at, tables.node_at, tables.edge_at
    weight, local, sure = tables.weight, tables.local, tables.sure
    price, once = weight.copy(), tables.once.copy()
    for r in range(rules):
        if weight[r] == np.inf:
            price[r] = penalty
            once[r] = False
    rule_counter, counter_rule, rule_automaton = tables.rule_counter, tables.counter_rule, tables.rule_automaton
    letter_at, states, letters, letter = tables.letter_at, tables.states, tables.letters, tables.letter
    state_at, arc_at, initial, final = tables.state_at, tables.arc_at, tables.initial, tables.final
    arc_ptr, arc_to, arc_amount = tables.arc_ptr, tables.arc_to, tables.arc_amount
    by_automaton = np.flatnonzero((rule_automaton >= 0) & ~local)
    labels, trial, kept = start.copy(), start.copy(), start.copy()
    amounts, excesses = np.zeros(rules, np.int64), np.zeros(counters, np.int64)
    new_amounts, change = np.zeros(rules, np.int64), np.zeros(counters, np.int64)
    is_touched, touched = np.zeros(rules, np.bool_), np.empty(rules, np.int64)
    changed = np.empty(2 * LONGEST + 2, np.int64)
    around = np.empty(4 * LONGEST + 4, np.int64)
    cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
    best = -np.inf if cost == np.inf else path_score(unary, arriving, labels) - cost
    if best > -np.inf:
        overwrite(best_labels, labels)
    home = -np.inf  # value of the local optimum that kicks leave from
    state = np.uint64(seed * 2 + 1)
    tried = 0
    kicks = 0
    quiet = 0  # moves since the last one that helped
    cursor = 0
    kinds = n * LONGEST * m + n * n
    looked = 0  # at moves, also at those that change nothing
    while tried < most_moves and looked < LOOKS_PER_MOVE * most_moves and not stop[0]:
        looked += 1
        kicking = kicks > 0
        if kicking:
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            move = np.int64((state >> np.uint64(33)) % np.uint64(kinds))
        else:
            move = cursor
            cursor = (cursor + 1) % kinds
        count = 0
        if move < n * LONGEST * m:
            t, rest = move // (LONGEST * m), move % (LONGEST * m)
            width, to = rest // m + 1, rest % m
            if t + width <= n and not (width > 1 and labels[t + width - 1] == to):
                for k in range(t, t + width):
                    if labels[k] != to:
                        trial[k] = to
                        changed[count] = k
                        count += 1
        else:
            pair = move - n * LONGEST * m
            i, j = pair // n, pair % n
            if i < j and labels[i] != labels[j]:
                trial[i], trial[j] = labels[j], labels[i]
                changed[0], changed[1] = i, j
                count = 2
        if count == 0:
            quiet += 1
        else:
            tried += 1
            near = 0
            for k in range(count):
                for t in range(changed[k], min(changed[k] + 2, n)):
                    seen = False
                    for a in range(near):
                        seen = seen or around[a] == t
                    if not seen:
                        around[near] = t
                        near += 1
            gain = 0.0
            for a in range(near):
                t = around[a]
                step = min(t - 1, last)
                gain += unary[t, trial[t]] - unary[t, labels[t]]
                if t > 0:
                    gain += arriving[step, trial[t], trial[t - 1]] - arriving[step, labels[t], labels[t - 1]]
            found = 0
            if gain > -np.inf:
                for a in range(near):
                    t = around[a]
                    for side in range(2):
                        now = labels if side == 0 else trial
                        for p in range(pointer[now[t]], pointer[now[t] + 1]):
                            c = numbers[p]
                            r = counter_rule[c]
                            more = counted(node, edge, first_at[c], node_at[c], edge_at[c], classes[r, t], now, m, t)
                            change[c] += more if side == 1 else -more
                            if not is_touched[r]:
                                is_touched[r] = True
                                touched[found] = r
                                found += 1
                for r in by_automaton:
                    at = letter_at[rule_automaton[r]]
                    for k in range(count):
                        cell = at + np.int64(classes[r, changed[k]]) * m
                        if letter[cell + labels[changed[k]]] != letter[cell + trial[changed[k]]]:
                            touched[found] = r
                            found += 1
                            break
                for k in range(found):
                    r = touched[k]
                    is_touched[r] = False
                    amount = np.int64(0)
                    i = rule_automaton[r]
                    if i >= 0:
                        amount = least_run(
                            letter_at[i], states[i], letters[i], state_at[i], arc_at[i],
                            letter, initial, final, arc_ptr, arc_to, arc_amount, classes[r], trial, m,
                        ) - sure[r]  # fmt: skip
                    for c in range(rule_counter[r], rule_counter[r + 1]):
                        amount += max(excesses[c] + change[c], 0)
                    new_amounts[r] = amount
                    gain += paid(price[r], once[r], amounts[r]) - paid(price[r], once[r], amount)
            if gain > -np.inf and (kicking or gain > LEAST_GAIN):
                for k in range(found):
                    r = touched[k]
                    amounts[r] = new_amounts[r]
                    for c in range(rule_counter[r], rule_counter[r + 1]):
                        excesses[c] += change[c]
                        change[c] = 0
                for k in range(count):
                    labels[changed[k]] = trial[changed[k]]
                kicks -= kicking
                quiet = 0
            else:
                for k in range(found):
                    for c in range(rule_counter[touched[k]], rule_counter[touched[k] + 1]):
                        change[c] = 0
                for k in range(count):
                    trial[changed[k]] = labels[changed[k]]
                quiet += not kicking
        if quiet < kinds:
            continue
        quiet = 0
        cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
        value = path_score(unary, arriving, labels)
        if cost == np.inf:
            for r in range(rules):
                if weight[r] == np.inf and amounts[r] > 0 and not local[r]:
                    price[r] += penalty
            if best == -np.inf:
                continue
            value = -np.inf
        else:
            value -= cost
            if value > best:
                best = value
                overwrite(best_labels, labels)
        if value >= home:
            home = value
            overwrite(kept, labels)
        else:
            overwrite(labels, kept)
            overwrite(trial, kept)
            cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
        kicks = KICK
    return best, tried
