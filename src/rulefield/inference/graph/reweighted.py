"""Tree-reweighted sum-product ([Wainwright05]): a bound on the log-partition value of each of many graphs, and marginals."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from rulefield.data.graphs import spanning_tree
from rulefield.kernels.graph import reweighted as kernels
from rulefield.problem.graph import GraphUnion, starts

N_TREES = 20
"""Spanning forests whose mean gives the weights, at least; more until each edge lies in one."""

Messages = Any
"""Where a field's iterations ended, and may begin again; None: as they begin first."""


class Sums(NamedTuple):
    """Each graph's log-partition value, node and edge marginals (flat), and the messages behind them."""

    values: np.ndarray
    node: np.ndarray
    edge: np.ndarray
    messages: Messages = None


class ReweightedField:
    """Sum-product over some graphs, from messages that the caller gives (equal ones, if it gives none).

    A learner that begins with those of its last step needs few sweeps, since weights move little. If loops are strong,
    messages creep: what 200 sweeps add to 50 is less than what the next step of a learner changes, and it goes on from there.
    A graph is done when no message moves more than ``tolerance`` (in probability).
    """

    def __init__(self, graphs: GraphUnion, sweeps: int = 50, tolerance: float = 1e-5):
        self.n_sweeps, self.tolerance, self.swept = sweeps, tolerance, 0
        edges, offset = graphs.edges, graphs.unary_offset
        self.rho = edge_appearance(len(graphs.n_labels), edges)
        low, high = edges.min(axis=1), edges.max(axis=1)
        graph = np.repeat(np.arange(graphs.n_graphs), np.diff(graphs.edge_pointer))
        forward, backward = np.lexsort((high, low, graph)), np.lexsort((-low, -high, graph))
        target = edges[:, ::-1].ravel()
        size = graphs.n_labels[target]
        begin = starts(size)
        self._slot = np.repeat(offset[:-1][target] - begin[:-1], size) + np.arange(begin[-1])
        self._message_rho = np.repeat(np.repeat(self.rho, 2), size)
        self._equal = np.repeat(1.0 / size, size)
        pointers = graphs.node_pointer, graphs.edge_pointer, offset
        arrays = *pointers, edges, graphs.pairwise_offset, begin, forward, backward
        whole = [np.ascontiguousarray(array).astype(np.uint64) for array in arrays]
        self._layout = kernels.GraphLayout._make([*whole, self.rho])

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value (a bound; exact on forests), marginals and messages."""
        layout, exponential = self._layout, np.empty_like(pairwise)
        kernels.scaled_exponentials(pairwise, layout.pair_offset, self.rho, exponential)
        linear = (self._equal if begin is None else begin).copy()
        messages = np.log(linear)
        belief = unary + np.bincount(self._slot, self._message_rho * messages, minlength=len(unary))
        state = kernels.State(exponential, belief, messages, linear)
        self.swept = int(kernels.sweeps(layout, state, self.n_sweeps, self.tolerance))
        node, edge, values = np.empty_like(unary), np.empty_like(pairwise), np.empty(len(layout.node_pointer) - 1)
        kernels.pseudo_marginals(layout, state, unary, pairwise, node, edge, values)
        return Sums(values, node, edge, linear)


def edge_appearance(n_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Return, for each edge, the share of a set of spanning forests that hold it: (n_edges,), each in (0, 1].

    Each forest takes the edges used least so far (minimum spanning tree over counts), until every edge has been
    used and there are at least ``N_TREES`` forests: the mean of forests is always a valid set of weights. On a
    forest all weights are 1 and tree-reweighted inference is exact. Parallel edges share the weight of their pair.
    O(N_TREES · n_edges log n_edges).
    """
    if len(edges) == 0:
        return np.ones(0)
    low, high = edges.min(axis=1), edges.max(axis=1)
    pairs, which, copies = np.unique(low * np.int64(n_nodes) + high, return_inverse=True, return_counts=True)
    row, column = pairs // n_nodes, pairs % n_nodes
    count = np.zeros(len(pairs))
    trees = 0
    while trees < N_TREES or count.min() == 0:  # each takes an edge that none took yet
        weight = (
            1.0 + count + (np.arange(len(pairs)) * 7919 % 104_729) / 1e6
        )  # breaks ties, differently for each edge
        graph = sparse.csr_array((weight, (row, column)), shape=(n_nodes, n_nodes))
        tree = spanning_tree(graph)
        used = np.searchsorted(pairs, tree.row.astype(np.int64) * n_nodes + tree.col)
        count[used] += 1
        trees += 1
        if len(used) == len(pairs):
            return (1.0 / copies)[which]
    return (count / trees / copies)[which]
