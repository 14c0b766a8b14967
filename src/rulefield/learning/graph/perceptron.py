"""Averaged structured perceptron on graphs."""

import warnings
from collections.abc import Sequence

import numpy as np

from rulefield.exceptions import InterruptedFitWarning
from rulefield.learning.graph.oracle import MapOracle
from rulefield.learning.graph.shards import GraphShard
from rulefield.learning.graph.smooth import Learned
from rulefield.models.graph import GraphModel


def fit_perceptron(
    model: GraphModel, shards: Sequence[GraphShard], oracle: MapOracle, max_iter: int, start: np.ndarray
) -> Learned:
    """Move the weights towards the true labelling wherever the best labelling differs; return their average.

    One update for each shard (a mini-batch, so that threads do not change the result). Class weights enter as a
    cost added to wrong labels, relative to the smallest. Stops after a pass without a mistake. The curve holds the
    number of graphs labelled wrongly in each pass.

    References
    ----------
    [Collins02]
    """
    w, total, steps = start.copy(), np.zeros_like(start), 0
    truth = [model.joint_features(shard.batch, shard.labels) for shard in shards]
    margin = [shard.hamming() * (shard.cost.min(initial=1.0) != shard.cost.max(initial=1.0)) for shard in shards]
    curve: list[float] = []
    try:
        for _ in range(max_iter):
            mistakes = 0
            for k, shard in enumerate(shards):
                scores = model.potentials(w, shard.batch)
                labels, _ = oracle(shard, scores.unary + margin[k], scores.pairwise)
                wrong = labels != shard.labels
                mistakes += len(np.unique(shard.batch.node_graph[wrong]))
                difference = truth[k] - model.joint_features(shard.batch, labels)
                w = w + shard.graph_weight @ difference
                total += w
                steps += 1
            curve.append(float(mistakes))
            if mistakes == 0:
                break
    except KeyboardInterrupt:
        warnings.warn(
            f"fit was interrupted after {len(curve)} passes; the average so far is kept.",
            InterruptedFitWarning,
            stacklevel=2,
        )
    theta = total / steps if steps else w
    return Learned(theta, tuple(curve), bool(curve) and curve[-1] == 0)
