"""Which labels occur at all: the dual bound of a chain under rules that say how many of some facts hold.

A fact f has a set of cells, (token, label); its switch z_f is 1 where the labeling has one of them. Two kinds of multiplier
tie switches to labels: ``at[f, t] >= 0`` for "token t has a cell of f, so z_f = 1", and ``some[f] >= 0`` for "z_f = 1, so
some token has one". Given both, labels are a Viterbi pass, and switches are chosen rule by rule, the most profitable first.
"""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.dual import best_path, completions

PATIENCE = 5
"""Steps that may bring little before they get shorter."""


@kernel
def choose_switches(worth, wanted, fixed, first, last, low, high, weight, switch):
    """Set the switches of one rule, facts ``first : last``, at their best; return what they are worth.

    ``worth`` (facts,) is what a switch gains by being 1; a fact holds where its switch is 1 (``wanted``) or 0. ``fixed`` is
    -1 where the switch is open. Between ``low`` and ``high`` facts hold, or the rule costs ``weight``; -inf where neither
    can be.
    """
    total = 0.0
    holding = 0
    possible = 0
    free = 0.0
    for f in range(first, last):
        if fixed[f] >= 0:
            switch[f] = fixed[f]
            total += worth[f] * fixed[f]
            holding += (fixed[f] == 1) == wanted[f]
        else:
            switch[f] = 0 if wanted[f] else 1  # it does not hold
            total += worth[f] * switch[f]
            possible += 1
            free += max(worth[f] if wanted[f] else -worth[f], 0.0)
    free += total - weight
    if holding > high or holding + possible < low:
        if weight < np.inf:
            _free_switches(worth, fixed, first, last, switch)
        return free if weight < np.inf else -np.inf
    while holding < high:
        top, gain = last, -np.inf
        for f in range(first, last):
            if fixed[f] < 0 and switch[f] == (0 if wanted[f] else 1):
                value = worth[f] if wanted[f] else -worth[f]
                if value > gain:
                    top, gain = f, value
        if top == last or (gain <= 0.0 and holding >= low):
            break
        switch[top] = 1 if wanted[top] else 0
        total += gain
        holding += 1
    if free > total:
        _free_switches(worth, fixed, first, last, switch)
        return free
    return total


@kernel
def _free_switches(worth, fixed, first, last, switch):
    """Set open switches as if there were no rule."""
    for f in range(first, last):
        if fixed[f] < 0:
            switch[f] = 1 if worth[f] > 0.0 else 0


@kernel
def _charge(unary, cell_ptr, cell_fact, fixed, at, some, charged):
    """Scores minus what the multipliers take, cells of facts whose switch is 0 forbidden."""
    n, m = unary.shape
    for t in range(n):
        for label in range(m):
            value = unary[t, label]
            for k in range(cell_ptr[t * m + label], cell_ptr[t * m + label + 1]):
                f = cell_fact[k]
                value = -np.inf if fixed[f] == 0 else value + (some[f] - at[f, t])
            charged[t, label] = value


@kernel
def _touched(labels, m, cell_ptr, cell_fact, has, times):
    """Mark which tokens have a cell of each fact, and count them."""
    for f in range(len(times)):
        times[f] = 0
        for t in range(len(labels)):
            has[f, t] = 0
    for t in range(len(labels)):
        place = t * m + labels[t]
        for k in range(cell_ptr[place], cell_ptr[place + 1]):
            has[cell_fact[k], t] = 1
            times[cell_fact[k]] += 1


@kernel
def _move(step, fixed, switch, has, times, at, some, try_only):
    """Move the multipliers against the slope; return its squared length (and move nothing where ``try_only``)."""
    square = 0.0
    for f in range(len(fixed)):
        if fixed[f] == 0:
            continue
        slope = float(times[f]) - switch[f]
        if slope < 0.0 or some[f] > 0.0:
            square += slope * slope
            if not try_only:
                some[f] = max(some[f] - step * slope, 0.0)
        for t in range(has.shape[1]):
            slope = float(switch[f]) - has[f, t]
            if fixed[f] < 0 and (slope < 0.0 or (slope > 0.0 and at[f, t] > 0.0)):
                square += slope * slope
                if not try_only:
                    at[f, t] = max(at[f, t] - step * slope, 0.0)
    return square


@kernel
def facts_dual(
    unary, arriving, cell_ptr, cell_fact, wanted, rule_ptr, low, high, weight, fixed,
    at, some, iterations, goal, stop, labels, switch,
):  # fmt: skip
    """Lower the bound by Polyak's steps toward ``goal``, and end where it is reached.

    Parameters
    ----------
    unary, arriving
        Potentials of the chain, (n, m) and transposed (k, m, m).
    cell_ptr, cell_fact : (n * m + 1,) and (cells,)
        The facts that each token and label belong to.
    rule_ptr : (rules + 1,)
        The facts of each rule; ``low``, ``high`` and ``weight`` are of rules, ``wanted`` and ``fixed`` of facts.
    at, some : (facts, n) and (facts,)
        Multipliers to begin with, then those of the best bound.
    stop : (1,) bool
        A flag that is raised when the time is over.
    labels, switch
        The labeling and the switches of the best bound.

    Returns
    -------
    (bound, passes)
        -inf where nothing is left.
    """
    n, m = unary.shape
    facts = len(wanted)
    charged, ahead = np.empty((n, m)), np.empty((n, m))
    path, set_to = np.zeros(n, np.int64), np.zeros(facts, np.int64)
    has, times, worth = np.zeros((facts, n), np.int8), np.zeros(facts, np.int64), np.empty(facts)
    now_at, now_some = at.copy(), some.copy()
    bound, pace, still = np.inf, 1.0, 0
    for iteration in range(1, iterations + 1):
        _charge(unary, cell_ptr, cell_fact, fixed, now_at, now_some, charged)
        completions(charged, arriving, ahead)
        value = best_path(charged, arriving, ahead, path)
        for f in range(facts):
            worth[f] = -now_some[f]
            for t in range(n):
                worth[f] += now_at[f, t]
        for r in range(len(low)):
            value += choose_switches(
                worth, wanted, fixed, rule_ptr[r], rule_ptr[r + 1], low[r], high[r], weight[r], set_to
            )
        if value == -np.inf:
            return value, iteration
        still = 0 if value < bound - 1e-3 * max(bound - goal, 0.0) else still + 1
        if value < bound:
            bound = value
            overwrite(at.reshape(-1), now_at.reshape(-1))
            overwrite(some, now_some)
            overwrite(labels, path)
            overwrite(switch, set_to)
        if bound <= goal:
            return bound, iteration
        if still >= PATIENCE:
            pace, still = 0.7 * pace, 0
        _touched(path, m, cell_ptr, cell_fact, has, times)
        square = _move(0.0, fixed, set_to, has, times, now_at, now_some, True)
        if square == 0.0 or goal == -np.inf or stop[0]:
            return bound, iteration
        _move(pace * (value - goal) / square, fixed, set_to, has, times, now_at, now_some, False)
    return bound, iterations
