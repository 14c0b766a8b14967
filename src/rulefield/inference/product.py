"""Dynamic programming over labels and the states of only those rules that are in conflict."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.prepare import Prepared, Term, prepare
from rulefield.inference.result import Result
from rulefield.inference.soft_dd import DualPotentials, Progress, dual_potentials, run_soft_dd
from rulefield.kernels.lattice import Lattice, chain_lattice, fill_ahead, lattice_path
from rulefield.kernels.refine import refine
from rulefield.kernels.rule_tables import rule_amounts
from rulefield.kernels.soft_dd import path_score
from rulefield.problem.compiled import ChainProblem


@dataclass
class Relaxation:
    """A lattice in which some terms of the rules are exact and the others are priced by duals, or ignored.

    Its best path bounds the objective; where that path is charged what it truly costs, it is optimal.
    """

    prepared: Prepared
    lattice: Lattice
    constant: float
    duals: np.ndarray
    left: list[Term]

    @classmethod
    def of_chain(cls, prepared: Prepared, dual: DualPotentials, duals: np.ndarray, threshold: float) -> "Relaxation":
        """All rules priced; only labels and steps whose max-marginal beats the threshold are kept."""
        lattice = chain_lattice(dual.unary, dual.arriving, dual.ahead, dual.constant, threshold)
        return cls(prepared, lattice, dual.constant, duals.copy(), list(prepared.terms))

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

    def mischarged(self, excesses: np.ndarray, amounts: np.ndarray) -> Term:
        """Of the terms left, the one whose true cost most exceeds what the relaxation charges."""
        tables = self.prepared.tables
        worst, widest = self.left[0], -1.0
        for term in self.left:
            over = excesses[term.low : term.high]
            amount = int(np.maximum(over, 0).sum()) if term.high > term.low else int(amounts[term.rule])
            cost = (
                tables.weight[term.rule] * (min(amount, 1) if tables.once[term.rule] else amount) if amount else 0.0
            )
            difference = cost - float(self.duals[term.low : term.high] @ over)
            if difference > widest:
                worst, widest = term, difference
        return worst


def run_product(progress: Progress, dual: DualPotentials, node_limit: int) -> Relaxation:
    """Add rules to the product one by one until its optimum is charged what it truly costs, or a limit is met."""
    prepared = progress.prepared
    tables, classes, m = prepared.tables, prepared.classes, prepared.unary.shape[1]
    relaxation = Relaxation.of_chain(prepared, dual, progress.duals, progress.best + progress.slack)
    labels = np.zeros_like(progress.labels)
    amounts = np.zeros(len(tables.weight), np.int64)
    excesses = np.zeros(len(tables.counter_bound), np.int64)
    while True:
        threshold = progress.best + progress.slack
        bound = relaxation.bound(threshold)
        progress.nodes += len(relaxation.lattice.label)
        progress.bound = max(min(progress.bound, bound), progress.best)
        if bound == -np.inf or progress.settled:
            return relaxation
        lattice_path(relaxation.lattice, labels)
        cost = rule_amounts(tables, classes, labels, m, amounts, excesses)
        objective = float(path_score(prepared.unary, prepared.arriving, labels)) - cost
        if objective > progress.best:
            progress.best = objective
            progress.labels[:] = labels
        if progress.settled or not relaxation.left:
            return relaxation
        term = relaxation.mischarged(excesses, amounts)
        if not relaxation.add(term, progress.best + progress.slack, node_limit):
            return relaxation


def decode_product(problem: ChainProblem, node_limit: int = 2_000_000, dual_iterations: int = 60) -> Result:
    """Decode a chain by Soft-DD and then dynamic programming over the product with rules in conflict.

    Exact when it ends. Rules enter one at a time, the most mischarged first; the dual potentials and the coarser
    product bound what is kept. ``iterations`` counts nodes of all products.
    """
    progress = Progress.start(prepare(problem))
    run_soft_dd(progress, dual_iterations)
    if not progress.settled:
        run_product(progress, dual_potentials(progress), node_limit)
    return progress.result("product", progress.nodes)
