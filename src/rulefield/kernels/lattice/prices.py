"""A local lower bound on what an automaton reads, so that it can be folded into potentials before any search."""

import numpy as np

from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.rule_tables import NEVER


@kernel
def automaton_prices(tables, automaton, row, unary, hard, prices, to_come):
    """Find integers with amount(y) >= base + sum_t prices[t, y_t] for all labelings; return base (NEVER: none runs).

    With a(t, q) the least amount still to come from state q after token t, a run pays amount + a(t, q') - a(t - 1, q)
    at token t: never negative, and its total is the amount less the least one. ``prices`` (n, m) takes, for each
    label, the least such payment over the states that can be there. ``to_come`` (n, states) is filled with a(t, q).
    Runs of a ``hard`` rule that pay anything end there, so that its positive prices are the labels that it forbids,
    all of them. O(n x arcs + n m).
    """
    n, m = unary.shape
    states, letters = tables.states[automaton], tables.letters[automaton]
    state_at, arc_at, letter_at = tables.state_at[automaton], tables.arc_at[automaton], tables.letter_at[automaton]
    step_ptr, step_to, step_amount, letter = tables.arc_ptr, tables.arc_to, tables.arc_amount, tables.letter
    read = np.zeros((n, letters), np.bool_)
    for t in range(n):
        for here in range(m):
            if unary[t, here] > -np.inf:
                read[t, letter[letter_at + np.int64(row[t]) * m + here]] = True
    before = np.full(states, NEVER, np.int64)
    for q in range(states):
        end = tables.final[state_at + q]
        to_come[n - 1, q] = end if end >= 0 else NEVER
    for back in range(n):
        t = n - 1 - back
        for q in range(states):
            low = NEVER
            for a in range(letters):
                if read[t, a]:
                    for b in range(step_ptr[arc_at + q * letters + a], step_ptr[arc_at + q * letters + a + 1]):
                        low = min(low, step_amount[b] + to_come[t, step_to[b]])
            low = min(low, NEVER)
            if t > 0:
                to_come[t - 1, q] = low
            else:
                before[q] = low
    base = NEVER
    owed = np.full(states, NEVER, np.int64)  # what a run in state q owes: minus the least to come from there
    reached = np.zeros(states, np.bool_)
    for q in range(states):
        start = tables.initial[state_at + q]
        if start >= 0 and before[q] < NEVER:
            base = min(base, start + before[q])
            owed[q] = start
            reached[q] = True
    if base >= NEVER:
        return base
    owed -= base
    least = np.empty(letters, np.int64)
    following = np.zeros(states, np.bool_)
    for t in range(n):
        least[:] = NEVER
        following[:] = False
        for q in range(states):
            if not reached[q]:
                continue
            for a in range(letters):
                if read[t, a]:
                    for b in range(step_ptr[arc_at + q * letters + a], step_ptr[arc_at + q * letters + a + 1]):
                        to = step_to[b]
                        if to_come[t, to] < NEVER:
                            payment = owed[q] + step_amount[b] + to_come[t, to]
                            least[a] = min(least[a], payment)
                            following[to] = following[to] or payment == 0 or not hard
        for q in range(states):
            reached[q] = following[q]
            owed[q] = -to_come[t, q]
        for here in range(m):
            price = least[letter[letter_at + np.int64(row[t]) * m + here]]
            prices[t, here] = price if unary[t, here] > -np.inf else 0
    return base


@kernel
def price_automaton(tables, row, rule, lowered, charged, to_come):
    """Lower potentials (n, m), in place, by what a rule read by an automaton is sure to cost at each token.

    A hard rule forbids what has a price. ``charged`` (n, m) is filled with what was taken off, ``to_come`` (n, states) with
    the least amounts to come; ``row`` (n,) are the rule's token classes. Returns whether anything is sure, and the amount
    that every labeling pays besides.
    """
    n, m = lowered.shape
    weight = tables.weight[rule]
    prices = np.zeros((n, m), np.int64)
    automaton = tables.rule_automaton[rule]
    base = automaton_prices(tables, automaton, row, lowered, weight == np.inf, prices, to_come) - tables.sure[rule]
    changed = base > 0
    for t in range(n):
        for here in range(m):
            price = prices[t, here]
            changed = changed or price != 0
            charge = weight * price if price > 0 and lowered[t, here] > -np.inf else 0.0
            charged[t, here] = charge
            lowered[t, here] -= charge
    return changed, base
