"""Decoding a chain under rules: the engines, what each can promise, and ``auto``, which walks from cheap to exact."""

from collections.abc import Callable, Sequence

from rulefield.inference.chain.auto import NODE_LIMIT, STAGES, run_auto
from rulefield.inference.chain.batch import decode_batch
from rulefield.inference.chain.dual import Progress, decode_soft_dd, run_soft_dd
from rulefield.inference.chain.enumerate import decode_enumerate
from rulefield.inference.chain.milp import decode_milp, decode_reduced_milp
from rulefield.inference.chain.paths import decode_paths
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.chain.product import decode_product
from rulefield.inference.engines import Engine, Engines
from rulefield.inference.flatten import flatten
from rulefield.inference.result import Result
from rulefield.parallel import in_threads
from rulefield.problem.chain_rules import ChainProblem

TOGETHER = 256
"""Chains that ``decode_many`` hands to one compiled call at the most."""

Run = Callable[[ChainProblem, int, float | None], Result]
"""(problem, node_limit, seconds) -> Result."""


def decode_viterbi(problem: ChainProblem) -> Result:
    """One Viterbi pass with local rules inside; optimal where its path breaks no other rule."""
    progress = Progress.start(prepare(problem))
    run_soft_dd(progress, 1)
    return progress.result("viterbi", 1)


def decode_auto(problem: ChainProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Viterbi, Soft-DD, a short search over paths, the product with rules in conflict, HiGHS, climbing: until one proves it.

    ``engine`` of the result names the one that finished. What one engine learned (labelling, bound, duals) the next
    one takes over. ``iterations`` counts Viterbi passes and search nodes.
    """
    progress = Progress.start(prepare(problem))
    engine = run_auto(progress, node_limit, seconds)
    return progress.result(engine, progress.iterations + progress.nodes)


READ = frozenset().union(*(stage.reads for stage in STAGES.values()))

ENGINES: Engines[Run] = Engines(
    "chains",
    [
        Engine("auto", decode_auto, True, READ),
        Engine("viterbi", lambda p, nodes, seconds: decode_viterbi(p), False, frozenset({"tally"})),
        Engine("soft_dd", lambda p, nodes, seconds: decode_soft_dd(p), False, frozenset({"tally", "counters"})),
        Engine("paths", lambda p, nodes, seconds: decode_paths(p, nodes), True, STAGES["product"].reads),
        Engine("product", lambda p, nodes, seconds: decode_product(p, nodes), True, STAGES["product"].reads),
        Engine("reduced_milp", decode_reduced_milp, True, STAGES["reduced_milp"].reads),
        Engine("milp", decode_milp, True, STAGES["reduced_milp"].reads),
        Engine("enumerate", lambda p, nodes, seconds: decode_enumerate(p), True, READ),
    ],
)


def decode(
    problem: ChainProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> Result:
    """Best labelling of a chain under its rules: maximise score - sum of weight x amount, hard rules unbroken.

    Parameters
    ----------
    problem : ChainProblem
    engine : str
        A name in ``ENGINES``.
    node_limit : int
        Most work; when it is done the result is ``bounded``: the best labelling met, with a true gap.
    seconds : float, optional
        Further limit in time, which the kernels of ``auto`` and HiGHS look at; results then depend on the machine.

    Returns
    -------
    Result
        ``status`` is ``optimal`` (proved), ``bounded``, or ``infeasible`` (proved). A returned labelling never breaks
        a hard rule; where none was found and none is disproved, ``labels`` is empty and ``status`` is ``bounded``.
    """
    chosen = ENGINES.choose(engine, flatten(problem.rules, problem.potentials.n_states).shared.offered)
    if problem.potentials.n_steps == 0:
        return decode_enumerate(problem)
    return chosen.run(problem, node_limit, seconds)


def decode_many(
    problems: Sequence[ChainProblem],
    engine: str = "auto",
    node_limit: int = NODE_LIMIT,
    seconds: float | None = None,
    n_jobs: int | None = None,
) -> list[Result]:
    """Decode many chains, in threads (kernels release the GIL); the results do not depend on ``n_jobs``.

    ``n_jobs`` as in :func:`rulefield.parallel.n_threads`; ``seconds`` is for each problem. What the first levels of ``auto``
    prove is decoded many at a time.
    """
    problems = list(problems)
    first: list[Result | None] = [None] * len(problems)
    if engine == "auto":
        parts = in_threads(
            lambda begin: decode_batch(problems[begin : begin + TOGETHER], node_limit),
            range(0, len(problems), TOGETHER),
            n_jobs,
        )
        first = [answer for part in parts for answer in part]
    return in_threads(
        lambda i: first[i] or decode(problems[i], engine, node_limit, seconds), range(len(problems)), n_jobs
    )
