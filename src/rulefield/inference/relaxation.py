"""A lattice of partial labelings in which some rules are exact and the others are priced, or ignored."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rulefield.inference.flatten import Term, Terms
from rulefield.inference.limits import RUNNING
from rulefield.kernels.lattice.dual import dual_error
from rulefield.kernels.lattice.lattice import Lattice, fill_ahead
from rulefield.kernels.lattice.refine import compacted, refine_by_automaton, refine_by_counters
from rulefield.kernels.lattice.rule_tables import RuleTables
from rulefield.kernels.lattice.sites import counters_by_label, lattice_sites
from rulefield.kernels.lattice.terms import most_disputed, worst_term
from rulefield.kernels.lattice.tighten import tighten

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

    Its best path bounds the objective; where that path is charged what it truly costs, it is optimal. ``error`` is what
    rounding may hide of a path's score since duals were changed.
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
        self.error = 0.0
        self.conflict = np.zeros(len(self.duals))

    @property
    def free(self) -> np.ndarray:
        """Which counters (counters,) are not exact yet."""
        found = np.zeros(len(self.duals), np.bool_)
        for term in np.flatnonzero(self.waiting):
            found[self.terms[term].low : self.terms[term].high] = True
        return found

    @cached_property
    def by_label(self) -> tuple[np.ndarray, np.ndarray]:
        """The counters that each label has to do with (see ``counters_by_label``)."""
        found: tuple[np.ndarray, np.ndarray] = counters_by_label(self.tables, self.n_labels)
        return found

    @property
    def left(self) -> bool:
        """Whether a term is not exact yet."""
        return bool(self.waiting.any())

    def add(
        self,
        term: Term,
        threshold: float,
        limit: int,
        keep_runs: bool = False,
        most_work: int = UNLIMITED,
        stop: np.ndarray = RUNNING,
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
            done, lattice, constant, work = refine_by_automaton(*of_rule, *prices, keep_runs, *bounds)
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

    def tighten(self, caps: np.ndarray, threshold: float, most_passes: int, stop: np.ndarray = RUNNING) -> None:
        """Give the counters that are not exact yet better duals, within 0 and ``caps``, on what is left of the lattice.

        ``ahead`` must be filled, and is not any more. A threshold is what the bound should get below.
        """
        free = self.free
        self.lattice = compacted(self.lattice, threshold - self.constant)
        n = len(self.lattice.layer) - 1
        self.conflict[:] = 0.0
        sites = lattice_sites(self.lattice, self.tables, self.classes, self.n_labels, free, *self.by_label)
        bounds = self.tables.counter_bound
        self.error += float(dual_error(self.tables, self.duals, n, self.constant, threshold))  # of taking charges off
        self.constant, passes = tighten(
            self.lattice,
            sites,
            bounds,
            free,
            caps,
            self.duals,
            self.constant,
            threshold,
            most_passes,
            stop,
            self.conflict,
        )
        self.error += float(dual_error(self.tables, self.duals, n, self.constant, threshold))
        arcs = len(self.lattice.arc_to)
        self.work += arcs + (passes * arcs + len(sites.gain)) // ARCS_OF_PASS

    def mischarged(self, labels: np.ndarray, excesses: np.ndarray, amounts: np.ndarray) -> Term:
        """Of the terms left, the one whose true cost most exceeds what the relaxation charges.

        Among hard terms that are broken, the one with the fewest states; or the counters that were most in conflict while
        duals were changed, for the nodes that they split.
        """
        charged = np.zeros(len(amounts))
        for r, (prices, _, base) in self.prices.items():
            charged[r] = base + float(prices[np.arange(len(labels)), labels].sum())
        rows, tables = self.terms.rows, self.tables
        at = worst_term(rows, self.waiting, tables.weight, tables.once, excesses, amounts, self.duals, charged)
        hard = self.terms[at].high > self.terms[at].low and tables.weight[self.terms[at].rule] == np.inf
        if hard and self.conflict.any():
            disputed = most_disputed(self.lattice, tables, self.n_labels, rows, self.waiting, excesses, self.conflict)
            at = disputed if disputed >= 0 else at
        return self.terms[at]
