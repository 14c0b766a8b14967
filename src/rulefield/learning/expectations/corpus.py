"""Sums over a corpus for joint models, as it is or tilted by expectations: in shards, on threads, the same for any number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.inference.sequences.joint.exact import JointSums, joint_best, joint_marginals
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel
from rulefield.parallel import Threads
from rulefield.problem.expectation import CompiledExpectation
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
    """Partly labeled sequences of several tasks (``labels``: None for a task without annotation), cut into shards.

    Shards do not depend on ``n_jobs`` and sums run in their order, so neither does any result.
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
            potentials = self.model.potentials(theta, shard.data, shard.labels if clamp else None)
            sums = joint_marginals(potentials, shard.weight)
            return float(shard.weight @ sums.log_partition), counts_of(self.model, shard, sums)

        answers = self.threads.map(sum_shard, self.parts)
        return float(sum(value for value, _ in answers)), added([counts for _, counts in answers], self.model.size)


class ChainCorpus(JointCorpus):
    """A :class:`JointCorpus` of one task, whose sums without clamping go through the faster kernels of chains.

    A joint model of one task has no weights beside the task's own, so theta is that of the chain model.
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


@dataclass(frozen=True)
class Statements:
    """Expectations as every shard reads them; those that tell tokens apart alike are one group, tilted together."""

    groups: list[list[int]]
    """Numbers of the expectations of each group."""
    nodes: list[np.ndarray]
    """Values of each group's members, (n_members, n_classes, S)."""
    edges: list[tuple[np.ndarray | None, ...]]
    """Values of each expectation by task, at steps."""
    moves: np.ndarray
    """All moves that have a weight or that an expectation counts, from * S + to; the model's own first."""
    places: list[np.ndarray]
    """Moves that each expectation counts."""

    @classmethod
    def of(cls, expectations: Sequence[CompiledExpectation], model: JointModel) -> "Statements":
        """Group expectations."""
        own = model.move_from * model.n_states + model.move_to
        counted = [e.move_from * model.n_states + e.move_to for e in expectations]
        moves = np.concatenate([own, np.setdiff1d(np.concatenate([np.zeros(0, np.int64), *counted]), own)])
        order = np.argsort(moves)
        found: dict[tuple[int, bytes], list[int]] = {}
        for i, e in enumerate(expectations):
            found.setdefault((len(e.node), e.token_class.tobytes()), []).append(i)
        return cls(
            list(found.values()),
            [np.stack([expectations[i].node for i in group]) for group in found.values()],
            [e.edges for e in expectations],
            moves,
            [order[np.searchsorted(moves, keys, sorter=order)] for keys in counted],
        )


class Work(NamedTuple):
    """A shard, the class of each of its tokens in each group of expectations, and its untilted potentials."""

    shard: JointShard
    classes: list[np.ndarray]
    base: JointPotentials


class TiltedCorpus:
    """A corpus whose potentials can be tilted by expectations; potentials are computed once per theta."""

    def __init__(self, corpus: JointCorpus, expectations: Sequence[CompiledExpectation]):
        self.corpus, self.expectations = corpus, list(expectations)
        self._statements = Statements.of(self.expectations, corpus.model)
        self._classes = [self.expectations[group[0]].token_class for group in self._statements.groups]
        self._work: list[Work] = []

    def set_theta(self, theta: np.ndarray, clamp: bool = True) -> None:
        """Compute the untilted potentials of all shards, with a place for each move that is counted."""
        model, moves = self.corpus.model, self._statements.moves

        def untilted(shard: JointShard) -> Work:
            made = model.potentials(theta, shard.data, shard.labels if clamp else None)
            score = np.concatenate([made.move_score, np.zeros(len(moves) - len(made.move_score))])
            base = replace(made, move_from=moves // model.n_states, move_to=moves % model.n_states, move_score=score)
            return Work(shard, [every[shard.first : shard.last] for every in self._classes], base)

        self._work = self.corpus.threads.map(untilted, self.corpus.parts)

    def evaluate(self, tau: np.ndarray) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions under the tilt, and E[phi_i] / total_i of every expectation."""

        def tilt(work: Work) -> tuple[float, np.ndarray]:
            sums = joint_marginals(self._tilted(work, tau), work.shard.weight)
            return float(work.shard.weight @ sums.log_partition), self._amounts(work, sums)

        answers = self.corpus.threads.map(tilt, self._work)
        return float(sum(value for value, _ in answers)), self._shares([amounts for _, amounts in answers])

    def best_shares(self) -> np.ndarray:
        """phi_i / total_i in the best labelings of the untilted potentials."""

        def best(work: Work) -> np.ndarray:
            return self._amounts(work, joint_best(work.base, work.shard.weight))

        return self._shares(self.corpus.threads.map(best, self._work))

    def counts(self, tau: np.ndarray) -> np.ndarray:
        """Theta-shaped expected features under the tilt."""
        model = self.corpus.model

        def count(work: Work) -> np.ndarray:
            return counts_of(model, work.shard, joint_marginals(self._tilted(work, tau), work.shard.weight))

        return added(self.corpus.threads.map(count, self._work), model.size)

    def _tilted(self, work: Work, tau: np.ndarray) -> JointPotentials:
        """Potentials with ``tau`` (n_expectations,) times phi subtracted."""
        base, statements = work.base, self._statements
        psi, moves = base.psi.copy(), base.move_score.copy()
        transitions = [T.copy() for T in base.transitions]
        for group, node, classes in zip(statements.groups, statements.nodes, work.classes):
            change = np.tensordot(tau[group], node, 1)
            psi -= change[classes[0]] if (classes == classes[0]).all() else change[classes]
        for edges, places, t in zip(statements.edges, statements.places, tau):
            if t == 0.0:
                continue
            moves[places] -= t
            for T, table in zip(transitions, edges):
                if table is not None:
                    T -= t * table
        return replace(base, psi=psi, transitions=tuple(transitions), move_score=moves)

    def _amounts(self, work: Work, sums: JointSums) -> np.ndarray:
        """phi_i of every expectation in a shard, expected under ``sums``."""
        statements = self._statements
        out, weight = np.zeros(len(statements.edges)), np.repeat(work.shard.weight, work.shard.data.lengths)
        for group, node, classes in zip(statements.groups, statements.nodes, work.classes):
            seen = np.zeros(node.shape[1:])
            for c in np.unique(classes):
                seen[c] = np.where(classes == c, weight, 0.0) @ sums.node
            out[group] += [float((seen * own).sum()) for own in node]
        for i, (edges, places) in enumerate(zip(statements.edges, statements.places)):
            out[i] += sums.moves[places].sum()
            out[i] += sum(float((t * E).sum()) for t, E in zip(edges, sums.edges) if t is not None)
        return out

    def _shares(self, amounts: list[np.ndarray]) -> np.ndarray:
        return np.sum(amounts, axis=0) / np.array([e.total for e in self.expectations])
