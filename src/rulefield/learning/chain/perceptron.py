"""The averaged structured perceptron for chains."""

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.kernels.chain.margin import perceptron_epoch
from rulefield.learning.chain.margin import DecodingLearner, as_rates
from rulefield.learning.fit_log import Pass
from rulefield.models.chain import ChainModel


class AveragedPerceptron(DecodingLearner):
    r"""Learns a chain by decoding: theta moves by phi(gold) - phi(decoded) wherever the two differ.

    The result is the mean of theta over all steps ([Collins02], section 2.3), kept lazily, so that a step costs
    the features of one sequence. Forbidden transitions are never decoded. Deterministic for a seed.

    Parameters
    ----------
    model : ChainModel
    sequences, labels : training data; every label must be known
    sample_weight : ndarray of float64, shape (n_sequences,), optional
        Scales the steps of a sequence.
    seed : int, or several
        Of the order in which sequences are visited, new in every epoch.
    start : ndarray of float64, shape (model.size,), optional
        Where theta begins; zeros by default.
    """

    def __init__(
        self,
        model: ChainModel,
        sequences: Sequences,
        labels: Labels,
        *,
        sample_weight: np.ndarray | None = None,
        seed: int | tuple[int, ...] = 0,
        start: np.ndarray | None = None,
    ):
        super().__init__(model, sequences, labels, seed=seed, start=start)
        self._rate = as_rates(sample_weight, len(sequences))

    def epoch(self) -> int:
        """Visit every sequence once; return the number of tokens that were labeled wrongly on the way."""
        before, order = float(self.seen), self.next_order()
        return int(perceptron_epoch(*self.arrays, order, self._rate, self.gold, before))

    def learn(self) -> Pass:
        """One epoch, with its mistakes as the objective."""
        mistakes = self.epoch()
        return Pass(float(mistakes), done="" if mistakes else "An epoch was labeled without a mistake.")

    @property
    def last_theta(self) -> np.ndarray:
        """Theta after the last step, (size,)."""
        return self.state.theta.copy()

    @property
    def theta(self) -> np.ndarray:
        """Mean of theta over all steps, (size,)."""
        return self.state.theta - self.state.memory / max(self.seen, 1)
