"""Decode without logic factors first: where the answer breaks none of them, they need not be looked at."""

from dataclasses import replace
from typing import Any

from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Result, Status
from rulefield.problem.graph_problem import GraphProblem
from rulefield.problem.logic import LogicFactors


def decode_lazily(problem: GraphProblem, **limits: Any) -> Result:
    """Solve without logic factors, and with all of them only where the answer breaks one.

    Leaving factors out can only raise the optimum, so an optimum that breaks none of them is the optimum of the whole
    problem; the plain problem is many times cheaper.

    Parameters
    ----------
    problem : GraphProblem
        Rows are always on.
    **limits
        Passed to :func:`rulefield.inference.graph.decode.decode_graph`.
    """
    if problem.logic.n_factors == 0:
        return decode_graph(problem, **limits)
    plain = decode_graph(replace(problem, logic=LogicFactors.none()), **limits)
    if plain.status is Status.infeasible:
        return plain
    if len(plain.labels) and not problem.logic.broken(plain.labels).any():
        return plain
    return decode_graph(problem, **limits)
