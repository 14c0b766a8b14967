"""Likelihood of labeled graphs: exact if sums are small, the tree-reweighted bound on other graphs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.inference.graph.reweighted import Graphs, Messages
from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.fields import Field, GivenField, field_of, is_exact
from rulefield.learning.graph.shards import UNKNOWN, GraphShard
from rulefield.models.graph import GraphModel
from rulefield.parallel import Threads


def conditioned(shard: GraphShard, given: np.ndarray) -> Field:
    """Return the field of a shard in which some nodes, given as a mask, have the labels they are known to have."""
    batch = shard.batch
    graphs = Graphs(batch.n_labels, batch.edges, batch.node_pointer, batch.edge_pointer)
    return GivenField(graphs, given, shard.labels) if given.any() else field_of(graphs)


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


Begin = tuple[Messages, Messages]
"""Messages of a part's free field, and of that of what is known."""


def is_exact_part(part: LabeledPart) -> bool:
    """Whether the values of a part are exact."""
    return is_exact(part.free) and (part.clamped is None or is_exact(part.clamped))


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

    For a completely labeled graph :math:`A(\theta) - \theta \cdot \phi(x, y)`, with A the log-partition function if it
    is a small sum (on forests, small or thin graphs) and its convex tree-reweighted bound elsewhere. If labels are unknown,
    :math:`A(\theta) - A(\theta \mid y_{known})`: unknown labels are summed out (latent CRF), the gradient being free minus
    clamped marginals.

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
        self._begin: list[Begin] = [(None, None)] * len(self.parts)
        self.precision = 0.0 if all(map(is_exact_part, self.parts)) else 1e-6
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
