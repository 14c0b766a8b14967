"""The first levels of decoding chains under rules in one compiled walk: duals, prices of automata, paths.

Most problems end here, so that what Python would do between two kernels costs more than the kernels do.
"""

import numpy as np

from rulefield.kernels.arrays import overwrite
from rulefield.kernels.certificate import SLACK, proves_kernel, rounding_error_kernel
from rulefield.kernels.jit import kernel, piece
from rulefield.kernels.lattice.dual import best_path, completions, dual_error, priced, soft_dd
from rulefield.kernels.lattice.paths import kbest_paths
from rulefield.kernels.lattice.prices import price_automaton
from rulefield.kernels.lattice.rule_tables import fold_local, rule_amounts, take_out_maxima

OPEN, BY_VITERBI, BY_DUALS, BY_PATHS = 0, 1, 2, 3
"""Who settled a problem; ``OPEN``: nobody, and paths taught nothing."""

LEVELS = ("soft_dd", "viterbi", "soft_dd", "paths")
"""Names of engines by these numbers."""


@piece
def price_broken(arriving, tables, classes, duals, lowered, fresh, order, count):
    """Lower the potentials by what the rules read by automata that the best path breaks are sure to cost.

    Rules marked in ``fresh`` are looked at, once each; those that changed anything go to ``order``, from ``count`` on.
    Returns (how many are in ``order`` now, what the constant falls by, whether some hard rule cannot be obeyed).
    """
    n, m = lowered.shape
    unary, moved = priced(lowered, arriving, tables, classes, duals)
    ahead, labels = np.empty((n, m)), np.zeros(n, np.int64)
    completions(unary, moved, ahead)
    if best_path(unary, moved, ahead, labels) == -np.inf:
        return count, 0.0, False
    amounts, excesses = np.zeros(len(tables.weight), np.int64), np.zeros(len(duals), np.int64)
    rule_amounts(tables, classes, labels, m, amounts, excesses)
    fall = 0.0
    impossible = False
    for r in range(len(amounts)):
        weight = tables.weight[r]
        if not fresh[r] or amounts[r] <= 0 or (tables.once[r] and weight < np.inf):
            continue
        fresh[r] = False
        charged = np.empty((n, m))
        to_come = np.zeros((n, tables.states[tables.rule_automaton[r]]), np.int64)
        changed, base = price_automaton(tables, classes[r], r, lowered, charged, to_come)
        if changed:
            order[count] = r
            count += 1
            if weight < np.inf:
                fall += weight * base
            elif base > 0:
                impossible = True
    return count, fall, impossible


@kernel
def first_bounds(unary, arriving, tables, classes, caps, iterations, automata, duals, labels, lowered, order):
    """Soft-DD, with rules read by automata folded in as far as their breaking is sure to cost.

    ``lowered`` (n, m) begins as a copy of ``unary``; it, ``duals`` (counters,), ``labels`` (n,) and ``order`` (rules,), the
    rules that lowered it, are filled. ``automata`` is None if no rule is read by an automaton: then less is compiled. Returns
    (upper bound, best value, constant of ``lowered``, Viterbi passes, number of rules in ``order``).
    """
    fresh = tables.rule_automaton >= 0
    found = np.zeros(len(labels), np.int64)
    bound, best, constant = np.inf, -np.inf, 0.0
    passes, count, whole = 0, 0, automata is None
    while True:
        least, value, used, _ = soft_dd(
            unary, arriving, lowered, constant, tables, classes, caps, iterations if whole else 1, False, duals, found
        )
        passes += used
        bound = min(bound, least)
        if value > best:
            best = value
            overwrite(labels, found)
        if whole or is_settled(bound, best, len(unary), len(fresh)):
            return bound, best, constant, passes, count
        before = count
        if automata is not None:
            count, fall, impossible = price_broken(arriving, tables, classes, duals, lowered, fresh, order, count)
            constant -= fall
            bound = -np.inf if impossible else bound
        whole = count == before
        if whole and len(duals) == 0:
            return bound, best, constant, passes, count


@piece
def is_settled(bound, best, n, rules):
    """Whether a bound proves a value best, or that there is no labeling."""
    if best == -np.inf:
        return bound == -np.inf
    return proves_kernel(bound, best, rounding_error_kernel(2 * n + rules, best))


@piece
def try_paths(unary, arriving, tables, classes, lowered, constant, duals, path_nodes, bound, best, labels):
    """Search paths in the order of their score under the duals: (upper bound, best value, search nodes)."""
    n, m = unary.shape
    rules = len(tables.weight)
    charged, moved = priced(lowered, arriving, tables, classes, duals)
    ahead = np.empty((n, m))
    completions(charged, moved, ahead)
    total = constant
    for c in range(len(duals)):
        total += duals[c] * tables.counter_bound[c]
    slack = 0.0 if best == -np.inf else SLACK + rounding_error_kernel(2 * n + rules, best)
    highest, value, nodes, exhausted = kbest_paths(
        unary, arriving, charged, moved, ahead, total, tables, classes, path_nodes, slack, best, labels
    )
    near = abs(bound) if abs(bound) < np.inf else 0.0
    if value > -np.inf:
        near = max(near, abs(value))
        slack = SLACK + rounding_error_kernel(2 * n + rules, value)
    reached = value + slack if exhausted else highest
    return min(bound, reached + dual_error(tables, duals, n, constant, near)), value, nodes


@kernel
def ready_batch(unary, pairwise, tokens, steps, tables, classes, folds, arriving, places, offset, right):
    """Make chains ready for engines: local rules folded in (if it ``folds``), steps transposed, maxima taken out.

    Chains lie as in :func:`first_answers`; ``unary`` is changed in place, ``pairwise`` is [from, to] with the matrices
    ``steps[i, 0] : steps[i, 1]`` of chain i. Filled are ``arriving``, of which chain i has ``places[i, 0] : places[i, 1]``,
    its own if rules are folded into steps, and for each chain what was taken out, and whether no score is NaN or +inf.
    """
    m, rules = unary.shape[1], len(tables.weight)
    for i in range(len(tokens) - 1):
        first, last = tokens[i], tokens[i + 1]
        n, k = last - first, places[i, 1] - places[i, 0]
        seen = classes[first * rules : last * rules].reshape((rules, n))
        scores, moves = unary[first:last], np.empty((k, m, m))
        for t in range(k):
            given = pairwise[min(steps[i, 0] + t, steps[i, 1] - 1)]
            for a in range(m):
                for b in range(m):
                    moves[t, a, b] = given[a, b]
        paid = fold_local(tables, seen, scores, moves, m, True) if folds else 0.0
        turned = (
            arriving[places[i, 0] : places[i, 1]] if n > 1 else moves
        )  # one token has no steps; others may share them
        for t in range(k if n > 1 else 0):
            for a in range(m):
                for b in range(m):
                    turned[t, b, a] = moves[t, a, b]
        total, wrong = take_out_maxima(scores, turned)
        offset[i] = total - paid
        right[i] = not wrong


@kernel
def first_answers(
    unary, arriving, tokens, steps, tables, classes, caps, iterations, automata,
    labels, lowered, duals, order, values, effort,
):  # fmt: skip
    """Decode chains that lie one after the other and whose rules have the same tables, as far as duals go.

    Chain i has the rows ``tokens[i] : tokens[i + 1]`` (at least one) of ``unary``, and the matrices ``steps[i, 0] :
    steps[i, 1]`` (one, or one per step) of ``arriving``, [to, from]; ``classes`` are those of one chain after the other,
    (rules, n) each, flat; ``caps`` (chains, counters) the largest duals. ``automata`` is None if no rule is read by an
    automaton. Filled are labels (tokens,), lowered (tokens, m), duals (chains, counters), which must be 0, and order
    (chains, rules), all as in :func:`first_bounds`; values (chains, 3): upper bound, best value and constant of
    ``lowered``; effort (chains, 4): who settled it, Viterbi passes, search nodes, number of rules in ``order``.
    """
    rules = len(tables.weight)
    for i in range(len(tokens) - 1):
        first, last = tokens[i], tokens[i + 1]
        n = last - first
        seen = classes[first * rules : last * rules].reshape((rules, n))
        scores, moves = unary[first:last], arriving[steps[i, 0] : steps[i, 1]]
        low = lowered[first:last]
        for t in range(n):
            for here in range(unary.shape[1]):
                low[t, here] = scores[t, here]
        bound, best, constant, passes, count = first_bounds(
            scores, moves, tables, seen, caps[i], iterations, automata, duals[i], labels[first:last], low, order[i]
        )
        by = OPEN
        if is_settled(bound, best, n, rules):
            by = BY_VITERBI if passes == 1 else BY_DUALS
        values[i, 0], values[i, 1], values[i, 2] = bound, best, constant
        effort[i, 0], effort[i, 1], effort[i, 2], effort[i, 3] = by, passes, 0, count


@kernel
def path_answers(unary, arriving, tokens, steps, tables, classes, path_nodes, labels, lowered, duals, values, effort):
    """Go on with the chains that :func:`first_answers` left open, by paths of at most ``path_nodes`` search nodes."""
    rules = len(tables.weight)
    for i in range(len(tokens) - 1):
        first, last = tokens[i], tokens[i + 1]
        if effort[i, 0] != OPEN:
            continue
        seen = classes[first * rules : last * rules].reshape((rules, last - first))
        moves = arriving[steps[i, 0] : steps[i, 1]]
        least, value, nodes = try_paths(
            unary[first:last], moves, tables, seen, lowered[first:last], values[i, 2], duals[i], path_nodes,
            values[i, 0], values[i, 1], labels[first:last],
        )  # fmt: skip
        if value > values[i, 1] or least < values[i, 0]:
            effort[i, 0] = BY_PATHS
        values[i, 0], values[i, 1], effort[i, 2] = least, value, nodes
