"""Local search over labellings under rules: relabel a few neighbouring tokens, or exchange the labels of two.

What a move changes is computed from what it touches: the score of its steps, the counters that count a label at a touched
token, the automata that read another letter there.
"""

import numpy as np

from rulefield.kernels.jit import kernel, piece
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


@piece
def try_move(move, n, m, labels, trial, changed):
    """Make a move in ``trial``, which is ``labels`` before; fill ``changed`` with its tokens, return how many."""
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
    return count


@piece
def steps_around(changed, count, n, around):
    """Fill ``around`` with the changed tokens and those after them, each once; return how many."""
    near = 0
    for k in range(count):
        for t in range(changed[k], min(changed[k] + 2, n)):
            seen = False
            for a in range(near):
                seen = seen or around[a] == t
            if not seen:
                around[near] = t
                near += 1
    return near


@piece
def score_gain(unary, arriving, labels, trial, around, near):
    """Return by how much the score of ``trial`` is better."""
    last = len(arriving) - 1
    gain = 0.0
    for a in range(near):
        t = around[a]
        step = min(t - 1, last)
        gain += unary[t, trial[t]] - unary[t, labels[t]]
        if t > 0:
            gain += arriving[step, trial[t], trial[t - 1]] - arriving[step, labels[t], labels[t - 1]]
    return gain


@piece
def count_again(
    node, edge, first_at, node_at, edge_at, counter_rule, classes, pointer, numbers, labels, trial, m, around, near,
    change, is_touched, touched,
):  # fmt: skip
    """Add to ``change`` by how much counters change; fill ``touched`` with the rules that they belong to, return how many."""
    found = 0
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
    return found


@piece
def add_readers(
    by_automaton, rule_automaton, letter_at, letter, classes, labels, trial, m, changed, count, touched, found
):
    """Add to ``touched`` the rules whose automaton reads another letter at a changed token; return how many there are."""
    for r in by_automaton:
        at = letter_at[rule_automaton[r]]
        for k in range(count):
            cell = at + np.int64(classes[r, changed[k]]) * m
            if letter[cell + labels[changed[k]]] != letter[cell + trial[changed[k]]]:
                touched[found] = r
                found += 1
                break
    return found


@piece
def cost_gain(
    letter_at, states, letters, state_at, arc_at, letter, initial, final, arc_ptr, arc_to, arc_amount,
    rule_automaton, rule_counter, sure, classes, trial, m, touched, found, is_touched, change, excesses,
    price, once, amounts, new_amounts,
):  # fmt: skip
    """Fill ``new_amounts`` of the touched rules; return by how much less they cost."""
    less = 0.0
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
        less += paid(price[r], once[r], amounts[r]) - paid(price[r], once[r], amount)
    return less


@piece
def after_climb(unary, arriving, tables, classes, labels, price, penalty, amounts, excesses, best, best_labels):
    """Weigh the labelling where a climb ended: (its value, the best so far); hard rules that it breaks cost more from now on.

    The value is ``-inf`` where hard rules are broken. Fills amounts and excesses anew.
    """
    cost = rule_amounts(tables, classes, labels, unary.shape[1], amounts, excesses)
    value = -np.inf
    if cost == np.inf:
        for r in range(len(price)):
            if tables.weight[r] == np.inf and amounts[r] > 0 and not tables.local[r]:
                price[r] += penalty
    else:
        value = path_score(unary, arriving, labels) - cost
        if value > best:
            best = value
            overwrite(best_labels, labels)
    return value, best


@piece
def settle(keep, rule_counter, touched, found, change, amounts, new_amounts, excesses, changed, count, labels, trial):
    """Make a tried move (``keep``) or take it back."""
    for k in range(found):
        r = touched[k]
        if keep:
            amounts[r] = new_amounts[r]
        for c in range(rule_counter[r], rule_counter[r + 1]):
            if keep:
                excesses[c] += change[c]
            change[c] = 0
    for k in range(count):
        if keep:
            labels[changed[k]] = trial[changed[k]]
        else:
            trial[changed[k]] = labels[changed[k]]


@kernel
def prices_at_first(tables, penalty):
    """Return what rules cost at first, and which are paid once, (rules,) each; hard ones cost ``penalty`` per unit."""
    price, once = tables.weight.copy(), tables.once.copy()
    for r in range(len(price)):
        if price[r] == np.inf:
            price[r] = penalty
            once[r] = False
    return price, once


@kernel
def local_search(unary, arriving, tables, classes, penalty, most_moves, seed, stop, start, best_labels):
    """Climb from a labelling by relabelling runs of tokens and exchanging two, kick, climb again: (best value, moves tried).

    Hard rules cost ``penalty`` per unit, and as much more each time the climb ends at a labelling that breaks them
    (breakout). ``best_labels`` takes the best labelling that breaks none (value ``-inf``: none was met). Deterministic for a
    ``seed``. A move costs about as many operations as counters count the labels that it touches.
    """
    n, m = unary.shape
    rules, counters = len(tables.weight), len(tables.counter_bound)
    pointer, numbers = counters_at(tables, m)
    price, once = prices_at_first(tables, penalty)
    # each look at a field of ``tables`` counts its references: take them out of the loop
    node, edge, first_at, node_at, edge_at = tables.node, tables.edge, tables.first_at, tables.node_at, tables.edge_at
    rule_counter, counter_rule, rule_automaton = tables.rule_counter, tables.counter_rule, tables.rule_automaton
    letter_at, states, letters, letter = tables.letter_at, tables.states, tables.letters, tables.letter
    state_at, arc_at, initial, final, sure = tables.state_at, tables.arc_at, tables.initial, tables.final, tables.sure
    arc_ptr, arc_to, arc_amount = tables.arc_ptr, tables.arc_to, tables.arc_amount
    by_automaton = np.flatnonzero((rule_automaton >= 0) & ~tables.local)
    labels, trial, kept = start.copy(), start.copy(), start.copy()
    amounts, excesses = np.zeros(rules, np.int64), np.zeros(counters, np.int64)
    new_amounts, change = np.zeros(rules, np.int64), np.zeros(counters, np.int64)
    is_touched, touched = np.zeros(rules, np.bool_), np.empty(rules, np.int64)
    changed, around = np.empty(2 * LONGEST + 2, np.int64), np.empty(4 * LONGEST + 4, np.int64)
    cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
    best = -np.inf if cost == np.inf else path_score(unary, arriving, labels) - cost
    if best > -np.inf:
        overwrite(best_labels, labels)
    home = -np.inf  # value of the local optimum that kicks leave from
    state = np.uint64(seed * 2 + 1)
    tried, kicks, cursor = 0, 0, 0
    quiet = 0  # moves since the last one that helped
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
        count = try_move(move, n, m, labels, trial, changed)
        if count == 0:
            quiet += 1
        else:
            tried += 1
            near = steps_around(changed, count, n, around)
            gain = score_gain(unary, arriving, labels, trial, around, near)
            found = 0
            if gain > -np.inf:
                found = count_again(
                    node, edge, first_at, node_at, edge_at, counter_rule, classes, pointer, numbers, labels, trial, m,
                    around, near, change, is_touched, touched,
                )  # fmt: skip
                found = add_readers(
                    by_automaton, rule_automaton, letter_at, letter, classes, labels, trial, m, changed, count, touched,
                    found,
                )  # fmt: skip
                gain += cost_gain(
                    letter_at, states, letters, state_at, arc_at, letter, initial, final, arc_ptr, arc_to, arc_amount,
                    rule_automaton, rule_counter, sure, classes, trial, m, touched, found, is_touched, change, excesses,
                    price, once, amounts, new_amounts,
                )  # fmt: skip
            keep = gain > -np.inf and (kicking or gain > LEAST_GAIN)
            settle(
                keep,
                rule_counter,
                touched,
                found,
                change,
                amounts,
                new_amounts,
                excesses,
                changed,
                count,
                labels,
                trial,
            )
            if keep:
                kicks -= kicking
                quiet = 0
            else:
                quiet += not kicking
        if quiet < kinds:
            continue
        quiet = 0
        value, best = after_climb(
            unary, arriving, tables, classes, labels, price, penalty, amounts, excesses, best, best_labels
        )
        if best == -np.inf:
            continue  # prices have risen: climb on from here
        if value >= home:
            home = value
            overwrite(kept, labels)
        else:
            overwrite(labels, kept)
            overwrite(trial, kept)
            rule_amounts(tables, classes, labels, m, amounts, excesses)
        kicks = KICK
    return best, tried
