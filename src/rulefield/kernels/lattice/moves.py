"""Local search over labelings under rules: relabel a few neighboring tokens, or exchange the labels of two.

What a move changes is computed from what it touches: the score of its steps, the counters that count a label at a touched
token, the automata that read another letter there.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lattice.dual import path_score
from rulefield.kernels.lattice.rule_tables import least_run, only_run, rule_amounts

LONGEST = 3  # tokens that one move gives the same label
KICK = 3  # moves that leave a local optimum
LEAST_GAIN = 1e-9
STEPS_PER_LOOK, STEPS_PER_MOVE, STEPS_PER_COUNT, STEPS_PER_READ = 4, 40, 4, 2
"""Work of looking at a move, of trying it, of counting a token for a counter, of a token that an automaton reads: in steps of
about 4 nanoseconds."""


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


class Climber(NamedTuple):
    """Where a local search stands, and its scratch."""

    labels: np.ndarray  # (n,)
    trial: np.ndarray  # (n,): the same but for a move that is tried
    price: np.ndarray  # float64 (rules,): what a unit of each rule costs, or the rule once
    once: np.ndarray  # bool (rules,)
    amounts: np.ndarray  # int64 (rules,): of the labeling
    excesses: np.ndarray  # int64 (counters,)
    change: np.ndarray  # int64 (counters,): by how much the move changes them
    new_amounts: np.ndarray  # int64 (rules,): after the move
    is_touched: np.ndarray  # bool (rules,)
    touched: np.ndarray  # int64 (rules,): the rules whose amount the move may change
    tally: np.ndarray  # int64 (3,): work in steps, the next move, kicks to come
    random: np.ndarray  # uint64 (1,)


@kernel
def new_climber(tables, start, penalty, seed):
    """Return a local search that stands at a labeling; hard rules cost ``penalty`` per unit."""
    rules, counters = len(tables.weight), len(tables.counter_bound)
    price, once = tables.weight.copy(), tables.once.copy()
    for r in range(rules):
        if price[r] == np.inf:
            price[r] = penalty
            once[r] = False
    return Climber(
        start.copy(), start.copy(), price, once, np.zeros(rules, np.int64), np.zeros(counters, np.int64),
        np.zeros(counters, np.int64), np.zeros(rules, np.int64), np.zeros(rules, np.bool_), np.empty(rules, np.int64),
        np.zeros(3, np.int64), np.full(1, seed * 2 + 1, np.uint64),
    )  # fmt: skip


@kernel
def climb(climber, unary, arriving, tables, classes, pointer, numbers, by_automaton, most_work, stop):
    """Make moves that help, after those of a kick, until none does (True) or a limit is met (False)."""
    labels, trial, price, once, amounts, excesses, change, new_amounts, is_touched, touched, tally, random = climber
    # each look at a field of ``tables`` counts its references: take them out of the loop
    node, edge, first_at, node_at, edge_at = tables.node, tables.edge, tables.first_at, tables.node_at, tables.edge_at
    rule_counter, counter_rule, rule_automaton = tables.rule_counter, tables.counter_rule, tables.rule_automaton
    letter_at, states, letters, letter = tables.letter_at, tables.states, tables.letters, tables.letter
    state_at, arc_at, initial, final, sure = tables.state_at, tables.arc_at, tables.initial, tables.final, tables.sure
    arc_ptr, arc_to, arc_amount = tables.arc_ptr, tables.arc_to, tables.arc_amount
    deterministic = tables.deterministic
    n, m = unary.shape
    changed, around = np.empty(2 * LONGEST + 2, np.int64), np.empty(4 * LONGEST + 4, np.int64)
    kinds = n * LONGEST * m + n * n
    work, cursor, kicks = tally
    state = random[0]
    quiet = 0  # moves since the last one that helped
    while quiet < kinds and work < most_work and not stop[0]:
        work += STEPS_PER_LOOK
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
            continue
        work += STEPS_PER_MOVE
        near = steps_around(changed, count, n, around)
        gain = score_gain(unary, arriving, labels, trial, around, near)
        found = 0
        if gain > -np.inf:
            for a in range(near):
                t = around[a]
                for side in range(2):
                    now = labels if side == 0 else trial
                    work += STEPS_PER_COUNT * (pointer[now[t] + 1] - pointer[now[t]])
                    for p in range(pointer[now[t]], pointer[now[t] + 1]):
                        c = numbers[p]
                        r = counter_rule[c]
                        more = counted(node, edge, first_at[c], node_at[c], edge_at[c], classes[r, t], now, m, t)
                        change[c] += more if side == 1 else -more
                        if not is_touched[r]:
                            is_touched[r] = True
                            touched[found] = r
                            found += 1
            found = add_readers(
                by_automaton,
                rule_automaton,
                letter_at,
                letter,
                classes,
                labels,
                trial,
                m,
                changed,
                count,
                touched,
                found,
            )
            for k in range(found):
                r = touched[k]
                is_touched[r] = False
                amount = np.int64(0)
                i = rule_automaton[r]
                if i >= 0 and deterministic[i]:
                    work += STEPS_PER_READ * n
                    amount = only_run(
                        letter_at[i], states[i], letters[i], state_at[i], arc_at[i],
                        letter, initial, final, arc_ptr, arc_to, arc_amount, classes[r], trial, m,
                    ) - sure[r]  # fmt: skip
                elif i >= 0:
                    work += STEPS_PER_READ * n * states[i]
                    amount = least_run(
                        letter_at[i], states[i], letters[i], state_at[i], arc_at[i],
                        letter, initial, final, arc_ptr, arc_to, arc_amount, classes[r], trial, m,
                    ) - sure[r]  # fmt: skip
                for c in range(rule_counter[r], rule_counter[r + 1]):
                    amount += max(excesses[c] + change[c], 0)
                new_amounts[r] = amount
                gain += paid(price[r], once[r], amounts[r]) - paid(price[r], once[r], amount)
        keep = gain > -np.inf and (kicking or gain > LEAST_GAIN)
        settle(
            keep, rule_counter, touched, found, change, amounts, new_amounts, excesses, changed, count, labels, trial
        )
        kicks -= keep and kicking
        quiet = 0 if keep else quiet + (not kicking)
    tally[0], tally[1], tally[2] = work, cursor, kicks
    random[0] = state
    return 0 < kinds <= quiet


@kernel
def local_search(unary, arriving, tables, classes, penalty, most_work, seed, stop, start, best_labels):
    """Climb from a labeling by relabeling runs of tokens and exchanging two, kick, climb again: (best value, work in steps).

    Hard rules cost ``penalty`` per unit, and as much more each time the climb ends at a labeling that breaks them
    (breakout). ``best_labels`` takes the best labeling that breaks none (value ``-inf``: none was met). Deterministic for a
    ``seed``.
    """
    m = unary.shape[1]
    pointer, numbers = counters_at(tables, m)
    by_automaton = np.flatnonzero((tables.rule_automaton >= 0) & ~tables.local)
    climber = new_climber(tables, start, penalty, seed)
    labels, amounts, excesses, kept = climber.labels, climber.amounts, climber.excesses, start.copy()
    cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
    best = -np.inf if cost == np.inf else path_score(unary, arriving, labels) - cost
    if best > -np.inf:
        overwrite(best_labels, labels)
    home = -np.inf  # value of the local optimum that kicks leave from
    while climb(climber, unary, arriving, tables, classes, pointer, numbers, by_automaton, most_work, stop):
        value = -np.inf
        cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
        if cost == np.inf:
            for r in range(len(amounts)):
                if tables.weight[r] == np.inf and amounts[r] > 0 and not tables.local[r]:
                    climber.price[r] += penalty
        else:
            value = path_score(unary, arriving, labels) - cost
        if value > best:
            best = value
            overwrite(best_labels, labels)
        if best == -np.inf:
            continue  # at the new prices
        if value >= home:
            home = value
            overwrite(kept, labels)
        else:
            overwrite(labels, kept)
            overwrite(climber.trial, kept)
            rule_amounts(tables, classes, labels, m, amounts, excesses)
        climber.tally[2] = KICK
    return best, climber.tally[0]
