"""The walk from cheap to exact: each engine takes over what the one before it learned."""

from time import monotonic

from rulefield.inference.chain.dual import Progress, dual_potentials, run_duals
from rulefield.inference.chain.milp import run_reduced
from rulefield.inference.chain.paths import run_paths
from rulefield.inference.chain.product import run_product

NODE_LIMIT = 500_000
"""Search and lattice nodes that one problem may cost, by default."""

NODES_PER_BRANCHING = 5_000
"""A node of HiGHS's branch and bound counts as so many."""

DUAL_ITERATIONS = 30
PATH_NODES = 2_000


def run_auto(progress: Progress, node_limit: int, seconds: float | None) -> str:
    """Run engines until one settles the problem or limits are met; return the name of the last one."""
    start = monotonic()

    def over() -> bool:
        return progress.settled or (seconds is not None and monotonic() - start > seconds)

    run_duals(progress, DUAL_ITERATIONS)
    if over():
        return "viterbi" if progress.iterations == 1 else "soft-dd"
    dual = dual_potentials(progress)
    run_paths(progress, dual, min(PATH_NODES, node_limit))
    if over():
        return "paths"
    run_product(progress, dual, node_limit)
    if over():
        return "product"
    left = None if seconds is None else seconds - (monotonic() - start)
    run_reduced(progress, dual, max(1, node_limit // NODES_PER_BRANCHING), left)
    return "reduced-milp"
