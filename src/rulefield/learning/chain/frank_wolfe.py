"""The structured SVM for chains, by block-coordinate Frank-Wolfe."""

from dataclasses import dataclass

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InputError
from rulefield.kernels.chain.margin import State, frank_wolfe_epoch
from rulefield.learning.chain.margin import (
    as_rates,
    check_supervised,
    kernel_data,
    kernel_state,
    kernel_table,
    kernel_work,
)
from rulefield.learning.fit_log import Pass
from rulefield.models.chain import ChainModel


@dataclass(frozen=True)
class Certificate:
    """Primal and dual objective at one point: the optimum lies between them."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """How far the point can be from the best, in units of the objective."""
        return max(0.0, self.primal - self.dual)


class FrankWolfe:
    r"""Minimizes the margin-rescaled hinge loss of a chain.

    .. math:: \min_\theta \tfrac{1}{2} l_2 |\theta|^2 + \sum_i \omega_i \max_y \big(\Delta(y_i, y)
              + \theta \cdot \phi(x_i, y) - \theta \cdot \phi(x_i, y_i)\big)

    with the Hamming loss :math:`\Delta`. Each step decodes one sequence with the loss added and moves its block of
    the dual toward that labeling, with exact line search ([LacosteJulien13], algorithm 4); the result is
    the average of the iterates with weights 1, 2, 3, ... (their section 3). The labelings that hold weight are kept,
    so memory is O(n_tokens * max_iter) whatever the length of theta.

    Parameters
    ----------
    model : ChainModel
    sequences, labels : training data; every label must be known
    l2 : float
        Positive; 1 / l2 is the C of other packages.
    max_iter : int
        Most epochs that will be asked for.
    sample_weight : ndarray of float64, shape (n_sequences,), optional
    seed : int
        Of the order in which sequences are visited, new in every epoch.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels,
        *,
        l2: float = 1.0,
        max_iter: int = 50,
        sample_weight: np.ndarray | None = None,
        seed: int = 0,
    ):
        if not 0 < l2 < np.inf:
            raise InputError(f"l2 must be a positive number for the structured SVM; got {l2}.")
        check_supervised(model, sequences, labels)
        n, planes = len(sequences), max_iter + 1
        self.l2, self.max_iter = float(l2), max_iter
        self._model, self._cost = model, as_rates(sample_weight, n)
        self._rng = np.random.default_rng(seed)
        self._data, self._table = kernel_data(model, sequences, labels), kernel_table(model)
        self._state = kernel_state(model, model.zeros(), self._data, planes)
        self._work = kernel_work(model, sequences)
        self._planes = np.zeros((planes, len(self._data.gold)), np.uint16)
        self._planes[0] = self._data.gold
        self._weights, self._losses = np.zeros((n, planes)), np.zeros((n, planes))
        self._weights[:, 0] = 1.0
        self._tally = np.zeros(3)
        self._epochs = 0

    def epoch(self) -> float:
        """Visit every sequence once; return the sum of the gaps found on the way (an estimate of the duality gap)."""
        if self._epochs == self.max_iter:
            raise InputError(f"all {self.max_iter} epochs are done; ask for more with max_iter.")
        self._epochs += 1
        order = self._rng.permutation(len(self._cost))
        return self._pass(self._state, order, self._planes, self._weights, self._losses, fixed=False)

    def learn(self) -> Pass:
        """One epoch, with the primal objective and the duality gap of the averaged weights."""
        self.epoch()
        certificate = self.certify()
        return Pass(certificate.primal, certificate.gap)

    def _pass(
        self,
        state: State,
        order: np.ndarray,
        planes: np.ndarray,
        weights: np.ndarray,
        losses: np.ndarray,
        fixed: bool,
    ) -> float:
        fit = (self._data, self._table, state, self._work, order, self._cost, self.l2)
        return float(frank_wolfe_epoch(*fit, planes, weights, losses, self._tally, fixed))

    @property
    def last_theta(self) -> np.ndarray:
        """Theta after the last step, (size,)."""
        return self._state.theta.copy()

    @property
    def theta(self) -> np.ndarray:
        """Weighted average of theta over all steps, (size,)."""
        return self._state.theta - self._state.memory / self._total

    def certify(self, averaged: bool = True) -> Certificate:
        """Primal and dual objective at the averaged theta (or at the last one); costs one decoding of the data."""
        theta = self.theta if averaged else self.last_theta
        loss_term = self._tally[1] - (self._tally[2] / self._total if averaged else 0.0)
        penalty = 0.5 * self.l2 * float(theta @ theta)
        return Certificate(penalty + self.hinge(theta), float(loss_term) - penalty)

    def hinge(self, theta: np.ndarray) -> float:
        """Sum of the weighted hinge losses of all sequences at ``theta``."""
        n = len(self._cost)
        state = kernel_state(self._model, theta, self._data, 0)
        gold = self._data.gold[None]  # measured from the gold labeling, the gap of a sequence is its hinge loss
        return self._pass(state, np.arange(n), gold, np.ones((n, 1)), np.zeros((n, 1)), fixed=True)

    @property
    def _total(self) -> float:
        """Sum of the weights 1, 2, ... of all iterates so far."""
        return max(0.5 * self._tally[0] * (self._tally[0] + 1.0), 1.0)
