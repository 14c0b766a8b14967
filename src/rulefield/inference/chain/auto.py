"""The walk from cheap to exact: each engine takes over what the one before it learned."""

from collections.abc import Callable
from time import monotonic

import numpy as np

from rulefield.inference.chain.columns import tighten_dual
from rulefield.inference.chain.dual import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.chain.farkas import prove_infeasible
from rulefield.inference.chain.milp import run_reduced
from rulefield.inference.chain.paths import run_paths
from rulefield.inference.chain.product import run_product
from rulefield.inference.engines import Engine, Engines

NODE_LIMIT = 5_000_000
"""Search and lattice nodes that one problem may cost, by default."""

NODES_PER_BRANCHING = 50_000
"""A node of HiGHS's branch and bound counts as so many."""

DUAL_ITERATIONS = 30
PATH_NODES = 2_000

PRODUCT_NODES = 50_000
"""Nodes of the first, short try of the product, which settles most problems."""

Stage = Callable[[Progress, DualPotentials, int, float | None], None]
"""(progress, dual potentials, node_limit, seconds left): learns more of the problem."""


def _paths(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    run_paths(progress, dual, min(PATH_NODES, node_limit))


def _farkas(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    if progress.best == -np.inf and prove_infeasible(progress) is not None:
        progress.bound = -np.inf


def _short_farkas(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    if progress.best == -np.inf and prove_infeasible(progress, 1) is not None:
        progress.bound = -np.inf


def _short_product(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    run_product(progress, dual, min(PRODUCT_NODES, node_limit))


def _columns(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    if len(progress.duals):
        tighten_dual(progress)


def _product(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    run_product(progress, dual, node_limit)


def _reduced(progress: Progress, dual: DualPotentials, node_limit: int, seconds: float | None) -> None:
    run_reduced(progress, dual, max(1, node_limit // NODES_PER_BRANCHING), seconds)


_STATES = frozenset({"tally", "counters", "automaton"})

STAGES: Engines[Stage] = Engines(
    "the stages of auto",
    [
        Engine("paths", _paths, True, _STATES),
        Engine("short_farkas", _short_farkas, False, frozenset({"counters"})),
        Engine("short_product", _short_product, True, _STATES),
        Engine("farkas", _farkas, False, frozenset({"counters"})),
        Engine("columns", _columns, False, frozenset({"counters"})),
        Engine("product", _product, True, _STATES),
        Engine("reduced_milp", _reduced, True, frozenset({"tally", "rows"})),
    ],
)
"""What follows the duals, from cheap to expensive; an exact stage that cannot read a rule is passed over."""


def run_auto(progress: Progress, node_limit: int, seconds: float | None) -> str:
    """Run engines until one settles the problem or limits are met; return the name of the last one."""
    start = monotonic()

    def over() -> bool:
        return progress.settled or (seconds is not None and monotonic() - start > seconds)

    run_duals(progress, DUAL_ITERATIONS)
    if over():
        return "viterbi" if progress.iterations == 1 else "soft_dd"
    dual = dual_potentials(progress)
    last = "soft_dd"
    for stage in STAGES.values():
        if not stage.exact or stage.covers(progress.prepared.flat.shared.offered):
            left = None if seconds is None else seconds - (monotonic() - start)
            stage.run(progress, dual, node_limit, left)
            last = stage.name.removeprefix("short_")
            if over():
                break
            dual = dual if dual.current else dual_potentials(progress)
    return last
