"""Learn a graph model: one function for all learners, with unknown labels filled in or summed out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.learning.fit_log import FitResult, joined
from rulefield.learning.graph.likelihood import GraphLikelihood
from rulefield.learning.graph.oracle import MapOracle
from rulefield.learning.graph.shards import UNKNOWN, GraphShard
from rulefield.learning.graph.ssvm import StructuredSVM
from rulefield.learning.lbfgs import minimize_lbfgs
from rulefield.models.graph import GraphModel

WARM_ITERATIONS = 15
"""Steps of the latent likelihood from which the structured SVM begins if labels are unknown."""
LATENT_ROUNDS = 5
"""How often the structured SVM fills unknown labels in again."""
ALGORITHMS = ("likelihood", "ssvm")


@dataclass(frozen=True)
class GraphTraining:
    """What a fit of a graph model is given; ``oracle_nodes`` are search nodes that ``ssvm`` adds to its sweeps."""

    algorithm: str
    l2: float
    max_iter: int
    tol: float
    n_jobs: int | None = None
    oracle_nodes: int = 100


def fit_graph_model(
    model: GraphModel, shards: Sequence[GraphShard], training: GraphTraining, start: np.ndarray
) -> FitResult:
    """Learn the weights from ``start``.

    The likelihood sums unknown labels out. The structured SVM fills them in with the best labeling given the known ones,
    learns, and repeats (CCCP), beginning from the latent likelihood after a few steps.
    """
    if training.algorithm == "likelihood":
        return _most_likely(model, shards, training, start, training.max_iter)
    if all(shard.complete for shard in shards):
        return _fit_complete(model, shards, training, start)
    warm = _most_likely(model, shards, training, start, WARM_ITERATIONS)
    return warm if warm.interrupted else _fit_latent(model, shards, training, warm.theta)


def _fit_complete(
    model: GraphModel, shards: Sequence[GraphShard], training: GraphTraining, start: np.ndarray
) -> FitResult:
    oracle = MapOracle(node_limit=training.oracle_nodes, n_jobs=training.n_jobs)
    return StructuredSVM(model, shards, training.l2, oracle).fit(training.max_iter, training.tol, start)


def _fit_latent(
    model: GraphModel, shards: Sequence[GraphShard], training: GraphTraining, start: np.ndarray
) -> FitResult:
    filled: list[GraphShard] = []
    learned: FitResult | None = None
    for _ in range(LATENT_ROUNDS):
        before, theta = filled, start if learned is None else learned.theta
        filled = [_fill(model, shard, theta, training) for shard in shards]
        if learned is not None and all(np.array_equal(a.labels, b.labels) for a, b in zip(before, filled)):
            break
        again = _fit_complete(model, filled, training, theta)
        learned = again if learned is None else joined(learned, again)
        if learned.interrupted:
            break
    assert learned is not None
    return learned


def _most_likely(
    model: GraphModel, shards: Sequence[GraphShard], training: GraphTraining, start: np.ndarray, max_iter: int
) -> FitResult:
    objective = GraphLikelihood(model, shards, training.l2, training.n_jobs)
    return minimize_lbfgs(objective, start, max_iter, training.tol)


def _fill(model: GraphModel, shard: GraphShard, theta: np.ndarray, training: GraphTraining) -> GraphShard:
    """Put the best labels, given the known ones, where labels are unknown."""
    if (shard.labels != UNKNOWN).all():
        return shard
    scores = model.potentials(theta, shard.batch)
    oracle = MapOracle(n_jobs=training.n_jobs)
    labels, _ = oracle(shard, shard.clamped(scores.unary), scores.pairwise, keep=False)
    return shard.filled(labels)
