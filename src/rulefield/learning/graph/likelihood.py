"""Likelihood of labelled graphs: exact on forests, the tree-reweighted bound on graphs with loops."""

from collections.abc import Sequence

import numpy as np

from rulefield.kernels.graph import reweighted as kernels
from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.cases import CasesField, shard_hubs
from rulefield.learning.graph.shards import GraphShard
from rulefield.learning.graph.small import SmallField, is_small
from rulefield.learning.graph.trees import edge_appearance
from rulefield.models.graph import GraphModel
from rulefield.parallel import Threads


class ReweightedField:
    """Tree-reweighted sum-product over one shard: the same scores, the same answer, until :meth:`settle` is called.

    Messages are equal in the first call, and those of the last call before ``settle`` afterwards: a learner that settles
    after each step needs few sweeps, since weights move little.

    Parameters
    ----------
    shard : GraphShard
    sweeps : int
        Most sweeps over a graph in one call.
    tolerance : float
        A graph is done when no message moves more than this (in probability).
    rho : ndarray of float64, shape (n_edges,), optional
        Edge appearance probabilities.
    """

    def __init__(self, shard: GraphShard, sweeps: int = 200, tolerance: float = 1e-5, rho: np.ndarray | None = None):
        batch = shard.batch
        self.shard, self.n_sweeps, self.tolerance = shard, sweeps, tolerance
        self.rho = edge_appearance(len(batch.n_labels), batch.edges) if rho is None else rho
        low, high = batch.edges.min(axis=1), batch.edges.max(axis=1)
        self._forward = np.lexsort((high, low, shard.batch.edge_graph)).astype(np.uint64)
        self._backward = np.lexsort((-low, -high, shard.batch.edge_graph)).astype(np.uint64)
        self._node_pointer = batch.node_pointer.astype(np.uint64)
        self._edge_pointer = batch.edge_pointer.astype(np.uint64)
        target = batch.edges[:, ::-1].ravel()
        size = batch.n_labels[target]
        begin = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        self._message_offset = begin.astype(np.uint64)
        self._slot = np.repeat(batch.unary_offset[:-1][target] - begin[:-1], size) + np.arange(begin[-1])
        self._message_rho = np.repeat(np.repeat(self.rho, 2), size)
        self._begin = self._last = np.repeat(1.0 / size, size)

    def settle(self) -> None:
        """Begin the next calls with the messages of the last one."""
        self._begin = self._last

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each graph's log-partition value (a bound; exact on forests), node and edge marginals (flat)."""
        shard = self.shard
        exponential = np.empty_like(pairwise)
        kernels.scaled_exponentials(pairwise, shard.pairwise_offset, self.rho, exponential)
        linear, messages = self._begin.copy(), np.log(self._begin)
        belief = unary + np.bincount(self._slot, self._message_rho * messages, minlength=len(unary))
        kernels.sweeps(
            shard.offset,
            shard.edges,
            self._edge_pointer,
            shard.pairwise_offset,
            exponential,
            self._message_offset,
            self._forward,
            self._backward,
            self.rho,
            belief,
            messages,
            linear,
            self.n_sweeps,
            self.tolerance,
        )
        self._last = linear
        node, edge = np.empty_like(unary), np.empty_like(pairwise)
        values = np.empty(shard.batch.n_graphs)
        kernels.pseudo_marginals(
            self._node_pointer,
            self._edge_pointer,
            shard.offset,
            unary,
            shard.edges,
            pairwise,
            shard.pairwise_offset,
            exponential,
            self._message_offset,
            self.rho,
            belief,
            messages,
            node,
            edge,
            values,
        )
        return values, node, edge


def field_of(shard: GraphShard) -> ReweightedField | CasesField | SmallField:
    """Return the field of a shard: exact where its graphs are small and binary, case by case where they have hubs."""
    if is_small(shard.batch):
        return SmallField(shard)
    hubs = shard_hubs(shard.batch)
    return CasesField(shard, hubs, ReweightedField) if any(map(len, hubs)) else ReweightedField(shard)


def _is_exact(field: ReweightedField | CasesField | SmallField) -> bool:
    return isinstance(field, SmallField) or field.shard.batch.is_forest


class GraphLikelihood:
    r"""Negative log-likelihood of labelled graphs and its gradient.

    For a completely labelled graph :math:`A(\theta) - \theta \cdot \phi(x, y)`, with A the log-partition function
    on forests
    and its convex tree-reweighted bound elsewhere. Where labels are unknown, :math:`A(\theta) - A(\theta \mid
    y_{known})`:
    unknown labels are summed out (latent CRF), the gradient being free minus clamped marginals.

    Class weights enter as a softmax margin: the log of a node's cost is added to each of its wrong labels, so that
    a class of weight 2 behaves as if its competitors were twice as likely.

    Notes
    -----
    O(edges · labels²) for each sweep.

    References
    ----------
    [Wainwright05], [Gimpel10]
    """

    precision: float
    """Share of the value that messages on loops, which have not quite settled, leave open: no line search looks for less."""

    def __init__(self, model: GraphModel, shards: Sequence[GraphShard], l2: float = 0.0, n_jobs: int | None = None):
        self.model, self.shards, self.l2, self.threads = model, list(shards), l2, Threads(n_jobs)
        self._free = [field_of(shard) for shard in self.shards]
        self.precision = 0.0 if all(map(_is_exact, self._free)) else 1e-7
        self._clamped = [None if shard.complete else field_of(shard) for shard in self.shards]
        self._margin = [_log_cost(shard) for shard in self.shards]

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient with respect to ``theta``, half of ``l2`` times its squared norm included."""
        parts = self.threads.map(lambda k: self._part(theta, k), range(len(self.shards)))
        return penalized(parts, theta, self.l2)

    def settle(self) -> None:
        """Begin the next evaluations with the messages of the last one; called after each step of a search."""
        for field in [*self._free, *self._clamped]:
            if field is not None:
                field.settle()

    def _part(self, theta: np.ndarray, k: int) -> tuple[float, np.ndarray]:
        shard = self.shards[k]
        scores = self.model.potentials(theta, shard.batch)
        unary = scores.unary if self._margin[k] is None else scores.unary + self._margin[k]
        free, node, edge = self._free[k].marginals(unary, scores.pairwise)
        clamped = self._clamped[k]
        if clamped is None:
            known = shard.scores_of_labels(scores, shard.labels)
            node[shard.node_slot(shard.labels)] -= 1.0
            edge[shard.edge_slot(shard.labels)] -= 1.0
        else:
            known, known_node, known_edge = clamped.marginals(shard.clamped(scores.unary), scores.pairwise)
            node -= known_node
            edge -= known_edge
        value = float(shard.graph_weight @ (free - known))
        if (shard.graph_weight != 1.0).any():
            node *= np.repeat(shard.graph_weight[shard.batch.node_graph], shard.batch.n_labels)
            edge *= np.repeat(shard.graph_weight[shard.batch.edge_graph], np.diff(shard.batch.pairwise_offset))
        return value, self.model.pullback(shard.batch, node, edge)


def _log_cost(shard: GraphShard) -> np.ndarray | None:
    if (shard.cost == 1.0).all():
        return None
    with np.errstate(divide="ignore"):
        price = np.log(np.where(shard.labels >= 0, shard.cost, 1.0))
    out = np.repeat(price, shard.batch.n_labels)
    out[shard.known_slot] = 0.0
    return out
