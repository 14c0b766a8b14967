"""Best-first search over paths with the duals as its bound (k-best A*)."""

from rulefield.inference.chain.dual import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.result import Result
from rulefield.kernels.lattice.paths import kbest_paths
from rulefield.problem.chain_rules import ChainProblem


def run_paths(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Enumerate paths by falling dual score until none can beat the best, or the limit is reached."""
    prepared = progress.prepared
    bound, best, nodes, exhausted = kbest_paths(
        prepared.unary,
        prepared.arriving,
        dual.unary,
        dual.arriving,
        dual.ahead,
        dual.constant,
        prepared.tables,
        prepared.classes,
        node_limit,
        progress.slack,
        progress.best,
        progress.labels,
    )
    progress.best = float(best)
    reached = float(best) + progress.slack if exhausted else float(bound)
    progress.bound = min(progress.bound, reached + dual.error)
    progress.nodes += nodes


def decode_paths(problem: ChainProblem, node_limit: int = 200_000, dual_iterations: int = 60) -> Result:
    """Decode a chain by Soft-DD and then k-best A* over paths.

    Exact when it ends: paths come in the order of their dual score, which bounds their objective, so the search
    is over when the next score is not above the best objective. ``iterations`` counts search nodes.
    """
    progress = Progress.start(prepare(problem))
    run_duals(progress, dual_iterations)
    if not progress.settled:
        run_paths(progress, dual_potentials(progress), node_limit)
    return progress.result("paths", progress.nodes)
