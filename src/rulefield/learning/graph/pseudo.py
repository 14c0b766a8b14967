"""Pseudo-likelihood of labelled graphs: each node's label given its neighbours'; no inference, linear cost."""

from collections.abc import Sequence

import numpy as np

from rulefield.exceptions import LabelError
from rulefield.kernels.graph.pseudo import pseudo_likelihood
from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph import GraphModel
from rulefield.parallel import Threads


class GraphPseudoLikelihood:
    r"""Negative log-pseudo-likelihood :math:`-\sum_v c_v \log p(y_v \mid y_{N(v)}, x)` and its gradient.

    Convex; O(stored features x labels + edges x labels) an evaluation, whatever the loops. Class weights and graph
    weights multiply the nodes' terms. All labels must be known.

    References
    ----------
    [Besag75]
    """

    def __init__(self, model: GraphModel, shards: Sequence[GraphShard], l2: float = 0.0, n_jobs: int | None = None):
        self.model, self.shards, self.l2, self.threads = model, list(shards), l2, Threads(n_jobs)
        if not all(shard.complete for shard in self.shards):
            raise LabelError("pseudo-likelihood needs every label; fill unknown ones in first (fit does, by EM).")
        self._weight = [shard.cost * shard.graph_weight[shard.batch.node_graph] for shard in self.shards]

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient with respect to ``theta``, half of ``l2`` times its squared norm included."""
        parts = self.threads.map(lambda k: self._part(theta, k), range(len(self.shards)))
        return penalized(parts, theta, self.l2)

    def _part(self, theta: np.ndarray, k: int) -> tuple[float, np.ndarray]:
        shard = self.shards[k]
        scores = self.model.potentials(theta, shard.batch)
        d_unary, d_pairwise = np.empty_like(scores.unary), np.zeros_like(scores.pairwise)
        value = pseudo_likelihood(
            shard.offset,
            scores.unary,
            shard.edges,
            scores.pairwise,
            shard.pairwise_offset,
            shard.labels.astype(np.uint64),
            self._weight[k],
            d_unary,
            d_pairwise,
        )
        return -value, -self.model.pullback(shard.batch, d_unary, d_pairwise)
