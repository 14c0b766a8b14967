"""The checker: what a labeling of a chain is worth, from the definition, in code that no engine shares.

It reads rules as they were compiled, one after the other, and judges one labeling (or all of them, for enumeration).
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.certificate import TOLERANCE, proves_kernel, rounding_error_kernel
from rulefield.kernels.jit import kernel

UNREAD = np.int64(-1)  # the amount of a labeling that an automaton has no run for
OUTSIDE = -1  # stands for the number of broken rules where a label does not exist


VECTORS = (
    "once",  # (rules,) truth values: paid once
    "piece",  # (rules + 1,)
    "automaton",  # (rules,), -1: none
    "clipped",  # (pieces,) truth values: counts only what exceeds ``bound``
    "bound",  # (pieces,)
    "node",  # (pieces,): where its (classes, labels) table begins in ``table``
    "first",  # (pieces,), likewise
    "edge",  # (pieces,), likewise (classes, labels, labels); -1: none
    "simple",  # (pieces,) truth values: one class, no edges, no table of its own for the first token
    "letters",  # (automata,)
    "letter",  # (automata,): where its (classes, labels) table begins in ``table``
    "state",  # (automata + 1,): where its states begin in ``initial`` and ``final``
    "cell",  # (automata,): where its arc pointers begin in ``pointer``
    "initial",  # (states,)
    "final",  # (states,)
    "pointer",  # positions in ``to`` and ``amount``
    "to",  # (arcs,)
    "amount",  # (arcs,)
)
"""What :class:`Definitions` holds, in this order."""
(
    ONCE, PIECE, AUTOMATON, CLIPPED, BOUND, NODE, FIRST, EDGE, SIMPLE,
    LETTERS, LETTER, STATE, CELL, INITIAL, FINAL, POINTER, TO, AMOUNT,
) = range(len(VECTORS))  # fmt: skip


class Definitions(NamedTuple):
    """Rules as compiled. Rule r has the pieces ``piece[r] : piece[r + 1]`` (tallies) or the automaton ``automaton[r]``.

    Vectors stand one after the other in ``whole``: a kernel takes few arrays sooner than many. Vector k (of ``VECTORS``)
    begins at ``place[k]`` and ends at ``place[k + 1]``.
    """

    place: np.ndarray  # int64
    whole: np.ndarray  # int64
    table: np.ndarray  # int32


@kernel
def labeling_score(unary, pairwise, labels):
    """Return the score of a labeling under pairwise[from, to] (1 or n - 1 matrices), and the sum of its terms' sizes."""
    total = 0.0
    size = 0.0
    for t in range(len(labels)):
        here = unary[t, labels[t]]
        total += here
        size += abs(here)
        if t + 1 < len(labels):
            step = pairwise[t if len(pairwise) > 1 else 0, labels[t], labels[t + 1]]
            total += step
            size += abs(step)
    return total, size


@kernel
def _run_amount(d, k, classes, labels, m, reached):
    """Least amount over the runs of automaton k that accept the labeling; ``reached`` (2, states) is room for it."""
    place, whole, table = d.place, d.whole, d.table  # a look inside a loop would count references
    begin, first, letters = whole[place[LETTER] + k], whole[place[STATE] + k], whole[place[LETTERS] + k]
    cells = place[POINTER] + whole[place[CELL] + k]
    states = whole[place[STATE] + k + 1] - first
    initial, final, to, amount = place[INITIAL] + first, place[FINAL] + first, place[TO], place[AMOUNT]
    for q in range(states):
        reached[0, q] = whole[initial + q]
    for t in range(len(labels)):
        before, after = t % 2, 1 - t % 2
        letter = table[begin + np.int64(classes[t]) * m + labels[t]]
        for q in range(states):
            reached[after, q] = UNREAD
        for q in range(states):
            owed = reached[before, q]
            if owed >= 0:
                at = cells + q * letters + letter
                for arc in range(whole[at], whole[at + 1]):
                    paid, target = owed + whole[amount + arc], whole[to + arc]
                    known = reached[after, target]
                    reached[after, target] = paid if known < 0 else min(paid, known)
    least = UNREAD
    for q in range(states):
        owed, end = reached[len(labels) % 2, q], whole[final + q]
        if owed >= 0 and end >= 0 and (least < 0 or owed + end < least):
            least = owed + end
    return least


@kernel
def _piece_sum(d, p, classes, labels, m):
    """Sum of one tally over the labeling."""
    place, whole, table = d.place, d.whole, d.table
    node, first, edge = whole[place[NODE] + p], whole[place[FIRST] + p], whole[place[EDGE] + p]
    total = np.int64(0)
    for t in range(len(labels)):
        total += table[(node if t > 0 else first) + np.int64(classes[t]) * m + labels[t]]
        if t > 0 and edge >= 0:
            total += table[edge + (np.int64(classes[t]) * m + labels[t - 1]) * m + labels[t]]
    return total


@kernel
def _most_states(d):
    """Return the number of states of the largest automaton."""
    place, whole = d.place, d.whole
    most = np.int64(0)
    for k in range(place[STATE], place[STATE + 1] - 1):
        most = max(most, whole[k + 1] - whole[k])
    return most


@kernel
def labeling_amounts(d, weight, classes, labels, m, amounts):
    """Fill the amounts (rules,) by which a labeling breaks each rule; return (their cost, how many it breaks).

    ``weight`` (rules,) is inf where a rule is hard, ``classes`` (rules, n) are the token classes. An automaton without a run
    gets the amount ``UNREAD``, at infinite cost.
    """
    place, whole, table = d.place, d.whole, d.table
    once, piece, automaton, clipped = place[ONCE], place[PIECE], place[AUTOMATON], place[CLIPPED]
    bound, node, simple = place[BOUND], place[NODE], place[SIMPLE]
    count = np.zeros(m, np.int64)
    for t in range(len(labels)):
        count[labels[t]] += 1
    reached = np.empty((2, _most_states(d)), np.int64)
    cost = 0.0
    broken = 0
    for r in range(len(amounts)):
        amount = np.int64(0)
        for p in range(whole[piece + r], whole[piece + r + 1]):
            total = np.int64(0)
            if whole[simple + p]:
                for label in range(m):
                    total += count[label] * table[whole[node + p] + label]
            else:
                total = _piece_sum(d, p, classes[r], labels, m)
            if not whole[clipped + p]:
                amount += total
            elif total > whole[bound + p]:
                amount += total - whole[bound + p]
        if whole[automaton + r] >= 0:
            amount = _run_amount(d, whole[automaton + r], classes[r], labels, m, reached)
        amounts[r] = amount
        broken += amount != 0
        if amount == UNREAD:
            cost = np.inf
        elif amount > 0:
            cost += weight[r] if whole[once + r] else weight[r] * amount
    return cost, broken


@kernel
def judge_one(unary, pairwise, d, weight, classes, labels, amounts):
    """Fill the amounts (rules,) of one labeling; return (score, sum of its terms' sizes, cost, rules broken).

    The last is ``OUTSIDE`` where these are no labels of this chain.
    """
    n, m = unary.shape
    inside = len(labels) == n
    for t in range(len(labels)):
        inside = inside and 0 <= labels[t] < m
    if not inside:
        return np.nan, np.nan, np.nan, OUTSIDE
    score, size = labeling_score(unary, pairwise, labels)
    cost, broken = labeling_amounts(d, weight, classes, labels, m, amounts)
    return score, size, cost, broken


@kernel
def judge_all(unary, pairwise, d, weight, classes, scores, costs):
    """Fill scores and costs of all m ** n labelings, in lexicographic order."""
    n, m = unary.shape
    labels = np.zeros(n, np.int64)
    amounts = np.zeros(len(weight), np.int64)
    for i in range(len(scores)):
        scores[i], _ = labeling_score(unary, pairwise, labels)
        costs[i], _ = labeling_amounts(d, weight, classes, labels, m, amounts)
        t = n - 1
        while t >= 0 and labels[t] == m - 1:
            labels[t] = 0
            t -= 1
        if t >= 0:
            labels[t] += 1


@kernel
def certify_batch(
    unary, pairwise, tokens, steps, d, weight, classes, rules, labels, offset, values, worth, amounts, sure
):
    """Judge the labelings of many chains by the checker: whether each is proved best, and worth what its engine claims.

    Parameters
    ----------
    unary, pairwise, tokens, steps : the potentials as they were given, chain i has the rows ``tokens[i] : tokens[i + 1]`` and
        the matrices ``steps[i, 0] : steps[i, 1]``, [from, to]
    d, weight, classes : rules as the checker reads them
    rules : number of rules that the engine read
    labels, offset, values : (tokens,), (chains,), (chains, 3): what engines found, and bound and value that they claim
    worth, amounts : filled with score, objective and bound, (chains, 3); with what the labels break, (chains, own rules)
    sure : (chains,): False where the answer is not to be used
    """
    own_rules = len(weight)
    for i in range(len(tokens) - 1):
        first, last = tokens[i], tokens[i + 1]
        n, bound, value = last - first, values[i, 0], values[i, 1]
        sure[i] = False
        if value == -np.inf:
            continue
        seen = classes[first * own_rules : last * own_rules].reshape((own_rules, n))
        error = rounding_error_kernel(2 * n + rules, value)
        of_sum = error + rounding_error_kernel(4, offset[i])
        score, size, cost, _ = judge_one(
            unary[first:last], pairwise[steps[i, 0] : steps[i, 1]], d, weight, seen, labels[first:last], amounts[i]
        )
        objective = score - cost
        own = rounding_error_kernel(4 * (n + own_rules + 1), size + (cost if cost < np.inf else 0.0))
        agrees = abs(objective - (value + offset[i])) <= own + of_sum and value <= bound + TOLERANCE + of_sum
        bound = objective + max(bound, value) - value
        worth[i, 0], worth[i, 1], worth[i, 2] = score, objective, bound
        sure[i] = agrees and proves_kernel(bound - objective, 0.0, error)
