"""Dynamic programming over labels and the joint states of several automata, in one dense table.

A *kind* of a token with a label is what all chosen automata read there: one letter each. After reading its letter, an
automaton is in one of few states (``entered_states``); joint states of all of them are numbered per kind, and what a step
from one kind to another does to them is tabulated once, however often it occurs.
"""

from typing import NamedTuple

import numpy as np

from rulefield.kernels.arrays import doubled
from rulefield.kernels.jit import kernel
from rulefield.kernels.lattice.lattice import Lattice


class JointSteps(NamedTuple):
    """What reading a kind does to joint states.

    From state s by pair p with branch b there is an arc at ``at[p] + b * states + s``, ``states`` those of the first kind.
    """

    pair: (
        np.ndarray
    )  # int64 (kinds + 1, kinds): number of the step between two kinds, the last row from before all tokens
    at: np.ndarray  # int64 (pairs,)
    branches: np.ndarray  # int64 (pairs,)
    states: np.ndarray  # int64 (kinds + 1,): joint states of each kind, the last before all tokens
    to: np.ndarray  # int32 (arcs,)
    cost: np.ndarray  # float64 (arcs,), inf where there is no arc
    final: np.ndarray  # float64 (kinds, states): what ending there costs, inf where that is not allowed


class Readers(NamedTuple):
    """The chosen automata: after reading a letter, each is in one of few states, its *slots*."""

    arcs_at: np.ndarray  # int64 (automata,): where the arc pointers of each begin in the rules' tables
    letters: np.ndarray  # int64 (automata,)
    weight: np.ndarray  # float64 (automata,), inf where hard
    slot: np.ndarray  # int64 (automata, letters, states): slot of a state after a letter, -1 where it does not follow
    state: np.ndarray  # int64 (automata, letters + 1, slots): the state of a slot; the last row before all tokens
    slots: np.ndarray  # int64 (automata, letters + 1)
    start: np.ndarray  # int64 (automata, states): what beginning in a state adds


@kernel
def most_branches(tables, readers, before, here):
    """Largest number of arcs that a joint state has when ``here`` (automata,) is read after letters ``before``."""
    branches = np.int64(1)
    for k in range(len(here)):
        most = np.int64(0)
        for s in range(readers.slots[k, before[k]]):
            cell = readers.arcs_at[k] + readers.state[k, before[k], s] * readers.letters[k] + here[k]
            most = max(most, tables.arc_ptr[cell + 1] - tables.arc_ptr[cell])
        branches *= most
    return branches


@kernel
def fill_arcs(tables, readers, before, here, begins, states, branches, to, cost):
    """Fill ``to`` and ``cost`` (branches x states,) of reading ``here`` after ``before``; cost inf where no arc is."""
    automata = len(here)
    arc_to, arc_amount = tables.arc_to, tables.arc_amount
    first, after, arc = (np.zeros(automata, np.int64), np.zeros(automata, np.int64), np.zeros(automata, np.int64))
    owed = np.zeros(automata, np.int64)
    for s in range(states):
        rest = s
        more = True
        for k in range(automata):
            count = readers.slots[k, before[k]]
            state = readers.state[k, before[k], rest % count]
            rest //= count
            cell = readers.arcs_at[k] + state * readers.letters[k] + here[k]
            first[k], after[k] = tables.arc_ptr[cell], tables.arc_ptr[cell + 1]
            arc[k] = first[k]
            owed[k] = readers.start[k, state] if begins else 0
            more = more and first[k] < after[k]
        for b in range(branches):
            place = np.int64(0)
            radix = np.int64(1)
            total = 0.0 if more else np.inf
            for k in range(automata if more else 0):
                place += radix * readers.slot[k, here[k], arc_to[arc[k]]]
                radix *= readers.slots[k, here[k]]
                amount = owed[k] + arc_amount[arc[k]]
                if amount != 0:
                    total += readers.weight[k] * amount
            to[b * states + s] = place
            cost[b * states + s] = total
            k = 0
            while more and k < automata:  # the next combination of arcs
                arc[k] += 1
                if arc[k] < after[k]:
                    break
                arc[k] = first[k]
                k += 1
            more = more and k < automata


@kernel
def joint_steps(tables, readers, kinds, pairs, states, most_arcs):
    """Tabulate steps between kinds (kinds + 1, automata): (at, branches, to, cost); empty where there are too many arcs."""
    at = np.zeros(len(pairs), np.int64)
    branches = np.zeros(len(pairs), np.int64)
    used = np.int64(0)
    for p in range(len(pairs)):
        at[p] = used
        branches[p] = most_branches(tables, readers, kinds[pairs[p, 0]], kinds[pairs[p, 1]])
        used += branches[p] * states[pairs[p, 0]]
        if used > most_arcs:
            return at[:0], branches, np.zeros(0, np.int32), np.zeros(0)
    to, cost = np.zeros(used, np.int32), np.zeros(used)
    for p in range(len(pairs)):
        before, here = pairs[p]
        begins = before == len(kinds) - 1
        fill_arcs(
            tables, readers, kinds[before], kinds[here], begins, states[before], branches[p], to[at[p] :], cost[at[p] :]
        )  # fmt: skip
    return at, branches, to, cost


@kernel
def joint_completions(unary, arriving, kind, steps, ahead, stop):
    """Fill ``ahead`` (n, m, states): best score after a token, its label and state. O(n m^2 states); False if stopped."""
    n, m = unary.shape
    last = len(arriving) - 1
    for here in range(m):
        for s in range(steps.states[kind[n - 1, here]]):
            ahead[n - 1, here, s] = -steps.final[kind[n - 1, here], s]
    for back in range(n - 1):
        t = n - 1 - back
        if stop[0]:
            return False
        step = min(t - 1, last)
        for here in range(m):
            before = kind[t - 1, here]
            row = ahead[t - 1, here, : steps.states[before]]
            row[:] = -np.inf
            for to in range(m if unary[t - 1, here] > -np.inf else 0):
                score = arriving[step, to, here] + unary[t, to]
                if score > -np.inf:
                    p = steps.pair[before, kind[t, to]]
                    for b in range(steps.branches[p]):
                        at = steps.at[p] + b * len(row)
                        raise_row(
                            row, score, steps.to[at : at + len(row)], steps.cost[at : at + len(row)], ahead[t, to]
                        )
    return True


@kernel
def raise_row(row, score, to, cost, following):
    """Take the better of each state's value and what an arc from it leads to."""
    for s in range(len(row)):
        row[s] = max(row[s], score - cost[s] + following[to[s]])


@kernel
def joint_bound(unary, kind, steps, ahead):
    """Best score of a whole path."""
    start = len(steps.pair) - 1
    best = -np.inf
    for here in range(unary.shape[1]):
        p = steps.pair[start, kind[0, here]]
        for a in range(steps.at[p], steps.at[p] + steps.branches[p] * steps.states[start]):
            best = max(best, unary[0, here] - steps.cost[a] + ahead[0, here, steps.to[a]])
    return best


class _Growing(NamedTuple):
    """A lattice while it is built: used parts are in front, ``size`` = (nodes, arcs)."""

    label: np.ndarray
    code: np.ndarray
    reach: np.ndarray
    ahead: np.ndarray
    arc_ptr: np.ndarray
    arc_to: np.ndarray
    arc_score: np.ndarray
    size: np.ndarray


@kernel
def _growing(room):
    """Return an empty lattice with room."""
    label, code, arc_to = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    reach, ahead, arc_score = np.empty(room), np.empty(room), np.empty(room)
    return _Growing(label, code, reach, ahead, np.zeros(room, np.int64), arc_to, arc_score, np.zeros(2, np.int64))


@kernel
def with_room(lattice, nodes, arcs):
    """Return the lattice with room for so many more nodes and arcs."""
    label, code, reach, ahead, arc_ptr, arc_to, arc_score, size = lattice
    while size[0] + nodes > len(label):
        label, code, reach, ahead, arc_ptr = (
            doubled(label),
            doubled(code),
            doubled(reach),
            doubled(ahead),
            doubled(arc_ptr),
        )
    while size[1] + arcs > len(arc_to):
        arc_to, arc_score = doubled(arc_to), doubled(arc_score)
    return _Growing(label, code, reach, ahead, arc_ptr, arc_to, arc_score, size)


@kernel
def expand(lattice, place, threshold, node, scores, kinds, from_steps, state, states, steps, ahead, ends):
    """Add the arcs of ``node`` (-1: before all tokens) that lie on paths above ``threshold``, and the nodes they lead to.

    ``scores`` (m,) are those of a step to each label, ``kinds`` (m,) what is read there, ``from_steps`` (kinds,) the numbers
    of steps; ``place`` (m, states) knows the nodes of this layer. Where the chain ``ends`` here, so does what is ahead: it is
    part of the step's score.
    """
    label, code, reach, rest = lattice.label, lattice.code, lattice.reach, lattice.ahead
    arc_to, arc_score, size = lattice.arc_to, lattice.arc_score, lattice.size
    first, branches, step_to, step_cost = steps.at, steps.branches, steps.to, steps.cost
    nodes, arcs = size
    so_far = 0.0 if node < 0 else reach[node]
    for to in range(len(scores)):
        if scores[to] == -np.inf:
            continue
        p = from_steps[kinds[to]]
        for b in range(branches[p]):
            a = first[p] + b * states + state
            total = scores[to] - step_cost[a]
            onward = ahead[to, step_to[a]]
            if not (onward > -np.inf and so_far + total + onward > threshold):
                continue
            if ends:
                total, onward = total + onward, 0.0
            j = np.int64(place[to, step_to[a]])
            if j < 0:
                j = nodes
                nodes += 1
                place[to, step_to[a]] = j
                label[j], code[j], reach[j], rest[j] = to, step_to[a], -np.inf, onward
            reach[j] = max(reach[j], so_far + total)
            if node >= 0:
                arc_to[arcs], arc_score[arcs] = j, total
                arcs += 1
    size[0], size[1] = nodes, arcs
    if node >= 0:
        lattice.arc_ptr[node + 1] = arcs


@kernel
def joint_lattice(unary, arriving, kind, steps, ahead, threshold, most_nodes, most_arcs):
    """Return (done, lattice of labels and joint states on paths that beat ``threshold``); not done where it is too large."""
    n, m = unary.shape
    last, start = len(arriving) - 1, len(steps.pair) - 1
    most = steps.branches.max() * m
    layer = np.zeros(n + 1, np.int64)
    place = np.full((m, ahead.shape[2]), -1, np.int32)
    scores = np.empty((m, m))
    lattice = _growing(4096)
    for t in range(n):
        for here in range(m if t > 0 else 0):
            for to in range(m):
                scores[here, to] = unary[t, to] + arriving[min(t - 1, last), to, here]
        for i in range(0 if t == 0 else layer[t - 1], steps.states[start] if t == 0 else layer[t]):
            if lattice.size[0] > most_nodes or lattice.size[1] > most_arcs:
                break
            if lattice.size[0] + most >= len(lattice.label) or lattice.size[1] + most > len(lattice.arc_to):
                lattice = with_room(lattice, most + 1, most)
            if t == 0:
                expand(
                    lattice, place, threshold, -1, unary[0], kind[0], steps.pair[start], i, steps.states[start],
                    steps, ahead[0], n == 1,
                )  # fmt: skip
                continue
            here = lattice.label[i]
            before = kind[t - 1, here]
            expand(
                lattice, place, threshold, i, scores[here], kind[t], steps.pair[before], lattice.code[i],
                steps.states[before], steps, ahead[t], t == n - 1,
            )  # fmt: skip
        layer[t + 1] = lattice.size[0]
        for j in range(layer[t], layer[t + 1]):
            place[lattice.label[j], lattice.code[j]] = -1
    nodes, arcs = lattice.size
    for i in range(layer[n - 1], nodes):
        lattice.arc_ptr[i + 1] = arcs
    done = nodes <= most_nodes and arcs <= most_arcs
    label, reach, onward = lattice.label[:nodes], lattice.reach[:nodes], lattice.ahead[:nodes]
    ptr, arc_to, arc_score = lattice.arc_ptr[: nodes + 1], lattice.arc_to[:arcs], lattice.arc_score[:arcs]
    return done, Lattice(layer, label, reach, onward, ptr, arc_to, arc_score)
