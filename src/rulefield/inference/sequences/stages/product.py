"""Dynamic programming over labels and the states of only those rules that are in conflict.

Improves: the labeling and the bound.
Pays: always first; it settles most problems that duals leave open.
Charged: a unit for every 40 arcs looked at.
Reference: coarse-to-fine dynamic programming (Raphael, 2001) over the product with the rules' automata.
"""

import numpy as np

from rulefield.inference.flatten import Term
from rulefield.inference.relaxation import Relaxation
from rulefield.inference.sequences.progress import ARCS_PER_UNIT, FEW_STATES, MOST_NODES, DualPotentials, Progress
from rulefield.kernels.lattice.lattice import chain_lattice, lattice_path

FIRST_WINDOW_NATS, WIDENING, NARROWING = 0.1, 2.0, 3.0
"""Height of the first window below the bound, its growth after a window without an optimum, and its division after a window
that met a limit."""

WINDOW_SHARE, MOST_OVERFLOWS = 0.6, 6
"""Share of the work left that one window may take, and how many windows may meet a limit."""

LITTLE_GROWTH = 1.2
"""Automata of few states that made a lattice grow by no more come before all other terms: they sharpen its bounds."""


def run_product(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Product with rules in conflict, in windows below the bound that grow until one holds the optimum.

    Inside a window nothing is lost; an empty one lowers the bound to its floor. Narrow windows keep lattices small while
    no good labeling is known; one that meets a limit is tried again narrower.
    """
    progress.step = progress.step or FIRST_WINDOW_NATS
    lowest = _lowest_value(progress, dual) if progress.best == -np.inf else -np.inf
    overflows = 0
    while not progress.settled and overflows < MOST_OVERFLOWS and not progress.deadline.over:
        before, last = progress.nodes, progress.best + progress.slack
        left = node_limit - before
        if left <= 0 or progress.window_units > left:
            return  # windows begin anew: a lower floor costs more than the last one did
        floor = progress.bound - progress.step
        floor = max(floor if floor > lowest else -np.inf, last)
        if search_window(progress, dual, floor, before + int(WINDOW_SHARE * left)):
            if floor == last:
                return  # all was searched: what is left of the gap is what rounding may hide
            progress.window_units = progress.nodes - before
            progress.step *= WIDENING
        else:
            progress.step = min(progress.step, progress.bound - floor) / NARROWING
            overflows += 1


def run_last_window(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Look through all that can beat the best labeling, at once.

    Where that is a good one this often costs less than the windows on the way there: a lattice first grows by every term,
    but from some term on it shrinks, which the cost of windows with higher floors does not tell.
    """
    search_window(progress, dual, progress.best + progress.slack, node_limit, anew=True)


def chain_relaxation(progress: Progress, dual: DualPotentials, threshold: float) -> Relaxation:
    """All rules of a chain priced; only labels and steps whose max-marginal beats the threshold are kept."""
    progress.charge(2 * progress.pass_units)
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
        prepared.flat.shared.terms,
    )


def _lowest_value(progress: Progress, dual: DualPotentials) -> float:
    """No labeling has a value below this, whatever rules it breaks; below it a window may as well hold everything."""
    tables = progress.prepared.tables
    most = np.array([max(rule.max_amount, 1) for rule in progress.prepared.flat.rules])
    soft = np.isfinite(tables.weight)
    unary = np.where(dual.unary > -np.inf, dual.unary, 0.0).min(axis=1).sum()
    step = np.where(dual.arriving > -np.inf, dual.arriving, 0.0).min(axis=(1, 2))
    steps = step.sum() if len(step) > 1 else step[0] * (len(dual.unary) - 1)
    return float(dual.constant + unary + steps - abs(tables.weight[soft] @ most[soft])) - 1.0


def _grows(progress: Progress, term: Term) -> bool:
    """Whether a term makes lattices grow: all counters and larger automata do, and some small automata did."""
    return term.high > term.low or term.states > FEW_STATES or progress.terms[term] > LITTLE_GROWTH


def search_window(
    progress: Progress, dual: DualPotentials, floor: float, node_limit: int, anew: bool = False
) -> bool:
    """Add terms until no path beats the floor; False where a limit is met.

    Terms already known to matter come first (not so ``anew``): those that hardly made lattices grow, then those with few
    states. On return the bound is the floor (or the best value, where that is higher).
    """
    relaxation, known = chain_relaxation(progress, dual, floor), list(progress.terms)
    if anew and np.isinf(progress.prepared.caps).any():
        known.clear()  # in large windows the conflicts that are left say more of what is to come next
    known.sort(key=lambda term: (_grows(progress, term), term.states, term.rule))
    while True:
        bound = relaxation.bound(floor)
        if bound == -np.inf:
            progress.bound = min(progress.bound, floor + dual.error if floor > -np.inf else floor)
            return True
        progress.bound = min(progress.bound, bound + dual.error)
        if known:
            term = known.pop(0)
        else:
            labels = np.zeros_like(progress.labels)
            lattice_path(relaxation.lattice, labels)
            amounts, excesses = progress.offer(labels)
            floor = max(floor, progress.best + progress.slack)
            if progress.settled or not relaxation.left:
                return True
            term = relaxation.mischarged(labels, excesses, amounts)
        left, size = max(0, node_limit - progress.nodes), len(relaxation.lattice.label)
        done = relaxation.add(term, floor, MOST_NODES, most_work=ARCS_PER_UNIT * left, stop=progress.deadline.stop)
        progress.charge_arcs(relaxation)
        if not done:
            return False
        progress.terms[term] = max(len(relaxation.lattice.label) / size, progress.terms.get(term, 0.0))
