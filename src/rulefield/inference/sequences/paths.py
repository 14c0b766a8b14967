"""Best-first search over paths with the duals as its bound (k-best A*)."""

from rulefield.inference.result import Result
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, run_duals
from rulefield.problem.chain_rules import ChainProblem


def decode_paths(problem: ChainProblem, node_limit: int = 200_000, dual_iterations: int = 60) -> Result:
    """Decode a chain by Soft-DD and then k-best A* over paths.

    Exact when it ends: paths come in the order of their dual score, which bounds their objective, so the search
    is over when the next score is not above the best objective. ``iterations`` counts search nodes.
    """
    progress = Progress.start(prepare(problem))
    run_duals(progress, dual_iterations, node_limit)
    return progress.result("paths", progress.nodes)
