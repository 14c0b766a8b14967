"""The perceptron on a corpus on disk: parts are walked through at once, and their weights mixed after every epoch."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rulefield.encode.corpora.corpus import Corpus
from rulefield.encode.corpora.mapped import write_arrays
from rulefield.learning.chain.parts import MODEL, corpus_at, model_in
from rulefield.learning.chain.perceptron import AveragedPerceptron
from rulefield.learning.fit_log import Pass
from rulefield.models.arrays import arrays_of
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import restricted
from rulefield.parallel import Executor


class MixTask(NamedTuple):
    """Walk once through part ``k`` of a corpus from ``theta``, its own weights; ``scratch`` holds the model."""

    folder: str
    scratch: str
    k: int
    theta: np.ndarray
    weight: np.ndarray | None
    seed: tuple[int, ...]


class Mixed(NamedTuple):
    """Weights of a part after its last step, their mean over its steps, and the tokens it labeled wrongly on the way."""

    last: np.ndarray
    mean: np.ndarray
    mistakes: int


def walk_part(task: MixTask) -> Mixed:
    """One epoch of the perceptron over a part."""
    part = corpus_at(task.folder).part(task.k)
    model, _ = restricted(model_in(task.scratch), part.columns.astype(np.int64))
    learner = AveragedPerceptron(
        model, part.sequences, part.labels, sample_weight=task.weight, seed=task.seed, start=task.theta
    )
    mistakes = learner.epoch()
    return Mixed(learner.last_theta, learner.theta, mistakes)


class ParameterMixing:
    r"""The averaged perceptron by iterative parameter mixing [McDonald10].

    In every epoch each part begins with the same weights and walks through its own sequences; the weights of the next epoch
    are :math:`\sum_k \mu_k \theta_k`, with :math:`\mu_k` the part's share of sequences. The result is the mean of theta over
    all steps of all parts, as that of one machine is over its own. Parts are worked on at once wherever the executor is, and
    mixed in their order: the same weights for any number of workers.

    Parameters
    ----------
    corpus : Corpus
        Every label must be known.
    model : ChainModel
    scratch : str
        A folder that every worker sees.
    executor : Executor
    sample_weight : ndarray of float64, shape (n_sequences,), optional
    seed : int
    start : ndarray of float64, shape (model.size,), optional
    """

    def __init__(
        self,
        corpus: Corpus,
        model: ChainModel,
        scratch: str,
        executor: Executor,
        *,
        sample_weight: np.ndarray | None = None,
        seed: int = 0,
        start: np.ndarray | None = None,
    ):
        self.corpus, self.scratch, self.executor, self.seed = corpus, scratch, executor, seed
        self._now = model.zeros() if start is None else start.copy()
        self._total, self._epochs = model.zeros(), 0
        path = Path(scratch) / f"{MODEL}.safetensors"
        write_arrays(path, arrays_of(model), {"n_labels": model.n_labels}, lasting=False)
        sizes = [entry["sequences"] for entry in corpus.parts]
        ends = np.cumsum([0, *sizes])
        self._share = np.array(sizes) / max(ends[-1], 1)
        self._weight = [None if sample_weight is None else sample_weight[a:b] for a, b in zip(ends, ends[1:])]
        self._index = [restricted(model, corpus.columns(k).astype(np.int64))[1] for k in range(len(sizes))]

    @property
    def theta(self) -> np.ndarray:
        """Mean of theta over all steps, (size,)."""
        return self._total / max(self._epochs, 1)

    def learn(self) -> Pass:
        """One epoch, with its mistakes as the objective."""
        before, after, mean, mistakes = self._now, self._now.copy(), self._now.copy(), 0
        tasks = (
            MixTask(self.corpus.place, self.scratch, k, before[index], weight, (self.seed, self._epochs, k))
            for k, (index, weight) in enumerate(zip(self._index, self._weight))
        )
        for index, share, part in zip(self._index, self._share, self.executor.stream(walk_part, tasks)):
            after[index] += share * (part.last - before[index])
            mean[index] += share * (part.mean - before[index])
            mistakes += part.mistakes
        self._now, self._total, self._epochs = after, self._total + mean, self._epochs + 1
        return Pass(float(mistakes), done="" if mistakes else "An epoch was labeled without a mistake.")
