"""Composite likelihood of labelled graphs: each type of node given the labels of all others."""

from collections.abc import Sequence

import numpy as np

from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.likelihood import GraphLikelihood
from rulefield.learning.graph.shards import UNKNOWN, GraphShard
from rulefield.models.graph import GraphModel
from rulefield.parallel import Executor


class GraphComposite:
    r"""Negative composite log-likelihood :math:`-\sum_t \log p(y_t \mid y_{known} \setminus y_t, x)` and its gradient.

    The sum is over the types that have labels; unknown labels are summed out, as in the likelihood. With a single such
    type it is the likelihood. Where two layers of labels are joined (rows and headings of the same lines), each layer is
    its own graph given the other: the loops between layers, which loosen the bound of the whole graph and slow its messages
    down, are gone, and the weights that join them are learned from both sides.

    References
    ----------
    [Lindsay88], [Varin11]
    """

    def __init__(
        self,
        model: GraphModel,
        shards: Sequence[GraphShard],
        l2: float = 0.0,
        n_jobs: int | None = None,
        executor: Executor | None = None,
    ):
        self.l2 = l2
        types = [name for name in sorted(model.spec.labels) if any(_known(shard, name).any() for shard in shards)]
        self.layers = [
            GraphLikelihood(model, shards, 0.0, n_jobs, executor, [_others(shard, name) for shard in shards])
            for name in types
        ]
        self.precision = max((layer.precision for layer in self.layers), default=0.0)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient with respect to ``theta``, half of ``l2`` times its squared norm included."""
        return penalized([layer.value_and_gradient(theta) for layer in self.layers], theta, self.l2)

    def settle(self) -> None:
        """Begin the next evaluations with the messages of the last one; called after each step of a search."""
        for layer in self.layers:
            layer.settle()


def _known(shard: GraphShard, name: str) -> np.ndarray:
    """Mark the nodes of a type whose labels are known."""
    found = np.zeros(len(shard.labels), dtype=bool)
    found[shard.batch.rows.get(name, ())] = True
    return found & (shard.labels != UNKNOWN)


def _others(shard: GraphShard, name: str) -> np.ndarray:
    """Mark the nodes of all other types whose labels are known."""
    return (shard.labels != UNKNOWN) & ~_known(shard, name)
