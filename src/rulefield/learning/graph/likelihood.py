"""Likelihood of labeled graphs: exact on forests, the tree-reweighted bound on graphs with loops."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.kernels.graph import reweighted as kernels
from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.cases import CasesField, Field, Messages, Sums, shard_hubs
from rulefield.learning.graph.rungs import RungsField, rungs_of
from rulefield.learning.graph.shards import UNKNOWN, GraphShard
from rulefield.learning.graph.small import SmallField, is_small
from rulefield.learning.graph.trees import edge_appearance
from rulefield.models.graph import GraphModel
from rulefield.parallel import Threads


class ReweightedField:
    """Tree-reweighted sum-product over one shard, from messages that the caller gives (equal ones, if it gives none).

    A learner that begins with those of its last step needs few sweeps, since weights move little.

    Parameters
    ----------
    shard : GraphShard
    sweeps : int
        Most sweeps over a graph in one call. Where loops are strong, messages creep: what 200 sweeps add to 50 is less than
        what the next step of the search changes, and they are gone on with from there.
    tolerance : float
        A graph is done when no message moves more than this (in probability).
    rho : ndarray of float64, shape (n_edges,), optional
        Edge appearance probabilities.
    """

    def __init__(self, shard: GraphShard, sweeps: int = 50, tolerance: float = 1e-5, rho: np.ndarray | None = None):
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
        self._equal = np.repeat(1.0 / size, size)

    def marginals(self, unary: np.ndarray, pairwise: np.ndarray, begin: Messages = None) -> Sums:
        """Return each graph's log-partition value (a bound; exact on forests), marginals and messages."""
        shard = self.shard
        exponential = np.empty_like(pairwise)
        kernels.scaled_exponentials(pairwise, shard.pairwise_offset, self.rho, exponential)
        linear = (self._equal if begin is None else begin).copy()
        messages = np.log(linear)
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
        return Sums(values, node, edge, linear)


def field_of(shard: GraphShard) -> Field:
    """Return the field of a shard: all labelings of small binary graphs, cases of hubs, merged rungs of ladders."""
    if is_small(shard.batch):
        return SmallField(shard)
    hubs = shard_hubs(shard.batch)
    if any(map(len, hubs)):
        return CasesField(shard, hubs, ReweightedField)
    rungs = np.zeros(0) if shard.batch.is_forest else rungs_of(shard.batch)
    return RungsField(shard, rungs, field_of) if len(rungs) else ReweightedField(shard)


def conditioned(shard: GraphShard, given: np.ndarray) -> Field:
    """Return the field of a shard in which some nodes, given as a mask, have the labels they are known to have.

    Their edges are scores of single nodes then: often all but a few edges are gone.
    """
    if not given.any():
        return field_of(shard)
    pointer = shard.batch.node_pointer
    nodes = [begin + np.flatnonzero(given[begin:end]) for begin, end in zip(pointer[:-1], pointer[1:])]
    return CasesField(shard, nodes, field_of, [shard.labels[of_graph][None] for of_graph in nodes])


class LabeledPart(NamedTuple):
    """A shard ready for evaluations: its field, that of what is known (None: all), and prices of wrong labels, if any."""

    shard: GraphShard
    free: Field
    clamped: Field | None
    margin: np.ndarray | None


def labeled_part(task: tuple[GraphShard, np.ndarray]) -> LabeledPart:
    """Make a shard ready for evaluations, given the labels of some of its nodes (a mask)."""
    shard, given = task
    clamped = None if shard.complete else conditioned(shard, shard.labels != UNKNOWN)
    return LabeledPart(shard, conditioned(shard, given), clamped, _log_cost(shard))


def _is_exact(shard: GraphShard) -> bool:
    return is_small(shard.batch) or shard.batch.is_forest or bool(len(rungs_of(shard.batch)))


Begin = tuple[Messages, Messages]
"""Messages of a part's free field, and of that of what is known."""


def evaluate_part(
    task: tuple[LabeledPart, Begin], model: GraphModel, theta: np.ndarray
) -> tuple[float, np.ndarray, Begin]:
    """Value and gradient of a part without penalty, from the messages ``task`` begins with; and those at the end."""
    (shard, free, clamped, margin), begin = task
    scores = model.potentials(theta, shard.batch)
    sums = free.marginals(scores.unary if margin is None else scores.unary + margin, scores.pairwise, begin[0])
    node, edge, ended = sums.node, sums.edge, None
    if clamped is None:
        known = shard.scores_of_labels(scores, shard.labels)
        node[shard.node_slot(shard.labels)] -= 1.0
        edge[shard.edge_slot(shard.labels)] -= 1.0
    else:
        known, known_node, known_edge, ended = clamped.marginals(
            shard.clamped(scores.unary), scores.pairwise, begin[1]
        )
        node -= known_node
        edge -= known_edge
    value = float(shard.graph_weight @ (sums.values - known))
    if (shard.graph_weight != 1.0).any():
        node *= np.repeat(shard.graph_weight[shard.batch.node_graph], shard.batch.n_labels)
        edge *= np.repeat(shard.graph_weight[shard.batch.edge_graph], np.diff(shard.batch.pairwise_offset))
    return value, model.pullback(shard.batch, node, edge), (sums.messages, ended)


class GraphLikelihood:
    r"""Negative log-likelihood of labeled graphs and its gradient.

    For a completely labeled graph :math:`A(\theta) - \theta \cdot \phi(x, y)`, with A the log-partition function
    on forests
    and its convex tree-reweighted bound elsewhere. Where labels are unknown, :math:`A(\theta) - A(\theta \mid
    y_{known})`:
    unknown labels are summed out (latent CRF), the gradient being free minus clamped marginals.

    With ``given`` (a mask of the nodes of each shard, all of known labels) it is that of the other nodes, given these.

    Class weights enter as a softmax margin: the log of a node's cost is added to each of its wrong labels, so that
    a class of weight 2 behaves as if its competitors were twice as likely.

    The same theta gives the same answer until :meth:`settle` is called.

    Notes
    -----
    O(edges · labels²) for each sweep.

    References
    ----------
    [Wainwright05], [Gimpel10]
    """

    precision: float
    """Share of the value that messages on loops, which have not quite settled, leave open: no line search looks for less."""

    def __init__(
        self,
        model: GraphModel,
        shards: Sequence[GraphShard],
        l2: float = 0.0,
        n_jobs: int | None = None,
        given: Sequence[np.ndarray] | None = None,
    ):
        self.threads, self.l2, self._model = Threads(n_jobs), l2, model
        fixed = [np.zeros(len(shard.labels), dtype=bool) for shard in shards] if given is None else given
        self.parts = self.threads.map(labeled_part, zip(shards, fixed))
        self.precision = 0.0 if all(map(_is_exact, shards)) else 1e-6
        self._begin: list[Begin] = [(None, None)] * len(self.parts)
        self._last = self._begin

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient with respect to ``theta``, half of ``l2`` times its squared norm included."""
        answers = self.threads.map(evaluate_part, zip(self.parts, self._begin), self._model, theta)
        self._last = [messages for *_, messages in answers]
        return penalized(((value, gradient) for value, gradient, _ in answers), theta, self.l2)

    def settle(self) -> None:
        """Begin the next evaluations with the messages of the last one; called after each step of a search."""
        self._begin = self._last


def _log_cost(shard: GraphShard) -> np.ndarray | None:
    if (shard.cost == 1.0).all():
        return None
    with np.errstate(divide="ignore"):
        price = np.log(np.where(shard.labels >= 0, shard.cost, 1.0))
    out = np.repeat(price, shard.batch.n_labels)
    out[shard.known_slot] = 0.0
    return out
