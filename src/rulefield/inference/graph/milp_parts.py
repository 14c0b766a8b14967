"""Potentials and machines as one integer program: the tightest rows that we know, for HiGHS on what is left open."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from rulefield.inference.graph.machines import Machine
from rulefield.inference.graph.milp import edge_rows
from rulefield.inference.graph.parts import Parts
from rulefield.inference.graph.trws import Search
from rulefield.problem.graph import GraphPotentials


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


def milp_parts(parts: Parts, search: Search, node_limit: int, seconds: float | None) -> None:
    """Solve by HiGHS and put what it finds and proves into ``search``.

    A machine is a unit flow through its states, which describes the convex hull of its rule exactly.
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
    for m in parts.machines:
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
    options: dict[str, float] = {"mip_rel_gap": 0.0, "node_limit": node_limit}
    if seconds is not None:
        options["time_limit"] = max(seconds, 1e-3)
    answer = milp(
        -np.where(allowed, cost, 0.0),
        integrality=np.arange(n_columns) < len(p.unary),
        bounds=Bounds(0.0, allowed.astype(float)),
        constraints=LinearConstraint(matrix.tocsr(), right, right),
        options=options,
    )
    if answer.x is not None:
        labels = np.array([np.argmax(answer.x[a:b]) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])])
        search.offer(labels[search.network.order])
    if answer.status == 2:
        search.bound = search.value
    elif answer.mip_dual_bound is not None and np.isfinite(answer.mip_dual_bound):
        bound = -float(answer.mip_dual_bound) - search.network.constant
        search.bound = max(search.value, min(search.bound, bound))


def _flow(m: Machine, p: GraphPotentials, start: int, rows: _Rows) -> np.ndarray:
    """Add the flow of one machine from column ``start`` on; returns the gains of its columns.

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
