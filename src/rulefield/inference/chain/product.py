"""Dynamic programming over labels and the states of only those rules that are in conflict."""

import numpy as np

from rulefield.inference.chain.dual import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.chain.search.joint import make_table
from rulefield.inference.flatten import Term
from rulefield.inference.relaxation import Relaxation
from rulefield.inference.result import Result
from rulefield.kernels.lattice.lattice import chain_lattice, lattice_path
from rulefield.problem.chain_rules import ChainProblem

FIRST_WINDOW, FIRST_SHARE, MOST_AT_FIRST = 0.1, 0.1, 0.5
"""Nats of the window in which the product first looks for an optimum; share of the gap, and most nats, once that is known."""

QUICK_WIDENING, WIDENING = 2.5, 1.5
"""How much wider each window is than the one before: the first where that one cost little."""

LITTLE_WORK, MUCH_WORK = 1_000, 50_000

MOST_GROWTH, SAFELY = 5.0, 0.7
"""No window is made wider than what should cost so many times the work of the one before, as work grew so far; nor wider than
what should cost this share of the work that it may take."""

SHRINKING = 3.0
"""After a window that overflowed the next is so much narrower."""

WINDOW_WORK, LARGE_WINDOW_WORK = 250_000, 1_500_000
"""What one window may cost, and one whose cost can be foreseen."""

MOST_NODES = 2_500_000
"""Largest lattice."""

MOST_OVERFLOWS = 6

UNFINISHED = 4.0
"""A window that overflowed is taken to cost so many times the work that went into it."""

FEW_STATES, LITTLE_GROWTH = 8, 1.2
"""Small automata that made a lattice grow by no more come before all other terms: they sharpen its bounds and cost little."""

ARCS_PER_NODE = 40
"""So many arcs looked at are a unit of work."""

TIGHTENED_ARCS, TIGHTENING_PASSES = 10_000, 8
"""Lattices of so many arcs get better duals after every term, in so many passes over them."""


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
        prepared.flat.shared.terms,
    )


def run_product(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Product with rules in conflict, in windows below the bound that grow as they can until one holds the optimum.

    Inside a window nothing is lost; an empty one lowers the bound to its floor. Narrow windows keep lattices small while
    no good labelling is known; one that overflows is tried again narrower.
    """
    gap = progress.bound - progress.best
    progress.step = progress.step or (FIRST_WINDOW if gap == np.inf else min(FIRST_SHARE * gap, MOST_AT_FIRST))
    lowest = _lowest_value(progress, dual) if progress.best == -np.inf else -np.inf
    overflows = 0
    while (
        not progress.settled
        and progress.nodes < node_limit
        and overflows < MOST_OVERFLOWS
        and not progress.deadline.over
    ):
        before, last = progress.nodes, progress.best + progress.slack
        allowed = node_limit - before
        if progress.window is not None and progress.window[1] > max(allowed, MUCH_WORK) and progress.table is None:
            return  # windows begin anew: a lower floor costs more than the last one did
        step = _affordable(progress, allowed)
        if step is None:
            step, allowed = progress.step, min(allowed, WINDOW_WORK)
        floor = progress.bound - (step if step == progress.bound - progress.best else min(step, progress.step))
        floor = max(floor if floor > lowest else -np.inf, last)
        if search_window(progress, dual, floor, before + allowed):
            if floor == last:
                return  # all was searched: what is left of the gap is what rounding may hide
            progress.step = _next_step(progress, floor, progress.nodes - before)
        elif progress.nodes < node_limit and not progress.deadline.over:
            progress.step = min(progress.step, progress.bound - floor) / SHRINKING
            _learn_growth(progress, floor, progress.nodes - before)
            overflows += 1


def run_last_window(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Look through all that can beat the best labelling, at once.

    Where that is a good one this often costs less than the windows on the way there: a lattice first grows by every term,
    but from some term on it shrinks, which the cost of windows with higher floors does not tell.
    """
    search_window(progress, dual, progress.best + progress.slack, node_limit, anew=True)


def _next_step(progress: Progress, floor: float, work: int) -> float:
    """Height of the window after one with this floor that cost this work, which mostly grows by a factor per nat."""
    before = progress.window
    progress.window = floor, work, 0.0 if before is None else before[2]
    step = progress.step * (QUICK_WIDENING if work < LITTLE_WORK else WIDENING)
    if before is not None and before[0] > floor and work > max(before[1], LITTLE_WORK):
        per_nat = float(np.log(work / max(before[1], 1)) / (before[0] - floor))
        step = min(step, max(np.log(MOST_GROWTH) / per_nat, FIRST_WINDOW))
        progress.window = floor, work, per_nat if before[1] >= LITTLE_WORK else 0.0
    return float(step)


def _learn_growth(progress: Progress, floor: float, work: int) -> None:
    """Note that a window with this floor costs more than this work: it grows at least so much per nat."""
    if progress.window is not None and progress.window[0] > floor and work > progress.window[1] >= LITTLE_WORK:
        above, before, per_nat = progress.window
        least = float(np.log(UNFINISHED * work / before) / (above - floor))
        progress.window = above, before, max(per_nat, least)


def _affordable(progress: Progress, allowed: int) -> float | None:
    """Height of the highest window that should cost a share of what is allowed; None where that is not known.

    All that is allowed may go into a window that holds all labellings better than the best one: it is the last.
    """
    if progress.window is None or progress.window[2] == 0.0:
        return None
    floor, work, per_nat = progress.window
    gap = progress.bound - progress.best
    if allowed > WINDOW_WORK and work * np.exp(min(per_nat * (floor - progress.best), 100.0)) <= SAFELY * allowed:
        return gap
    step = progress.bound - floor + float(np.log(max(SAFELY * min(allowed, LARGE_WINDOW_WORK), 1.0) / work)) / per_nat
    return step if step > 0.0 else None


def _lowest_value(progress: Progress, dual: DualPotentials) -> float:
    """No labelling has a value below this, whatever rules it breaks; below it a window may as well hold everything."""
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


def open_relaxation(progress: Progress, dual: DualPotentials, floor: float, node_limit: int) -> Relaxation | None:
    """Return what can beat a floor, rules in the joint table exact; None where that is more than a limit allows."""
    table = progress.table
    if table is None:
        return chain_relaxation(progress, dual, floor)
    if table.dual is not dual:
        table = progress.table = make_table(progress, dual, table.rules, np.inf) or table
    left = max(node_limit - progress.nodes, 0)
    done, lattice = table.lattice(floor, MOST_NODES, ARCS_PER_NODE * left)
    progress.nodes += len(lattice.label) * progress.prepared.unary.shape[1] // ARCS_PER_NODE  # arcs looked at
    if not done:
        return None
    prepared = progress.prepared
    shape = prepared.tables, prepared.classes, prepared.unary.shape[1]
    found = Relaxation(
        *shape, lattice, table.constant, table.dual.duals.copy(), progress.prices, prepared.flat.shared.terms
    )
    for place, term in enumerate(found.terms):
        found.waiting[place] = term.rule not in table.rules
    return found


def search_window(
    progress: Progress, dual: DualPotentials, floor: float, node_limit: int, anew: bool = False
) -> bool:
    """Add terms until no path beats the floor; False where a limit is met.

    Terms already known to matter come first (not so ``anew``): those that hardly made lattices grow, then those with few
    states. On return the bound is the floor (or the best value, where that is higher).
    """
    relaxation = open_relaxation(progress, dual, floor, node_limit)
    if relaxation is None:
        return False
    known = [term for term in progress.terms if relaxation.waiting[relaxation.terms.index(term)]]
    large = anew or (progress.window is not None and progress.window[1] > MUCH_WORK)
    if np.isinf(progress.prepared.caps).any() and large:
        known.clear()  # in large windows conflicts under better duals say more of what is to come next
    known.sort(key=lambda term: (_grows(progress, term), term.states, term.rule))
    while True:
        bound = tightened(progress, relaxation, floor, 0 if anew else None)
        error = relaxation.error + (dual.error if progress.table is None else progress.table.error)
        if bound == -np.inf:
            progress.bound = min(progress.bound, floor + error if floor > -np.inf else floor)
            return True
        progress.bound = min(progress.bound, bound + error)
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
        left, size, work = max(0, node_limit - progress.nodes), len(relaxation.lattice.label), relaxation.work
        done = relaxation.add(term, floor, MOST_NODES, most_work=ARCS_PER_NODE * left, stop=progress.deadline.stop)
        progress.nodes += (relaxation.work - work) // ARCS_PER_NODE + 1
        if not done:
            return False
        progress.terms[term] = max(len(relaxation.lattice.label) / size, progress.terms.get(term, 0.0))


def tightened(progress: Progress, relaxation: Relaxation, floor: float, arcs: int | None = None) -> float:
    """Return the bound of a lattice; where it has so many arcs and hard counters are not exact yet, under better duals."""
    bound, caps = relaxation.bound(floor), progress.prepared.caps
    few = len(relaxation.lattice.arc_to) < (TIGHTENED_ARCS if arcs is None else arcs)
    if min(bound, floor) == -np.inf or few:
        return bound
    if not np.isinf(caps[relaxation.free]).any():
        return bound
    work = relaxation.work
    relaxation.tighten(caps, floor, TIGHTENING_PASSES, progress.deadline.stop)
    progress.nodes += (relaxation.work - work) // ARCS_PER_NODE
    return relaxation.bound(floor)


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
