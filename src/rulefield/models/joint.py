"""Several tasks in one chain: each task's own weights, weights of label pairs, weights of joint moves ([Goyal16])."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Annotated

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.exceptions import InputError
from rulefield.forms import flags, index
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable, csr_rows, label_masks
from rulefield.problem.joint import JointPotentials

BLOCK = 4096
"""Tokens whose possible joint states are listed at a time: what bounds the memory of the dense table."""


@dataclass(frozen=True)
class JointModel:
    r"""Structure of a CRF whose state is one label per task, s = (y^1, ..., y^K); it holds no weights.

    The score is the sum of the tasks' own chain scores, :math:`\sum_{k<l} c_{kl}(y^k_t, y^l_t)` (cross weights),
    weights of features with joint states, and of listed joint moves (section 3.1 of the joint CRF paper).
    Theta is one flat vector: the tasks' thetas, the cross tables, joint features, moves.

    Parameters
    ----------
    tasks : tuple of ChainModel
        All over the same features.
    cross : tuple of (int, int)
        Pairs of tasks that have cross weights.
    joint_pairs : PairTable
        (feature, joint state) pairs that have a weight; often empty.
    allowed : ndarray of bool, shape (S,)
        Joint states that are possible.
    move_from, move_to : ndarray of int64, shape (n_moves,)
        Joint moves that have a weight.
    """

    tasks: tuple[ChainModel, ...]
    cross: tuple[tuple[int, int], ...]
    joint_pairs: PairTable
    allowed: Annotated[np.ndarray, flags("states")]
    move_from: Annotated[np.ndarray, index("moves", below="states", dtype="int64")]
    move_to: Annotated[np.ndarray, index("moves", below="states", dtype="int64")]

    def __post_init__(self) -> None:
        states, n = prod(self.sizes), self.n_features
        good = (
            len(self.allowed) == states
            and self.joint_pairs.fits(n, states)
            and all(task.n_features == n for task in self.tasks)
            and all(0 <= k < l < len(self.tasks) for k, l in self.cross)
        )
        if not good:
            raise InputError("the tables of a joint model must have the features and labels of its tasks.")

    @classmethod
    def of(
        cls,
        tasks: tuple[ChainModel, ...],
        *,
        cross: bool = True,
        joint_pairs: PairTable | None = None,
        moves: tuple[np.ndarray, np.ndarray] | None = None,
        allowed: np.ndarray | None = None,
    ) -> "JointModel":
        """Join the models of single tasks."""
        S = int(np.prod([task.n_labels for task in tasks]))
        none = np.zeros(0, np.int64)
        move_from, move_to = (none, none) if moves is None else moves
        return cls(
            tasks,
            tuple(combinations(range(len(tasks)), 2)) if cross else (),
            PairTable.empty(tasks[0].n_features, S) if joint_pairs is None else joint_pairs,
            np.ones(S, bool) if allowed is None else allowed,
            np.asarray(move_from, np.int64),
            np.asarray(move_to, np.int64),
        )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.tasks[0].n_features

    @property
    def sizes(self) -> tuple[int, ...]:
        """Labels of each task."""
        return tuple(task.n_labels for task in self.tasks)

    @property
    def n_states(self) -> int:
        """Number of joint states."""
        return int(np.prod(self.sizes))

    @cached_property
    def bounds(self) -> np.ndarray:
        """Boundaries of the blocks of theta: one per task, one per cross table, joint features, moves."""
        own = [task.size for task in self.tasks]
        tables = [self.sizes[k] * self.sizes[l] for k, l in self.cross]
        return np.cumsum([0, *own, *tables, self.joint_pairs.n_pairs, len(self.move_from)])

    @property
    def size(self) -> int:
        """Length of theta."""
        return int(self.bounds[-1])

    def zeros(self) -> np.ndarray:
        """Theta of zeros."""
        return np.zeros(self.size)

    def task_theta(self, theta: np.ndarray, k: int) -> np.ndarray:
        """View of the weights of task ``k``, a theta of its chain model."""
        return theta[self.bounds[k] : self.bounds[k + 1]]

    def cross_table(self, theta: np.ndarray, j: int) -> np.ndarray:
        """View of the ``j``-th cross table, (m_k, m_l) for ``cross[j] = (k, l)``."""
        k, l = self.cross[j]
        first = len(self.tasks) + j
        return theta[self.bounds[first] : self.bounds[first + 1]].reshape(self.sizes[k], self.sizes[l])

    def joint_weights(self, theta: np.ndarray) -> np.ndarray:
        """View of the weights of (feature, joint state) pairs."""
        return theta[self.bounds[-3] : self.bounds[-2]]

    def move_weights(self, theta: np.ndarray) -> np.ndarray:
        """View of the weights of joint moves."""
        return theta[self.bounds[-2] :]

    def potentials(
        self, theta: np.ndarray, data: Sequences, labels: tuple[Labels | None, ...] | None = None
    ) -> JointPotentials:
        """Potentials of all sequences of ``data``; ``labels`` (one per task, None: unknown) clamp what is known."""
        labels = (None,) * len(self.tasks) if labels is None else labels
        shape = (data.n_tokens, *self.sizes)
        psi = np.zeros(shape)
        for k, (task, known) in enumerate(zip(self.tasks, labels)):
            unary = task.unary(self.task_theta(theta, k), data)
            unary = unary if known is None else np.where(label_masks(known), unary, -np.inf)
            psi += _spread(unary, (0, k + 1), len(shape))
        for j, (k, l) in enumerate(self.cross):
            psi += _spread(self.cross_table(theta, j), (k + 1, l + 1), len(shape))
        psi = psi.reshape(data.n_tokens, self.n_states)
        if self.joint_pairs.n_pairs:
            psi += self.joint_pairs.scores(self.tasks[0].rows(data), self.joint_weights(theta))
        psi[:, ~self.allowed] = -np.inf
        return JointPotentials(
            self.sizes,
            psi,
            data.offsets,
            tuple(task.pairwise(self.task_theta(theta, k)) for k, task in enumerate(self.tasks)),
            self.move_from,
            self.move_to,
            self.move_weights(theta).copy(),
        )

    def counts(
        self, data: Sequences, node: np.ndarray, edges: tuple[np.ndarray, ...], moves: np.ndarray
    ) -> np.ndarray:
        """Theta-shaped expected features from node marginals (n_tokens, S), task transitions and joint moves.

        It is the transpose of :meth:`potentials`, which turns derivatives with respect to scores into those of theta.
        """
        out = self.zeros()
        rows = self.tasks[0].rows(data)
        cube = node.reshape(len(node), *self.sizes)
        filled = data.lengths > 0
        heads, tails = data.offsets[:-1][filled], data.offsets[1:][filled] - 1
        for k, task in enumerate(self.tasks):
            others = tuple(axis + 1 for axis in range(len(self.sizes)) if axis != k)
            marginal = np.ascontiguousarray(cube.sum(axis=others))
            theta, layout = self.task_theta(out, k), task.layout
            task.pairs.add_gradient(rows, marginal, layout.state(theta))
            layout.transition(theta)[:] = edges[k][task.transition_from, task.transition_to]
            layout.start(theta)[:] = marginal[heads].sum(axis=0)[task.start_label]
            layout.end(theta)[:] = marginal[tails].sum(axis=0)[task.end_label]
        total = cube.sum(axis=0)
        for j, (k, l) in enumerate(self.cross):
            others = tuple(axis for axis in range(len(self.sizes)) if axis not in (k, l))
            self.cross_table(out, j)[:] = total.sum(axis=others)
        if self.joint_pairs.n_pairs:
            self.joint_pairs.add_gradient(rows, node, self.joint_weights(out))
        self.move_weights(out)[:] = moves
        return out


def joint_pairs_seen(
    data: Sequences,
    labels: tuple[Labels, ...],
    *,
    allowed: np.ndarray,
    features: np.ndarray | None = None,
    min_count: int = 1,
) -> PairTable:
    """Return the (feature, joint state) pairs that the annotation leaves possible in ``min_count`` tokens or more.

    A token of which no task is known says nothing of joint states and is not counted; with one of two tasks known, each
    feature of the token meets as many states as the other task has labels. ``allowed`` (S,) marks joint states that are
    possible at all, ``features`` are numbers of the only features that may have such weights.
    """
    known = [label_masks(own) for own in labels]
    blocks = (slice(t, t + BLOCK) for t in range(0, data.n_tokens, BLOCK))
    sets = [_possible_states([own[block] for own in known], allowed) for block in blocks]
    counts = np.concatenate([count for count, _ in sets]) if sets else np.zeros(0, np.uint64)
    ptr = np.concatenate([np.zeros(1, np.uint64), np.cumsum(counts, dtype=np.uint64)])
    states = np.concatenate([state for _, state in sets]) if sets else np.zeros(0, np.uint32)
    rows = csr_rows(data.entries, 0, data.n_tokens)
    table = PairTable.seen(rows, data.entries.shape[1], (ptr, states), len(allowed), min_count)
    return table if features is None else table.of_features(np.isin(np.arange(table.n_features), features))


def _possible_states(known: list[np.ndarray], allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many joint states some tokens leave possible, each, and which; ``known`` are the labels of each task."""
    possible = np.ones((len(known[0]), 1), bool)
    for own in known:
        possible = (possible[:, :, None] & own[:, None, :]).reshape(len(own), -1)
    possible &= allowed & ~np.logical_and.reduce([own.all(axis=1) for own in known])[:, None]
    return possible.sum(axis=1, dtype=np.uint64), np.nonzero(possible)[1].astype(np.uint32)


def _spread(table: np.ndarray, axes: tuple[int, int], n_axes: int) -> np.ndarray:
    """Return a table whose two axes are ``axes`` of ``n_axes``."""
    return np.expand_dims(table, tuple(axis for axis in range(n_axes) if axis not in axes))
