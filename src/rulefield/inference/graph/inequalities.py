"""Rules on a graph as linear inequalities over indicators of labels, for the integer program and for AD3."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rulefield.problem.graph import GraphProblem


@dataclass(frozen=True)
class Inequality:
    """The sum of ``value`` x indicator is at most ``bound``, or the rule is broken.

    ``column`` is the place of each indicator among the scores of nodes, ``excess`` the largest excess over the bound,
    ``price`` what a unit of it costs in the best relaxation (inf: a hard rule).
    """

    column: np.ndarray
    value: np.ndarray
    bound: float
    excess: float
    price: float


def factor_inequalities(problem: GraphProblem, offset: np.ndarray) -> Iterator[tuple[int, Inequality]]:
    """Yield the number of each logic factor with inequalities that hold if it does; ``offset``: where nodes' scores begin.

    For a hard factor they are its convex hull.
    """
    logic, same = problem.logic, problem.logic.canonical
    column = offset[logic.atom_node] + logic.atom_label
    sign = np.where(same.negated, -1.0, 1.0)
    for f in range(logic.n_factors):
        span = slice(logic.pointer[f], logic.pointer[f + 1])
        atoms, signs, weight = column[span], sign[span], float(logic.weight[f])
        if same.has_output[f]:
            found = _output(atoms, signs, weight)
        else:
            found = _count(atoms, signs, int(same.low[f]), int(same.high[f]), weight)
        yield from ((f, one) for one in found)


def _count(column: np.ndarray, sign: np.ndarray, low: int, high: int, weight: float) -> Iterator[Inequality]:
    """Say that ``low`` to ``high`` literals hold; whatever the excess, breaking it costs ``weight`` once."""
    negated = float((sign < 0).sum())
    if low > 0:
        yield Inequality(column, -sign, negated - low, low, weight / low)
    if high < len(column):
        excess = len(column) - high
        yield Inequality(column, sign, high - negated, excess, weight / excess)


def _output(column: np.ndarray, sign: np.ndarray, weight: float) -> Iterator[Inequality]:
    """Say that the last literal holds if and only if another one does: not alone, and none of the others without it."""
    last = len(column) - 1
    flipped = np.append(sign[:-1], -sign[-1])
    yield from _count(column, flipped, 1, last + 1, weight)
    for k in range(last):
        both = [k, last]
        yield from _count(column[both], sign[both] * np.array([-1.0, 1.0]), 1, 2, weight / last)


def row_inequalities(problem: GraphProblem, offset: np.ndarray) -> Iterator[Inequality]:
    """Yield the rows; each unit of excess costs their weight."""
    rows = problem.rows
    column = offset[rows.atom_node] + rows.atom_label
    for r in range(rows.n_rows):
        span = slice(rows.pointer[r], rows.pointer[r + 1])
        yield Inequality(column[span], rows.value[span], float(rows.bound[r]), np.inf, float(rows.weight[r]))
