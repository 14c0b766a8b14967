"""Partly labeled sequences of one task, for learners that were written for several."""

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.models.chain import ChainModel
from rulefield.models.joint import JointModel


class ChainCorpus(JointCorpus):
    """A :class:`JointCorpus` of one task, whose sums without clamping go through the faster kernels of chains.

    A joint model of one task has no weights beside the task's own, so theta is that of the chain model.

    Parameters
    ----------
    model : ChainModel
        Without observation-conditioned transitions.
    data : Sequences
    labels : Labels
    weight : ndarray, shape (n_sequences,), optional
    n_jobs : int
    """

    def __init__(
        self, model: ChainModel, data: Sequences, labels: Labels, weight: np.ndarray | None = None, n_jobs: int = 1
    ):
        super().__init__(JointModel.of((model,)), data, (labels,), weight, n_jobs)
        self._free = ChainLikelihood(model, data, None, sample_weight=weight, n_jobs=n_jobs)

    def sums(self, theta: np.ndarray, clamp: bool) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions, and expected features; of known labels only with ``clamp``."""
        return super().sums(theta, clamp) if clamp else self._free.value_and_gradient(theta)

    def log_partition(self, theta: np.ndarray, clamp: bool) -> float:
        """Weighted sum of log partition functions alone."""
        return super().log_partition(theta, clamp) if clamp else self._free.value(theta)
