"""A good labelling and a true bound in a few sweeps: the oracle of learners."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.inference.graph_check import check_scores
from rulefield.inference.graph_evaluate import penalty
from rulefield.inference.graph_network import Network, build_network
from rulefield.inference.graph_parts import extend, parts_of
from rulefield.inference.graph_trws import begin_network, branch_and_bound, descend
from rulefield.kernels.graph_sweep import Messages
from rulefield.problem.graph_problem import GraphProblem


@dataclass(frozen=True)
class FastState:
    """Structure and messages to start from next time on the same graph under the same rules."""

    network: Network
    messages: Messages
    labels: np.ndarray
    problem: GraphProblem

    def fits(self, problem: GraphProblem) -> bool:
        """Whether the other problem has the same nodes, edges and rules."""
        mine, other = self.problem, problem
        same_rules = (mine.logic is other.logic or not (mine.logic.n_factors or other.logic.n_factors)) and (
            mine.rows is other.rows or not (mine.rows.n_rows or other.rows.n_rows)
        )
        p, q = mine.potentials, other.potentials
        return same_rules and np.array_equal(p.n_labels, q.n_labels) and np.array_equal(p.edges, q.edges)


@dataclass(frozen=True)
class FastGraphResult:
    """A good labelling, a true bound, and the messages to start from next time.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_nodes,)
    score : float
        The model's log-score of the labels.
    objective : float
        Score minus the cost of broken rules; ``-inf`` where no labelling that keeps the hard rules was found (the
        labels are then only a guess).
    upper_bound : float
        No labelling has a higher objective.
    state : FastState
        Hand it to the next call on the same graph as ``warm_start``.
    """

    labels: np.ndarray
    score: float
    objective: float
    upper_bound: float
    state: FastState = field(repr=False)


def decode_fast(
    problem: GraphProblem, iterations: int = 5, warm_start: FastState | None = None, node_limit: int = 0
) -> FastGraphResult:
    """Good labelling and true bound in a few rounds of TRW-S; exact on forests without rules. Safe in threads.

    Parameters
    ----------
    problem : GraphProblem
    iterations : int
        Rounds (a sweep back and one ahead); fewer are made when the bound is met.
    warm_start : FastState or None
        ``state`` of an earlier result: messages are used again where graph and rules are the same.
    node_limit : int
        Where the rounds leave a gap: search nodes of branch and bound, from the messages just found.
    """
    check_scores(problem.potentials)
    if warm_start is not None and not warm_start.fits(problem):
        warm_start = None
    if warm_start is not None:
        search = begin_network(warm_start.network.pour(extend(problem)), warm_start.messages)
    else:
        search = begin_network(build_network(parts_of(problem)[0]))
    descend(search, iterations)
    if search.value == -np.inf and warm_start is not None:
        search.offer(warm_start.labels)
    messages = search.messages
    if node_limit and search.is_open:
        messages = Messages(*(a.copy() for a in search.messages))
        branch_and_bound(search, node_limit)
    labels = search.network.to_problem(search.labels.astype(np.int64))
    score = problem.potentials.score(labels[: problem.potentials.n_nodes])
    value = score - penalty(problem, labels)[0] if search.value > -np.inf else -np.inf
    bound = max(search.bound + search.network.constant, value)
    state = FastState(search.network, messages, search.labels, problem)
    return FastGraphResult(labels[: problem.potentials.n_nodes], score, value, bound, state)
