"""An expected value to be kept in a range while training: compiled, over the joint states of a corpus."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CompiledExpectation:
    r"""The statement low <= E[phi] / total <= high, phi summed over all tokens and steps of a corpus.

    phi sums ``node[c_t, s_t]`` over tokens, ``edges[k][y^k_{t-1}, y^k_t]`` over steps and tasks, and 1 for every step
    whose pair of joint states is among the moves.

    Parameters
    ----------
    node : ndarray of float64, shape (n_classes, S)
    token_class : ndarray of uint16, shape (n_tokens,)
        Class of each token of the corpus, as far as this statement can tell tokens apart.
    edges : tuple of ndarray (m_k, m_k) or None, one per task
    move_from, move_to : ndarray of int64, shape (n_moves,)
    total : float
        What a share is a share of: tokens, steps, or sequences.
    low, high : float
        ``-inf`` and ``inf`` if one side is open.
    """

    node: np.ndarray
    token_class: np.ndarray
    edges: tuple[np.ndarray | None, ...]
    move_from: np.ndarray
    move_to: np.ndarray
    total: float
    low: float
    high: float
