"""A lattice of partial labellings in which some rules are exact and the others are priced, or ignored."""

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

UNLIMITED = 1 << 60

_NO_PRICES: Prices = np.zeros((0, 0)), np.zeros((0, 0), np.int64), 0.0


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

    def bound(self, threshold: float) -> float:
        """Best value of a path; ``-inf`` where no path beats the threshold."""
        return float(fill_ahead(self.lattice, threshold - self.constant)) + self.constant

    def mischarged(self, labels: np.ndarray, excesses: np.ndarray, amounts: np.ndarray) -> Term:
        """Of the terms left, the one whose true cost most exceeds what the relaxation charges.

        Among hard terms that are broken, the one with the fewest states.
        """
        charged = np.zeros(len(amounts))
        for r, (prices, _, base) in self.prices.items():
            charged[r] = base + float(prices[np.arange(len(labels)), labels].sum())
        rows, tables = self.terms.rows, self.tables
        at = worst_term(rows, self.waiting, tables.weight, tables.once, excesses, amounts, self.duals, charged)
        return self.terms[at]
