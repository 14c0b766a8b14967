"""A good labeling and a true bound in a few sweeps: the oracle of learners."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.inference.graph.evaluate import centered, check_scores, evaluate, settle
from rulefield.inference.graph.network import Network
from rulefield.inference.graph.parts import extend, joined, parts_of
from rulefield.inference.graph.trws import begin, begin_network, descend
from rulefield.kernels.graph.sweep import Messages
from rulefield.problem.graph import GraphPotentials, GraphProblem


@dataclass(frozen=True)
class FastState:
    """What to start from next time on the same graph under the same rules."""

    problem: GraphProblem
    network: Network
    rules: GraphPotentials | None
    messages: Messages
    labels: np.ndarray

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
    """A good labeling, a true bound, and the messages to start from next time.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_nodes,)
    score : float
        The model's log-score of the labels.
    objective : float
        Score minus the cost of broken rules; ``-inf`` where no labeling that keeps the hard rules was found (the
        labels are then only a guess).
    upper_bound : float
        No labeling has a higher objective.
    state : FastState
        Hand it to the next call on the same graph as ``warm_start``.
    """

    labels: np.ndarray
    score: float
    objective: float
    upper_bound: float
    state: FastState = field(repr=False)


def decode_fast(problem: GraphProblem, iterations: int = 5, warm_start: FastState | None = None) -> FastGraphResult:
    """Good labeling and true bound in a few rounds of TRW-S; exact on forests without rules. Safe in threads.

    Parameters
    ----------
    problem : GraphProblem
    iterations : int
        Rounds (a sweep back and one ahead); fewer are made when the bound is met.
    warm_start : FastState or None
        ``state`` of an earlier result: messages are used again where graph and rules are the same.
    """
    check_scores(problem.potentials)
    state = warm_start if warm_start is not None and warm_start.fits(problem) else None
    inner, constant = centered(problem)
    if state is None:
        parts, _ = parts_of(inner)
        search, rules = begin(parts), parts.rules
    else:
        rules = state.rules
        search = begin_network(state.network.with_scores(joined(extend(inner), rules)), state.messages)
    descend(search, iterations)
    if search.value == -np.inf and state is not None:
        search.offer(state.labels)
    labels = settle(problem, search.network.to_problem(search.labels.astype(np.int64)))
    worth = evaluate(problem, labels)
    objective = worth.objective if search.value > -np.inf else -np.inf
    return FastGraphResult(
        labels[: problem.potentials.n_nodes],
        worth.score,
        objective,
        max(search.bound + constant, objective),
        FastState(problem, search.network, rules, search.messages, search.labels),
    )
