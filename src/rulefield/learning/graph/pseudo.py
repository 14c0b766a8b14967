"""Pseudo-likelihood of labeled graphs: each node's label given its neighbors'; no inference, linear cost."""

from collections.abc import Sequence

import numpy as np

from rulefield.exceptions import LabelError
from rulefield.kernels.graph.pseudo import pseudo_likelihood
from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph import GraphModel
from rulefield.parallel import Executor, Threads


class GraphPseudoLikelihood:
    r"""Negative log-pseudo-likelihood :math:`-\sum_v c_v \log p(y_v \mid y_{N(v)}, x)` and its gradient.

    Convex; O(stored features x labels + edges x labels) an evaluation, whatever the loops. Class weights and graph
    weights multiply the nodes' terms. All labels must be known.

    References
    ----------
    [Besag75]
    """

    def __init__(
        self,
        model: GraphModel,
        shards: Sequence[GraphShard],
        l2: float = 0.0,
        n_jobs: int | None = None,
        executor: Executor | None = None,
    ):
        if not all(shard.complete for shard in shards):
            raise LabelError("pseudo-likelihood needs every label; fill unknown ones in first (fit does, by EM).")
        self.executor = Threads(n_jobs) if executor is None else executor
        self.l2, self._model = l2, self.executor.hold(model)
        self.shards = [self.executor.hold(shard) for shard in shards]

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient with respect to ``theta``, half of ``l2`` times its squared norm included."""
        told = self.executor.hold(theta)
        return penalized(self.executor.map(evaluate_shard, self.shards, self._model, told), theta, self.l2)


def evaluate_shard(shard: GraphShard, model: GraphModel, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of a shard, without penalty."""
    scores = model.potentials(theta, shard.batch)
    d_unary, d_pairwise = np.empty_like(scores.unary), np.zeros_like(scores.pairwise)
    value = pseudo_likelihood(
        shard.offset,
        scores.unary,
        shard.edges,
        scores.pairwise,
        shard.pairwise_offset,
        shard.labels.astype(np.uint64),
        shard.cost * shard.graph_weight[shard.batch.node_graph],
        d_unary,
        d_pairwise,
    )
    return -value, -model.pullback(shard.batch, d_unary, d_pairwise)
