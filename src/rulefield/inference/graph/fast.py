"""A good labeling and a true bound in a few sweeps: the oracle of learners."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.inference.graph.condition import Cases, cases_of
from rulefield.inference.graph.evaluate import centered, check_scores, evaluate, settle
from rulefield.inference.graph.network import Network, build_network
from rulefield.inference.graph.parts import extend, parts_of
from rulefield.inference.graph.trws import begin_network, branch_and_bound, descend
from rulefield.kernels.graph.sweep import Messages
from rulefield.problem.graph import GraphProblem


@dataclass(frozen=True)
class CaseState:
    """Structure and messages of a problem, or of one case of a problem with hubs."""

    network: Network
    messages: Messages
    labels: np.ndarray


@dataclass(frozen=True)
class FastState:
    """What to start from next time on the same graph under the same rules: one state, or one for each case."""

    problem: GraphProblem
    cases: Cases | None
    states: tuple[CaseState, ...]
    best: int

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


def decode_fast(
    problem: GraphProblem, iterations: int = 5, warm_start: FastState | None = None, node_limit: int = 0
) -> FastGraphResult:
    """Good labeling and true bound in a few rounds of TRW-S; exact on forests without rules. Safe in threads.

    Hubs (:mod:`rulefield.inference.graph.condition`) are tried label by label; a case ends when its bound falls
    below the best labeling so far.

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
    inner, constant = centered(problem)
    cases = cases_of(problem.potentials) if warm_start is None else warm_start.cases
    n = 1 if cases is None else len(cases.labels)
    states: list[CaseState | None] = [None] * n if warm_start is None else list(warm_start.states)
    best = 0 if warm_start is None else warm_start.best
    value, bound, labels = -np.inf, -np.inf, np.zeros(0, dtype=np.int64)
    for k in [best, *(k for k in range(n) if k != best)]:
        case = inner if cases is None else cases.problem(inner, k)
        shared = next((s.network for s in states if s is not None), None)
        state, found, limit = _one_case(case, iterations, states[k], shared, node_limit, value)
        states[k], bound = state, max(bound, limit)
        if found > value or len(labels) == 0:
            value, best, labels = found, k, state.network.to_problem(state.labels.astype(np.int64))
    kept = FastState(problem, cases, tuple(s for s in states if s is not None), best)
    labels = settle(problem, labels)
    worth = evaluate(problem, labels)
    objective = worth.objective if value > -np.inf else -np.inf
    return FastGraphResult(
        labels[: problem.potentials.n_nodes], worth.score, objective, max(bound + constant, objective), kept
    )


def _one_case(
    problem: GraphProblem,
    iterations: int,
    state: CaseState | None,
    structure: Network | None,
    node_limit: int,
    least: float,
) -> tuple[CaseState, float, float]:
    """State, value (``-inf`` where nothing better than ``least`` was found) and bound of one case."""
    if state is not None:
        search = begin_network(state.network.with_scores(extend(problem)), state.messages)
    elif structure is not None:
        search = begin_network(structure.with_scores(extend(problem)))
    else:
        search = begin_network(build_network(parts_of(problem)[0]))
    search.value = floor = least
    descend(search, iterations)
    if search.value == -np.inf and state is not None:
        search.offer(state.labels)
    messages = search.messages
    if node_limit and search.is_open:
        messages = Messages(*(a.copy() for a in search.messages))
        branch_and_bound(search, node_limit)
    value = search.value if search.value > floor else -np.inf
    return CaseState(search.network, messages, search.labels), value, search.bound
