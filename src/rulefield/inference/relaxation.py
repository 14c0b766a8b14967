"""A lattice of partial labellings in which some rules are exact and the others are priced, or ignored."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.flatten import Term
from rulefield.kernels.lattice.lattice import Lattice, fill_ahead
from rulefield.kernels.lattice.refine import refine
from rulefield.kernels.lattice.rule_tables import RuleTables

Prices = tuple[np.ndarray, np.ndarray, float]
"""What a lattice charges for an automaton: weight x price (n, m), least amounts to come (n, states), weight x base."""

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
    prices: dict[int, Prices | None]
    left: list[Term]

    def add(self, term: Term, threshold: float, limit: int, keep_runs: bool = False) -> bool:
        """Make one term exact; False, and nothing changed, where the lattice would pass the limit."""
        done, lattice, constant = refine(
            self.lattice,
            self.tables,
            self.classes[term.rule],
            self.n_labels,
            term.rule,
            term.low,
            term.high,
            self.duals,
            *(self.prices.get(term.rule) or _NO_PRICES),
            self.constant,
            threshold,
            limit,
            keep_runs,
        )
        if not done:
            return False
        self.lattice, self.constant = lattice, constant
        self.duals[term.low : term.high] = 0.0
        self.left.remove(term)
        return True

    def bound(self, threshold: float) -> float:
        """Best value of a path; ``-inf`` where no path beats the threshold."""
        return float(fill_ahead(self.lattice, threshold - self.constant)) + self.constant

    def mischarged(self, labels: np.ndarray, excesses: np.ndarray, amounts: np.ndarray) -> Term:
        """Of the terms left, the one whose true cost most exceeds what the relaxation charges.

        Among hard terms that are broken, the one with the fewest states.
        """
        tables = self.tables
        worst, widest = self.left[0], (-1.0, 0)
        for term in self.left:
            over = excesses[term.low : term.high]
            amount = int(np.maximum(over, 0).sum()) if term.high > term.low else int(amounts[term.rule])
            cost = (
                tables.weight[term.rule] * (min(amount, 1) if tables.once[term.rule] else amount) if amount else 0.0
            )
            difference = cost - float(self.duals[term.low : term.high] @ over)
            priced = self.prices.get(term.rule)
            if priced is not None:
                difference -= priced[2] + float(priced[0][np.arange(len(labels)), labels].sum())
            if (difference, -term.states) > widest:
                worst, widest = term, (difference, -term.states)
        return worst
