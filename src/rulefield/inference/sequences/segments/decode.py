"""Decoding segmentations under rules: the engines, and what each can promise."""

from collections.abc import Callable

import numpy as np

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.limits import NO_DEADLINE, deadline
from rulefield.inference.result import Result
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.decode import ENGINES as CHAIN_ENGINES
from rulefield.inference.sequences.decode import decode as decode_chain
from rulefield.inference.sequences.segments.search import SegmentSearch
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.problem.segments import SegmentProblem

Run = Callable[[SegmentProblem, int, float | None], Result]


def decode_auto(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Plain decoding, then windows of the segment lattice, by all stages of the walk if needed.

    ``engine`` of the result names the one that finished. ``iterations`` counts units of work.
    """
    with deadline(seconds) as clock:
        search = SegmentSearch(problem)
        search.run(node_limit, clock)
    return search.result()


def decode_viterbi(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """One pass with rules about single tokens inside; optimal where it breaks no other rule."""
    return SegmentSearch(problem).result()


def _on_lattice(engine: str) -> Run:
    """Return an engine of chains as it runs on the lattice of all segmentations."""

    def run(problem: SegmentProblem, node_limit: int, seconds: float | None) -> Result:
        search = SegmentSearch(problem)
        search.engine = engine
        window = None if search.settled else search.window(-np.inf, max(node_limit, 1))
        if window is not None:
            search.known.update(range(len(problem.rules)))
            search.decode(window, node_limit - search.steps, NO_DEADLINE, engine)
        return search.result()

    return run


_ALL = frozenset({"tally", "counters", "automaton"})

_ON_LATTICE = ("soft_dd", "paths", "product", "reduced_milp", "milp")

ENGINES: Engines[Run] = Engines(
    "segments",
    (
        Engine("auto", decode_auto, True, _ALL),
        Engine("viterbi", decode_viterbi, False, frozenset({"tally"})),
        *(
            Engine(e.name, _on_lattice(e.name), e.exact, e.reads)
            for e in CHAIN_ENGINES.values()
            if e.name in _ON_LATTICE
        ),
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
        m = problem.spelling.n_labels
        return decode_chain(ChainProblem(ChainPotentials(np.zeros((0, m)), np.zeros((m, m))), problem.rules))
    return chosen.run(problem, node_limit, seconds)
