"""An expected value to be kept in a range while training: compiled, over the joint states of a corpus."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CompiledExpectation:
    r"""The statement low <= E[phi] / total <= high, phi summed over all tokens and steps of a corpus.

    phi sums ``node[c_t, s_t]`` over tokens, ``edges[k][y^k_{t-1}, y^k_t]`` over steps and tasks, and 1 for every step
    whose pair of joint states is among the moves.
    """

    node: np.ndarray  # float64 (n_classes, S)
    token_class: np.ndarray
    """uint16 (n_tokens,): class of each token of the corpus, as far as this statement can tell tokens apart."""
    edges: tuple[np.ndarray | None, ...]  # (m_k, m_k) for each task
    move_from: np.ndarray  # int64 (n_moves,)
    move_to: np.ndarray  # int64 (n_moves,)
    total: float  # what a share is a share of: tokens, steps, or sequences
    low: float  # ``-inf`` and ``inf`` if one side is open
    high: float
