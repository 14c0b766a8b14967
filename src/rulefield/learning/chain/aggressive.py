"""Passive-aggressive learning and AROW for chains: online learners whose step is as long as the mistake asks for."""

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.kernels.chain.aggressive import arow_epoch, passive_aggressive_epoch
from rulefield.learning.chain.margin import DecodingLearner
from rulefield.learning.fit_log import Pass
from rulefield.models.chain import ChainModel


class PassiveAggressive(DecodingLearner):
    r"""Moves theta just so far that the gold labels of the sequence beat the decoded ones by a margin.

    With :math:`D = \phi(y) - \phi(\hat y)` and the loss :math:`\ell = \theta (\phi(\hat y) - \phi(y)) + \sqrt{d}` (d wrong
    tokens; 1 in place of the root without ``error_sensitive``), theta moves by :math:`\tau D` with
    :math:`\tau = \ell / |D|^2` (variant 0), :math:`\min(c, \ell / |D|^2)` (1, PA-I), :math:`\ell / (|D|^2 + 1 / 2c)`
    (2, PA-II): [Crammer06], section 4, as CRFsuite counts. Deterministic for a seed.

    Parameters
    ----------
    model, sequences, labels, seed : as for :class:`rulefield.learning.chain.perceptron.AveragedPerceptron`
    variant : {0, 1, 2}
    c : float
        Most (variant 1) or softest (variant 2) step.
    error_sensitive : bool
    averaging : bool
        Let ``theta`` be the mean of all thetas, from the first (zeros) on.
    least_loss : float
        Learning ends with a pass whose mean loss is lower.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels,
        *,
        seed: int = 0,
        variant: int = 1,
        c: float = 1.0,
        error_sensitive: bool = True,
        averaging: bool = True,
        least_loss: float = 0.0,
    ):
        super().__init__(model, sequences, labels, seed=seed)
        self._step = (variant, float(c), bool(error_sensitive))
        self._averaging, self._least = averaging, least_loss

    def learn(self) -> Pass:
        """One epoch, with the sum of losses met on the way as the objective."""
        order = self.next_order()
        loss = passive_aggressive_epoch(*self.arrays, order, self.gold, float(self.seen - len(order)), *self._step)
        return Pass(loss, done=_ended(loss / len(order), self._least))

    @property
    def theta(self) -> np.ndarray:
        """The weights learned so far, (size,)."""
        if not self._averaging:
            return self.state.theta.copy()
        return self.state.theta - self.state.memory / (self.seen + 1)


class Arow(DecodingLearner):
    r"""Adaptive regularization of weights: each weight has a variance, and steps are long where it is large.

    With D as in :class:`PassiveAggressive`, S the variances and the loss :math:`\ell = \theta (\phi(\hat y) - \phi(y)) + d`,
    theta moves by :math:`\ell / (\gamma + D^\top S D) \cdot S D`, and then :math:`S^{-1}` grows by
    :math:`D D^\top / \gamma` on its diagonal: [Crammer09], section 3, as CRFsuite counts. Deterministic for a seed.

    Parameters
    ----------
    model, sequences, labels, seed, least_loss : as for :class:`PassiveAggressive`
    variance : float
        Of every weight at the start.
    gamma : float
        The larger, the shorter the steps.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels,
        *,
        seed: int = 0,
        variance: float = 1.0,
        gamma: float = 1.0,
        least_loss: float = 0.0,
    ):
        super().__init__(model, sequences, labels, seed=seed)
        self._variance, self._gamma = np.full(model.size, float(variance)), float(gamma)
        self._least = least_loss

    def learn(self) -> Pass:
        """One epoch, with the sum of losses met on the way as the objective."""
        order = self.next_order()
        loss = arow_epoch(*self.arrays, order, self.gold, self._variance, self._gamma)
        return Pass(loss, done=_ended(loss / len(order), self._least))

    @property
    def theta(self) -> np.ndarray:
        """The weights learned so far, (size,)."""
        return self.state.theta.copy()


def _ended(mean: float, least: float) -> str:
    return f"The mean loss fell to {mean:.3g}." if mean < least else ""
