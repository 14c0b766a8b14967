"""Sums over a corpus for joint models: in shards, on threads, the same for any number of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.inference.sequences.joint.exact import JointSums, joint_marginals
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel
from rulefield.parallel import Threads
from rulefield.problem.joint import JointPotentials

SHARD_SCORES = 1 << 19
"""Joint-state scores in a shard: small enough for a core's cache to help, large enough to hide Python."""


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
        self.parts: list[JointShard] = []
        first = 0
        while first < len(data):
            last = int(np.searchsorted(data.offsets, data.offsets[first] + budget, side="right")) - 1
            last = min(max(last, first + 1), len(data))
            own = tuple(None if known is None else known[first:last] for known in labels)
            tokens = int(data.offsets[first]), int(data.offsets[last])
            self.parts.append(JointShard(data[first:last], own, weight[first:last], *tokens))
            first = last

    def sums(self, theta: np.ndarray, clamp: bool) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions, and expected features; of known labels only with ``clamp``."""

        def sum_shard(shard: JointShard) -> tuple[float, np.ndarray]:
            sums = joint_marginals(self._potentials(shard, theta, clamp), shard.weight)
            return float(shard.weight @ sums.log_partition), counts_of(self.model, shard, sums)

        answers = self.threads.map(sum_shard, self.parts)
        return float(sum(value for value, _ in answers)), added([counts for _, counts in answers], self.model.size)

    def _potentials(self, shard: JointShard, theta: np.ndarray, clamp: bool) -> JointPotentials:
        return self.model.potentials(theta, shard.data, shard.labels if clamp else None)


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


def counts_of(model: JointModel, shard: JointShard, sums: JointSums) -> np.ndarray:
    """Theta-shaped expected features of a shard."""
    node = sums.node * np.repeat(shard.weight, shard.data.lengths)[:, None]
    return model.counts(shard.data, node, sums.edges, sums.moves[: len(model.move_from)])


def added(parts: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return the counts of all shards, (size,), added in their order."""
    total = np.zeros(size)
    for counts in parts:
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
