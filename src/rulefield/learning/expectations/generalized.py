r"""Generalized expectation: a penalty on how far the model's own expectations stray from their ranges, without EM.

.. math:: -\log p(known | x) + \tfrac{l_2}{2} |\theta|^2
          + \tfrac{\kappa}{2} \sum_i N_i\, dist(E_p[\phi_i]/N_i, [low_i, high_i])^2

The gradient of :math:`E_p[\phi_i]` is a covariance of :math:`\phi_i` with all features. For one direction v it is the
derivative of the expected features along the tilt v, here by a central difference of exact sums: two passes whatever
the number of expectations, relative error about 1e-9.
"""

from collections.abc import Sequence

import numpy as np

from rulefield.learning.expectations.corpus import JointCorpus, JointLikelihood
from rulefield.learning.expectations.tilted import TiltedCorpus
from rulefield.problem.expectation import CompiledExpectation

STEP = 1e-4


class GeneralizedObjective:
    """The objective above, for a corpus; ``strength`` is kappa.

    Parameters
    ----------
    corpus : JointCorpus
    expectations : sequence of CompiledExpectation
    l2, strength : float
    """

    def __init__(
        self, corpus: JointCorpus, expectations: Sequence[CompiledExpectation], l2: float, strength: float = 10.0
    ):
        self.likelihood = JointLikelihood(corpus, l2)
        self.tilted = TiltedCorpus(corpus, expectations)
        self.strength = strength
        self.low = np.array([e.low for e in expectations])
        self.high = np.array([e.high for e in expectations])
        self.total = np.array([e.total for e in expectations])
        self.shares = np.zeros(len(expectations))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        value, gradient = self.likelihood.value_and_gradient(theta)
        self.tilted.set_theta(theta, clamp=False)
        _, self.shares = self.tilted.evaluate(np.zeros(len(self.total)))
        stray = self.shares - np.clip(self.shares, self.low, self.high)
        value += 0.5 * self.strength * float(self.total @ stray**2)
        if stray.any():
            gradient += self.strength * self._covariance(stray)
        return value, gradient

    def _covariance(self, direction: np.ndarray) -> np.ndarray:
        """Return the covariance of sum_i direction_i phi_i with all features; N_i cancels against phi_i / N_i."""
        step = STEP / np.abs(direction).max()
        up, down = (self.tilted.counts(sign * step * direction) for sign in (-1.0, 1.0))
        return (up - down) / (2 * step)
