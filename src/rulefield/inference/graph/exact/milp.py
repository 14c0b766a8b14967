"""A graph problem as an integer program for HiGHS: the reference engine."""

import numpy as np

from rulefield.inference.graph.evaluate import Answer, evaluate, no_answer
from rulefield.inference.graph.inequalities import Inequality, factor_inequalities, row_inequalities
from rulefield.inference.graph.parts import extend
from rulefield.inference.highs import Program, minimize
from rulefield.problem.graph import GraphPotentials, GraphProblem

TOLERANCE = 1e-6
"""HiGHS's tolerance of rows and of integrality."""


def milp_graph(problem: GraphProblem, node_limit: int | None = None, seconds: float | None = None) -> Answer:
    """Solve the whole problem: local-polytope columns, integral nodes, linear rules.

    The columns are one 0/1 variable for each node's label (auxiliary variables are nodes), one in [0, 1] for each pair of
    labels of an edge (integral by itself once nodes are), and the slacks of soft rules.
    """
    p = extend(problem)
    program = _local_polytope(p)
    _add_rules(program, problem, p.unary_offset)
    units = np.inf if node_limit is None else float(node_limit) * program.units_per_branching()
    found = minimize(program, units, seconds)
    bound = -found.lower_bound
    if found.values is None:
        return no_answer(bound, "milp", found.branchings)
    labels = _labels(p, found.values)
    if evaluate(problem, labels).objective == -np.inf:  # allowed within HiGHS's tolerance only
        return no_answer(bound, "milp", found.branchings)
    costs = np.concatenate(program.cost)
    return Answer(
        labels, -float(costs @ found.values), bound, "milp", found.branchings, TOLERANCE * (1.0 + np.abs(costs).sum())
    )


def _labels(p: GraphPotentials, values: np.ndarray) -> np.ndarray:
    starts = zip(p.unary_offset[:-1], p.unary_offset[1:])
    return np.array([np.argmax(values[a:b]) for a, b in starts], dtype=np.int64)


def _local_polytope(p: GraphPotentials) -> Program:
    """Columns of nodes' labels and edges' pairs: each node has one label, each edge's pairs sum to its ends' labels."""
    program = Program()
    _add_gains(program, p.unary, True)
    _add_gains(program, p.pairwise, False)
    n, m = p.n_nodes, len(p.edges)
    ones = np.ones(len(p.unary))
    program.add_rows(np.repeat(np.arange(n), p.n_labels), np.arange(len(p.unary)), ones, np.ones(n), True)
    edge = np.repeat(np.arange(m), np.diff(p.pairwise_offset))
    inside, wide = np.arange(len(p.pairwise)) - p.pairwise_offset[edge], p.n_labels[p.edges[edge, 1]]
    for side, label in enumerate((inside // np.maximum(wide, 1), inside % np.maximum(wide, 1))):
        size = p.n_labels[p.edges[:, side]]
        start = np.concatenate([[0], np.cumsum(size)])
        owner = np.repeat(np.arange(m), size)
        own_label = np.arange(start[-1]) - start[owner]
        row = np.concatenate([start[edge] + label, np.arange(start[-1])])
        pairs, nodes = len(p.unary) + np.arange(len(edge)), p.unary_offset[p.edges[owner, side]] + own_label
        value = np.concatenate([np.ones(len(edge)), -np.ones(start[-1])])
        program.add_rows(row, np.concatenate([pairs, nodes]), value, np.zeros(start[-1]), True)
    return program


def _add_gains(program: Program, gain: np.ndarray, integral: bool) -> int:
    allowed = gain > -np.inf
    return program.add_columns(np.where(allowed, -gain, 0.0), allowed.astype(np.float64), integral)


def _add_rules(program: Program, problem: GraphProblem, offset: np.ndarray) -> None:
    """Add logic factors (a soft one has a slack of 0 or 1 for all its inequalities) and rows (a soft one, of any size)."""
    slack = _add_slacks(program, problem.logic.weight, integral=True)
    for f, one in factor_inequalities(problem, offset):
        _add_inequality(program, one, slack[f], one.excess)
    slack = _add_slacks(program, problem.rows.weight, integral=False)
    for r, one in enumerate(row_inequalities(problem, offset)):
        _add_inequality(program, one, slack[r], 1.0)


def _add_slacks(program: Program, weight: np.ndarray, integral: bool) -> np.ndarray:
    """Return columns of one slack for each soft weight, -1 where the weight is infinite (hard)."""
    soft = np.isfinite(weight)
    start = program.add_columns(weight[soft], np.inf, integral)
    return np.where(soft, start + np.cumsum(soft) - 1, -1)


def _add_inequality(program: Program, one: Inequality, slack: int, excess: float) -> None:
    """Add an inequality; its slack (-1: none) takes up an excess of so much for each unit."""
    column = one.column if slack < 0 else np.append(one.column, slack)
    value = one.value if slack < 0 else np.append(one.value, -excess)
    program.add_rows(np.zeros(len(column), np.int64), column, value, np.array([one.bound]))
