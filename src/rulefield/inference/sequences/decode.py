"""Decoding a chain under rules: the engines, what each can promise, and ``auto``, which walks from cheap to exact."""

from collections.abc import Callable
from functools import partial

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.flatten import flatten
from rulefield.inference.limits import deadline
from rulefield.inference.result import Result
from rulefield.inference.sequences.auto import DUAL_ITERATIONS, NODE_LIMIT, ROWS, STATES, Stage, run_auto
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals, run_soft_dd
from rulefield.inference.sequences.stages.ilp import run_reduced, run_whole
from rulefield.inference.sequences.stages.product import run_product
from rulefield.problem.chain_rules import ChainProblem

Run = Callable[[ChainProblem, int, float | None], Result]
"""(problem, node_limit, seconds) -> Result."""


def decode_auto(problem: ChainProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Viterbi, Soft-DD, a short search over paths, then the stages of the walk, until one proves the answer.

    ``engine`` of the result names the one that finished. What one engine learned (labeling, bound, duals) the next
    one takes over. ``iterations`` counts Viterbi passes and search nodes.
    """
    with deadline(seconds) as limit:
        progress = Progress.start(prepare(problem))
        progress.deadline = limit
        engine = run_auto(progress, node_limit)
    return progress.result(engine, min(progress.iterations + progress.nodes, node_limit))


def decode_soft_dd(problem: ChainProblem, max_iterations: int = 100, paper_stop: bool = False) -> Result:
    """Decode a chain by Soft-DD alone, in so many Viterbi passes; one is plain Viterbi with local rules inside.

    Projected subgradient steps on the duals of counters; rules known only by an automaton are judged but not priced.
    ``paper_stop`` stops also by the test that [Anzaroot14] prints (equality, or dual 0, or dual at its weight), from the
    second pass on: at the first all duals are 0, so that it would accept everything, and the paper's figures show that its
    authors went on. It accepts labelings that are not optimal; ``status`` still tells the truth.
    """
    progress = Progress.start(prepare(problem))
    run_soft_dd(progress, max_iterations, paper_stop)
    return progress.result("viterbi" if max_iterations == 1 else "soft_dd", progress.iterations)


def decode_alone(
    engine: str, stage: Stage | None, problem: ChainProblem, node_limit: int, seconds: float | None
) -> Result:
    """Decode a chain by duals and then one stage (None: paths); ``iterations`` counts units of work."""
    progress = Progress.start(prepare(problem))
    with deadline(seconds) as progress.deadline:
        if engine != "milp":
            run_duals(progress, DUAL_ITERATIONS, 0 if stage else node_limit)
        if stage and not progress.settled:
            stage(progress, dual_potentials(progress), node_limit)
    return progress.result(engine, progress.nodes)


ENGINES: Engines[Run] = Engines(
    "chains",
    [
        Engine("auto", decode_auto, True, STATES | ROWS),
        Engine("viterbi", lambda p, nodes, seconds: decode_soft_dd(p, 1), False, frozenset({"tally"})),
        Engine("soft_dd", lambda p, nodes, seconds: decode_soft_dd(p), False, frozenset({"tally", "counters"})),
        Engine("paths", partial(decode_alone, "paths", None), True, STATES),
        Engine("product", partial(decode_alone, "product", run_product), True, STATES),
        Engine("reduced_milp", partial(decode_alone, "reduced_milp", run_reduced), True, ROWS),
        Engine("milp", partial(decode_alone, "milp", run_whole), True, ROWS),
        Engine("enumerate", lambda p, nodes, seconds: decode_enumerate(p), True, STATES | ROWS),
    ],
)


def decode(
    problem: ChainProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> Result:
    """Best labeling of a chain under its rules: maximize score - sum of weight x amount, hard rules unbroken.

    ``engine`` is a name in ``ENGINES``. If the work of ``node_limit`` is done, or ``seconds`` are over (then results depend
    on the machine), the result is ``bounded``: the best labeling met, with a true gap, or no labels if none was found that
    obeys the hard rules.
    """
    chosen = ENGINES.choose(engine, flatten(problem.rules, problem.potentials.n_states).shared.offered)
    if problem.potentials.n_steps == 0:
        return decode_enumerate(problem)
    return chosen.run(problem, node_limit, seconds)
