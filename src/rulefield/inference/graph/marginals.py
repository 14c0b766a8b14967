"""Marginals of a graph's field without rules: exact on forests, tree-reweighted or loopy elsewhere."""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from rulefield.exceptions import InputError
from rulefield.inference.graph.evaluate import check_scores
from rulefield.inference.graph.network import Network, build_network, lengths
from rulefield.inference.graph.parts import Parts
from rulefield.kernels.graph.bp import bp, bp_beliefs
from rulefield.problem.graph import GraphPotentials

METHODS = ("auto", "exact", "tree_reweighted", "loopy")
TOLERANCE = 1e-8
LOOPY_DAMPING = 0.3
TREES = 32


@dataclass(frozen=True)
class MarginalState:
    """Structure and messages to start from next time on the same graph."""

    network: Network
    weight: np.ndarray
    message: np.ndarray
    method: str
    n_labels: np.ndarray
    edges: np.ndarray

    def fits(self, potentials: GraphPotentials, method: str) -> bool:
        """Whether this is a state of the same graph (the same number of labels, the same edges)."""
        same = np.array_equal(self.n_labels, potentials.n_labels) and np.array_equal(self.edges, potentials.edges)
        return same and method in ("auto", self.method)


@dataclass(frozen=True)
class GraphMarginals:
    """Marginals of the field p(y) proportional to exp(score).

    Parameters
    ----------
    node : ndarray of float64, like ``potentials.unary``
    edge : ndarray of float64, like ``potentials.pairwise``
    log_partition : float
        Exact (``exact``), an upper bound at convergence (``tree_reweighted``) or the Bethe estimate (``loopy``).
    method : str
        ``exact``, ``tree_reweighted`` or ``loopy``.
    iterations : int
    converged : bool
    state : MarginalState
        Hand it to the next call on the same graph as ``warm_start``.
    """

    node: np.ndarray
    edge: np.ndarray
    log_partition: float
    method: str
    iterations: int
    converged: bool
    state: MarginalState = field(repr=False)


def graph_marginals(
    potentials: GraphPotentials,
    method: str = "auto",
    iterations: int = 500,
    tolerance: float = TOLERANCE,
    warm_start: MarginalState | None = None,
) -> GraphMarginals:
    """Marginals of a field without rules. The kernel releases the GIL.

    Parameters
    ----------
    potentials : GraphPotentials
    method : {"auto", "exact", "tree_reweighted", "loopy"}
        ``auto`` is ``exact`` (sum-product) on forests and ``tree_reweighted`` elsewhere.
    iterations : int
        Most rounds of sweeps on a graph with loops.
    tolerance : float
        Largest change of a log-message in the last round of a converged run.
    warm_start : MarginalState or None
        ``state`` of an earlier result on the same graph.

    Raises
    ------
    InputError
        Where ``exact`` is asked of a graph with loops, or no labelling is allowed.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    check_scores(potentials)
    state = warm_start if warm_start is not None and warm_start.fits(potentials, method) else None
    state = state or _prepare(potentials, method)
    network = state.network.pour(potentials)
    unary, pairwise = network.scores.unary, network.scores.pairwise
    message = np.where(np.isfinite(state.message), state.message, 0.0)
    rounds = 1 if state.method == "exact" else iterations
    damping = LOOPY_DAMPING if state.method == "loopy" else 0.0
    done, converged = bp(network.net, unary, pairwise, state.weight, message, rounds, tolerance, damping)
    node, edge = np.empty_like(unary), np.empty_like(pairwise)
    log_partition = bp_beliefs(network.net, unary, pairwise, state.weight, message, node, edge)
    if log_partition == -np.inf:
        raise InputError("no labelling is allowed: every one has a score of -inf; allow more labels.")
    return GraphMarginals(
        *_to_problem(network, potentials, node, edge),
        float(log_partition),
        state.method,
        int(done),
        bool(converged) or state.method == "exact",
        MarginalState(state.network, state.weight, message, state.method, potentials.n_labels, potentials.edges),
    )


def _prepare(potentials: GraphPotentials, method: str) -> MarginalState:
    network = build_network(Parts(potentials, []))
    if method == "auto":
        method = "exact" if network.is_forest else "tree_reweighted"
    if method == "exact" and not network.is_forest:
        raise InputError('method="exact" needs a graph without loops; use "tree_reweighted" or "loopy".')
    weight = np.ones(len(network.net.inc_other))
    if method == "tree_reweighted":
        weight = _tree_weights(network)
    message = network.new_messages().edge
    return MarginalState(network, weight, message, method, potentials.n_labels, potentials.edges)


def _tree_weights(network: Network) -> np.ndarray:
    """Share of spanning trees that hold each incident edge; trees are chosen to cover all edges evenly."""
    net = network.net
    n = network.n_nodes
    owner = np.repeat(np.arange(n), lengths(net.inc_ptr))
    other = net.inc_other.astype(np.int64)
    later = owner < other
    first, second = owner[later], other[later]
    noise = np.random.default_rng(0)
    counts, trees = np.zeros(len(first)), 0
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(n, n)).tocsr()
    key = first * n + second
    needed = len(first) // max(n - connected_components(graph, directed=False)[0], 1) + 1
    while trees < max(TREES, 4 * needed) or counts.min(initial=1) == 0:
        cost = 1.0 + counts + 0.5 * noise.random(len(first))
        tree = minimum_spanning_tree(coo_array((cost, (first, second)), shape=(n, n)).tocsr()).tocoo()
        counts[np.searchsorted(key, np.minimum(tree.row, tree.col) * n + np.maximum(tree.row, tree.col))] += 1
        trees += 1
    place = np.searchsorted(key, np.minimum(owner, other) * n + np.maximum(owner, other))
    return counts[place] / trees if len(counts) else np.ones(0)


def _to_problem(
    network: Network, potentials: GraphPotentials, node: np.ndarray, edge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Marginals in the order of the problem's scores; parallel edges share theirs, a loop has its node's."""
    nodes = np.empty_like(node)
    nodes[network.unary_from] = node
    pairs = np.zeros(len(potentials.pairwise))
    kept, loop = network.pair_to >= 0, network.loop_to >= 0
    pairs[kept] = edge[network.pair_to[kept]]
    pairs[loop] = nodes[network.loop_to[loop]]
    return nodes, pairs
