"""A lattice of partial labelings in which some rules are exact and the others are priced, or ignored."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.flatten import Term, Terms
from rulefield.inference.limits import RUNNING
from rulefield.kernels.lattice.lattice import Lattice, fill_ahead
from rulefield.kernels.lattice.refine import refine_by_automaton, refine_by_counters
from rulefield.kernels.lattice.rule_tables import RuleTables
from rulefield.kernels.lattice.terms import worst_term

Prices = tuple[np.ndarray, np.ndarray, float]
"""What a lattice charges for an automaton: weight x price (n, m), least amounts to come (n, states), weight x base."""

UNLIMITED = 1 << 55

ARCS_OF_PASS = 8
"""Arcs of one pass that cost as much as looking at one arc while refining (fitted to 40 calls)."""

_NO_PRICES: Prices = np.zeros((0, 0)), np.zeros((0, 0), np.int64), 0.0


def charged_lattice(lattice: Lattice, tables: RuleTables, classes: np.ndarray, m: int, rates: np.ndarray) -> Lattice:
    """Return a lattice that charges ``rates`` (counters,) for what each counter collects; ``inf`` forbids.

    ``ahead`` stays as it was. O(arcs x counters with a rate).
    """
    layer, label, to = lattice.layer, lattice.label, lattice.arc_to
    step = np.repeat(np.arange(len(layer) - 1), np.diff(layer))
    source = np.repeat(np.arange(len(label)), np.diff(lattice.arc_ptr))
    reach, score = lattice.reach.copy(), lattice.arc_score.copy()
    for c in np.flatnonzero(rates).tolist():
        kind = classes[tables.counter_rule[c]].astype(np.int64)[step] * m
        begins = tables.node[tables.first_at[c] + (kind + label)[: layer[1]]]
        gains = tables.node[tables.node_at[c] + (kind + label)[to]].astype(np.int64)
        if tables.edge_at[c] >= 0:
            gains += tables.edge[tables.edge_at[c] + (kind[to] + label[source]) * m + label[to]]
        hard = rates[c] == np.inf
        reach[: layer[1]] -= np.where(begins, np.inf, 0.0) if hard else rates[c] * begins
        score -= np.where(gains, np.inf, 0.0) if hard else rates[c] * gains
    reach[layer[1] :] = -np.inf
    for t in range(len(layer) - 2):
        arcs = slice(int(lattice.arc_ptr[layer[t]]), int(lattice.arc_ptr[layer[t + 1]]))
        np.maximum.at(reach, to[arcs], reach[source[arcs]] + score[arcs])
    return lattice._replace(reach=reach, arc_score=score)


@dataclass
class Relaxation:
    """A lattice in which some terms of the rules are exact and the others are priced by duals, or ignored.

    Its best path bounds the objective; where that path is charged what it truly costs, it is optimal.
    """

    tables: RuleTables
    classes: np.ndarray
    n_labels: int
    lattice: Lattice
    constant: float
    duals: np.ndarray
    prices: dict[int, Prices]
    terms: Terms

    def __post_init__(self) -> None:
        self.waiting = np.ones(len(self.terms), np.bool_)
        self.work = 0

    @property
    def left(self) -> bool:
        """Whether a term is not exact yet."""
        return bool(self.waiting.any())

    def add(
        self, term: Term, threshold: float, limit: int, most_work: int = UNLIMITED, stop: np.ndarray = RUNNING
    ) -> bool:
        """Make one term exact; False, and nothing changed, where it would pass a limit or was stopped.

        ``limit`` is for nodes, ``most_work`` for arcs looked at (counted in ``work``).
        """
        of_rule = self.lattice, self.tables, self.classes[term.rule], self.n_labels, term.rule
        bounds = self.constant, threshold, limit, most_work, stop
        if term.high > term.low:
            done, lattice, constant, work = refine_by_counters(*of_rule, term.low, term.high, self.duals, *bounds)
        else:
            prices = self.prices.get(term.rule, _NO_PRICES)
            done, lattice, constant, work = refine_by_automaton(*of_rule, *prices, *bounds)
        self.work += work
        if not done:
            return False
        self.lattice, self.constant = lattice, constant
        self.duals[term.low : term.high] = 0.0
        self.waiting[self.terms.index(term)] = False
        return True

    def take_work(self) -> int:
        """Return the work since the last call, in arcs looked at."""
        work, self.work = self.work, 0
        return work

    def bound(self, threshold: float) -> float:
        """Return the best value of a path, ``-inf`` if no path beats the threshold."""
        self.work += len(self.lattice.arc_to) // ARCS_OF_PASS
        return float(fill_ahead(self.lattice, threshold - self.constant)) + self.constant

    def mischarged(self, labels: np.ndarray, excesses: np.ndarray, amounts: np.ndarray) -> Term:
        """Of the terms left, the one whose true cost most exceeds what the relaxation charges."""
        charged = np.zeros(len(amounts))
        for r, (prices, _, base) in self.prices.items():
            charged[r] = base + float(prices[np.arange(len(labels)), labels].sum())
        rows, tables = self.terms.rows, self.tables
        at = worst_term(rows, self.waiting, tables.weight, tables.once, excesses, amounts, self.duals, charged)
        return self.terms[at]
