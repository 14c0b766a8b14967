"""Potentials of a linear chain."""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError


@dataclass(frozen=True)
class ChainPotentials:
    r"""Log-scores of one chain.

    The score of a labeling y is :math:`\sum_t u_t(y_t) + \sum_{t>0} p_t(y_{t-1}, y_t)`.

    Parameters
    ----------
    unary : ndarray of float64, shape (n_steps, n_states)
        Start and end scores, if a model has them, are already added to the first and last row.
        ``-inf`` forbids a label at a step.
    pairwise : ndarray of float64, shape (n_states, n_states) or (n_steps - 1, n_states, n_states)
        Indexed [from, to]; three-dimensional where transitions depend on the input, entry ``t`` then
        scores the step from ``t`` to ``t + 1``. ``-inf`` forbids.
    """

    unary: np.ndarray
    pairwise: np.ndarray

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

    def score(self, labels: np.ndarray) -> float:
        """Score of one labeling (n_steps,), ``-inf`` if it is forbidden."""
        labels = np.asarray(labels)
        total = self.unary[np.arange(self.n_steps), labels].sum()
        if self.n_steps < 2:
            return float(total)
        if self.pairwise.ndim == 2:
            return float(total + self.pairwise[labels[:-1], labels[1:]].sum())
        return float(total + self.pairwise[np.arange(self.n_steps - 1), labels[:-1], labels[1:]].sum())
