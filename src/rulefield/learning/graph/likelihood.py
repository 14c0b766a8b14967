"""Likelihood of labeled graphs: exact if sums are small, the tree-reweighted bound on other graphs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulefield.inference.graph.fields import Field, GivenField, field_of, is_exact
from rulefield.inference.graph.reweighted import Messages
from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.shards import UNKNOWN, GraphShard
from rulefield.models.graph import GraphModel
from rulefield.parallel import Threads


class LabeledPart(NamedTuple):
    """A shard ready for evaluations: its field, and that of what is known (None: all)."""

    shard: GraphShard
    free: Field
    clamped: Field | None


def labeled_part(shard: GraphShard) -> LabeledPart:
    """Make a shard ready for evaluations."""
    graphs, known = shard.batch, shard.labels != UNKNOWN
    free = field_of(graphs)
    if shard.complete:
        return LabeledPart(shard, free, None)
    return LabeledPart(shard, free, GivenField(graphs, known, shard.labels) if known.any() else field_of(graphs))


Begin = tuple[Messages, Messages]
"""Messages of a part's free field, and of that of what is known."""


def is_exact_part(part: LabeledPart) -> bool:
    """Whether the values of a part are exact."""
    return is_exact(part.free) and (part.clamped is None or is_exact(part.clamped))


def evaluate_part(
    task: tuple[LabeledPart, Begin], model: GraphModel, theta: np.ndarray
) -> tuple[float, np.ndarray, Begin]:
    """Value and gradient of a part without penalty, from the messages ``task`` begins with; and those at the end."""
    (shard, free, clamped), begin = task
    scores = model.potentials(theta, shard.batch)
    sums = free.marginals(scores.unary, scores.pairwise, begin[0])
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

    The same theta gives the same answer until :meth:`settle` is called.

    Notes
    -----
    O(edges · labels²) for each sweep.

    References
    ----------
    [Wainwright05]
    """

    precision: float
    """Share of the value that messages on loops, which have not quite settled, leave open: no line search looks for less."""

    def __init__(self, model: GraphModel, shards: Sequence[GraphShard], l2: float = 0.0, n_jobs: int | None = None):
        self.threads, self.l2, self._model = Threads(n_jobs), l2, model
        self.parts = self.threads.map(labeled_part, shards)
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
