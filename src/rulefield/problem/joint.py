"""Potentials of several label sequences over the same tokens, kept apart by task."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rulefield.problem.chain import ChainPotentials


@dataclass(frozen=True)
class JointPotentials:
    r"""Log-scores of chains whose state is one label a task: s = (y^1, ..., y^K), the last task fastest.

    A joint labelling scores :math:`\sum_t \psi_t(s_t) + \sum_{t>0} [\sum_k T_k(y^k_{t-1}, y^k_t) + w(s_{t-1}, s_t)]`,
    where w is 0 but for the listed moves.

    Parameters
    ----------
    sizes : tuple of int
        Labels of each task; S is their product.
    psi : ndarray of float64, shape (n_tokens, S)
        Scores of joint states at every token of all chains, starts and ends included; ``-inf`` forbids.
    offsets : ndarray of int64, shape (n_chains + 1,)
    transitions : tuple of ndarray, shapes (m_k, m_k)
        [from, to] of each task; ``-inf`` forbids.
    move_from, move_to : ndarray of int64, shape (n_moves,)
        Joint states of listed moves, each at most once.
    move_score : ndarray of float64, shape (n_moves,)
    """

    sizes: tuple[int, ...]
    psi: np.ndarray
    offsets: np.ndarray
    transitions: tuple[np.ndarray, ...]
    move_from: np.ndarray
    move_to: np.ndarray
    move_score: np.ndarray

    @property
    def n_states(self) -> int:
        """Number of joint states."""
        return self.psi.shape[1]

    @cached_property
    def task_labels(self) -> np.ndarray:
        """Label of each task in each joint state, (K, S)."""
        return np.array(np.unravel_index(np.arange(int(np.prod(self.sizes))), self.sizes))

    @cached_property
    def pairwise(self) -> np.ndarray:
        """Scores of all steps [from, to] of joint states, dense (S, S)."""
        total = np.zeros((self.n_states, self.n_states))
        for labels, scores in zip(self.task_labels, self.transitions):
            total += scores[np.ix_(labels, labels)]
        total[self.move_from, self.move_to] += self.move_score
        return total

    def chain(self, i: int) -> ChainPotentials:
        """Chain ``i`` as a plain chain over joint states."""
        return ChainPotentials(self.psi[int(self.offsets[i]) : int(self.offsets[i + 1])], self.pairwise)
