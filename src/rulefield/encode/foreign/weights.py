"""What any linear-chain model of another tool comes down to."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ForeignChain:
    """A linear chain: names, and the weights that are not zero.

    Parameters
    ----------
    labels : list of str, length m
    features : list of str
    state_feature, state_label : ndarray of int64, shape (n_state,)
        Which feature speaks for which label, with weights ``state_weight`` (n_state,).
    transitions : ndarray of float64, shape (m, m)
        Weight of label [from] before label [to].
    step_feature, step_pair : ndarray of int64, shape (n_step,)
        Features of a token that speak for a transition into it, ``from * m + to``, with weights ``step_weight``.
    """

    labels: list[str]
    features: list[str]
    state_feature: np.ndarray
    state_label: np.ndarray
    state_weight: np.ndarray
    transitions: np.ndarray
    step_feature: np.ndarray
    step_pair: np.ndarray
    step_weight: np.ndarray
