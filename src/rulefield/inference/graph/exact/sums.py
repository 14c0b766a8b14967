"""Sums over the values of numbered variables by variable elimination ([Dechter99]): the log-sum, marginals, draws."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rulefield.exceptions import InputError
from rulefield.kernels.graph.exact.eliminate import Tables
from rulefield.kernels.graph.exact.plan import Plan, greedy_order, make_plan
from rulefield.kernels.graph.exact.sums import draw_labels, sum_tables
from rulefield.problem.graph import starts

MOST_ENTRIES = 2**20
"""Entries of one table: a sum over tables of this size takes some hundredths of a second each."""
MOST_VARIABLES = 8_192
"""Variables of one component: to find an order takes time and memory (a byte) with their square."""


@dataclass(frozen=True)
class SumPlan:
    """Tables over variables, in an order in which the variables are summed out; values are given with each question.

    Variables in ``is_best`` (a mask) take their best value; they go first.
    """

    tables: Tables
    plan: Plan
    is_best: np.ndarray

    @classmethod
    def find(
        cls,
        sizes: np.ndarray,
        pointer: np.ndarray,
        scope: np.ndarray,
        is_best: np.ndarray | None = None,
        most_entries: float = np.inf,
    ) -> "SumPlan | None":
        """Plan sums over variables of these sizes; None if a table would be too large.

        Table t is about the variables ``scope[pointer[t] : pointer[t + 1]]``, at least one, all different.
        """
        sizes = np.asarray(sizes, np.int64)
        best = np.zeros(len(sizes), np.bool_) if is_best is None else is_best
        most = np.log2(min(most_entries, MOST_ENTRIES)) + 1e-9
        order = greedy_order(sizes, pointer, scope, best, False, most, MOST_VARIABLES)
        if len(order) < len(sizes):
            return None
        plan = make_plan(sizes, order, pointer, scope)
        if plan.work == np.inf:
            return None
        entries = np.multiply.reduceat(sizes[scope], pointer[:-1]) if len(scope) else scope
        at = starts(entries)
        return cls(Tables(sizes, pointer, scope, at, np.zeros(0)), plan, best)

    def sum(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the marginals of all tables, flat like ``values``, and the log-sum of each component, at one variable."""
        share, logs = sum_tables(self.tables._replace(values=values), self.plan, self.is_best)
        by_variable = np.zeros_like(logs)
        by_variable[self.plan.order] = logs
        return share, by_variable

    def draw(self, values: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw values of all variables, (n_draws, n_variables); the sum must not be 0."""
        uniform = rng.random((n_draws, len(self.plan.order)))
        drawn: np.ndarray = draw_labels(self.tables._replace(values=values), self.plan, self.is_best, uniform)
        return drawn


def graph_plan(n_labels: np.ndarray, edges: np.ndarray, most_entries: float = np.inf) -> SumPlan | None:
    """Plan the sum over all labelings of a graph without loops at a node; its tables are those of nodes, then of edges."""
    n = len(n_labels)
    pointer = np.concatenate([np.arange(n), n + 2 * np.arange(len(edges) + 1)])
    return SumPlan.find(n_labels, pointer, np.concatenate([np.arange(n), edges.ravel()]), None, most_entries)


@dataclass
class TableList:
    """Tables of log-values, collected one by one; ``sizes`` counts the values of each variable."""

    sizes: list[int]
    scopes: list[Sequence[int]] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    constant: float = 0.0

    def variable(self, size: int) -> int:
        """Add a variable and return its number."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def multiply(self, scope: Sequence[int], values: np.ndarray) -> None:
        """Multiply by a table, one axis for each variable in ``scope``."""
        if not len(scope):
            self.constant += float(values)
            return
        self.scopes.append([v for v in scope if self.sizes[v] > 1] or scope[:1])
        self.values.append(values.ravel())

    def plan(self, best: Sequence[int]) -> SumPlan:
        """Plan the sum over all variables but those in ``best``, which take their best value, or refuse."""
        is_best = np.isin(np.arange(len(self.sizes)), best)
        pointer = starts(np.array([len(scope) for scope in self.scopes]))
        scope = np.array([v for scope in self.scopes for v in scope], dtype=np.int64)
        plan = SumPlan.find(np.array(self.sizes), pointer, scope, is_best)
        if plan is None:
            refuse_size(np.inf)
        assert plan is not None
        return plan

    def flat(self) -> np.ndarray:
        """Return the values of all tables."""
        return np.concatenate([np.zeros(0), *self.values])


def refuse_size(entries: float) -> None:
    """Raise if a table would be too large."""
    if entries > MOST_ENTRIES:
        raise InputError(
            f"the exact sum needs a table of more than {MOST_ENTRIES:,} entries; use fewer rules or rules about fewer "
            "nodes, fix some labels (known=), or give rules=[]."
        )
