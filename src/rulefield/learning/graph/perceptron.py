"""Averaged structured perceptron on graphs."""

from collections.abc import Sequence

import numpy as np

from rulefield.learning.fit_log import FitResult, Pass, run_passes
from rulefield.learning.graph.oracle import MapOracle
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph import GraphModel

HALVINGS = 20


def fit_perceptron(
    model: GraphModel, shards: Sequence[GraphShard], oracle: MapOracle, max_iter: int, tol: float, start: np.ndarray
) -> FitResult:
    """Move the weights toward the true labeling wherever the best labeling differs; return their average.

    One update for each shard (a mini-batch, so that threads do not change the result). Class weights enter as a
    cost added to wrong labels, relative to the smallest. Stops after a pass without a mistake; the average is then
    moved toward the last weights until it makes none either. The objective is the number of graphs that
    a pass labels wrongly.

    References
    ----------
    [Collins02]
    """
    return run_passes(GraphPerceptron(model, shards, oracle, start), max_iter, tol)


class GraphPerceptron:
    """The weights, their sum over all steps, and a pass over all shards."""

    def __init__(self, model: GraphModel, shards: Sequence[GraphShard], oracle: MapOracle, start: np.ndarray):
        self.model, self.shards, self.oracle = model, list(shards), oracle
        self.w, self._total, self._steps = start.copy(), np.zeros_like(start), 0
        self._truth = [model.joint_features(shard.batch, shard.labels) for shard in shards]
        self._margin = [
            shard.hamming() * (shard.cost.min(initial=1.0) != shard.cost.max(initial=1.0)) for shard in shards
        ]

        self.theta = start.copy()

    def learn(self) -> Pass:
        """One pass; the average so far, or one that makes no mistake where the pass made none."""
        mistakes = self.run()
        self.theta = self.average if mistakes else self.separating_average()
        return Pass(float(mistakes), done="" if mistakes else "A pass labeled every graph without a mistake.")

    @property
    def average(self) -> np.ndarray:
        """Mean of the weights over all steps so far."""
        return self._total / self._steps if self._steps else self.w.copy()

    def run(self) -> int:
        """Update after every shard; return the number of graphs that were labeled wrongly."""
        mistakes = 0
        for k, shard in enumerate(self.shards):
            labels = self._best(k, self.w)
            mistakes += self._wrong(k, labels)
            difference = self._truth[k] - self.model.joint_features(shard.batch, labels)
            self.w = self.w + shard.graph_weight @ difference
            self._total += self.w
            self._steps += 1
        return mistakes

    def separating_average(self) -> np.ndarray:
        """Average of as many more passes as it takes (each doubles the steps) to label the training set as ``w`` does.

        Passes without a mistake leave ``w`` alone and only add it to the sum, so they need not be run.
        """
        theta = self.average
        for _ in range(HALVINGS):
            if not any(self._wrong(k, self._best(k, theta)) for k in range(len(self.shards))):
                return theta
            theta = 0.5 * (theta + self.w)
        return self.w.copy()

    def _best(self, k: int, w: np.ndarray) -> np.ndarray:
        shard = self.shards[k]
        scores = self.model.potentials(w, shard.batch)
        return self.oracle(shard, scores.unary + self._margin[k], scores.pairwise)[0]

    def _wrong(self, k: int, labels: np.ndarray) -> int:
        batch = self.shards[k].batch
        return len(np.unique(batch.node_graph[labels != self.shards[k].labels]))
