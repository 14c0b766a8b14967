"""Decoding segmentations under rules: the engines, and what each can promise."""

from collections.abc import Callable

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.result import Result
from rulefield.inference.segments.enumerate import decode_enumerate
from rulefield.inference.segments.search import DUAL_ITERATIONS, NODE_LIMIT, SegmentSearch, run_auto, run_duals
from rulefield.problem.segments import SegmentProblem

Run = Callable[[SegmentProblem, int, float | None], Result]


def decode_auto(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Plain decoding, then the rules in conflict inside a window of the segment lattice, with duals where it is large.

    ``engine`` of the result names the one that finished. ``iterations`` counts passes over segments and lattice nodes.
    """
    search = SegmentSearch.start(problem)
    return search.result(run_auto(search, node_limit, seconds))


def decode_viterbi(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """One pass with rules about single tokens inside; optimal where it breaks no other rule."""
    return SegmentSearch.start(problem).result("viterbi")


def decode_product(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Soft-DD in each window, then dynamic programming over the product with rules in conflict."""
    search = SegmentSearch.start(problem)
    run_auto(search, node_limit, seconds, first="soft_dd")
    return search.result("product")


def decode_soft_dd(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Dual decomposition over counters with best segmentations as its oracle ([Anzaroot14], section 2.1)."""
    search = SegmentSearch.start(problem)
    if not search.settled and search.bound < float("inf"):
        lattice = search.window(-float("inf"), node_limit)
        if lattice is not None and len(lattice.label):
            run_duals(search, lattice, -float("inf"), DUAL_ITERATIONS)
    return search.result("soft_dd")


_ALL = frozenset({"tally", "counters", "automaton"})

ENGINES: Engines[Run] = Engines(
    "segments",
    (
        Engine("auto", decode_auto, True, _ALL),
        Engine("viterbi", decode_viterbi, False, frozenset({"tally"})),
        Engine("soft_dd", decode_soft_dd, False, frozenset({"tally", "counters"})),
        Engine("product", decode_product, True, _ALL),
        Engine("enumerate", lambda problem, nodes, seconds: decode_enumerate(problem), True, _ALL),
    ),
)


def decode(
    problem: SegmentProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> Result:
    """Best segmentation under rules: maximise score - sum of weight x amount, hard rules unbroken.

    Parameters
    ----------
    problem : SegmentProblem
    engine : str
        A name in ``ENGINES``.
    node_limit : int
        Largest search; when it is reached the result is ``bounded``: the best segmentation met, with a true gap.
    seconds : float, optional
        Further limit in time, looked at between the steps of ``auto``; results then depend on the machine.

    Returns
    -------
    Result
        ``labels`` are the token labels of ``problem.spelling``. ``status`` is ``optimal`` (proved), ``bounded``, or
        ``infeasible`` (proved). A returned segmentation never breaks a hard rule; where none was found and none is
        disproved, ``labels`` is empty and ``status`` is ``bounded``.
    """
    chosen = ENGINES.find(engine)
    if problem.potentials.n_steps == 0:
        return decode_enumerate(problem)
    return chosen.run(problem, node_limit, seconds)
