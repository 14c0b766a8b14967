"""Integer programs for HiGHS: one builder, one call, what a call costs in units of work, and the error of its bounds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rulefield.interrupts import seconds_left

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array

HIGHS_SCALE = 1024.0
"""Costs are multiplied by this: HiGHS stops at a gap of 1e-6 of its own units, which must be far below a nat."""

DUAL_ERROR_NATS = 1e-7
"""HiGHS treats reduced costs below 1e-7 of its units as zero, so its bounds may be off by this much."""

RELATIVE_ERROR = 2.0**-50
"""Relative error of HiGHS's sums, as a share of the largest cost: a few roundings."""

UNITS_PER_CALL = 1_000
"""Units of work of a call without any iteration: checks of arguments, presolving."""

UNITS_PER_ITERATION, ENTRIES_PER_UNIT = 60, 100
"""A simplex iteration costs 60 units plus one for every 100 matrix entries (fitted to 18 calls, within a factor of 2)."""

ITERATIONS_PER_BRANCHING = 150
"""Simplex iterations that one branching is expected to take, to turn a limit of work into one of branchings."""


class Solution(NamedTuple):
    """The answer of HiGHS to a program."""

    values: np.ndarray | None
    """Values of the columns; None if no solution was found."""
    lower_bound: float
    """Proved least cost in nats: ``inf`` if the program is infeasible, ``-inf`` if nothing is known."""
    units: int
    """Units of work that the call cost."""
    branchings: int
    """Nodes of the branch and bound."""


@dataclass
class Program:
    """Columns (cost to minimize, upper bounds, integrality) and rows collected so far."""

    columns: int = 0
    rows: int = 0
    cost: list[np.ndarray] = field(default_factory=list)
    upper: list[np.ndarray] = field(default_factory=list)
    integral: list[np.ndarray] = field(default_factory=list)
    row: list[np.ndarray] = field(default_factory=list)
    column: list[np.ndarray] = field(default_factory=list)
    value: list[np.ndarray] = field(default_factory=list)
    high: list[np.ndarray] = field(default_factory=list)
    equal: list[np.ndarray] = field(default_factory=list)

    def add_columns(self, cost: np.ndarray, upper: float | np.ndarray, integral: bool) -> int:
        """Add columns with values in [0, upper]; return the number of the first."""
        start = self.columns
        self.cost.append(np.asarray(cost, dtype=np.float64))
        self.upper.append(np.broadcast_to(np.float64(upper), len(cost)))
        self.integral.append(np.full(len(cost), int(integral)))
        self.columns += len(cost)
        return start

    def add_rows(
        self, row: np.ndarray, column: np.ndarray, value: np.ndarray, high: np.ndarray, equal: bool = False
    ) -> None:
        """Add rows A x <= high, or A x == high; ``row`` counts from 0 within the new ones."""
        self.row.append(np.asarray(row, dtype=np.int64) + self.rows)
        self.column.append(np.asarray(column, dtype=np.int64))
        self.value.append(np.asarray(value, dtype=np.float64))
        self.high.append(np.asarray(high, dtype=np.float64))
        self.equal.append(np.full(len(high), equal))
        self.rows += len(high)

    @property
    def entries(self) -> int:
        """Number of matrix entries."""
        return sum(map(len, self.value))

    def matrix(self) -> "csr_array":
        """Return all rows as one sparse matrix."""
        from scipy.sparse import csr_array

        entries = np.concatenate(self.value), (np.concatenate(self.row), np.concatenate(self.column))
        return csr_array(entries, shape=(self.rows, self.columns))

    def units_per_iteration(self) -> int:
        """Units of work of one simplex iteration."""
        return UNITS_PER_ITERATION + self.entries // ENTRIES_PER_UNIT

    def units_per_branching(self) -> int:
        """Units of work that one branching is expected to take."""
        return self.units_per_iteration() * ITERATIONS_PER_BRANCHING


def minimize(
    program: Program, most_units: float = np.inf, seconds: float | None = None, relative_gap: float = 0.0
) -> Solution:
    """Minimize a program to a relative gap, within about ``most_units`` of work and a time limit if one is given.

    Branchings are limited by the work; the root of the search is not, so callers limit the size of programs. The units that
    are charged afterwards come from HiGHS's count of simplex iterations, so they do not depend on the machine.
    """
    from scipy.optimize import linprog

    per_iteration = program.units_per_iteration()
    options: dict[str, float] = {"mip_rel_gap": relative_gap}
    if most_units < np.inf:
        options["mip_max_nodes"] = max(1, int(most_units / program.units_per_branching()))
    if (seconds := seconds_left(seconds)) is not None:
        options["time_limit"] = max(seconds, 0.0)
    matrix, high, equal = program.matrix(), np.concatenate(program.high), np.concatenate(program.equal)
    found = linprog(
        HIGHS_SCALE * np.concatenate(program.cost),
        A_ub=matrix[~equal],
        b_ub=high[~equal],
        A_eq=matrix[equal],
        b_eq=high[equal],
        bounds=np.c_[np.zeros(program.columns), np.concatenate(program.upper)],
        integrality=np.concatenate(program.integral),
        method="highs",
        options=options,
    )
    branchings = int(found.get("mip_node_count") or 0)
    units = UNITS_PER_CALL + 2 * program.entries + max(int(found.nit or 0), 0) * per_iteration
    return Solution(found.x, proved_cost(found, program.cost), units, branchings)


def proved_cost(found: "OptimizeResult", costs: Iterable[np.ndarray]) -> float:
    """Return the least cost, in nats, that HiGHS proves for a minimization of ``HIGHS_SCALE`` times these costs.

    Branches end if they cannot beat the best solution known. That one obeys rows within 1e-6 only, which a large cost
    multiplies, so its own cost counts as a bound as well: if that is too low, a gap is left.
    """
    if found.status == 2:
        return np.inf
    bound = found.get("mip_dual_bound")
    if bound is None or not np.isfinite(bound):
        return -np.inf
    proved = float(bound) if found.x is None else min(float(bound), float(found.fun))
    largest = max(float(np.abs(cost).max(initial=0.0)) for cost in costs)
    return proved / HIGHS_SCALE - DUAL_ERROR_NATS - RELATIVE_ERROR * largest
