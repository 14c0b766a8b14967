"""A lattice of partial labellings in which some rules are exact and the others are priced, or ignored."""

from dataclasses import dataclass
from itertools import chain

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
        rule, low, high, states = np.fromiter(chain.from_iterable(self.left), np.int64).reshape(-1, 4).T
        over, charged = (
            np.concatenate([[0.0], np.cumsum(x)]) for x in (np.maximum(excesses, 0), self.duals * excesses)
        )
        amount = np.where(high > low, over[high] - over[low], amounts[rule])
        paid = np.where(self.tables.once[rule], np.minimum(amount, 1), amount)
        cost = np.where(paid > 0, self.tables.weight[rule] * np.maximum(paid, 1), 0.0)
        difference = cost - (charged[high] - charged[low])
        for place in np.flatnonzero(np.isin(rule, [r for r, priced in self.prices.items() if priced is not None])):
            prices, _, base = self.prices[int(rule[place])]  # type: ignore[misc]
            difference[place] -= base + float(prices[np.arange(len(labels)), labels].sum())
        return self.left[int(np.lexsort((states, -difference))[0])]
