"""Decoding segmentations under rules: the engines, and what each can promise."""

from collections.abc import Callable

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.result import Result
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.segments.enumerate import decode_enumerate
from rulefield.inference.sequences.segments.search import SegmentSearch, run_auto
from rulefield.problem.segments import SegmentProblem

Run = Callable[[SegmentProblem, int, float | None], Result]


def decode_auto(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Plain decoding, then the rules in conflict inside a window of the segment lattice, by all stages of the walk if needed.

    ``engine`` of the result names the one that finished. ``iterations`` counts passes over segments and lattice nodes.
    """
    search = SegmentSearch.start(problem)
    return search.result(run_auto(search, node_limit, seconds))


def decode_viterbi(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """One pass with rules about single tokens inside; optimal where it breaks no other rule."""
    return SegmentSearch.start(problem).result("viterbi")


_ALL = frozenset({"tally", "counters", "automaton"})

ENGINES: Engines[Run] = Engines(
    "segments",
    (
        Engine("auto", decode_auto, True, _ALL),
        Engine("viterbi", decode_viterbi, False, frozenset({"tally"})),
        Engine("enumerate", lambda problem, nodes, seconds: decode_enumerate(problem), True, _ALL),
    ),
)


def decode(
    problem: SegmentProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> Result:
    """Best segmentation under rules: maximize score - sum of weight x amount, hard rules unbroken.

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
