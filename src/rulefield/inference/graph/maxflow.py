"""Submodular problems with two labels as a minimum cut: polynomial, exact, by SciPy's maximum flow.

A cut separates source and sink; a node on the source's side has label 1. The energy (minus the score) of an edge is
a + (c - a) y_i + (d - c) y_j + (b + c - a - d) (1 - y_i) y_j for [[a, b], [c, d]], so that its last coefficient, if not
negative, is the capacity of an arc from j to i (Kolmogorov and Zabih, What energy functions can be minimized via graph
cuts?, 2004). SciPy wants whole capacities: they are scaled and rounded down, so that every flow is a true bound; what
rounding left of the cut's capacity is then pushed in a second round at a finer scale.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from rulefield.exceptions import InputError
from rulefield.inference.graph.evaluate import Answer
from rulefield.problem.graph import GraphPotentials, GraphProblem

LARGEST = 2**29
"""Of a capacity; SciPy's are int32, and what is left of one may be twice as much."""
REFINEMENTS = 3
"""Flows, each at a finer scale than the one before; the third leaves less than double precision."""
CLOSE = 1e-8
"""Nats of a cut's capacity that need not be used: far less than the tolerance of a certificate."""
ROUNDING = 1e-12
"""Share of the largest score: less than that is not a negative capacity."""


@dataclass(frozen=True)
class _Energy:
    """Minus the score as constant + sum of slope x label + sum of link x (1 - y_i) y_j."""

    constant: float
    slope: np.ndarray
    link: np.ndarray


def flow_graph(problem: GraphProblem) -> Answer:
    """Best labeling of a submodular problem with two labels per node, without rules.

    Raises
    ------
    InputError
        Where the problem is not of this kind.
    """
    if not is_submodular(problem):
        raise InputError(
            'engine "maxflow" needs two labels at each node, no rules, finite scores, and edges that do not prefer '
            'different labels: [0, 0] + [1, 1] >= [0, 1] + [1, 0]; use engine "auto".'
        )
    p = problem.potentials
    energy = _energy(p)
    cut, value = _least_cut(energy, p.edges)
    labels = cut.astype(np.int64)
    free = np.zeros(problem.rows.n_auxiliary, np.int64)  # no row is left that asks about them
    return Answer(np.concatenate([labels, free]), p.score(labels), -(energy.constant + value), "maxflow")


def is_submodular(problem: GraphProblem) -> bool:
    """Whether a minimum cut solves the problem."""
    p = problem.potentials
    if problem.logic.n_factors or problem.rows.n_rows or not p.n_nodes or (p.n_labels != 2).any():
        return False
    if (p.edges[:, 0] == p.edges[:, 1]).any() or not (np.isfinite(p.unary).all() and np.isfinite(p.pairwise).all()):
        return False
    pair = p.pairwise.reshape(-1, 2, 2)
    link = pair[:, 0, 0] + pair[:, 1, 1] - pair[:, 0, 1] - pair[:, 1, 0]
    return bool((link >= -ROUNDING * np.abs(p.pairwise).max(initial=0.0)).all())


def _energy(p: GraphPotentials) -> _Energy:
    node, pair = -p.unary.reshape(-1, 2), -p.pairwise.reshape(-1, 2, 2)
    i, j = p.edges[:, 0], p.edges[:, 1]
    a, b, c, d = pair[:, 0, 0], pair[:, 0, 1], pair[:, 1, 0], pair[:, 1, 1]
    slope = node[:, 1] - node[:, 0]
    slope = slope + np.bincount(i, c - a, minlength=p.n_nodes) + np.bincount(j, d - c, minlength=p.n_nodes)
    return _Energy(float(node[:, 0].sum() + a.sum()), slope, np.maximum(b + c - a - d, 0.0))


def _least_cut(energy: _Energy, edges: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels, and the value of a flow: no labeling has less energy (without its constant) than that."""
    n = len(energy.slope)
    source, sink = n, n + 1
    up = energy.slope > 0.0
    below = float(energy.slope[~up].sum())  # a falling slope is paid first, and given back where the label is 0
    tail = np.concatenate([edges[:, 1], np.flatnonzero(up), np.full(n - up.sum(), source)])
    head = np.concatenate([edges[:, 0], np.full(up.sum(), sink), np.flatnonzero(~up)])
    capacity = np.concatenate([energy.link, np.abs(energy.slope[up]), np.abs(energy.slope[~up])])
    left = coo_array((capacity, (tail, head)), shape=(n + 2, n + 2)).tocsr()
    left.sum_duplicates()
    largest, value = float(left.data.max(initial=0.0)), 0.0
    for _ in range(REFINEMENTS):
        scale = LARGEST / largest if largest > 0.0 else 1.0
        pushed, reached = _push(left, scale, source, sink)
        left = csr_array(left - pushed)
        left.data = np.maximum(left.data, 0.0)
        value += float(pushed[source].sum())
        crossing = coo_array(left)
        largest = float(crossing.data[reached[crossing.coords[0]] & ~reached[crossing.coords[1]]].sum())
        if largest <= CLOSE:
            break
    return reached[:n], below + value


def _push(left: csr_array, scale: float, source: int, sink: int) -> tuple[csr_array, np.ndarray]:
    """Largest flow within capacities rounded down to 1 / scale, and the nodes that the rest of them reaches."""
    whole = np.minimum(np.floor(left.data * scale), LARGEST).astype(np.int32)
    network = csr_array((whole, left.indices.astype(np.int32), left.indptr.astype(np.int32)), shape=left.shape)
    flow = maximum_flow(network, source, sink).flow
    rest = csr_array(network - flow)
    rest.data = np.maximum(rest.data, 0)
    rest.eliminate_zeros()
    reached = np.zeros(left.shape[0], dtype=bool)
    reached[breadth_first_order(rest, source, return_predecessors=False)] = True
    return csr_array(flow, dtype=np.float64) / scale, reached
