"""A graph problem as an integer program for HiGHS: whole (the reference engine), or what other engines leave open."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp
from scipy.sparse import coo_array, csr_array, vstack

from rulefield.inference.graph.automata import GraphAutomaton
from rulefield.inference.graph.evaluate import Answer, evaluate, no_answer
from rulefield.inference.graph.parts import GraphParts
from rulefield.inference.graph.trws import Search
from rulefield.inference.highs import HIGHS_SCALE, proved_cost
from rulefield.problem.graph import GraphPotentials, GraphProblem

TOLERANCE = 1e-6
"""HiGHS's tolerance of rows and of integrality."""
ITERATION_LIMIT = 1
"""Status of ``scipy.optimize.linprog``: the limit of iterations was reached."""


@dataclass(frozen=True)
class Block:
    """Rows low <= A x <= high as coordinates; columns beyond the existing ones are slacks of this block."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def milp_graph(problem: GraphProblem, node_limit: int | None = None, seconds: float | None = None) -> Answer:
    """Solve the whole problem by ``scipy.optimize.milp``: local-polytope columns, integral nodes, linear rules.

    The columns are one 0/1 variable for each node's label, one in [0, 1] for each pair of labels of an edge
    (integral by itself once nodes are), the auxiliary variables and the slacks of soft rules.
    """
    program = _Program(problem)
    answer = program.solve(node_limit, seconds)
    bound = program.constant - proved_cost(answer, [program.cost])
    if answer.x is None:
        return no_answer(bound, "milp")
    labels = program.labels(answer.x)
    nodes = int(answer.mip_node_count or 0)
    if evaluate(problem, labels).objective == -np.inf:  # allowed within HiGHS's tolerance only
        return no_answer(bound, "milp", nodes)
    value = program.constant - float(answer.fun) / HIGHS_SCALE
    error = TOLERANCE * (1.0 + np.abs(program.cost).sum())
    return Answer(labels, value, bound, "milp", nodes, error)


class _Program:
    """Columns and rows of the integer program of one graph problem."""

    def __init__(self, problem: GraphProblem):
        self.problem = problem
        p, rows = problem.potentials, problem.rows
        self.n_unary = len(p.unary)
        self.first_auxiliary = self.n_unary + len(p.pairwise)
        self.n_columns = self.first_auxiliary + rows.n_auxiliary
        self.constant = 0.0
        self.blocks: list[Block] = [*self._marginal_rows()]
        self.cost = np.zeros(0)
        self.slack_cost: list[np.ndarray] = []
        self.slack_integral: list[np.ndarray] = []
        self._add_logic()
        self._add_rows()

    def solve(self, node_limit: int | None, seconds: float | None) -> OptimizeResult:
        p = self.problem.potentials
        gain = np.concatenate([p.unary, p.pairwise, np.zeros(self.problem.rows.n_auxiliary)])
        allowed = gain > -np.inf
        gain = np.where(allowed, gain, 0.0)
        integral = np.concatenate(
            [np.ones(self.n_unary), np.zeros(len(p.pairwise)), np.ones(self.problem.rows.n_auxiliary)]
        )
        n_slack = self.n_columns - len(gain)
        self.cost = cost = np.concatenate([-gain, *self.slack_cost])
        upper = np.concatenate([allowed.astype(float), np.full(n_slack, np.inf)])
        options = {"mip_rel_gap": 0.0}
        if node_limit is not None:
            options["node_limit"] = node_limit
        if seconds is not None:
            options["time_limit"] = max(float(seconds), 1e-3)
        return milp(
            HIGHS_SCALE * cost,
            integrality=np.concatenate([integral, *self.slack_integral]),
            bounds=Bounds(np.zeros(self.n_columns), upper),
            constraints=self._constraints(),
            options=options,
        )

    def labels(self, x: np.ndarray) -> np.ndarray:
        """Labels of the nodes and values of the auxiliary variables in a solution."""
        p = self.problem.potentials
        nodes = np.array([np.argmax(x[a:b]) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])], dtype=np.int64)
        auxiliary = x[self.first_auxiliary : self.first_auxiliary + self.problem.rows.n_auxiliary]
        return np.concatenate([nodes, np.rint(auxiliary).astype(np.int64)])

    def _constraints(self) -> list[LinearConstraint]:
        parts, low, high = [], [], []
        for b in self.blocks:
            if len(b.low):
                parts.append(coo_array((b.value, (b.row, b.column)), shape=(len(b.low), self.n_columns)))
                low.append(b.low)
                high.append(b.high)
        if not parts:
            return []
        return [LinearConstraint(vstack(parts, format="csr"), np.concatenate(low), np.concatenate(high))]

    def _marginal_rows(self) -> list[Block]:
        """Each node has one label; each edge's pairs sum to its ends' labels."""
        p = self.problem.potentials
        n = p.n_nodes
        one = Block(
            np.repeat(np.arange(n), p.n_labels), np.arange(self.n_unary), np.ones(self.n_unary), *np.ones((2, n))
        )
        return [one, *edge_rows(p)]

    def _slacks(self, weight: np.ndarray, integral: bool) -> np.ndarray:
        """Columns of one slack for each soft weight, -1 where the weight is infinite (hard)."""
        soft = np.isfinite(weight)
        column = np.where(soft, self.n_columns + np.cumsum(soft) - 1, -1)
        self.n_columns += int(soft.sum())
        self.slack_cost.append(weight[soft])
        self.slack_integral.append(np.full(int(soft.sum()), float(integral)))
        return column

    def _add_rows(self) -> None:
        rows, p = self.problem.rows, self.problem.potentials
        slack = self._slacks(rows.weight, integral=False)
        column, value, shift = self._atoms(rows.atom_node, rows.atom_label, rows.value, p.n_nodes)
        bound = rows.bound - np.bincount(rows.atom_row, weights=shift, minlength=rows.n_rows)
        soft = np.flatnonzero(slack >= 0)
        self.blocks.append(
            Block(
                np.concatenate([rows.atom_row, soft]),
                np.concatenate([column, slack[soft]]),
                np.concatenate([value, -np.ones(len(soft))]),
                np.full(rows.n_rows, -np.inf),
                bound,
            )
        )

    def _atoms(
        self, node: np.ndarray, label: np.ndarray, value: np.ndarray, n_nodes: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Column, coefficient and constant of value x atom; the atom "auxiliary is 0" is 1 - auxiliary."""
        is_node = node < n_nodes
        offset = self.problem.potentials.unary_offset
        column = np.where(is_node, offset[np.where(is_node, node, 0)] + label, self.first_auxiliary + node - n_nodes)
        flipped = ~is_node & (label == 0)
        return column, np.where(flipped, -value, value), np.where(flipped, value, 0.0)

    def _add_logic(self) -> None:
        logic = self.problem.logic
        same = logic.canonical
        slack = self._slacks(logic.weight, integral=True)
        column = self.problem.potentials.unary_offset[logic.atom_node] + logic.atom_label
        sign = np.where(same.negated, -1.0, 1.0)
        for f in range(logic.n_factors):
            span = slice(logic.pointer[f], logic.pointer[f + 1])
            args = (column[span], sign[span], int(slack[f]))
            if same.has_output[f]:
                self._output_rows(*args)
            else:
                self._count_row(*args, low=int(same.low[f]), high=int(same.high[f]))

    def _count_row(self, column: np.ndarray, sign: np.ndarray, slack: int, low: float, high: float) -> None:
        """Demand low <= number of true literals <= high, or the slack is 1."""
        constant = float((sign < 0).sum())
        for bound, side in ((low, -1.0), (high, 1.0)):
            worst = len(column) - bound if side > 0 else bound
            if worst <= 0 and bound >= 0:
                continue
            extra = slack >= 0
            self.blocks.append(
                Block(
                    np.zeros(len(column) + extra, np.int64),
                    np.append(column, slack) if extra else column,
                    np.append(side * sign, -worst) if extra else side * sign,
                    np.array([-np.inf]),
                    np.array([side * (bound - constant)]),
                )
            )

    def _output_rows(self, column: np.ndarray, sign: np.ndarray, slack: int) -> None:
        """Make the last literal equal "any of the others", or the slack is 1: clauses in both directions."""
        flipped = sign.copy()
        flipped[-1] *= -1
        self._count_row(column, flipped, slack, low=1, high=len(column))
        for k in range(len(column) - 1):
            pair = np.array([k, len(column) - 1])
            self._count_row(column[pair], sign[pair] * np.array([-1.0, 1.0]), slack, low=1, high=2)


def edge_rows(p: GraphPotentials) -> list[Block]:
    """For both ends of each edge and each label there: the edge's pairs with it minus the node's label are 0."""
    m = len(p.edges)
    if not m:
        return []
    wide = p.n_labels[p.edges[:, 1]]
    edge = np.repeat(np.arange(m), np.diff(p.pairwise_offset))
    inside = np.arange(len(p.pairwise)) - p.pairwise_offset[edge]
    ends = (inside // wide[edge], inside % wide[edge])
    blocks = []
    for side in (0, 1):
        size = p.n_labels[p.edges[:, side]]
        start = np.concatenate([[0], np.cumsum(size)])
        owner = np.repeat(np.arange(m), size)
        label = np.arange(start[-1]) - start[owner]
        pairs, nodes = len(p.unary) + np.arange(len(edge)), p.unary_offset[p.edges[owner, side]] + label
        value = np.concatenate([np.ones(len(edge)), -np.ones(start[-1])])
        row = np.concatenate([start[edge] + ends[side], np.arange(start[-1])])
        blocks.append(Block(row, np.concatenate([pairs, nodes]), value, *np.zeros((2, start[-1]))))
    return blocks


# --- what is left open -------------------------------------------------------------------------


class _Rows:
    """Equations being collected."""

    def __init__(self) -> None:
        self.row: list[np.ndarray] = []
        self.column: list[np.ndarray] = []
        self.value: list[np.ndarray] = []
        self.right: list[np.ndarray] = []
        self.count = 0

    def add(self, row: np.ndarray, column: np.ndarray, value: np.ndarray, right: np.ndarray) -> None:
        self.row.append(row + self.count)
        self.column.append(column)
        self.value.append(value)
        self.right.append(right)
        self.count += len(right)


def milp_parts(parts: GraphParts, search: Search, iterations: int | None, seconds: float | None) -> int:
    """Solve by HiGHS, put what it finds and proves into ``search``, and return about how many iterations it took.

    An automaton is a unit flow through its states, which describes the convex hull of its rule exactly. HiGHS counts
    branchings but not what each of them costs; so the relaxation is solved first, and the iterations that it takes decide
    how many branchings there may be, or whether there is an integer program at all.
    """
    p = parts.potentials
    rows, gain = _Rows(), [p.unary, p.pairwise]
    rows.add(
        np.repeat(np.arange(p.n_nodes), p.n_labels),
        np.arange(len(p.unary)),
        np.ones(len(p.unary)),
        np.ones(p.n_nodes),
    )
    for block in edge_rows(p):
        rows.add(block.row, block.column, block.value, block.low)
    n_columns = len(p.unary) + len(p.pairwise)
    for m in parts.automata:
        if not len(m.nodes):
            continue
        gain.append(_flow(m, p, n_columns, rows))
        n_columns += len(gain[-1])
    cost = np.concatenate(gain)
    allowed = cost > -np.inf
    matrix = coo_array(
        (np.concatenate(rows.value), (np.concatenate(rows.row), np.concatenate(rows.column))),
        shape=(rows.count, n_columns),
    )
    right = np.concatenate(rows.right)
    objective, upper = -HIGHS_SCALE * np.where(allowed, cost, 0.0), allowed.astype(float)
    options: dict[str, float] = {"mip_rel_gap": 0.0}
    if seconds is not None:
        options["time_limit"] = max(seconds, 1e-3)
    needed = 1
    if iterations is not None:
        needed = _relaxation_iterations(objective, matrix.tocsr(), right, upper, iterations)
        if needed > iterations:
            return iterations
        options["node_limit"] = max(1, iterations // max(1, needed))
    answer = milp(
        objective,
        integrality=np.arange(n_columns) < len(p.unary),
        bounds=Bounds(0.0, upper),
        constraints=LinearConstraint(matrix.tocsr(), right, right),
        options=options,
    )
    if answer.x is not None:
        labels = np.array([np.argmax(answer.x[a:b]) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])])
        search.offer(labels[search.network.order])
    search.bound = max(search.value, min(search.bound, -proved_cost(answer, [cost[allowed]])))
    return needed * max(1, int(answer.mip_node_count or 0))


def _relaxation_iterations(
    cost: np.ndarray, matrix: csr_array, right: np.ndarray, upper: np.ndarray, limit: int
) -> int:
    """Return the simplex iterations of the linear relaxation; more than the limit if it was not solved within it."""
    relaxed = linprog(
        cost,
        A_eq=matrix,
        b_eq=right,
        bounds=np.stack([np.zeros_like(upper), upper], axis=1),
        method="highs-ds",
        options={"maxiter": limit},
    )
    return limit + 1 if relaxed.status == ITERATION_LIMIT else int(relaxed.nit)


def _flow(m: GraphAutomaton, p: GraphPotentials, start: int, rows: _Rows) -> np.ndarray:
    """Add the flow of one automaton from column ``start`` on; returns the gains of its columns.

    Column (k, c, s): position k is read as letter c in state s.
    """
    n_letters, n_states = m.delta.shape
    length = len(m.nodes)
    column = start + np.arange(length * n_letters * n_states).reshape(length, n_letters, n_states)
    gain = np.zeros(column.shape)
    gain[-1] = m.final[m.delta]
    gain[0, :, 1:] = -np.inf
    for k, (v, letters) in enumerate(zip(m.nodes, m.letters)):
        flows = column[k].ravel()
        nodes = p.unary_offset[v] + np.arange(len(letters))
        rows.add(
            np.concatenate([np.repeat(np.arange(n_letters), n_states), letters]),
            np.concatenate([flows, nodes]),
            np.concatenate([np.ones(len(flows)), -np.ones(len(nodes))]),
            np.zeros(n_letters),
        )
        if k + 1 < length:
            rows.add(
                np.concatenate([m.delta.ravel(), np.tile(np.arange(n_states), n_letters)]),
                np.concatenate([flows, column[k + 1].ravel()]),
                np.concatenate([np.ones(len(flows)), -np.ones(len(flows))]),
                np.zeros(n_states),
            )
    return gain.ravel()
