"""Decoding segmentations under rules: the engines, and what each can promise."""

from collections.abc import Callable
from functools import partial

import numpy as np

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.limits import NO_DEADLINE, deadline
from rulefield.inference.result import Result
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.decode import ENGINES as CHAIN_ENGINES
from rulefield.inference.sequences.decode import Run as ChainRun
from rulefield.inference.sequences.decode import decode as decode_chain
from rulefield.inference.sequences.segments.search import SegmentSearch
from rulefield.problem.segments import SegmentProblem

Run = Callable[[SegmentProblem, int, float | None], Result]


def decode_auto(problem: SegmentProblem, node_limit: int, seconds: float | None) -> Result:
    """Plain decoding, then windows of the segment lattice, by all stages of the walk if needed.

    ``engine`` of the result names the one that finished. ``iterations`` counts units of work.
    """
    with deadline(seconds) as clock:
        search = SegmentSearch(problem)
        search.run(node_limit, clock)
    return search.result()


def decode_alone(engine: str, problem: SegmentProblem, node_limit: int, seconds: float | None) -> Result:
    """Decode by an engine of chains on the lattice of all segmentations."""
    search = SegmentSearch(problem)
    search.engine = engine
    window = None if search.settled else search.window(-np.inf, max(node_limit, 1))
    if window is not None:
        search.known.update(range(len(problem.rules)))
        search.decode(window, node_limit - search.steps, NO_DEADLINE, engine)
    return search.result()


def _on_lattice(engine: Engine[ChainRun]) -> Engine[Run]:
    return Engine(engine.name, partial(decode_alone, engine.name), engine.exact, engine.reads)


_OTHERS = "auto", "viterbi", "enumerate"

ENGINES: Engines[Run] = Engines(
    "segments",
    (
        Engine("auto", decode_auto, True, frozenset({"tally", "counters", "automaton"})),
        Engine("viterbi", lambda p, nodes, seconds: SegmentSearch(p).result(), False, frozenset({"tally"})),
        *(_on_lattice(engine) for engine in CHAIN_ENGINES.values() if engine.name not in _OTHERS),
    ),
)
"""``auto``, one pass with rules about single tokens inside, and engines of chains on the lattice of all segmentations."""


def decode(
    problem: SegmentProblem, engine: str = "auto", node_limit: int = NODE_LIMIT, seconds: float | None = None
) -> Result:
    """Best segmentation under its rules; ``labels`` are the token labels of ``problem.spelling``.

    Arguments and result are those of :func:`rulefield.inference.sequences.decode.decode`.
    """
    chosen = ENGINES.find(engine)
    if problem.potentials.n_steps == 0:
        return decode_chain(problem.chain_of_nothing)
    return chosen.run(problem, node_limit, seconds)
