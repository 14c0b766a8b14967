"""The door to graph inference: the best labelling under rules, a fast oracle with a bound, and marginals."""

from dataclasses import replace
from time import monotonic

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.ad3 import ad3_graph
from rulefield.inference.graph.auto import auto_graph, branch_graph, reduced_graph, trws_graph
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.enumerate import enumerate_graph
from rulefield.inference.graph.evaluate import check_labels, check_problem
from rulefield.inference.graph.fast import FastGraphResult, FastState, decode_fast
from rulefield.inference.graph.marginals import GraphMarginals, MarginalState, graph_marginals
from rulefield.inference.graph.maxflow import flow_graph
from rulefield.inference.graph.milp import milp_graph
from rulefield.inference.graph.toulbar2 import toulbar2_graph
from rulefield.inference.graph.trws import ROUNDS
from rulefield.inference.result import Result, Status
from rulefield.problem.graph import GraphProblem
from rulefield.problem.logic import LogicFactors

__all__ = [
    "ENGINES",
    "FastGraphResult",
    "FastState",
    "GraphMarginals",
    "MarginalState",
    "decode_fast",
    "decode_graph",
    "graph_marginals",
    "minimal_conflict_graph",
    "relax_graph",
]

NODE_LIMIT = 100_000
ENGINES = ("auto", "trws", "branch", "maxflow", "ad3", "reduced_milp", "milp", "toulbar2", "enumerate")


def decode_graph(
    problem: GraphProblem,
    engine: str = "auto",
    node_limit: int = NODE_LIMIT,
    seconds: float | None = None,
    warm_start: np.ndarray | None = None,
) -> Result:
    """Best labelling of a graph under its rules, with a bound. Hard rules are never broken in a labelling returned.

    Parameters
    ----------
    problem : GraphProblem
    engine : str
        ``auto`` walks from cheap to exact and stops at the first certificate: logic factors are left out at first
        (an optimum that breaks none of them is the optimum); TRW-S (exact on forests), branch and
        bound on its bound, the same on the pieces that bounds leave open, HiGHS on the rest; hubs are tried label by
        label, and submodular problems with two labels and no rules go to ``maxflow`` at once.
        ``maxflow``: a minimum cut, for these alone. ``trws``: no search. ``branch``: TRW-S and branch and bound on the
        whole. ``ad3``: the relaxation, rounded. ``reduced_milp``: TRW-S, then HiGHS on what its bounds leave open.
        ``milp``: HiGHS on the whole problem.
        ``toulbar2``: where pytoulbar2 is installed (it holds the GIL). ``enumerate``: every labelling.
    node_limit : int
        Search nodes that an exact search may visit before it returns its best with a gap; a node counts as one for
        each 3,000 entries of the messages along edges, so that the limit means about the same work on large graphs.
    seconds : float or None
        The same in seconds (the answer then depends on the machine).
    warm_start : ndarray of int, shape (n_nodes,), or None
        A labelling to start from.
    """
    check_problem(problem)
    if warm_start is not None:
        check_labels(problem.potentials, np.asarray(warm_start))
    if engine == "auto":
        return _lazily(problem, node_limit, seconds, warm_start)
    if engine == "trws":
        return trws_graph(problem, ROUNDS, warm_start)
    if engine == "branch":
        return branch_graph(problem, node_limit, seconds, warm_start)
    if engine == "maxflow":
        return flow_graph(problem)
    if engine == "ad3":
        return ad3_graph(problem)
    if engine == "reduced_milp":
        return reduced_graph(problem, node_limit, seconds)
    if engine == "milp":
        return milp_graph(problem, node_limit, seconds)
    if engine == "toulbar2":
        return toulbar2_graph(problem, node_limit, seconds)
    if engine == "enumerate":
        return enumerate_graph(problem)
    raise InputError(f"engine must be one of {', '.join(ENGINES)}; got {engine!r}.")


def _lazily(
    problem: GraphProblem, node_limit: int, seconds: float | None, warm_start: np.ndarray | None = None
) -> Result:
    """Solve without logic factors, and with all of them only where the answer breaks one.

    Leaving factors out can only raise the optimum, so an optimum that breaks none of them is the optimum of the whole
    problem; the plain problem is many times cheaper.
    """
    if problem.logic.n_factors == 0:
        return auto_graph(problem, node_limit, seconds, warm_start)
    start = monotonic()
    plain = auto_graph(replace(problem, logic=LogicFactors.none()), node_limit, seconds, warm_start)
    if plain.status is Status.infeasible or (len(plain.labels) and not problem.logic.broken(plain.labels).any()):
        return plain
    left = None if seconds is None else max(0.0, seconds - (monotonic() - start))
    return auto_graph(problem, node_limit, left, warm_start)
