"""Dual decomposition with hard and soft rules ([Anzaroot14], algorithms 1 and 2)."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite

import numpy as np

from rulefield.inference.flatten import Term
from rulefield.inference.limits import NO_DEADLINE, Deadline
from rulefield.inference.relaxation import Prices, Relaxation
from rulefield.inference.result import SLACK, Result
from rulefield.inference.sequences.prepare import Prepared
from rulefield.kernels.certificate import proves
from rulefield.kernels.lattice.dual import completions, dual_error, path_score, priced, soft_dd
from rulefield.kernels.lattice.first import OPEN, first_answers, path_answers
from rulefield.kernels.lattice.prices import price_automaton
from rulefield.kernels.lattice.rule_tables import RuleTables

MOST_NODES = 2_500_000
"""Nodes of the largest lattice (about 200 MB)."""

FEW_STATES = 8
"""States of a rule that a product hardly grows by."""

MOST_PASSES = 80
"""Passes over the chain that a stage may take for better duals: most gain comes in the first 30."""

ARCS_PER_UNIT = 50
"""Arcs of a lattice looked at per unit of work: 25 to 50 nanoseconds each (fitted to 900 refinements of six families)."""

STEPS_PER_UNIT = 400
"""Steps between labels in passes over a chain per unit of work: 2.5 to 5 nanoseconds each."""


@dataclass
class Progress:
    """What is known of a problem so far; engines take it from one another."""

    prepared: Prepared
    labels: np.ndarray
    duals: np.ndarray  # (counters,): the duals behind the best dual bound
    lowered: np.ndarray
    """(n, m): unary scores minus what rules read by automata are sure to cost; ``constant`` belongs to it."""
    best: float = -np.inf
    """Value of ``labels`` (constants taken out); ``-inf`` while no labeling that obeys the hard rules is known."""
    bound: float = np.inf  # no labeling has a higher value; rounding errors are added to it
    constant: float = 0.0
    iterations: int = 0
    nodes: int = 0  # work done so far, in units of 1 to 2 microseconds; ``charge`` adds to it, up to ``most_nodes``
    most_nodes: float = np.inf
    priced: tuple[int, ...] = ()  # places of the rules that it was lowered by, in this order
    terms: dict[Term, float] = field(default_factory=dict)
    """Pieces of rules that were in conflict so far, and by how much each made its lattice grow."""
    step: float = 0.0  # height of the next window that the product searches; 0 while that is to be chosen
    window_units: int = 0  # work of the last window that the product searched to its end
    deadline: Deadline = NO_DEADLINE

    @classmethod
    def start(cls, prepared: Prepared) -> "Progress":
        """Nothing known."""
        labels, duals = np.zeros(len(prepared.unary), np.int64), np.zeros(len(prepared.caps))
        return cls(prepared, labels, duals, prepared.unary)

    @cached_property
    def prices(self) -> dict[int, Prices]:
        """What each soft rule of ``priced`` took off, worked out again: few problems ask for it.

        By place: (weight x price (n, m), least amounts to come (n, states), weight x base).
        """
        prepared, tables = self.prepared, self.prepared.tables
        lowered, found = prepared.unary.copy(), {}
        for r in self.priced:
            charged = np.empty_like(lowered)
            to_come = np.zeros((len(lowered), tables.states[tables.rule_automaton[r]]), np.int64)
            _, base = price_automaton(tables, prepared.classes[r], r, lowered, charged, to_come)
            if tables.weight[r] < np.inf:
                found[r] = charged, to_come, float(tables.weight[r]) * base
        return found

    @property
    def slack(self) -> float:
        """Improvements smaller than this are not looked for."""
        return 0.0 if self.best == -np.inf else SLACK + self.prepared.error(self.best)

    @property
    def settled(self) -> bool:
        """Whether the bound proves the best labeling, or that there is none."""
        if self.best == -np.inf:
            return self.bound == -np.inf
        return proves(self.bound, self.best, self.prepared.error(self.best))

    @property
    def objective(self) -> float:
        """Objective of the best labeling."""
        return self.best + self.prepared.offset

    @property
    def objective_bound(self) -> float:
        """No labeling has a higher objective."""
        return self.bound + self.prepared.offset

    @cached_property
    def pass_units(self) -> int:
        """Units of work of one pass over the chain: forbidden steps cost next to nothing."""
        arriving = self.prepared.arriving
        steps = int(np.count_nonzero(arriving > -np.inf)) * (len(self.labels) if len(arriving) == 1 else 1)
        return 1 + steps // (4 * STEPS_PER_UNIT)  # vector code

    def charge(self, units: int) -> None:
        """Count work; a limit that one call could not keep counts as met."""
        self.nodes = int(min(self.nodes + units, self.most_nodes))

    def charge_arcs(self, relaxation: Relaxation) -> None:
        """Count the work of a relaxation since it was counted last, and one unit for the call."""
        self.charge(relaxation.take_work() // ARCS_PER_UNIT + 1)

    def offer(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Judge a labeling by all rules and keep it if it is the best so far; return its amounts and excesses."""
        prepared = self.prepared
        amounts, excesses, cost = prepared.amounts(labels)
        value = float(path_score(prepared.unary, prepared.arriving, labels)) - cost
        if value > self.best:
            self.best = value
            self.labels[:] = labels
        return amounts, excesses

    def result(self, engine: str, iterations: int) -> Result:
        """Return the answer as it stands."""
        found = self.prepared.answer(self.labels, self.best, self.bound, engine, iterations)
        return replace(found, multipliers=self.duals)


@dataclass
class DualPotentials:
    """Potentials minus what the duals charge, and their completions; scores have ``constant`` added."""

    unary: np.ndarray
    arriving: np.ndarray
    ahead: np.ndarray
    constant: float
    duals: np.ndarray
    progress: Progress

    @property
    def current(self) -> bool:
        """Whether no better duals were found since."""
        return self.duals is self.progress.duals

    @property
    def error(self) -> float:
        """Bound on what rounding may hide of the score of a path that is as good as the best labeling known."""
        known = self.progress
        near = max((abs(x) for x in (known.bound, known.best) if isfinite(x)), default=0.0)
        return float(dual_error(known.prepared.tables, self.duals, len(self.unary), known.constant, near))


def run_soft_dd(progress: Progress, max_iterations: int, paper_stop: bool = False) -> bool:
    """Run the kernel, take over what it found; return whether its stopping test held."""
    prepared = progress.prepared
    labels = np.zeros_like(progress.labels)
    bound, best, iterations, converged = soft_dd(
        prepared.unary,
        prepared.arriving,
        progress.lowered,
        progress.constant,
        prepared.tables,
        prepared.classes,
        prepared.caps,
        max_iterations,
        paper_stop,
        progress.duals,
        labels,
    )
    progress.bound = min(progress.bound, float(bound))
    if prepared.flat.shared.rows_only:
        progress.offer(labels)  # the kernel does not know what all rules cost
    elif best > progress.best:
        progress.best = float(best)
        progress.labels[:] = labels
    progress.iterations += iterations
    return bool(converged)


def dual_potentials(progress: Progress) -> DualPotentials:
    """Return the potentials under the best duals."""
    prepared = progress.prepared
    unary, arriving = priced(progress.lowered, prepared.arriving, prepared.tables, prepared.classes, progress.duals)
    ahead = np.empty_like(unary)
    completions(unary, arriving, ahead)
    constant = progress.constant + float(progress.duals @ prepared.tables.counter_bound)
    return DualPotentials(unary, arriving, ahead, constant, progress.duals, progress)


def run_first(
    unary: np.ndarray, arriving: np.ndarray, tokens: np.ndarray, steps: np.ndarray, tables: RuleTables, classes: np.ndarray,
    caps: np.ndarray, iterations: int, path_nodes: int, labels: np.ndarray, lowered: np.ndarray, duals: np.ndarray,
    order: np.ndarray, values: np.ndarray, effort: np.ndarray,
) -> None:  # fmt: skip
    """Run duals, then paths for the chains left open; arguments as in :mod:`rulefield.kernels.lattice.first`.

    Only what the form of the rules needs is compiled: no automata where no rule has one, no paths where duals settle all.
    """
    chains = unary, arriving, tokens, steps, tables, classes
    automata = True if len(tables.states) else None
    first_answers(*chains, caps, iterations, automata, labels, lowered, duals, order, values, effort)
    if path_nodes > 0 and (effort[:, 0] == OPEN).any():
        path_answers(*chains, path_nodes, labels, lowered, duals, values, effort)


def run_duals(progress: Progress, max_iterations: int, path_nodes: int = 0) -> int:
    """Soft-DD, with rules read by automata folded in as far as their breaking is sure to cost; then, if asked for, paths.

    Paths come in the order of their score under the duals, which bounds their objective, until none can beat the best or
    ``path_nodes`` search nodes are used. Nothing must be known of the problem yet. Returns who taught something last, by a
    number of :mod:`rulefield.kernels.lattice.first`.
    """
    prepared = progress.prepared
    n, rules = len(prepared.unary), len(prepared.tables.weight)
    progress.lowered, order = np.empty_like(prepared.unary), np.empty((1, rules), np.int64)
    values, effort = np.empty((1, 3)), np.empty((1, 4), np.int64)
    places = np.array([0, n]), np.array([[0, len(prepared.arriving)]])
    run_first(
        prepared.unary, prepared.arriving, *places, prepared.tables, prepared.classes.ravel(), prepared.caps[None],
        max_iterations, path_nodes, progress.labels, progress.lowered, progress.duals[None], order, values, effort,
    )  # fmt: skip
    progress.bound, best, progress.constant = values[0].tolist()
    last, progress.iterations, progress.nodes, count = effort[0].tolist()
    progress.priced = tuple(order[0, :count].tolist())
    if prepared.flat.shared.rows_only:
        progress.offer(progress.labels)  # the kernel does not know what all rules cost
    else:
        progress.best = best
    return int(last)
