"""Dynamic programming over labels and the states of only those rules that are in conflict."""

import numpy as np

from rulefield.inference.chain.dual import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.flatten import Term
from rulefield.inference.relaxation import Relaxation
from rulefield.inference.result import Result
from rulefield.kernels.lattice.dual import path_score
from rulefield.kernels.lattice.lattice import chain_lattice, lattice_path
from rulefield.problem.chain_rules import ChainProblem

FIRST_WINDOW = 0.1
"""Share of the gap in which the product first looks for an optimum."""

WIDENING = 2.5
MOST_WINDOWS = 8


def chain_relaxation(progress: Progress, dual: DualPotentials, threshold: float) -> Relaxation:
    """All rules of a chain priced; only labels and steps whose max-marginal beats the threshold are kept."""
    lattice = chain_lattice(dual.unary, dual.arriving, dual.ahead, dual.constant, threshold)
    prepared = progress.prepared
    return Relaxation(
        prepared.tables,
        prepared.classes,
        prepared.unary.shape[1],
        lattice,
        dual.constant,
        progress.duals.copy(),
        progress.prices,
        list(prepared.terms),
    )


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
    relaxation = chain_relaxation(progress, dual, floor)
    known = sorted(terms, key=lambda term: (term.states, term.rule))
    while True:
        bound = relaxation.bound(floor)
        progress.nodes += len(relaxation.lattice.label)
        if bound == -np.inf:
            progress.bound = min(progress.bound, floor + dual.error if floor > -np.inf else floor)
            return True
        progress.bound = min(progress.bound, bound + dual.error)
        if known:
            term = known.pop(0)
        else:
            labels, amounts, excesses = _try_best_path(progress, relaxation)
            floor = max(floor, progress.best + progress.slack)
            if progress.settled or not relaxation.left:
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
