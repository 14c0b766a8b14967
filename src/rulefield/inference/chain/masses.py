r"""Probabilities under rules whose product with the chain is too large for exact sums: sums over the k best, with a bound.

Rules only take away: a labelling's weight under them is at most its weight without them. So with the k best labellings of
the plain chain in hand, whatever they leave of :math:`Z` bounds what the rest can add under the rules. Where that is
little, the probability is known as well as the tolerance says; where it is not, it is not told.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.chain.exact import kbest, log_partition
from rulefield.inference.definition import judged
from rulefield.problem.chain_rules import ChainProblem

PATHS = 1_000
TOLERANCE = 0.02
"""Largest relative error of a probability that is told."""


@dataclass(frozen=True)
class PathMass:
    """Weights of some labellings under the rules, and a bound on the weight of all others.

    Parameters
    ----------
    paths : ndarray of int64, shape (k, n)
    weight : ndarray of float64, shape (k,)
        exp(objective), relative to the largest.
    rest : float
        No more than this is left for the labellings that are not among ``paths``.
    """

    paths: np.ndarray
    weight: np.ndarray
    rest: float

    def probability(self, holds: np.ndarray) -> float | None:
        """Probability of the labellings where ``holds`` (k,) is true; None where it is not known well enough."""
        total, some = float(self.weight.sum()), float(self.weight[holds].sum())
        if total <= 0.0 or some <= 0.0:
            return None
        low, high = some / (total + self.rest), (some + self.rest) / (total + self.rest)
        return float(np.sqrt(low * high)) if high <= low * (1.0 + TOLERANCE) else None


def path_mass(problem: ChainProblem, k: int = PATHS) -> PathMass:
    """Weigh the k best labellings of the plain chain by the rules. O(k n (m + log k) + rules x k n)."""
    found = kbest(problem.potentials, k)
    paths = np.array([result.labels for result in found], dtype=np.int64)
    scores, costs = judged(problem, paths)
    objectives = scores - costs
    top = float(np.max(objectives, initial=-np.inf))
    if top == -np.inf:
        return PathMass(paths, np.zeros(len(paths)), np.inf)
    shift = log_partition(problem.potentials)
    left = max(0.0, 1.0 - float(np.exp(scores - shift).sum()))
    return PathMass(paths, np.exp(objectives - top), left * float(np.exp(min(shift - top, 700.0))))
