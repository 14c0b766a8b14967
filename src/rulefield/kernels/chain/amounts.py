"""By how much many labelings break many rules: what finding and learning rules measure, in passes over all labelings.

Labeling j has the labels ``labels[start[j] : start[j + 1]]``; the classes of its tokens are those of its input, from
``token[j]`` on in each row of ``classes`` (n_spaces, n_tokens): rules that ask the same of tokens share a row.
``some`` are the numbers of the labelings to measure; ``out`` (len(some), n_rules) int32 gets their amounts.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel

ONE = np.uint64(1)


class Steps(NamedTuple):
    """Tallies as one sparse matrix over steps, and the excesses that rules add up.

    A step of space s is a row: ``base[s]`` + c m + y for label y at a token of class c; ``size[s]`` further where the token
    is the first; ``2 size[s] + (c m + x) m + y`` further from ``base[s]`` where it comes from label x (if ``edges[s]``).
    """

    base: np.ndarray  # uint64 (n_spaces,)
    size: np.ndarray  # uint64 (n_spaces,)
    edges: np.ndarray  # bool (n_spaces,)
    pointer: np.ndarray  # uint64 (n_rows + 1,)
    tally: np.ndarray  # uint64 (n_entries,)
    value: np.ndarray  # int32 (n_entries,)
    rule: np.ndarray  # uint64 (n_counters,)
    counted: np.ndarray  # uint64 (n_counters,): the tally whose excess over ``bound`` counts
    bound: np.ndarray  # int64 (n_counters,)
    n_tallies: int


class Automata(NamedTuple):
    """Automata of rules, one after the other; cell (q, letter) of automaton k is ``cell[k] + q letters[k] + letter``."""

    rule: np.ndarray  # uint64 (n_automata,)
    space: np.ndarray  # uint64 (n_automata,)
    table: np.ndarray  # uint64 (n_automata,): where its (classes, labels) table of letters begins in ``letter``
    letter: np.ndarray  # uint16
    letters: np.ndarray  # uint64 (n_automata,)
    state: np.ndarray  # uint64 (n_automata + 1,): where its states begin in ``initial`` and ``final``
    cell: np.ndarray  # uint64 (n_automata,)
    initial: np.ndarray  # int32, -1 where a run may not begin
    final: np.ndarray  # int32, -1 where a run may not end
    pointer: np.ndarray  # uint64, positions in ``to`` and ``amount``
    to: np.ndarray  # uint64
    amount: np.ndarray  # int32
    certain: np.ndarray  # bool (n_automata,): one run for every labeling, beginning in ``begin``
    begin: np.ndarray  # uint64 (n_automata,)


@kernel
def counted_amounts(labels, start, token, classes, m, steps, some, out):
    """Add what rules with tallies and counters say; O(steps x entries of their rows + counters) for each labeling."""
    values = np.zeros(steps.n_tallies, np.int64)
    n_spaces = np.uint64(classes.shape[0])
    for i in range(np.uint64(some.shape[0])):
        values[:] = 0
        first, n = start[some[i]], start[some[i] + ONE] - start[some[i]]
        at = token[some[i]]
        for s in range(n_spaces):
            base, size = steps.base[s], steps.size[s]
            for t in range(n):
                row = base + np.uint64(classes[s, at + t]) * m + labels[first + t]
                if t == 0:
                    row += size
                for e in range(steps.pointer[row], steps.pointer[row + ONE]):
                    values[steps.tally[e]] += steps.value[e]
                if t > 0 and steps.edges[s]:
                    row = base + size + size
                    row += (np.uint64(classes[s, at + t]) * m + labels[first + t - ONE]) * m + labels[first + t]
                    for e in range(steps.pointer[row], steps.pointer[row + ONE]):
                        values[steps.tally[e]] += steps.value[e]
        for k in range(np.uint64(steps.rule.shape[0])):
            excess = values[steps.counted[k]] - steps.bound[k]
            if excess > 0:
                out[i, steps.rule[k]] += np.int32(excess)


@kernel
def _certain_amount(a, k, labels, classes, m):
    """Amount of the only run of automaton k."""
    state, total = a.begin[k], np.int32(0)
    for t in range(np.uint64(labels.shape[0])):
        letter = np.uint64(a.letter[a.table[k] + np.uint64(classes[t]) * m + labels[t]])
        arc = a.pointer[a.cell[k] + state * a.letters[k] + letter]
        total += a.amount[arc]
        state = a.to[arc]
    return total + a.final[a.state[k] + state]


@kernel
def _guessed_amount(a, k, labels, classes, m, reached, following):
    """Amount of the only run of automaton k that ends well; a state is never reached by two runs that could both end."""
    begin, states = a.state[k], a.state[k + ONE] - a.state[k]
    for q in range(states):
        reached[q] = a.initial[begin + q]
    for t in range(np.uint64(labels.shape[0])):
        letter = np.uint64(a.letter[a.table[k] + np.uint64(classes[t]) * m + labels[t]])
        following[:states] = -1
        for q in range(states):
            if reached[q] >= 0:
                cell = a.cell[k] + q * a.letters[k] + letter
                for arc in range(a.pointer[cell], a.pointer[cell + ONE]):
                    following[a.to[arc]] = reached[q] + a.amount[arc]
        reached, following = following, reached
    for q in range(states):
        if reached[q] >= 0 and a.final[begin + q] >= 0:
            return reached[q] + a.final[begin + q]
    return np.int32(0)


@kernel
def automaton_amounts(labels, start, token, classes, m, a, most_states, some, out):
    """Set what rules with automata say; O(tokens) for each labeling and automaton (times its states where it guesses)."""
    reached, following = np.empty(most_states, np.int32), np.empty(most_states, np.int32)
    for k in range(np.uint64(a.rule.shape[0])):
        for i in range(np.uint64(some.shape[0])):
            first, last, at = start[some[i]], start[some[i] + ONE], token[some[i]]
            own, seen = labels[first:last], classes[a.space[k], at : at + last - first]
            if a.certain[k]:
                out[i, a.rule[k]] = _certain_amount(a, k, own, seen, m)
            else:
                out[i, a.rule[k]] = _guessed_amount(a, k, own, seen, m, reached, following)


@kernel
def nonzeros(table, pointer, column, value):
    """Write a dense table (n, r) as sparse rows: pointer (n + 1,), column and value (n_entries,)."""
    at = 0
    pointer[0] = 0
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[i, j] != 0:
                column[at] = j
                value[at] = table[i, j]
                at += 1
        pointer[i + 1] = at
