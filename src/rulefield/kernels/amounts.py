"""By how much labelings break compiled rules: the one evaluator, for one labeling or for very many.

Checkers, learners, miners and reports all read rules by it; ``amount`` in ``rulefield.rules`` is the definition that it is
tested against. Labelings lie one after the other; the classes of their tokens are in a table (rows, tokens), a row for each
group of rules that ask the same of tokens, called a *space*.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.jit import kernel

ONE = np.uint64(1)
NEVER = np.int64(1) << np.int64(40)  # more than any amount: there is no run
UNREAD = np.int64(-1)  # the amount of a labeling that an automaton has no run for


class Tallies(NamedTuple):
    """Tallies as one sparse matrix over steps, and the excesses over bounds that rules add up.

    A step of space s is a row: ``base[s]`` + c m + y for label y at a token of class c; ``size[s]`` further if the token
    is the first; ``2 size[s] + (c m + x) m + y`` further from ``base[s]`` if it comes from label x (if ``edges[s]``).
    """

    row: np.ndarray  # uint64 (spaces,): where the classes of its tokens stand
    width: np.ndarray  # uint64 (spaces,): m, its number of labels
    base: np.ndarray  # uint64 (spaces,)
    size: np.ndarray  # uint64 (spaces,)
    edges: np.ndarray  # bool (spaces,)
    pointer: np.ndarray  # uint64 (rows + 1,)
    tally: np.ndarray  # uint64 (entries,)
    value: np.ndarray  # int32 (entries,)
    rule: np.ndarray  # uint64 (counters,)
    counted: np.ndarray  # uint64 (counters,): the tally whose excess over ``bound`` counts
    bound: np.ndarray  # int64 (counters,)
    tallies: int


class Automata(NamedTuple):
    """Automata one after the other; cell (q, letter) of automaton k is ``arc_at[k] + q letters[k] + letter``."""

    states: np.ndarray  # int64 (automata,)
    letters: np.ndarray  # int64 (automata,)
    deterministic: np.ndarray  # bool (automata,): one run for every labeling, never dying
    letter_at: np.ndarray  # int64 (automata,): where its (classes, labels) table of letters begins
    state_at: np.ndarray  # int64 (automata,)
    arc_at: np.ndarray  # int64 (automata,)
    letter: np.ndarray  # int32
    initial: np.ndarray  # int32, -1 where a run may not begin
    final: np.ndarray  # int32, -1 where a run may not end
    arc_ptr: np.ndarray  # int64, absolute positions in arc_to
    arc_to: np.ndarray  # int32
    arc_amount: np.ndarray  # int32


class Runs(NamedTuple):
    """Rules that are read by automata."""

    rule: np.ndarray  # int64 (automata,)
    row: np.ndarray  # int64 (automata,): of the classes
    width: np.ndarray  # int64 (automata,): number of labels
    automata: Automata


@kernel
def only_run(at, letters, first, arcs, letter, initial, final, arc_ptr, arc_to, arc_amount, classes, labels, m):
    """Amount of the only run of an automaton that has one for every labeling."""
    table, cells, begin = np.uint64(at), np.uint64(arcs), np.uint64(first)
    width, count = np.uint64(m), np.uint64(letters)
    state = np.uint64(0)
    while initial[begin + state] < 0:
        state += ONE
    amount = np.int64(initial[begin + state])
    for t in range(np.uint64(len(labels))):
        read = np.uint64(letter[table + np.uint64(classes[t]) * width + np.uint64(labels[t])])
        arc = np.uint64(arc_ptr[cells + state * count + read])
        amount += arc_amount[arc]
        state = np.uint64(arc_to[arc])
    return amount + final[begin + state]


@kernel
def least_run(
    at, states, letters, first, arcs, letter, initial, final, arc_ptr, arc_to, arc_amount, classes, labels, m
):
    """Least amount of the accepting runs of an automaton; ``NEVER`` where there is none."""
    paid = np.empty(
        (2, states), np.int64
    )  # of the runs that end in each state, after an even or odd number of tokens
    for s in range(states):
        start = initial[first + s]
        paid[0, s] = start if start >= 0 else NEVER
    for t in range(len(labels)):
        read = letter[at + np.int64(classes[t]) * m + np.int64(labels[t])]
        now, then = t % 2, (t + 1) % 2
        for s in range(states):
            paid[then, s] = NEVER
        for s in range(states):
            if paid[now, s] >= NEVER:
                continue
            row = arcs + s * letters + read
            for a in range(arc_ptr[row], arc_ptr[row + 1]):
                to = arc_to[a]
                paid[then, to] = min(paid[then, to], paid[now, s] + arc_amount[a])
    best = NEVER
    for s in range(states):
        owed = paid[len(labels) % 2, s]
        if owed < NEVER and final[first + s] >= 0:
            best = min(best, owed + final[first + s])
    return best


@kernel
def _add_excesses(sums, classes, at, labels, first, n, values, out):
    """Add to ``out`` (rules,) what the counting rules of one labeling amount to; O(steps x entries of their rows)."""
    pointer, tally, value = sums.pointer, sums.tally, sums.value
    values[:] = 0
    for s in range(len(sums.base)):
        base, size, m, row = sums.base[s], sums.size[s], sums.width[s], sums.row[s]
        kind = row if labels.shape[0] > 1 else np.uint64(0)
        before = np.uint64(0)
        for t in range(n):
            label, cell = np.uint64(labels[kind, first + t]), np.uint64(classes[row, at + t]) * m
            step = base + cell + label + (size if t == 0 else np.uint64(0))
            for e in range(pointer[step], pointer[step + ONE]):
                values[tally[e]] += value[e]
            if t > 0 and sums.edges[s]:
                step = base + size + size + (cell + before) * m + label
                for e in range(pointer[step], pointer[step + ONE]):
                    values[tally[e]] += value[e]
            before = label
    for k in range(len(sums.rule)):
        excess = values[sums.counted[k]] - sums.bound[k]
        if excess > 0:
            out[sums.rule[k]] += excess


@kernel
def _run_all(runs, labels, first, lengths, classes, at, out):
    """Set what rules with automata amount to; O(tokens) for each labeling and automaton (times its states if it guesses)."""
    a = runs.automata
    letter, initial, final, arc_ptr, arc_to, arc_amount = (
        a.letter, a.initial, a.final, a.arc_ptr, a.arc_to, a.arc_amount,
    )  # fmt: skip
    for k in range(len(runs.rule)):
        begin, states, letters, state_at, arcs = a.letter_at[k], a.states[k], a.letters[k], a.state_at[k], a.arc_at[k]
        row, m = runs.row[k], runs.width[k]
        kind = row if labels.shape[0] > 1 else np.int64(0)
        for i in range(len(lengths)):
            kinds, path = classes[row, at[i] : at[i] + lengths[i]], labels[kind, first[i] : first[i] + lengths[i]]
            if a.deterministic[k]:
                out[i, runs.rule[k]] = only_run(
                    begin, letters, state_at, arcs, letter, initial, final, arc_ptr, arc_to, arc_amount, kinds,
                    path, m,
                )  # fmt: skip
                continue
            least = least_run(
                begin, states, letters, state_at, arcs, letter, initial, final, arc_ptr, arc_to, arc_amount,
                kinds, path, m,
            )  # fmt: skip
            out[i, runs.rule[k]] = least if least < NEVER else UNREAD


@kernel
def amounts_of_labelings(sums, runs, labels, first, lengths, classes, at, out):
    """Fill the amounts (labelings, rules) by which labelings break rules.

    Parameters
    ----------
    sums : Tallies
    runs : Runs or None
        None if no rule is read by an automaton: nothing of them is compiled then.
    labels : int64 (1, tokens), or (rows, tokens) if each row of classes goes with labels of its own
    first, lengths : int64 (labelings,)
        Labeling i has the columns ``first[i] : first[i] + lengths[i]`` of ``labels``.
    classes : uint16 (rows, tokens)
    at : int64 (labelings,)
        Where its tokens begin in ``classes``.
    out : int64 (labelings, rules)
    """
    out[:] = 0
    values = np.zeros(sums.tallies, np.int64)
    if len(sums.rule) > 0:
        for i in range(len(lengths)):
            _add_excesses(sums, classes, at[i], labels, first[i], lengths[i], values, out[i])
    if runs is not None:
        _run_all(runs, labels, first, lengths, classes, at, out)


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
