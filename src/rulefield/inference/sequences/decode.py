"""Decoding a chain under rules: the engines, what each can promise, and ``auto``, which walks from cheap to exact."""

from collections.abc import Callable

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.flatten import flatten
from rulefield.inference.result import Result
from rulefield.inference.sequences.auto import NODE_LIMIT, ROWS, STATES, run_auto
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.paths import decode_paths
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, decode_soft_dd, run_soft_dd
from rulefield.inference.sequences.stages.ilp import decode_milp, decode_reduced_milp
from rulefield.inference.sequences.stages.product import decode_product
from rulefield.problem.chain_rules import ChainProblem

Run = Callable[[ChainProblem, int, float | None], Result]
"""(problem, node_limit, seconds) -> Result."""


def decode_viterbi(problem: ChainProblem) -> Result:
    """One Viterbi pass with local rules inside; optimal where its path breaks no other rule."""
    progress = Progress.start(prepare(problem))
    run_soft_dd(progress, 1)
    return progress.result("viterbi", 1)


def decode_auto(problem: ChainProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Viterbi, Soft-DD, a short search over paths, then the stages of the walk, until one proves the answer.

    ``engine`` of the result names the one that finished. What one engine learned (labeling, bound, duals) the next
    one takes over. ``iterations`` counts Viterbi passes and search nodes.
    """
    progress = Progress.start(prepare(problem))
    engine = run_auto(progress, node_limit, seconds)
    return progress.result(engine, min(progress.iterations + progress.nodes, node_limit))


READ = STATES | ROWS

ENGINES: Engines[Run] = Engines(
    "chains",
    [
        Engine("auto", decode_auto, True, READ),
        Engine("viterbi", lambda p, nodes, seconds: decode_viterbi(p), False, frozenset({"tally"})),
        Engine("soft_dd", lambda p, nodes, seconds: decode_soft_dd(p), False, frozenset({"tally", "counters"})),
        Engine("paths", lambda p, nodes, seconds: decode_paths(p, nodes), True, STATES),
        Engine("product", lambda p, nodes, seconds: decode_product(p, nodes), True, STATES),
        Engine("reduced_milp", decode_reduced_milp, True, ROWS),
        Engine("milp", decode_milp, True, ROWS),
        Engine("enumerate", lambda p, nodes, seconds: decode_enumerate(p), True, READ),
    ],
)


def decode(
    problem: ChainProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> Result:
    """Best labeling of a chain under its rules: maximize score - sum of weight x amount, hard rules unbroken.

    Parameters
    ----------
    problem : ChainProblem
    engine : str
        A name in ``ENGINES``.
    node_limit : int
        Most work; when it is done the result is ``bounded``: the best labeling met, with a true gap.
    seconds : float, optional
        Further limit in time, which the kernels of ``auto`` and HiGHS look at; results then depend on the machine.

    Returns
    -------
    Result
        ``status`` is ``optimal`` (proved), ``bounded``, or ``infeasible`` (proved). A returned labeling never breaks
        a hard rule; where none was found and none is disproved, ``labels`` is empty and ``status`` is ``bounded``.
    """
    chosen = ENGINES.choose(engine, flatten(problem.rules, problem.potentials.n_states).shared.offered)
    if problem.potentials.n_steps == 0:
        return decode_enumerate(problem)
    return chosen.run(problem, node_limit, seconds)
