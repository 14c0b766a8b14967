"""Sums over a corpus for joint models: in shards, on threads or a cluster, the same for any number of workers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.inference.sequences.joint.exact import JointSums, joint_log_partition, joint_marginals
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel
from rulefield.parallel import Executor, Threads

SHARD_SCORES = 1 << 19
"""Joint-state scores in a shard: small enough for a core's cache to help, large enough to hide Python."""

Counts = np.ndarray | tuple[np.ndarray, np.ndarray]
"""A theta-shaped vector; or the places and values of what is not 0 in it, which is what a shard has to send."""


@dataclass(frozen=True)
class JointShard:
    """Some sequences of a corpus, with what is known of their labels; tokens ``first`` to ``last``."""

    data: Sequences
    labels: tuple[Labels | None, ...]
    weight: np.ndarray
    first: int
    last: int


class JointCorpus:
    """Partly labeled sequences of several tasks, cut into shards.

    Parameters
    ----------
    model : JointModel
    data : Sequences
    labels : one Labels a task; None if a task has no annotation at all
    weight : ndarray, shape (n_sequences,), optional
    n_jobs : int
        Threads. Shards do not depend on it and sums run in their order, so neither does any result.
    executor : Executor, optional
        Where sums are taken, instead of in threads: shards are sent there once.
    """

    def __init__(
        self,
        model: JointModel,
        data: Sequences,
        labels: Sequence[Labels | None],
        weight: np.ndarray | None = None,
        n_jobs: int = 1,
        executor: Executor | None = None,
    ):
        self.model, self.data, self.labels = model, data, tuple(labels)
        self.n_jobs, self.executor = n_jobs, Threads(n_jobs) if executor is None else executor
        self.weight = weight = np.ones(len(data)) if weight is None else weight
        budget = max(1, SHARD_SCORES // model.n_states)
        self.held_model = self.executor.hold(model)
        self.parts: list[JointShard] = []
        first = 0
        while first < len(data):
            last = int(np.searchsorted(data.offsets, data.offsets[first] + budget, side="right")) - 1
            last = min(max(last, first + 1), len(data))
            own = tuple(None if known is None else known[first:last] for known in labels)
            tokens = int(data.offsets[first]), int(data.offsets[last])
            self.parts.append(self.executor.hold(JointShard(data[first:last], own, weight[first:last], *tokens)))
            first = last

    def part(self, first: int, last: int) -> "JointCorpus":
        """Return the sequences from ``first`` up to ``last`` as a corpus for one thread."""
        own = [None if known is None else known[first:last] for known in self.labels]
        return JointCorpus(self.model, self.data[first:last], own, self.weight[first:last])

    def sums(self, theta: np.ndarray, clamp: bool) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions, and expected features; of known labels only with ``clamp``."""
        run = self.executor
        answers = run.map(sum_shard, self.parts, self.held_model, run.hold(theta), clamp, run.apart)
        return float(sum(value for value, _ in answers)), added((counts for _, counts in answers), self.model.size)

    def log_partition(self, theta: np.ndarray, clamp: bool) -> float:
        """Weighted sum of log partition functions alone."""
        run = self.executor
        return float(sum(run.map(log_partition_of_shard, self.parts, self.held_model, run.hold(theta), clamp)))


class ChainCorpus(JointCorpus):
    """A :class:`JointCorpus` of one task, whose sums without clamping go through the faster kernels of chains.

    A joint model of one task has no weights beside the task's own, so theta is that of the chain model.

    Parameters
    ----------
    model : ChainModel
        Without observation-conditioned transitions.
    data : Sequences
    labels : Labels
    weight : ndarray, shape (n_sequences,), optional
    n_jobs : int
    """

    def __init__(
        self, model: ChainModel, data: Sequences, labels: Labels, weight: np.ndarray | None = None, n_jobs: int = 1
    ):
        super().__init__(JointModel.of((model,)), data, (labels,), weight, n_jobs)
        self._free = ChainLikelihood(model, data, None, sample_weight=weight, n_jobs=n_jobs)

    def sums(self, theta: np.ndarray, clamp: bool) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions, and expected features; of known labels only with ``clamp``."""
        return super().sums(theta, clamp) if clamp else self._free.value_and_gradient(theta)

    def log_partition(self, theta: np.ndarray, clamp: bool) -> float:
        """Weighted sum of log partition functions alone."""
        return super().log_partition(theta, clamp) if clamp else self._free.value(theta)


def sum_shard(
    shard: JointShard, model: JointModel, theta: np.ndarray, clamp: bool, few: bool
) -> tuple[float, Counts]:
    """Weighted log partition function of a shard, and its expected features."""
    potentials = model.potentials(theta, shard.data, shard.labels if clamp else None)
    sums = joint_marginals(potentials, shard.weight)
    return float(shard.weight @ sums.log_partition), thin(counts_of(model, shard, sums), few)


def log_partition_of_shard(shard: JointShard, model: JointModel, theta: np.ndarray, clamp: bool) -> float:
    """Weighted log partition function of a shard alone."""
    potentials = model.potentials(theta, shard.data, shard.labels if clamp else None)
    return float(shard.weight @ joint_log_partition(potentials))


def counts_of(model: JointModel, shard: JointShard, sums: JointSums) -> np.ndarray:
    """Theta-shaped expected features of a shard."""
    node = sums.node * np.repeat(shard.weight, shard.data.lengths)[:, None]
    return model.counts(shard.data, node, sums.edges, sums.moves[: len(model.move_from)])


def thin(counts: np.ndarray, few: bool) -> Counts:
    """Return counts as they are, or (``few``) without the features that a shard does not have."""
    if not few:
        return counts
    places = np.flatnonzero(counts)
    return places, counts[places]


def added(parts: Iterable[Counts], size: int) -> np.ndarray:
    """Return the counts of all shards, (size,), added in their order."""
    total = np.zeros(size)
    for counts in parts:
        if isinstance(counts, tuple):
            total[counts[0]] += counts[1]
        else:
            total += counts
    return total


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
