"""The walk from cheap to exact: each engine takes over what the one before it learned."""

from collections.abc import Callable

import numpy as np

from rulefield.inference.chain.dual import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.chain.milp import NODES_PER_BRANCHING, run_reduced, run_windows
from rulefield.inference.chain.product import run_last_window, run_product
from rulefield.inference.chain.search.climb import run_climb
from rulefield.inference.chain.search.columns import MOST_PROOF_PASSES, prove_infeasible, tighten_dual
from rulefield.inference.chain.search.counts import run_counts
from rulefield.inference.chain.search.dive import run_dive
from rulefield.inference.chain.search.facts import run_facts
from rulefield.inference.chain.search.implied import run_implied
from rulefield.inference.chain.search.joint import run_joint
from rulefield.inference.chain.search.neighbors import run_neighbors
from rulefield.inference.chain.search.whole import run_whole_counts
from rulefield.inference.engines import Engine, Engines
from rulefield.inference.limits import deadline
from rulefield.kernels.lattice.first import BY_DUALS, BY_PATHS, BY_VITERBI, OPEN

NODE_LIMIT = 6_000_000
"""Units of work that one problem may cost, by default: about ten seconds."""

DUAL_ITERATIONS = 30
PATH_NODES = 2_000

SHORT_WORK = 15_000
"""What the first, short try of the product may cost, which settles most problems."""

MEDIUM_WORK, LARGE_WORK = 90_000, 300_000
"""What it may cost before linear programmes, and then before it waits for a better labelling or a larger table."""

SMALL_TABLE, LARGE_TABLE = 1_000_000, 10_000_000
"""Cells of the joint tables of automata, at first and where that did not do."""

WIDTHS = (100, 500, 2_000)
"""Nodes per token of the dives."""

CLIMB_NODES = 400_000
"""What the local search between two tries of the product may cost."""

NEIGHBOR_NODES = 600_000
"""What the first search around the best labelling may cost."""

FACTS_SHARE = 0.3
"""Of all nodes, what branching on facts may use."""

VERY_CLOSE, CLOSE = 2.0, 4.0
"""Nats between the bound and a labelling such that all better ones are looked for at once, early and late."""

LAST_WORK, LAST_SHARE = 50_000, 0.9
"""What that may cost early; of the work left, what it may cost late."""

PRODUCT_SHARE = 0.9
"""Of all nodes, what the product may use; the rest is for HiGHS and for the last climb."""

ALONE_SECONDS = 60.0
"""Where HiGHS alone can read the rules, it gets so long."""

LONG = 300
"""Tokens of a chain that HiGHS is tried on before the product."""

HIGHS_SHARE = 0.4
"""Of the work left, what HiGHS may use at that early try."""

HIGHS_PARTS = 20_000
"""HiGHS is given at most so many parts at a time (where another engine can read the rules, too)."""

HOPELESS = 0.5
"""Windows are narrow: where a labelling is known and the gap is wider than so many nats, HiGHS will not close it."""

LONGEST_CALL = 6.0
"""Seconds after which a call of HiGHS is given up where no limit of time was asked for; branchings mostly end it before."""

MANY_RULES = 2
"""Hard counters per label from which on HiGHS is tried on small windows in the middle: most labels are in several of them."""

SMALL_PARTS, SMALL_GAP = 1_000, 2.0
"""The most that such a window may leave to decide, and the widest gap (in nats) where a labelling is known."""

SMALL_UNITS, SMALL_SECONDS = 2_000, 20.0
"""Units of work that each part of such a window is charged with; seconds after which HiGHS gives up at the latest."""

Stage = Callable[[Progress, DualPotentials, int], None]
"""(progress, dual potentials, node_limit): learns more of the problem."""


def _farkas(passes: int) -> Stage:
    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        if progress.best == -np.inf and prove_infeasible(progress, passes) is not None:
            progress.bound = -np.inf

    return run


def _columns(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    if len(progress.duals):
        tighten_dual(progress)


def _counts(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    if progress.best == -np.inf:
        run_counts(progress, dual)


def _joint(most_cells: int) -> Stage:
    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        run_joint(progress, dual, most_cells)

    return run


def _dive(width: int) -> Stage:
    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        run_dive(progress, dual, width, node_limit)

    return run


def _product(most_nodes: float, share: float = 1.0) -> Stage:
    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        run_product(progress, dual, int(min(progress.nodes + most_nodes, share * node_limit)))

    return run


def _medium_product(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Try the product before linear programmes are made; on a long chain these do more."""
    if len(progress.labels) < LONG:
        _product(MEDIUM_WORK)(progress, dual, node_limit)


def _product_again(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Try the product with what is new; hard counters without a joint table wait for a better labelling."""
    if progress.table is not None or not np.isinf(progress.prepared.caps).any():
        _product(LARGE_WORK)(progress, dual, node_limit)


def _last_window(close: float, most_nodes: float, share: float) -> Stage:
    """Return a search of all that can beat a labelling so close to the bound, for a share of the work left."""

    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        if progress.bound - progress.best <= close:
            left = max(node_limit - progress.nodes, 0)
            run_last_window(progress, dual, int(progress.nodes + min(most_nodes, share * left)))

    return run


def _climb(most_nodes: float) -> Stage:
    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        left = node_limit - progress.nodes
        if left > 0 and not progress.prepared.flat.shared.rows_only:
            run_climb(progress, dual, int(min(most_nodes, left)))

    return run


def _neighbors(most_nodes: float, portions: int = 1) -> Stage:
    """Return a search around the best labelling, in portions: the next only where the one before found a better one."""

    def run(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
        for _ in range(portions):
            before = progress.best
            run_neighbors(progress, dual, int(min(progress.nodes + most_nodes / portions, node_limit)))
            if progress.best == before:
                return

    return run


def _facts(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    run_facts(progress, dual, int(min(progress.nodes + FACTS_SHARE * node_limit, node_limit)))


def _implied(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    run_implied(progress)


def _whole(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    run_whole_counts(progress, node_limit)


def _windows(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """HiGHS on narrow windows of long chains, whose many small conflicts multiply in a product."""
    if len(progress.labels) >= LONG:
        left, seconds = _left(progress, node_limit, HIGHS_SHARE)
        run_windows(progress, dual, HIGHS_PARTS, left, seconds)


def _small(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """HiGHS where bounds leave little of a chain, but hard rules tie all of it together, so that their product is large."""
    prepared = progress.prepared
    gap, hard = progress.bound - progress.best, np.count_nonzero(np.isinf(prepared.caps))
    if hard < MANY_RULES * prepared.unary.shape[1] or np.inf > gap > SMALL_GAP:
        return
    branchings = _left(progress, node_limit, HIGHS_SHARE)[0]
    left = progress.deadline.left
    seconds = SMALL_SECONDS if left is None else HIGHS_SHARE * left
    run_windows(progress, dual, SMALL_PARTS, branchings, seconds, SMALL_UNITS)


def _reduced(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    left, seconds = _left(progress, node_limit)
    if STAGES["product"].covers(progress.prepared.flat.shared.offered):
        if node_limit - progress.nodes < NODES_PER_BRANCHING or np.inf > progress.bound - progress.best > HOPELESS:
            return
        run_windows(progress, dual, HIGHS_PARTS, left, seconds)
    else:
        run_reduced(progress, dual, None, max(seconds, ALONE_SECONDS) if progress.deadline.left is None else seconds)


def _left(progress: Progress, node_limit: int, share: float = 1.0) -> tuple[int, float]:
    """Branchings and seconds that HiGHS may use: a share of the work left, and of the time where that is limited."""
    work, seconds = share * max(node_limit - progress.nodes, 0), progress.deadline.left
    return max(1, int(work / NODES_PER_BRANCHING)), LONGEST_CALL if seconds is None else share * seconds


_STATES = frozenset({"tally", "counters", "automaton"})
_ROWS = frozenset({"tally", "rows"})
_COUNTERS = frozenset({"counters"})
_NONE: frozenset[str] = frozenset()

STAGES: Engines[Stage] = Engines(
    "the stages of auto",
    [
        Engine("facts", _facts, False, _NONE),
        Engine("short_farkas", _farkas(1), False, _COUNTERS),
        Engine("short_product", _product(SHORT_WORK), True, _STATES),
        Engine("farkas", _farkas(MOST_PROOF_PASSES), False, _COUNTERS),
        Engine("joint", _joint(SMALL_TABLE), False, _STATES),
        Engine("short_dive", _dive(WIDTHS[0]), True, _STATES),
        Engine("short_last_product", _last_window(VERY_CLOSE, LAST_WORK, LAST_SHARE), True, _STATES),
        Engine("medium_product", _medium_product, True, _STATES),
        Engine("implied", _implied, False, _COUNTERS),
        Engine("columns", _columns, False, _COUNTERS),
        Engine("windows_milp", _windows, True, _ROWS),
        Engine("large_product", _product(LARGE_WORK), True, _STATES),
        Engine("counts", _counts, False, _COUNTERS),
        Engine("whole_counts", _whole, False, _COUNTERS),
        Engine("small_milp", _small, True, _ROWS),
        Engine("dive", _dive(WIDTHS[1]), True, _STATES),
        Engine("large_joint", _joint(LARGE_TABLE), False, _STATES),
        Engine("product", _product_again, True, _STATES),
        Engine("climb", _climb(CLIMB_NODES), False, _STATES),
        Engine("neighbors", _neighbors(NEIGHBOR_NODES, 3), False, _STATES),
        Engine("wide_dive", _dive(WIDTHS[2]), True, _STATES),
        Engine("long_neighbors", _neighbors(NEIGHBOR_NODES, 3), False, _STATES),
        Engine("last_product", _last_window(CLOSE, np.inf, LAST_SHARE), True, _STATES),
        Engine("long_product", _product(np.inf, PRODUCT_SHARE), True, _STATES),
        Engine("reduced_milp", _reduced, True, _ROWS),
        Engine("long_climb", _climb(CLIMB_NODES), False, _STATES),
        Engine("last_neighbors", _neighbors(np.inf), False, _STATES),
        Engine("last_climb", _climb(np.inf), False, _STATES),
    ],
)
"""What follows the duals and the paths, from cheap to expensive; an exact stage that cannot read a rule is passed over."""


FIRST = {OPEN: "soft_dd", BY_VITERBI: "viterbi", BY_DUALS: "soft_dd", BY_PATHS: "paths"}
"""Names of the levels that come before the stages, in one kernel."""

_TRIES = frozenset({"short", "medium", "large", "wide", "long", "last"})
"""An engine that is tried several times has one of these before its name."""


def run_auto(progress: Progress, node_limit: int, seconds: float | None) -> str:
    """Run engines until one settles the problem or limits are met; return the name of the last one that learned something."""
    with deadline(seconds) as progress.deadline:
        return _walk(progress, node_limit)


def _walk(progress: Progress, node_limit: int) -> str:
    shared = progress.prepared.flat.shared
    by_states = STAGES["product"].covers(shared.offered)
    last = FIRST[run_duals(progress, DUAL_ITERATIONS, min(PATH_NODES, node_limit) if by_states else 0)]
    if progress.settled:
        return last
    dual = dual_potentials(progress)
    for stage in STAGES.values():
        if progress.settled or progress.deadline.over:
            break
        if not stage.exact or stage.covers(shared.offered):
            dual = dual if dual.current else dual_potentials(progress)
            known = progress.best, progress.bound
            stage.run(progress, dual, node_limit)
            if known != (progress.best, progress.bound):
                last = stage.name.rpartition("_")[2] if stage.name.split("_")[0] in _TRIES else stage.name
    return last
