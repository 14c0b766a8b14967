"""Potentials of a linear chain, and of many."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rulefield.data.sequences import ranges
from rulefield.exceptions import InputError


@dataclass(frozen=True)
class ChainPotentials:
    r"""Log-scores of one chain.

    The score of a labeling y is :math:`\sum_t u_t(y_t) + \sum_{t>0} p_t(y_{t-1}, y_t)`.
    """

    unary: np.ndarray
    """float64 (n_steps, n_states): start and end scores, if a model has them, are already added to the first and
    last row. ``-inf`` forbids a label at a step."""
    pairwise: np.ndarray
    """float64 (n_states, n_states) or (n_steps - 1, n_states, n_states): indexed [from, to]; three-dimensional
    where transitions depend on the input, entry ``t`` then scores the step from ``t`` to ``t + 1``. ``-inf``
    forbids."""

    def __post_init__(self) -> None:
        n, m = self.unary.shape
        expected = ((m, m), (max(n - 1, 0), m, m))
        if self.pairwise.shape not in expected:
            raise InputError(
                f"pairwise must have shape {expected[0]} or {expected[1]} to fit unary of shape "
                f"{self.unary.shape}; got {self.pairwise.shape}."
            )

    @property
    def n_steps(self) -> int:
        """Number of tokens."""
        return self.unary.shape[0]

    @property
    def n_states(self) -> int:
        """Number of labels."""
        return self.unary.shape[1]

    @property
    def pairwise_stack(self) -> np.ndarray:
        """``pairwise`` as (k, n_states, n_states), k = 1 where all steps share it: what kernels read."""
        return self.pairwise if self.pairwise.ndim == 3 else self.pairwise[None]

    def flat(self) -> "ChainPotentials":
        """Return potentials that allow the same labelings and prefer none."""
        return ChainPotentials(*(np.where(x > -np.inf, 0.0, -np.inf) for x in (self.unary, self.pairwise)))

    def score(self, labels: np.ndarray) -> float:
        """Score of one labeling (n_steps,), ``-inf`` if it is forbidden."""
        return float(self.scores(np.asarray(labels)[None])[0])

    def scores(self, paths: np.ndarray) -> np.ndarray:
        """Scores (labelings,) of labelings (labelings, n_steps)."""
        total: np.ndarray = self.unary[np.arange(self.n_steps), paths].sum(axis=1)
        if self.n_steps > 1:
            steps = np.arange(self.n_steps - 1) if self.pairwise.ndim == 3 else 0
            total += self.pairwise_stack[steps, paths[:, :-1], paths[:, 1:]].sum(axis=1)
        return total


class Chains(NamedTuple):
    """Potentials of chains that lie one after the other, as kernels read them.

    Chain i has the rows ``offsets[i] : offsets[i + 1]`` of ``unary`` (tokens, m) and the matrices
    ``steps[i, 0] : steps[i, 1]`` of ``pairwise`` (matrices, m, m), [from, to]: one, or one per step.
    """

    unary: np.ndarray
    pairwise: np.ndarray
    offsets: np.ndarray
    steps: np.ndarray

    def of(self, some: np.ndarray) -> "Chains":
        """Return those of the numbers ``some``, ascending."""
        if len(some) == len(self.steps):
            return self
        lengths = np.diff(self.offsets)[some]
        rows = ranges(self.offsets[some], lengths)
        return Chains(self.unary[rows], self.pairwise, np.concatenate([[0], np.cumsum(lengths)]), self.steps[some])

    def scores(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (chains,) of labels (tokens,) from their definition, and the sums of the sizes of their terms."""
        count, lengths = len(self.steps), np.diff(self.offsets)
        chain, first = np.repeat(np.arange(count), lengths), np.repeat(self.offsets[:-1], lengths)
        each, later = self.unary[np.arange(len(labels)), labels], np.flatnonzero(np.arange(len(labels)) > first)
        begin, end = self.steps[chain[later]].T
        matrix = begin + np.where(end - begin == 1, 0, later - 1 - first[later])
        moves = self.pairwise[matrix, labels[later - 1], labels[later]]
        of_terms, terms = np.concatenate([chain, chain[later]]), np.concatenate([each, moves])
        return np.bincount(of_terms, terms, count), np.bincount(of_terms, np.abs(terms), count)


def as_chains(unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray) -> Chains:
    """Return chains from scores: one matrix of steps for all, or one for each token but the last of a chain."""
    if pairwise.ndim == 2:
        steps = np.broadcast_to(np.array([0, 1]), (len(offsets) - 1, 2))
        return Chains(unary, pairwise[None], offsets, np.ascontiguousarray(steps))
    return Chains(
        unary, pairwise, offsets, np.stack([offsets[:-1], np.maximum(offsets[1:] - 1, offsets[:-1])], axis=1)
    )
