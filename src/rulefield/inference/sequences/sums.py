r"""Distributions of sequences under rules: p(y) proportional to exp(score(y) - penalties(y)), hard rules obeyed.

A sequence is a walk, its rules multiply it (:mod:`rulefield.kernels.lattice.sums`), and as little as ``tolerance`` of the
mass is left out. Rules only cost: with :math:`Z` the mass in the product and :math:`d` a bound on the mass left out, a
labeling of mass m has a probability between :math:`m / (Z + d)` and :math:`m / Z`. If the product is too large, labelings
drawn from the plain walk and weighted by exp(-penalty) give probabilities with a standard error.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.data.sequences import ranges
from rulefield.inference.checker import amounts_of, costs_of
from rulefield.inference.flatten import Flat, flatten, local_edges
from rulefield.kernels.chain_walk import ATTEMPTS, chances_batch
from rulefield.kernels.lattice.machine import Machine, kinds_of, machine_of
from rulefield.problem.chain import ChainPotentials, Chains
from rulefield.problem.chain_rules import ChainProblem

TOLERANCE = 1e-6
"""Share of the probability mass that sums may leave out unless something else is asked for."""
MOST_NODES = 4_000
"""Nodes of a layer of a product."""
MOST_DENSE = 1 << 22
"""Tokens x labels x states up to which a chain is multiplied by the machine of its rules: 64 MB of sums."""
MOST_MACHINES = 16
"""Machines of the same rules that are kept, for different weights and kinds of tokens."""
DRAWS, ENOUGH = 2_000, 0.02
"""Labelings that are drawn and weighted if a product is too large and leaves out more than the second number."""

__all__ = ["ATTEMPTS", "Chances", "Question", "chances", "chances_of"]

EXACT, WITHIN, DRAWN, IMPOSSIBLE = 0, 1, 2, 3
REASONS = (
    "exact",
    "within the mass that was left out",
    "estimated from drawn labelings: the rules are too many for sums",
    "no labeling obeys the hard rules and the known labels",
)
"""How each probability was found, by its code."""


class Question(NamedTuple):
    """What is asked of sequences beyond the sum over their labelings."""

    marginals: bool = False
    spans: np.ndarray = np.zeros((0, 4), np.int64)
    """Segments (spans, 4): first token, token after the last, kind, level; tokens count from the sequence's first."""
    span_ptr: np.ndarray | None = None
    """Segments of sequence i are ``span_ptr[i] : span_ptr[i + 1]``."""
    starts: np.ndarray = np.zeros((1, 1, 1), np.bool_)
    kinds: np.ndarray = np.zeros((1, 1), np.int32)
    """Tables of :class:`rulefield.encode.spans.SegmentTable`: ``starts`` and ``type_of``."""
    k: int = 0
    uniform: np.ndarray = np.zeros(0)
    """Numbers in [0, 1), (draws x tokens,): those of sequence i, (draws, n), from ``draws * offsets[i]`` on."""


SUM_ONLY = Question()


class Chances(NamedTuple):
    """What sums say of sequences that lie one after the other, in arrays.

    The error of a probability p of a segment or a label is ``error`` x max(p, 1 - p), that of a whole labeling
    ``error`` x p.
    """

    log_partition: np.ndarray
    """Log of the sum of exp(score - penalties), (sequences,); ``-inf`` if no labeling is possible."""
    error: np.ndarray
    """Bound on the share of the mass that was left out, (sequences,)."""
    reason: np.ndarray
    """How each sum was found, int8 (sequences,): a place in ``REASONS``."""
    node: np.ndarray
    """Probabilities of labels (tokens, m), if asked for."""
    span: np.ndarray
    """Probabilities of segments (spans,)."""
    best: np.ndarray
    """The k best labelings, (k x tokens,): those of sequence i, (k, n), from ``k * offsets[i]`` on."""
    best_chance: np.ndarray
    """Their probabilities, (sequences, k); 0 if there are fewer."""
    drawn: np.ndarray
    """Labelings that were drawn, (draws x tokens,)."""

    def whole(self, objective: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of labelings of these objectives (sequences,), and their errors."""
        with np.errstate(invalid="ignore"):
            chance = np.exp(np.minimum(objective - self.log_partition, 0.0))
        chance = np.where(objective > -np.inf, chance, 0.0)
        return chance, chance * self.error


def chances(
    chains: Chains,
    rules: Sequence[Flat],
    which: np.ndarray,
    question: Question = SUM_ONLY,
    tolerance: float = TOLERANCE,
    most_nodes: int = MOST_NODES,
) -> Chances:
    """Sum over the labelings of chains; chain i has the rules ``rules[which[i]]``.

    Chains whose rules have the same tables go through one compiled call.
    """
    count, tokens, m = len(chains.steps), len(chains.unary), chains.unary.shape[1]
    found = Chances(
        np.zeros(count), np.zeros(count), np.zeros(count, np.int8),
        np.zeros((tokens if question.marginals else 0, m)),
        np.ones(len(question.spans)), np.zeros(question.k * tokens, np.int64), np.zeros((count, question.k)),
        np.zeros(len(question.uniform), np.int64),
    )  # fmt: skip
    filled = np.diff(chains.offsets) > 0
    for members in _groups(rules):
        numbers = np.flatnonzero(members[which] & filled)
        if len(numbers):
            _sum(chains, [rules[i] for i in which[numbers].tolist()], numbers, question, tolerance, most_nodes, found)
    for i in np.flatnonzero(found.reason == DRAWN).tolist():
        _estimate(chains, rules[which[i]], i, question, found)
    for i in np.flatnonzero(~filled).tolist():
        found.log_partition[i] = -_cost_of_nothing(rules[which[i]])
        found.reason[i] = EXACT if found.log_partition[i] > -np.inf else IMPOSSIBLE
        found.best_chance[i, :1] = 1.0
    return found


def _groups(rules: Sequence[Flat]) -> list[np.ndarray]:
    """Return which rules have the same tables and weights, (rules,) for each group."""
    if len(rules) == 1:
        return [np.ones(1, np.bool_)]
    groups: dict[tuple, list[int]] = {}
    for k, own in enumerate(rules):
        flat = own.together or own
        groups.setdefault((id(flat.shared), flat.tables.weight.tobytes()), []).append(k)
    return [np.isin(np.arange(len(rules)), members) for members in groups.values()]


def _sum(
    chains: Chains,
    rules: list[Flat],
    numbers: np.ndarray,
    question: Question,
    tolerance: float,
    most_nodes: int,
    found: Chances,
) -> None:
    """Fill what is found of some chains, whose rules have the same tables."""
    flat = rules[0].together or rules[0]
    classes = np.concatenate([(r.together or r).classes.ravel() for r in rules])
    own, draws = chains.of(numbers), len(question.uniform) // max(len(chains.unary), 1)
    begins, lengths = chains.offsets[numbers], np.diff(chains.offsets)[numbers]
    rows = ranges(begins, lengths)
    ptr = np.zeros(len(chains.steps) + 1, np.int64) if question.span_ptr is None else question.span_ptr
    asked = ranges(ptr[numbers], np.diff(ptr)[numbers])
    own_ptr = np.concatenate([[0], np.cumsum(np.diff(ptr)[numbers])])
    at_best, at_draws = ranges(question.k * begins, question.k * lengths), ranges(draws * begins, draws * lengths)
    log_mass, left_out, full = np.empty(len(rules)), np.empty(len(rules)), np.empty(len(rules), np.bool_)
    node, span = np.zeros((len(rows) if question.marginals else 0, chains.unary.shape[1])), np.zeros(len(asked))
    best, chance = np.zeros(len(at_best), np.int64), np.zeros((len(rules), question.k))
    drawn = np.zeros(len(at_draws), np.int64)
    machine = _machine(flat, classes, own.offsets)
    chances_batch(
        own.unary, own.pairwise, own.offsets, own.steps, flat.tables, flat.shared.terms.rows, classes, *machine,
        flat.shared.folds, local_edges(flat.tables), tolerance, most_nodes, MOST_DENSE, log_mass, left_out, full, node,
        question.spans[asked], own_ptr, question.starts, question.kinds, span, question.k, best, chance,
        question.uniform[at_draws], drawn,
    )  # fmt: skip
    found.log_partition[numbers], found.error[numbers] = log_mass, left_out
    reason = np.where(log_mass == -np.inf, IMPOSSIBLE, np.where(left_out > 0, WITHIN, EXACT))
    unread = bool(flat.shared.rows_only) | (full & (left_out > max(tolerance, ENOUGH)))
    found.reason[numbers] = np.where(unread, DRAWN, reason)
    if question.marginals:
        found.node[rows] = node
    found.span[asked], found.best[at_best], found.best_chance[numbers], found.drawn[at_draws] = (
        span,
        best,
        chance,
        drawn,
    )


def _machine(flat: Flat, classes: np.ndarray, offsets: np.ndarray) -> tuple[Machine, np.ndarray]:
    """Return the machine of the rules, kept for other chains with tokens of the same kinds, and the kind of each token."""
    shared, terms = flat.shared, flat.shared.terms.rows
    kinds, kind = token_kinds(terms, classes, offsets)
    key = flat.tables.weight.tobytes(), kinds.tobytes()
    made = shared.machines.get(key)
    if made is None:
        made = machine_of(flat.tables, terms, kinds, shared.n_labels)
        if len(shared.machines) >= MOST_MACHINES:
            shared.machines.clear()
        shared.machines[key] = made
    return made, kind


def token_kinds(terms: np.ndarray, classes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the token classes of each kind of token that rules tell apart, (kinds, terms), and the kind of each token."""
    kind = np.zeros(offsets[-1], np.int64)
    if not classes.any():
        return np.zeros((1, len(terms)), np.int64), kind
    rules = len(classes) // max(int(offsets[-1]), 1)
    return kinds_of(terms, classes, offsets, rules, kind), kind


def _estimate(chains: Chains, rules: Flat, i: int, question: Question, found: Chances) -> None:
    """Fill what labelings drawn from chain ``i`` without its rules, weighted by exp(-penalty), say of it under them."""
    first, last = int(chains.offsets[i]), int(chains.offsets[i + 1])
    n, m = last - first, chains.unary.shape[1]
    one, alone = chains.of(np.array([i])), np.zeros(1, np.int64)
    uniform = np.random.default_rng([n, m]).random(DRAWS * n)
    plain = chances(one, [flatten((), m)], alone, Question(uniform=uniform), 0.0, most_nodes=m)
    rows, times = np.unique(plain.drawn.reshape(DRAWS, n), axis=0, return_counts=True)
    costs = costs_of(rules, amounts_of(rules, rows))
    weight = times * np.exp(-costs)
    total = float(weight.sum())
    left_out = 1.0 if rules.shared.rows_only else found.error[i]
    error = float(np.sqrt((weight**2 / times).sum()) / total) if total > 0.0 else 1.0
    if error >= left_out:
        found.error[i], found.reason[i] = left_out, IMPOSSIBLE if found.log_partition[i] == -np.inf else WITHIN
        return
    found.error[i] = error
    found.log_partition[i] = plain.log_partition[0] + np.log(total / DRAWS)
    share = weight / total
    if question.marginals:
        found.node[first:last] = 0.0
        for t in range(n):
            np.add.at(found.node[first + t], rows[:, t], share)
    if question.span_ptr is not None:
        for s in range(int(question.span_ptr[i]), int(question.span_ptr[i + 1])):
            found.span[s] = float(share[_holds(rows, question, s)].sum())
    pairwise = chains.pairwise[slice(*chains.steps[i])]
    potentials = ChainPotentials(chains.unary[first:last], pairwise[0] if len(pairwise) == 1 else pairwise)
    order = np.argsort(-(potentials.scores(rows) - costs), kind="stable")[: question.k]
    found.best_chance[i] = 0.0
    found.best_chance[i, : len(order)] = share[order]
    found.best[question.k * first : question.k * first + len(order) * n] = rows[order].ravel()
    draws = len(question.uniform) // max(len(chains.unary), 1)
    picks = np.searchsorted(np.cumsum(share), question.uniform[draws * first : draws * last].reshape(draws, n)[:, 0])
    found.drawn[draws * first : draws * last] = rows[np.minimum(picks, len(rows) - 1)].ravel()


def _holds(rows: np.ndarray, question: Question, s: int) -> np.ndarray:
    """Return which labelings (labelings, n) hold segment ``s``."""
    begin, stop, kind, level = question.spans[s].tolist()
    starts, kinds = question.starts[level], question.kinds[level]
    before = np.hstack([np.full((len(rows), 1), len(kinds)), rows[:, :-1]])
    begins, goes_on = starts[before, rows], (kinds[rows] >= 0) & ~starts[before, rows]
    holds = (
        begins[:, begin] & (kinds[rows[:, begin:stop]] == kind).all(axis=1) & goes_on[:, begin + 1 : stop].all(axis=1)
    )
    return holds & ~goes_on[:, stop] if stop < rows.shape[1] else holds


def _cost_of_nothing(rules: Flat) -> float:
    """Return what rules cost a sequence without tokens."""
    return float(costs_of(rules, amounts_of(rules, np.zeros((1, 0), np.int64)))[0])


def chances_of(
    problem: ChainProblem, question: Question = SUM_ONLY, tolerance: float = 0.0, most_nodes: int = MOST_NODES
) -> Chances:
    """Sum over the labelings of one chain."""
    p = problem.potentials
    pairwise = (
        np.ascontiguousarray(p.pairwise_stack, np.float64) if p.n_steps > 1 else np.zeros((1, p.n_states, p.n_states))
    )
    unary = np.ascontiguousarray(p.unary, np.float64)
    chains = Chains(unary, pairwise, np.array([0, p.n_steps]), np.array([[0, len(pairwise)]]))
    return chances(
        chains, [flatten(problem.rules, p.n_states)], np.zeros(1, np.int64), question, tolerance, most_nodes
    )
