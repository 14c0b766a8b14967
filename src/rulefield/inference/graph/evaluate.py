"""Around every graph engine: what it is given (checked, constants taken out) and what its answer is worth (checked).

An engine reads a problem in which every node's and every edge's best score is 0, and returns an :class:`Answer` in these
terms; :func:`certify` evaluates the labels from the definition and judges. So a constant added to all scores changes
nothing, and an engine that is wrong about its own labels or bound raises instead of proving something false.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rulefield.exceptions import InputError, InternalError
from rulefield.inference.result import Breach, Result, Status, judge, rounding_error
from rulefield.kernels.graph.evaluate import (
    MOST_FREE,
    center,
    costs_of_factors,
    costs_of_rows,
    score_of,
    settle_defined,
    settle_freely,
)
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows

LARGEST = 1e100
"""Of a score: sums of larger ones would overflow."""
CLAIM = 1e-7
"""Nats by which an engine's own value of its labels may differ, beyond rounding."""


@dataclass(frozen=True)
class Answer:
    """What an engine says of a centered problem.

    Labels of the nodes, then values of the auxiliary variables (None: no labeling was found); ``value`` is their objective by
    the engine's own account, which may be off by ``error`` (other people's solvers work within tolerances). No labeling has
    a higher objective than ``bound``; -inf proves that there is none.
    """

    labels: np.ndarray | None
    value: float
    bound: float
    engine: str
    iterations: int = 0
    error: float = 0.0


def no_answer(bound: float, engine: str, iterations: int = 0) -> Answer:
    """Return the answer without a labeling."""
    return Answer(None, -np.inf, bound, engine, iterations)


@dataclass(frozen=True)
class Worth:
    """What a labeling is worth: score, cost by rule, objective, and its rounding error in an engine's sums."""

    score: float
    amount: np.ndarray
    cost: np.ndarray
    objective: float
    rounding: float

    @property
    def broken(self) -> tuple[Breach, ...]:
        """The rules that are broken."""
        return tuple(Breach(int(r), float(self.amount[r]), float(self.cost[r])) for r in np.flatnonzero(self.amount))


def evaluate(problem: GraphProblem, labels: np.ndarray) -> Worth:
    """Score, costs and objective (``-inf`` where forbidden) of labels followed by auxiliary values."""
    p, logic, rows = problem.potentials, problem.logic, problem.rows
    score = score_of(p.n_labels, p.unary, p.edges, p.pairwise, labels)
    amount, cost = np.zeros(problem.n_rules), np.zeros(problem.n_rules)
    if logic.n_factors:
        costs_of_factors(
            logic.kind,
            logic.pointer,
            logic.atom_node,
            logic.atom_label,
            logic.atom_negated,
            logic.limit,
            logic.weight,
            logic.rule,
            labels,
            amount,
            cost,
        )
    if rows.n_rows:
        costs_of_rows(*_arrays(rows), rows.weight, rows.rule, labels, amount, cost)
    objective = float(score) - float(cost.sum())
    terms = p.n_nodes + len(p.edges) + logic.n_factors + rows.n_rows
    rounding = rounding_error(terms, objective) if objective > -np.inf else 0.0
    return Worth(float(score), amount, cost, objective, rounding)


def _arrays(rows: GraphRows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return rows.pointer, rows.atom_node, rows.atom_label, rows.value, rows.bound


def settle(problem: GraphProblem, labels: np.ndarray) -> np.ndarray:
    """Labels with the auxiliary values that cost least under them: by their definitions, or (few) by trying all."""
    rows, n = problem.rows, problem.potentials.n_nodes
    if not rows.n_auxiliary:
        return labels
    labels = labels.copy()
    if rows.definitions is not None:
        pointer, by_row = rows.definitions
        settle_defined(*_arrays(rows), pointer, by_row, n, labels)
        return labels
    touching = rows.atom_node >= n
    row, member = rows.atom_row[touching], rows.atom_node[touching] - n
    size = rows.n_rows + rows.n_auxiliary
    graph = coo_array((np.ones(len(row)), (row, rows.n_rows + member)), shape=(size, size))
    piece = connected_components(graph, directed=False)[1]
    of_row, of_variable = piece[: rows.n_rows], piece[rows.n_rows :]
    for k in np.unique(of_variable):
        members = n + np.flatnonzero(of_variable == k)
        if len(members) <= MOST_FREE:
            settle_freely(*_arrays(rows), rows.weight, np.flatnonzero(of_row == k), members, labels)
    return labels


def centered(problem: GraphProblem) -> tuple[GraphProblem, float]:
    """Take constants out: each node's and each edge's largest score, and rules that name no node at all.

    Returns the problem without them and their sum; -inf where a hard rule without nodes cannot hold.
    """
    p = problem.potentials
    unary, nodes = center(p.unary, p.unary_offset)
    pairwise, edges = center(p.pairwise, p.pairwise_offset)
    problem = replace(problem, potentials=GraphPotentials(p.n_labels, unary, p.edges, pairwise))
    problem, cost = _without_empty_rules(problem)
    return problem, nodes + edges - cost


def _without_empty_rules(problem: GraphProblem) -> tuple[GraphProblem, float]:
    """Drop factors and rows that name no node; returns their cost as well."""
    logic, rows = problem.logic, problem.rows
    named, named_rows = np.diff(logic.pointer) > 0, np.diff(rows.pointer) > 0
    if named.all() and named_rows.all():
        return problem, 0.0
    empty = replace(problem, logic=logic.select(~named), rows=rows.select(~named_rows))
    nothing = np.zeros(problem.potentials.n_nodes + rows.n_auxiliary, np.int64)
    cost = float(evaluate(empty, nothing).cost.sum())
    if not named.all():
        logic = logic.memory.setdefault("named", logic.select(named))
    return replace(problem, logic=logic, rows=rows if named_rows.all() else rows.select(named_rows)), cost


def certify(problem: GraphProblem, inner: GraphProblem, constant: float, answer: Answer) -> Result:
    """Check an engine's answer to the centered problem ``inner``, and translate it into a result of the whole problem.

    The labels' objective is evaluated from the definition. A labeling that breaks a hard rule, a value that differs from the
    engine's own, or one above its bound is the library's mistake (``InternalError``).
    """
    if answer.labels is None or constant == -np.inf:
        bound = -np.inf if constant == -np.inf else answer.bound + constant
        status = Status.infeasible if bound == -np.inf else Status.bounded
        return Result(np.zeros(0, np.int64), -np.inf, -np.inf, bound, status, answer.engine, answer.iterations)
    labels = np.ascontiguousarray(answer.labels, dtype=np.int64)
    _check_labels(inner, answer.engine, labels)
    said = evaluate(inner, labels)
    _check_claims(answer, said)
    labels = settle(inner, labels)
    worth = evaluate(inner, labels) if inner.rows.n_auxiliary else said
    _check_bound(answer, worth)
    whole = evaluate(problem, labels)
    gap = max(0.0, answer.bound - worth.objective)
    return Result(
        labels[: problem.potentials.n_nodes],
        whole.score,
        whole.objective,
        whole.objective + gap,
        judge(worth.objective, answer.bound, worth.rounding),
        answer.engine,
        answer.iterations,
        whole.broken,
    )


def with_tables(problem: GraphProblem, result: Result) -> Result:
    """Return the result of a problem with tables, from that of ``problem.pairwise``, once the tables confirm its score."""
    if not len(result.labels):
        return result
    labels = result.labels[: problem.potentials.n_nodes]
    p, tables = problem.potentials, problem.tables
    score = p.score(labels) + tables.table_score(p.n_labels, labels)
    terms = p.n_nodes + len(p.edges) + tables.n_tables
    if not abs(score - result.score) <= CLAIM + rounding_error(terms, score):
        raise InternalError(
            f"engine {result.engine!r} says that its labeling scores {result.score!r}, but by the tables it is "
            f"{score!r}; please report it."
        )
    return replace(result, labels=labels)


def _check_labels(problem: GraphProblem, engine: str, labels: np.ndarray) -> None:
    sizes = np.concatenate([problem.potentials.n_labels, np.full(problem.rows.n_auxiliary, 2)])
    if labels.shape != sizes.shape or (labels < 0).any() or (labels >= sizes).any():
        raise InternalError(f"engine {engine!r} returned labels that its nodes do not have; please report it.")


def _check_claims(answer: Answer, said: Worth) -> None:
    """Raise where an engine is wrong about its own labeling."""
    if said.objective == -np.inf:
        raise InternalError(f"engine {answer.engine!r} returned a labeling that is forbidden; please report it.")
    off = abs(answer.value - said.objective)
    if off > CLAIM + answer.error + said.rounding:
        raise InternalError(
            f"engine {answer.engine!r} says that its labeling is worth {answer.value!r}, but it is worth "
            f"{said.objective!r}; please report it."
        )


def _check_bound(answer: Answer, worth: Worth) -> None:
    """Raise where a labeling is better than its bound."""
    if worth.objective > answer.bound + CLAIM + answer.error + worth.rounding:
        raise InternalError(
            f"engine {answer.engine!r} says that no labeling is worth more than {answer.bound!r}, but its own is "
            f"worth {worth.objective!r}; please report it."
        )


# --- what an engine may be given ---------------------------------------------------------------


def check_scores(potentials: GraphPotentials) -> None:
    """Raise where a score is NaN, +inf (only -inf has a meaning: forbidden) or too large to be summed."""
    for name, values in (("unary", potentials.unary), ("pairwise", potentials.pairwise)):
        if len(values) and values.min() >= -LARGEST and values.max() <= LARGEST:
            continue  # the rest makes copies of what may be large
        wrong = ~(np.abs(values) <= LARGEST) & (values != -np.inf)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"{name} scores must be numbers up to {LARGEST:g}, or -inf; entry {place} is {values[place]}."
            )


def check_labels(potentials: GraphPotentials, labels: np.ndarray) -> None:
    """Raise where a labeling to start from does not fit the graph."""
    if labels.shape != (potentials.n_nodes,):
        raise InputError(
            f"warm_start must give one label for each of the {potentials.n_nodes} nodes; got shape {labels.shape}."
        )
    wrong = (labels < 0) | (labels >= potentials.n_labels)
    if wrong.any():
        node = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"warm_start gives node {node} the label {labels[node]}, but that node has {potentials.n_labels[node]} labels."
        )


def check_problem(problem: GraphProblem) -> None:
    """Raise where a score is NaN or +inf, a weight is negative or NaN, or a node has no label."""
    check_scores(problem.potentials)
    if problem.potentials.n_nodes and problem.potentials.n_labels.min() < 1:
        node = int(np.argmin(problem.potentials.n_labels))
        raise InputError(f"node {node} has no labels; every node needs at least one.")
    for name, weights in (("logic factor", problem.logic.weight), ("row", problem.rows.weight)):
        wrong = ~(weights >= 0)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"the weight of a {name} must be 0 or more (inf: hard); number {first} is {weights[first]}."
            )
