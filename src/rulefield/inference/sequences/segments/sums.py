"""Distributions over segmentations under rules: p(s) proportional to exp(score(s) - penalties(s)), hard rules obeyed.

The segment lattice is a walk, and rules multiply it as they multiply a chain (:mod:`rulefield.kernels.lattice.sums`). If
only labels are asked for, dense sums over the states of the rules do (:mod:`rulefield.kernels.lattice.dense`).
"""

from typing import NamedTuple

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.sequences.segments.search import SegmentSearch
from rulefield.inference.sequences.sums import (
    ATTEMPTS,
    EXACT,
    IMPOSSIBLE,
    MOST_DENSE,
    MOST_NODES,
    SUM_ONLY,
    WITHIN,
    Chances,
    Question,
    chances_of,
    token_kinds,
)
from rulefield.kernels.chain_walk import LEAST_SHARE
from rulefield.kernels.lattice.dense import dense_before, dense_marginals
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.lattice.machine import Machine, machine_of
from rulefield.kernels.lattice.sums import Ruled, slots_of, sums_ahead, under_rules
from rulefield.kernels.lattice.walk import (
    lattice_walk,
    node_masses,
    span_masses,
    walk_kbest,
    walk_marginals,
    walk_samples,
)
from rulefield.problem.segments import SegmentProblem

LATTICE_NODES = 2_000_000
"""Largest segment lattice."""


def segment_chances(
    problem: SegmentProblem, question: Question = SUM_ONLY, tolerance: float = 0.0, most_nodes: int = MOST_NODES
) -> Chances:
    """Sum over the segmentations of one sequence; labels are those of its spelling."""
    n, m, k = problem.potentials.n_steps, problem.spelling.n_labels, question.k
    if n == 0:
        return chances_of(problem.chain_of_nothing, question)
    draws = len(question.uniform) // n
    found = Chances(
        np.full(1, -np.inf), np.zeros(1), np.full(1, IMPOSSIBLE, np.int8), np.zeros((n, m)),
        np.zeros(len(question.spans)), np.zeros(k * n, np.int64), np.zeros((1, k)), np.zeros(draws * n, np.int64),
    )  # fmt: skip
    search = SegmentSearch(problem)
    if search.bound == -np.inf:
        return found
    plain = _lattice(search)
    if plain.log_mass == -np.inf:
        return found
    if not k and not draws and not len(question.spans):
        dense = _by_machine(search, plain, tolerance, found.node)
        if dense is not None:
            found.log_partition[0], found.error[0] = dense[0] + search.shift, dense[1]
            found.reason[0] = WITHIN if dense[1] > 0 else EXACT
            return found
    ruled = _under_rules(search, plain, tolerance, most_nodes, k)
    if ruled.log_mass == -np.inf:
        return found
    found.log_partition[0] = ruled.log_mass + search.shift
    found.error[0], found.reason[0] = ruled.left_out, WITHIN if ruled.left_out > 0 else EXACT
    mass = node_masses(ruled.walk)
    walk_marginals(ruled.walk, mass, found.node)
    span_masses(ruled.walk, mass, question.spans, question.starts, question.kinds, found.span)
    if k:
        walk_kbest(ruled.walk, k, found.best.reshape(k, n), found.best_chance[0])
    if draws:
        walk_samples(ruled.walk, question.uniform.reshape(draws, n), found.drawn.reshape(draws, n))
    return found


class PlainSums(NamedTuple):
    """The whole segment lattice, the log of what follows each node, and the log of its mass, shifted."""

    lattice: Lattice
    ahead: np.ndarray
    log_mass: float


def _lattice(search: SegmentSearch) -> PlainSums:
    lattice = search.lattice(-np.inf, LATTICE_NODES)
    if lattice is None:
        raise InputError(
            f"the segment lattice of {search.problem.potentials.n_steps} tokens has more than {LATTICE_NODES} "
            "nodes; fit with a smaller max_length."
        )
    ahead = np.empty(len(lattice.label))
    return PlainSums(lattice, ahead, float(sums_ahead(lattice, ahead)))


def _by_machine(
    search: SegmentSearch, plain: PlainSums, tolerance: float, node: np.ndarray
) -> tuple[float, float] | None:
    """Add probabilities of labels to ``node``; return the log of the mass and a bound on what was left out.

    None if the rules need too many states, or leave too little.
    """
    kinds, kind = token_kinds(search.terms, search.classes.ravel(), np.array([0, search.classes.shape[1]]))
    machine: Machine = machine_of(search.tables, search.terms, kinds, search.m)
    if not machine.fits or len(plain.ahead) * len(machine.end) > MOST_DENSE:
        return None
    loss = 0.5 * tolerance
    for attempt in range(ATTEMPTS):
        walk = lattice_walk(*plain, 0.0 if attempt == ATTEMPTS - 1 else loss)
        before = np.zeros((len(walk.label), len(machine.end)))
        mass = float(dense_before(walk, machine, kind, before))
        if mass < LEAST_SHARE:
            return None
        left_out = walk.left_out / (walk.left_out + mass)
        if left_out <= tolerance:
            dense_marginals(walk, machine, kind, before, mass, node)
            return plain.log_mass + float(np.log(mass)), left_out
        loss *= max(1e-9, 0.25 * tolerance / left_out)
    return None


def _under_rules(search: SegmentSearch, plain: PlainSums, tolerance: float, most_nodes: int, k: int) -> Ruled:
    """Multiply the whole segment lattice by its rules; ``log_mass`` is that of all segmentations, shifted."""
    rules = search.tables, search.terms, search.classes, search.m, *slots_of(search.tables)
    wanted, loss = tolerance, 0.5 * tolerance
    best, chance = np.zeros((k, search.classes.shape[1]), np.int64), np.zeros(k)
    for attempt in range(ATTEMPTS):
        loss = 0.0 if attempt == ATTEMPTS - 1 else loss
        walk = lattice_walk(*plain, loss)
        ruled = under_rules(walk, *rules, loss, most_nodes, False)
        if ruled.left_out == 0.0 or ruled.full:
            break
        if ruled.log_mass > -np.inf:
            if k:
                count = walk_kbest(ruled.walk, k, best, chance)
                wanted = min(tolerance, 0.5 * chance[k - 1] if count == k else 0.0)
            if ruled.left_out <= wanted:
                break
        loss *= 1e-6 if ruled.log_mass == -np.inf else max(1e-9, 0.25 * wanted / ruled.left_out)
    return ruled._replace(log_mass=ruled.log_mass + plain.log_mass)
