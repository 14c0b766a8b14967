"""Decoding a chain under rules: the engines, what each can promise, and ``auto``, which walks from cheap to exact."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulefield.exceptions import InputError
from rulefield.inference.chain.auto import NODE_LIMIT, run_auto
from rulefield.inference.chain.dual import Progress, decode_soft_dd, run_soft_dd
from rulefield.inference.chain.exhaustive import decode_enumerate
from rulefield.inference.chain.milp import decode_milp, decode_reduced_milp
from rulefield.inference.chain.paths import decode_paths
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.chain.product import decode_product
from rulefield.inference.result import Result
from rulefield.parallel import in_threads
from rulefield.problem.chain_rules import ChainProblem


@dataclass(frozen=True)
class Engine:
    """A way to decode a chain under rules.

    Parameters
    ----------
    name : str
    run : callable
        (problem, node_limit, seconds) -> Result.
    exact : bool
        Whether it always proves its answer when no limit stops it.
    reads : frozenset of str
        Forms of rules that it uses; rules in another form are judged but not optimised.
    """

    name: str
    run: Callable[[ChainProblem, int, float | None], Result]
    exact: bool
    reads: frozenset[str]


def decode_viterbi(problem: ChainProblem) -> Result:
    """One Viterbi pass with local rules inside; optimal where its path breaks no other rule."""
    progress = Progress.start(prepare(problem))
    run_soft_dd(progress, 1)
    return progress.result("viterbi", 1)


def decode_auto(problem: ChainProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Viterbi, Soft-DD, a short search over paths, the product with rules in conflict, HiGHS: until one proves it.

    ``engine`` of the result names the one that finished. What one engine learned (labelling, bound, duals) the next
    one takes over. ``iterations`` counts Viterbi passes and search nodes.
    """
    progress = Progress.start(prepare(problem))
    engine = run_auto(progress, node_limit, seconds)
    return progress.result(engine, progress.iterations + progress.nodes)


_ALL = frozenset({"tally", "counters", "automaton"})

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("auto", decode_auto, True, _ALL | {"rows"}),
        Engine("viterbi", lambda p, nodes, seconds: decode_viterbi(p), False, frozenset({"tally"})),
        Engine("soft-dd", lambda p, nodes, seconds: decode_soft_dd(p), False, frozenset({"tally", "counters"})),
        Engine("paths", lambda p, nodes, seconds: decode_paths(p, nodes), True, _ALL),
        Engine("product", lambda p, nodes, seconds: decode_product(p, nodes), True, _ALL),
        Engine("reduced-milp", decode_reduced_milp, True, frozenset({"tally", "rows"})),
        Engine("milp", decode_milp, True, frozenset({"tally", "rows"})),
        Engine("enumerate", lambda p, nodes, seconds: decode_enumerate(p), True, _ALL),
    )
}


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
        Largest search; when it is reached the result is ``bounded``: the best labelling met, with a true gap.
    seconds : float, optional
        Further limit in time, looked at between the steps of ``auto`` and by HiGHS; results then depend on the
        machine.

    Returns
    -------
    Result
        ``status`` is ``optimal`` (proved), ``bounded``, or ``infeasible`` (proved). A returned labelling never breaks
        a hard rule; where none was found and none is disproved, ``labels`` is empty and ``status`` is ``bounded``.
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} is unknown; choose one of {', '.join(ENGINES)}.")
    if problem.potentials.n_steps == 0:
        return decode_enumerate(problem)
    return ENGINES[engine].run(problem, node_limit, seconds)


def decode_many(
    problems: Sequence[ChainProblem],
    engine: str = "auto",
    node_limit: int = NODE_LIMIT,
    seconds: float | None = None,
    n_jobs: int | None = None,
) -> list[Result]:
    """Decode many chains, in threads (kernels release the GIL); the results do not depend on ``n_jobs``.

    ``n_jobs`` as in :func:`rulefield.parallel.n_threads`; ``seconds`` is for each problem.
    """
    return in_threads(lambda problem: decode(problem, engine, node_limit, seconds), problems, n_jobs)
