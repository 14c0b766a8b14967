"""Dynamic programming over labels and the states of only those rules that are in conflict."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.chain.dual import DualPotentials, Prices, Progress, dual_potentials, run_duals
from rulefield.inference.chain.flatten import Term
from rulefield.inference.chain.prepare import Prepared, prepare
from rulefield.inference.result import Result
from rulefield.kernels.lattice.dual import path_score
from rulefield.kernels.lattice.lattice import Lattice, chain_lattice, fill_ahead, lattice_path
from rulefield.kernels.lattice.refine import refine
from rulefield.problem.chain_rules import ChainProblem

_NO_PRICES: Prices = np.zeros((0, 0)), np.zeros((0, 0), np.int64), 0.0

FIRST_WINDOW = 0.1
"""Share of the gap in which the product first looks for an optimum."""

WIDENING = 2.5
MOST_WINDOWS = 8


@dataclass
class Relaxation:
    """A lattice in which some terms of the rules are exact and the others are priced by duals, or ignored.

    Its best path bounds the objective; where that path is charged what it truly costs, it is optimal.
    """

    prepared: Prepared
    lattice: Lattice
    constant: float
    duals: np.ndarray
    prices: dict[int, Prices | None]
    left: list[Term]

    @classmethod
    def of_chain(cls, progress: Progress, dual: DualPotentials, threshold: float) -> "Relaxation":
        """All rules priced; only labels and steps whose max-marginal beats the threshold are kept."""
        lattice = chain_lattice(dual.unary, dual.arriving, dual.ahead, dual.constant, threshold)
        prepared = progress.prepared
        return cls(prepared, lattice, dual.constant, progress.duals.copy(), progress.prices, list(prepared.terms))

    def add(self, term: Term, threshold: float, limit: int, keep_runs: bool = False) -> bool:
        """Make one term exact; False, and nothing changed, where the lattice would pass the limit."""
        done, lattice, constant = refine(
            self.lattice,
            self.prepared.tables,
            self.prepared.classes[term.rule],
            self.prepared.unary.shape[1],
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
        tables = self.prepared.tables
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


def run_product(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Product with rules in conflict, within a window below the bound that is widened until it holds the optimum.

    Inside the window nothing is lost; an empty window lowers the bound to its floor. Narrow windows keep lattices
    small before a good labelling is known.
    """
    gap = progress.bound - progress.best
    width = FIRST_WINDOW * gap if np.isfinite(gap) else max(1.0, 0.02 * abs(progress.bound))
    terms: set[Term] = set()
    for attempt in range(MOST_WINDOWS):
        floor = progress.bound - width if attempt < MOST_WINDOWS - 1 else -np.inf
        if not search_window(progress, dual, max(floor, progress.best + progress.slack), terms, node_limit):
            return
        if progress.settled:
            return
        width *= WIDENING


def search_window(progress: Progress, dual: DualPotentials, floor: float, terms: set[Term], node_limit: int) -> bool:
    """Add terms until no path beats the floor; False where a limit is met.

    Terms already known to matter come first, those with few states before the others. On return the bound is
    the floor (or the best value, where that is higher).
    """
    relaxation = Relaxation.of_chain(progress, dual, floor)
    known = sorted(terms, key=lambda term: (term.states, term.rule))
    while True:
        bound = relaxation.bound(floor)
        progress.nodes += len(relaxation.lattice.label)
        if bound == -np.inf:
            progress.bound = floor
            return True
        progress.bound = min(progress.bound, bound)
        if known:
            term = known.pop(0)
        else:
            labels, amounts, excesses = _try_best_path(progress, relaxation)
            floor = max(floor, progress.best + progress.slack)
            if progress.settled or not relaxation.left:
                progress.bound = max(progress.bound, progress.best)
                return True
            term = relaxation.mischarged(labels, excesses, amounts)
        if not relaxation.add(term, floor, max(0, node_limit - progress.nodes)):
            return False
        terms.add(term)


def _try_best_path(progress: Progress, relaxation: Relaxation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Judge the best path of a relaxation by all rules; keep it where it is the best labelling so far."""
    prepared = progress.prepared
    labels = np.zeros_like(progress.labels)
    lattice_path(relaxation.lattice, labels)
    amounts, excesses, cost = prepared.amounts(labels)
    objective = float(path_score(prepared.unary, prepared.arriving, labels)) - cost
    if objective > progress.best:
        progress.best = objective
        progress.labels[:] = labels
    return labels, amounts, excesses


def decode_product(problem: ChainProblem, node_limit: int = 2_000_000, dual_iterations: int = 60) -> Result:
    """Decode a chain by Soft-DD and then dynamic programming over the product with rules in conflict.

    Exact when it ends. Rules enter one at a time, the most mischarged first; the dual potentials and the coarser
    product bound what is kept. ``iterations`` counts nodes of all products.
    """
    progress = Progress.start(prepare(problem))
    run_duals(progress, dual_iterations)
    if not progress.settled:
        run_product(progress, dual_potentials(progress), node_limit)
    return progress.result("product", progress.nodes)
