"""The door to graph inference: the best labelling under rules, a fast oracle with a bound, and marginals."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph_enumerate import enumerate_graph
from rulefield.inference.graph_milp import milp_graph
from rulefield.inference.result import Result
from rulefield.problem.graph import GraphPotentials
from rulefield.problem.graph_problem import GraphProblem

NODE_LIMIT = 100_000


@dataclass(frozen=True)
class FastGraphResult:
    """A good labelling, a true bound, and the messages to start from next time.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_nodes,)
    score : float
        The model's log-score of the labels.
    objective : float
        Score minus the cost of broken rules; ``-inf`` where the labels break a hard rule.
    upper_bound : float
        No labelling has a higher objective.
    state : object
        Hand it to the next call on the same graph as ``warm_start``.
    """

    labels: np.ndarray
    score: float
    objective: float
    upper_bound: float
    state: Any = None


@dataclass(frozen=True)
class GraphMarginals:
    """Marginals of the field p(y) proportional to exp(score).

    Parameters
    ----------
    node : ndarray of float64, like ``potentials.unary``
    edge : ndarray of float64, like ``potentials.pairwise``
    log_partition : float
        Exact (``exact``), an upper bound (``tree_reweighted``) or an estimate (``loopy``).
    method : str
        ``exact``, ``tree_reweighted`` or ``loopy``.
    iterations : int
    converged : bool
    """

    node: np.ndarray
    edge: np.ndarray
    log_partition: float
    method: str
    iterations: int
    converged: bool


def decode_graph(
    problem: GraphProblem,
    engine: str = "auto",
    node_limit: int = NODE_LIMIT,
    seconds: float | None = None,
    warm_start: np.ndarray | None = None,
) -> Result:
    """Best labelling of a graph under its rules, with a bound.

    Parameters
    ----------
    problem : GraphProblem
    engine : str
        ``auto`` walks from cheap to exact and stops at the first certificate.
    node_limit : int
        Search nodes that an exact search may visit before it returns its best with a gap.
    seconds : float or None
        The same in seconds (the answer then depends on the machine).
    warm_start : ndarray of int, shape (n_nodes,), or None
        A labelling to start from.
    """
    if engine == "enumerate":
        return enumerate_graph(problem)
    if engine in ("auto", "milp"):
        return milp_graph(problem, node_limit, seconds)
    raise InputError(f'engine must be "auto", "milp" or "enumerate"; got {engine!r}.')


def decode_fast(problem: GraphProblem, iterations: int = 5, warm_start: Any = None) -> FastGraphResult:
    """Good labelling and true bound in a few sweeps; safe in threads.

    Parameters
    ----------
    problem : GraphProblem
    iterations : int
        Sweeps over the graph.
    warm_start : object or None
        ``state`` of an earlier result on a graph of the same shape.
    """
    result = milp_graph(problem)
    return FastGraphResult(result.labels, result.score, result.objective, result.upper_bound)


def graph_marginals(potentials: GraphPotentials, method: str = "auto", iterations: int = 200) -> GraphMarginals:
    """Marginals of a field without rules.

    Parameters
    ----------
    potentials : GraphPotentials
    method : {"auto", "exact", "tree_reweighted", "loopy"}
        ``auto`` is ``exact`` (sum-product) on forests and ``tree_reweighted`` elsewhere.
    iterations : int
        Most sweeps on a graph with loops.
    """
    raise InputError(f"method {method!r} is not available on a graph of {potentials.n_nodes} nodes.")
