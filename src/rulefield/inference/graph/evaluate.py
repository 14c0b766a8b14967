"""What engines may be given, and what a labelling of a graph is worth: its score, what it breaks, what that costs."""

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.result import TOLERANCE, BrokenRule, Result, Status, judge
from rulefield.problem.graph import GraphPotentials, GraphProblem

EXCESS_TOLERANCE = 1e-9


def penalty(problem: GraphProblem, labels: np.ndarray) -> tuple[float, tuple[BrokenRule, ...]]:
    """Total cost of the broken factors and rows (``inf`` where a hard one is broken), and the rules broken.

    ``labels`` holds the nodes' labels followed by the auxiliary variables' values.
    """
    amount, cost = np.zeros(problem.n_rules), np.zeros(problem.n_rules)
    logic, rows = problem.logic, problem.rows
    broken = logic.broken(labels)
    np.add.at(amount, logic.rule[broken], 1.0)
    np.add.at(cost, logic.rule[broken], logic.weight[broken])
    excess = rows.excess(labels)
    over = excess > EXCESS_TOLERANCE
    np.add.at(amount, rows.rule[over], excess[over])
    np.add.at(cost, rows.rule[over], rows.weight[over] * excess[over])
    rules = tuple(BrokenRule(int(r), float(amount[r]), float(cost[r])) for r in np.flatnonzero(amount))
    return float(cost.sum()), rules


def objective(problem: GraphProblem, labels: np.ndarray) -> float:
    """Score minus penalties of labels and auxiliary values; ``-inf`` where it is forbidden."""
    return problem.potentials.score(labels[: problem.potentials.n_nodes]) - penalty(problem, labels)[0]


def finish(
    problem: GraphProblem, labels: np.ndarray | None, upper_bound: float, engine: str, iterations: int = 0
) -> Result:
    """Wrap labels (with auxiliary values) and a bound in a Result; a labelling that breaks a hard rule is dropped."""
    if labels is not None:
        cost, broken = penalty(problem, labels)
        labels = labels[: problem.potentials.n_nodes].astype(np.int64)
        score = problem.potentials.score(labels)
        value = score - cost
        if value > -np.inf:
            bound = max(upper_bound, value)
            error = TOLERANCE * abs(value)  # until graph engines take constants out
            return Result(labels, score, value, bound, judge(value, bound, error), engine, iterations, broken)
    return nothing(upper_bound, engine, iterations)


def nothing(upper_bound: float, engine: str, iterations: int = 0) -> Result:
    """Return the result without a labelling: infeasible where the bound proves it, else only bounded."""
    status = Status.infeasible if upper_bound == -np.inf else Status.bounded
    return Result(np.zeros(0, np.int64), -np.inf, -np.inf, upper_bound, status, engine, iterations)


def check_scores(potentials: GraphPotentials) -> None:
    """Raise where a score is NaN or +inf (only -inf has a meaning: forbidden)."""
    for name, values in (("unary", potentials.unary), ("pairwise", potentials.pairwise)):
        wrong = np.isnan(values) | (values == np.inf)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise InputError(f"{name} scores must be finite or -inf; entry {place} is {values[place]}.")


def check_labels(potentials: GraphPotentials, labels: np.ndarray) -> None:
    """Raise where a labelling to start from does not fit the graph."""
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
