"""Answers of a fitted joint model by name: labels by task."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.answers import Batch
from rulefield.estimators.joint.decoding import JointDecoder, Known
from rulefield.estimators.joint.labels import TaskLabels
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.sequences import refuse_probability

TaskRows = dict[str, list[Any]]


class JointAnswers:
    """Answers of one joint model under rules."""

    def __init__(self, decoder: JointDecoder, names: TaskLabels, tasks: list[str]):
        self.decoder, self.names, self.tasks = decoder, names, tasks
        self.sizes = decoder.model.sizes

    def labels(self, batch: Batch) -> list[TaskRows]:
        """Return the best labels of each sequence, by task."""
        return [self._named(states) for states in self.decoder.best(*_parts(batch))]

    def labelings(self, batch: Batch, *, probability: bool = False, **how: Any) -> list[Labeling]:
        """Return the best joint labelings with their proofs."""
        refuse_probability(probability)
        given = _parts(batch)
        return [
            replace(
                Labeling.named(result, self._named(result.labels), self.decoder.names),
                prover=partial(self.decoder.prove, *given, i, result),
            )
            for i, result in enumerate(self.decoder.decode(*given, **how))
        ]

    def marginals(self, batch: Batch, quick: bool = False, tolerance: float = 1e-6) -> list[dict[str, np.ndarray]]:
        """Return the probabilities of each task's labels at the tokens of each sequence, (n, m_k) each."""
        return [self._by_task(node) for node in self.decoder.marginals(*_parts(batch))]

    def kbest(self, batch: Batch, k: int) -> list[list[tuple[TaskRows, float]]]:
        """Return the k best joint labelings of each sequence and their probabilities."""
        rows = self.decoder.kbest(*_parts(batch), k)
        return [[(self._named(states), p) for states, p in row] for row in rows]

    def samples(self, batch: Batch, n_samples: int, seed: int) -> list[list[TaskRows]]:
        """Draw joint labelings of each sequence."""
        drawn = self.decoder.sample(*_parts(batch), n_samples, seed)
        return [[self._named(states) for states in rows] for rows in drawn]

    def _named(self, states: np.ndarray) -> TaskRows:
        ids = np.unravel_index(states, self.sizes)
        return {task: self.names.encoders[task].decode(own) for task, own in zip(self.tasks, ids)}

    def _by_task(self, node: np.ndarray) -> dict[str, np.ndarray]:
        """Sum probabilities of joint states (n, S) to those of each task's labels."""
        cube = node.reshape(len(node), *self.sizes)
        axes = range(1, len(self.tasks) + 1)
        return {t: cube.sum(axis=tuple(a for a in axes if a != k + 1)) for k, t in enumerate(self.tasks)}


def _parts(batch: Batch) -> tuple[Sequences, list[Any], Known]:
    return batch.data, batch.tokens, batch.allowed
