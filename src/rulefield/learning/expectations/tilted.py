"""A corpus whose potentials are tilted by expectations: what duals and penalties of expectations ask for, shard by shard."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rulefield.inference.sequences.joint.exact import JointSums, joint_best, joint_marginals
from rulefield.learning.expectations.corpus import Counts, JointCorpus, JointShard, added, counts_of, thin
from rulefield.models.joint import JointModel
from rulefield.problem.expectation import CompiledExpectation
from rulefield.problem.joint import JointPotentials


@dataclass(frozen=True)
class Statements:
    """Expectations as every shard reads them, those that tell tokens apart alike in one group: they tilt and count together.

    Parameters
    ----------
    groups : list of list of int
        Numbers of the expectations of each group.
    nodes : list of ndarray of float64, shape (n_members, n_classes, S)
        Values of each group's members.
    edges : list of tuple of (ndarray or None)
        Values of each expectation by task, at steps.
    moves : ndarray of int64
        All moves that have a weight or that an expectation counts, from * S + to; the model's own first.
    places : list of ndarray of int64
        Moves that each expectation counts.
    """

    groups: list[list[int]]
    nodes: list[np.ndarray]
    edges: list[tuple[np.ndarray | None, ...]]
    moves: np.ndarray
    places: list[np.ndarray]

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


class TiltedShard(NamedTuple):
    """A shard, and the class of each of its tokens in each group of expectations."""

    shard: JointShard
    classes: list[np.ndarray]


def with_classes(shard: JointShard, classes: list[np.ndarray]) -> TiltedShard:
    """Cut the classes of all tokens to those of a shard."""
    return TiltedShard(shard, [every[shard.first : shard.last] for every in classes])


def untilted(
    part: TiltedShard, model: JointModel, statements: Statements, theta: np.ndarray, clamp: bool
) -> JointPotentials:
    """Potentials of a shard with a place for each move that is counted."""
    made = model.potentials(theta, part.shard.data, part.shard.labels if clamp else None)
    pad = np.zeros(len(statements.moves) - len(made.move_score))
    return replace(
        made,
        move_from=statements.moves // model.n_states,
        move_to=statements.moves % model.n_states,
        move_score=np.concatenate([made.move_score, pad]),
    )


Work = tuple[TiltedShard, JointPotentials]


def _tilted(work: Work, statements: Statements, tau: np.ndarray) -> JointPotentials:
    """Potentials with ``tau`` (n_expectations,) times phi subtracted."""
    (_, every), base = work
    psi, moves = base.psi.copy(), base.move_score.copy()
    transitions = [T.copy() for T in base.transitions]
    for group, node, classes in zip(statements.groups, statements.nodes, every):
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


def evaluate_tilt(work: Work, statements: Statements, tau: np.ndarray) -> tuple[float, np.ndarray]:
    """Weighted log partition function of a shard under a tilt, and E[phi_i] of every expectation."""
    sums = joint_marginals(_tilted(work, statements, tau), work[0].shard.weight)
    return float(work[0].shard.weight @ sums.log_partition), _amounts(work[0], statements, sums)


def amounts_of_best(work: Work, statements: Statements) -> np.ndarray:
    """phi_i of the best labelings of a shard, untilted."""
    return _amounts(work[0], statements, joint_best(work[1], work[0].shard.weight))


def count_tilt(work: Work, model: JointModel, statements: Statements, tau: np.ndarray, few: bool) -> Counts:
    """Theta-shaped expected features of a shard under a tilt."""
    shard = work[0].shard
    sums = joint_marginals(_tilted(work, statements, tau), shard.weight)
    return thin(counts_of(model, shard, sums), few)


def _amounts(part: TiltedShard, statements: Statements, sums: JointSums) -> np.ndarray:
    out = np.zeros(len(statements.edges))
    weight = np.repeat(part.shard.weight, part.shard.data.lengths)
    for group, node, classes in zip(statements.groups, statements.nodes, part.classes):
        seen = np.zeros(node.shape[1:])
        for c in np.unique(classes):
            seen[c] = np.where(classes == c, weight, 0.0) @ sums.node
        out[group] += [float((seen * own).sum()) for own in node]
    for i, (edges, places) in enumerate(zip(statements.edges, statements.places)):
        out[i] += sums.moves[places].sum()
        out[i] += sum(float((t * E).sum()) for t, E in zip(edges, sums.edges) if t is not None)
    return out


class TiltedCorpus:
    """A corpus whose potentials can be tilted by expectations; potentials are computed once per theta.

    Parameters
    ----------
    corpus : JointCorpus
    expectations : sequence of CompiledExpectation
    """

    def __init__(self, corpus: JointCorpus, expectations: Sequence[CompiledExpectation]):
        self.corpus, self.expectations = corpus, list(expectations)
        statements = Statements.of(self.expectations, corpus.model)
        classes = [self.expectations[group[0]].token_class for group in statements.groups]
        run = corpus.executor
        self._statements = run.hold(statements)
        self._parts = run.keep(with_classes, corpus.parts, run.hold(classes))
        self._work: list[Work] = []

    def set_theta(self, theta: np.ndarray, clamp: bool = True) -> None:
        """Compute the untilted potentials of all shards."""
        run = self.corpus.executor
        made = run.keep(untilted, self._parts, self.corpus.held_model, self._statements, run.hold(theta), clamp)
        self._work = list(zip(self._parts, made))

    def evaluate(self, tau: np.ndarray) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions under the tilt, and E[phi_i] / total_i of every expectation."""
        answers = self.corpus.executor.map(evaluate_tilt, self._work, self._statements, tau)
        return float(sum(value for value, _ in answers)), self._shares([amounts for _, amounts in answers])

    def best_shares(self) -> np.ndarray:
        """phi_i / total_i in the best labelings of the untilted potentials."""
        return self._shares(self.corpus.executor.map(amounts_of_best, self._work, self._statements))

    def counts(self, tau: np.ndarray) -> np.ndarray:
        """Theta-shaped expected features under the tilt."""
        run, model = self.corpus.executor, self.corpus.held_model
        return added(run.map(count_tilt, self._work, model, self._statements, tau, run.apart), self.corpus.model.size)

    def _shares(self, amounts: list[np.ndarray]) -> np.ndarray:
        return np.sum(amounts, axis=0) / np.array([e.total for e in self.expectations])
