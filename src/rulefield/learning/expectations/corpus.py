"""Sums over a corpus for joint models: in shards, on threads, the same for any number of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.inference.joint.exact import joint_log_partition, joint_marginals
from rulefield.models.joint import JointModel
from rulefield.parallel import Threads
from rulefield.problem.joint import JointPotentials

SHARD_SCORES = 1 << 19
"""Joint-state scores in a shard: small enough for a core's cache to help, large enough to hide Python."""

T = TypeVar("T")


@dataclass(frozen=True)
class JointShard:
    """Some sequences of a corpus, with what is known of their labels; tokens ``first`` to ``last``, shard ``number``."""

    data: Sequences
    labels: tuple[Labels | None, ...]
    weight: np.ndarray
    first: int
    last: int
    number: int


class JointCorpus:
    """Partly labelled sequences of several tasks, cut into shards.

    Parameters
    ----------
    model : JointModel
    data : Sequences
    labels : one Labels a task; None where a task has no annotation at all
    weight : ndarray, shape (n_sequences,), optional
    n_jobs : int
        Threads. Shards do not depend on it and sums run in their order, so neither does any result.
    """

    def __init__(
        self,
        model: JointModel,
        data: Sequences,
        labels: Sequence[Labels | None],
        weight: np.ndarray | None = None,
        n_jobs: int = 1,
    ):
        self.model, self.data, self.labels = model, data, tuple(labels)
        self.n_jobs, self.threads = n_jobs, Threads(n_jobs)
        self.weight = weight = np.ones(len(data)) if weight is None else weight
        budget = max(1, SHARD_SCORES // model.n_states)
        self.shards: list[JointShard] = []
        first = 0
        while first < len(data):
            last = int(np.searchsorted(data.offsets, data.offsets[first] + budget, side="right")) - 1
            last = min(max(last, first + 1), len(data))
            own = tuple(None if known is None else known[first:last] for known in labels)
            tokens = int(data.offsets[first]), int(data.offsets[last])
            self.shards.append(JointShard(data[first:last], own, weight[first:last], *tokens, len(self.shards)))
            first = last

    def part(self, first: int, last: int) -> "JointCorpus":
        """Return the sequences from ``first`` up to ``last`` as a corpus for one thread."""
        own = [None if known is None else known[first:last] for known in self.labels]
        return JointCorpus(self.model, self.data[first:last], own, self.weight[first:last])

    def each(self, work: Callable[[JointShard], T]) -> list[T]:
        """Return ``work(shard)`` of every shard, in order."""
        return self.threads.map(work, self.shards)

    def sums(self, theta: np.ndarray, clamp: bool) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions, and expected features; of known labels only with ``clamp``."""

        def one(shard: JointShard) -> tuple[float, np.ndarray]:
            potentials = self.model.potentials(theta, shard.data, shard.labels if clamp else None)
            return expected_features(self.model, shard, potentials)

        return _added(self.each(one), self.model.size)

    def log_partition(self, theta: np.ndarray, clamp: bool) -> float:
        """Weighted sum of log partition functions alone."""

        def one(shard: JointShard) -> float:
            potentials = self.model.potentials(theta, shard.data, shard.labels if clamp else None)
            return float(shard.weight @ joint_log_partition(potentials))

        return float(sum(self.each(one)))


def expected_features(model: JointModel, shard: JointShard, potentials: JointPotentials) -> tuple[float, np.ndarray]:
    """Weighted log partition function of a shard and the theta-shaped expected features under ``potentials``."""
    sums = joint_marginals(potentials, shard.weight)
    node = sums.node * np.repeat(shard.weight, shard.data.lengths)[:, None]
    moves = sums.moves[: len(model.move_from)]
    return float(shard.weight @ sums.log_partition), model.counts(shard.data, node, sums.edges, moves)


def _added(parts: list[tuple[float, np.ndarray]], size: int) -> tuple[float, np.ndarray]:
    total, counts = 0.0, np.zeros(size)
    for value, part in parts:
        total += value
        counts += part
    return total, counts


class JointLikelihood:
    """Minus the log-likelihood of what is known, sum_i w_i log p(known_i | x_i), plus (l2 / 2) |theta|^2."""

    def __init__(self, corpus: JointCorpus, l2: float):
        self.corpus, self.l2 = corpus, l2

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient: clamped forward-backward minus free forward-backward."""
        known, seen = self.corpus.sums(theta, clamp=True)
        every, model = self.corpus.sums(theta, clamp=False)
        return every - known + 0.5 * self.l2 * float(theta @ theta), model - seen + self.l2 * theta


class ExpectedLikelihood:
    """The M-step: minus theta . counts, plus the free log partition function, plus (l2 / 2) |theta|^2; convex."""

    def __init__(self, corpus: JointCorpus, counts: np.ndarray, l2: float):
        self.corpus, self.counts, self.l2 = corpus, counts, l2

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        every, model = self.corpus.sums(theta, clamp=False)
        value = every - float(theta @ self.counts) + 0.5 * self.l2 * float(theta @ theta)
        return value, model - self.counts + self.l2 * theta
