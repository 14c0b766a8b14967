"""Intervals of scores: the percentile bootstrap over sequences [Efron93]."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DRAWS = 1000
_MOST_WEIGHTS = 20_000_000
"""Weights of draws held at once: memory stays flat however many sequences there are."""


class Interval(NamedTuple):
    """A score and the bounds between which 95 % of the draws lie."""

    value: float
    low: float
    high: float


def f1_of(totals: np.ndarray) -> np.ndarray:
    """F1 from (..., 3) counts of right, predicted and gold segments; 0 if there are none."""
    return _ratio(2 * totals[..., 0], totals[..., 1] + totals[..., 2])


def precision_of(totals: np.ndarray) -> np.ndarray:
    """Precision from (..., 3) counts."""
    return _ratio(totals[..., 0], totals[..., 1])


def recall_of(totals: np.ndarray) -> np.ndarray:
    """Recall from (..., 3) counts."""
    return _ratio(totals[..., 0], totals[..., 2])


def share_of(totals: np.ndarray) -> np.ndarray:
    """Share from (..., 2) counts: of the second, how many are the first."""
    return _ratio(totals[..., 0], totals[..., 1])


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=whole != 0)


def drawn(counts: np.ndarray, seed: int = 0, draws: int = DRAWS) -> np.ndarray:
    """Totals of ``draws`` samples of the sequences, with replacement, (draws, ...), from counts (n_sequences, ...).

    The same seed draws the same sequences: scores of two models on one test set are paired.
    """
    n = len(counts)
    flat = counts.reshape(n, -1).astype(np.float64)
    rng = np.random.default_rng(seed)
    step = max(1, _MOST_WEIGHTS // max(n, 1))
    parts = [
        rng.multinomial(n, np.full(n, 1 / n), size=min(step, draws - low)) @ flat for low in range(0, draws, step)
    ]
    return np.concatenate(parts).reshape(draws, *counts.shape[1:])


def interval(counts: np.ndarray, score: Callable[[np.ndarray], np.ndarray], totals: np.ndarray) -> list[Interval]:
    """Score of the whole with its 95 % interval, for one score or an array of them; ``totals`` come from :func:`drawn`."""
    value = np.atleast_1d(score(counts.sum(axis=0)))
    low, high = np.percentile(score(totals).reshape(len(totals), -1), [2.5, 97.5], axis=0)
    return [Interval(float(v), float(a), float(b)) for v, a, b in zip(value.ravel(), low, high)]


def difference(
    before: np.ndarray, after: np.ndarray, score: Callable[[np.ndarray], np.ndarray], seed: int = 0
) -> Interval:
    """Score of ``after`` minus that of ``before``, counts (n_sequences, k) on the same sequences, paired."""
    value = float(score(after.sum(axis=0)) - score(before.sum(axis=0)))
    low, high = np.percentile(score(drawn(after, seed)) - score(drawn(before, seed)), [2.5, 97.5])
    return Interval(value, float(low), float(high))
