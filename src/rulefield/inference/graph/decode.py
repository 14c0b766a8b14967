"""The entry point of graph decoding: the best labeling under rules, by any engine, with a bound that was checked."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic

import numpy as np

from rulefield.inference.engines import Engine, Engines
from rulefield.inference.graph.ad3 import ad3_graph
from rulefield.inference.graph.auto import ENGINE_STEPS, auto_graph, is_closed, walk_graph
from rulefield.inference.graph.evaluate import (
    Answer,
    centered,
    certify,
    check_labels,
    check_problem,
    no_answer,
    with_tables,
)
from rulefield.inference.graph.exact.milp import milp_graph
from rulefield.inference.graph.parts import parts_of
from rulefield.inference.graph.state import NODES_PER_SECOND
from rulefield.inference.result import Result
from rulefield.problem.graph import GraphProblem
from rulefield.problem.logic import LogicFactors

NODE_LIMIT = 10 * NODES_PER_SECOND
"""Search nodes by default: about ten seconds."""
PLAIN_SHARE = 10
"""One search node in so many is for the problem without its logic factors: it is mostly proved in fewer."""


def decode_graph(
    problem: GraphProblem,
    engine: str = "auto",
    node_limit: int | None = None,
    seconds: float | None = None,
    warm_start: np.ndarray | None = None,
) -> Result:
    """Best labeling of a graph under its rules, with a bound. Hard rules are never broken in a labeling returned.

    Parameters
    ----------
    problem : GraphProblem
    engine : str
        ``auto`` walks from cheap to exact and stops at the first certificate. ``trws``: no search.
        ``branch``: TRW-S and branch and bound on the whole. ``elimination``: TRW-S, then variable elimination, refused if
        its tables would be too large. ``ad3``: the relaxation, rounded. ``milp``: HiGHS on the whole.
    node_limit : int or None
        Search nodes that an exact search may visit before it returns its best with a gap; a node counts as one for
        each 3,000 entries of the messages along edges, so that the limit means about the same work on large graphs.
        None: 100,000, and as many for every ten of the ``seconds`` given.
    seconds : float or None
        The same in seconds (the answer then depends on the machine).
    warm_start : ndarray of int, shape (n_nodes,), or None
        A labeling to start from.
    """
    check_problem(problem)
    if node_limit is None:
        node_limit = NODE_LIMIT * max(1, int((seconds or 0.0) * NODES_PER_SECOND / NODE_LIMIT))
    if warm_start is not None:
        check_labels(problem.potentials, np.asarray(warm_start))
    chosen = ENGINES.find(engine)
    if problem.tables.n_tables:
        plain = problem.pairwise
        return with_tables(problem, decode_graph(plain, engine, node_limit, seconds))
    inner, constant = centered(problem)
    if not chosen.reads >= ALL:
        ENGINES.choose(engine, _forms(inner))
    if constant == -np.inf:
        return certify(problem, inner, constant, no_answer(-np.inf, engine))
    if not problem.potentials.n_nodes + problem.rows.n_auxiliary:
        return certify(problem, inner, constant, Answer(np.zeros(0, np.int64), 0.0, 0.0, engine))
    return certify(problem, inner, constant, chosen.run(inner, node_limit, seconds, warm_start))


def _lazily(
    problem: GraphProblem, node_limit: int, seconds: float | None, warm_start: np.ndarray | None = None
) -> Answer:
    """Solve without logic factors, and with all of them only where the answer breaks one or is not proved.

    Leaving factors out can only raise the optimum, so an optimum that breaks none of them is the optimum of the whole
    problem; the plain problem is many times cheaper. It gets a tenth of the search, so that one which cannot be proved
    does not cost twice; its labeling is where the whole begins.
    """
    if problem.logic.n_factors == 0:
        return auto_graph(problem, node_limit, seconds, warm_start)
    start = monotonic()
    briefly = -(-node_limit // PLAIN_SHARE)
    plain = auto_graph(replace(problem, logic=LogicFactors.none()), briefly, seconds, warm_start)
    n = problem.potentials.n_nodes
    if plain.labels is None and plain.bound == -np.inf:
        return plain
    if plain.labels is not None and not problem.logic.broken(plain.labels[:n]).any():
        if is_closed(plain):
            return plain
        warm_start = plain.labels[:n]
    left = None if seconds is None else max(0.0, seconds - (monotonic() - start))
    answer = auto_graph(problem, node_limit, left, warm_start)
    return replace(answer, bound=max(answer.value, min(answer.bound, plain.bound)))


Run = Callable[[GraphProblem, int, float | None, np.ndarray | None], Answer]
LOGIC, COUNTS, ROWS = "logic", "counts", "rows"
"""Forms of rules: logic factors, rows that have an automaton, rows with any coefficients."""
ALL = frozenset({LOGIC, COUNTS, ROWS})


def _walk(name: str) -> Engine[Run]:
    """Return an engine that is a few steps of the walk."""
    exact = name != "trws"
    return Engine(name, partial(walk_graph, name), exact, frozenset({LOGIC, COUNTS}) if exact else ALL)


ENGINES: Engines[Run] = Engines(
    "graphs",
    [
        Engine("auto", _lazily, True, ALL),
        Engine("ad3", lambda problem, *_: ad3_graph(problem), False, ALL),
        Engine("milp", lambda problem, nodes, seconds, _: milp_graph(problem, nodes, seconds), True, ALL),
        *map(_walk, ENGINE_STEPS),
    ],
)


def _forms(problem: GraphProblem) -> list[frozenset[str]]:
    """Compiled forms in which the problem's rules can be read, each combination once."""
    forms = [frozenset({LOGIC})] if problem.logic.n_factors else []
    if problem.rows.n_rows:
        without = len(parts_of(problem)[1])
        forms += [frozenset({ROWS})] if without else []
        forms += [frozenset({COUNTS, ROWS})] if without < problem.rows.n_rows else []
    return forms
