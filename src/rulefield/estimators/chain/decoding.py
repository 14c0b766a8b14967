"""Scores of a fitted chain, and what it answers without rules: chunks of sequences, on several threads."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from rulefield.data.sequences import Labels, Sequences
from rulefield.exceptions import InfeasibleError
from rulefield.inference.sequences.exact import clamp, log_partition_batch, score_batch, viterbi_batch
from rulefield.models.chain import ChainModel
from rulefield.parallel import in_threads, n_threads
from rulefield.problem.chain import ChainPotentials

CHUNK_SCORES = 1 << 21  # scores held at a time by a thread: 16 MB
LEAST_SCORES = 1 << 16  # in a chunk that is made for one more thread: milliseconds of work
T = TypeVar("T")


class ChainDecoder:
    """Inference with the weights ``theta`` of a chain model.

    ``allowed`` arguments, uint8 (n_tokens, n_labels), restrict tokens to sets of labels.
    """

    def __init__(self, model: ChainModel, theta: np.ndarray, n_jobs: int = 1):
        self.model, self.theta, self.n_jobs = model, theta, n_jobs
        self.pairwise = model.pairwise(theta)
        self.edges = model.start_scores(theta), model.end_scores(theta)

    def best(self, data: Sequences) -> np.ndarray:
        """Best labels of all tokens, (n_tokens,)."""

        def chunk(first: int, last: int) -> np.ndarray:
            labels, scores = viterbi_batch(*self.scores(data, None, first, last))
            if (scores == -np.inf).any():
                raise InfeasibleError(
                    f"sequence {first + int(scores.argmin())} has no possible labeling: the scheme forbids all."
                )
            return labels

        return np.concatenate([np.zeros(0, np.int64), *self.over_chunks(data, chunk)])

    def log_likelihood(self, data: Sequences, labels: Labels) -> np.ndarray:
        """Log-probability of each sequence's labels, unknown ones summed over, (n_sequences,)."""

        def chunk(first: int, last: int) -> np.ndarray:
            unary, pairwise, offsets = self.scores(data, None, first, last)
            tokens = slice(int(data.offsets[first]), int(data.offsets[last]))
            free = log_partition_batch(unary, pairwise, offsets)
            if labels.allowed is None:
                return score_batch(unary, pairwise, offsets, labels.ids[tokens]) - free
            unary = np.where(labels.allowed[tokens] != 0, unary, -np.inf)
            return log_partition_batch(unary, pairwise, offsets) - free

        return np.concatenate([np.zeros(0), *self.over_chunks(data, chunk)])

    def potentials(self, data: Sequences, i: int, allowed: np.ndarray | None = None) -> ChainPotentials:
        """Potentials of sequence ``i``."""
        made = self.model.potentials(self.theta, data, i, self.pairwise)
        if allowed is None:
            return made
        return clamp(made, allowed[int(data.offsets[i]) : int(data.offsets[i + 1])])

    def scores(
        self, data: Sequences, allowed: np.ndarray | None, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unary scores, transition scores and offsets of sequences ``first`` to ``last``."""
        part = data if (first, last) == (0, len(data)) else data[first:last]
        unary = self.model.unary(self.theta, part, self.edges)
        if allowed is not None:
            tokens = slice(int(data.offsets[first]), int(data.offsets[last]))
            unary = np.where(allowed[tokens] != 0, unary, -np.inf)
        return unary, self.pairwise, part.offsets

    def over_chunks(self, data: Sequences, work: Callable[[int, int], T], most_scores: int = CHUNK_SCORES) -> list[T]:
        """Return ``[work(first, last), ...]`` over ranges of sequences with about so many scores at the most, in threads."""
        return over_chunks(data, self.model.n_labels, work, most_scores, self.n_jobs)


def over_chunks(
    data: Sequences, per_token: int, work: Callable[[int, int], T], most_scores: int, n_jobs: int
) -> list[T]:
    """Return ``[work(first, last), ...]`` over ranges of sequences with about so many scores at the most, in threads."""
    bounds = _chunks(data, per_token, most_scores, n_threads(n_jobs))
    return in_threads(lambda k: work(*bounds[k]), range(len(bounds)), n_jobs)


def _chunks(data: Sequences, per_token: int, most_scores: int, jobs: int) -> list[tuple[int, int]]:
    """Ranges of sequences of about as many scores each, about ``most_scores`` at the most; at least one sequence each.

    As many for every thread, so that all end together; but none so small that handing it over costs more than it.
    """
    scores = data.n_tokens * per_token
    least = max(1, -(-scores // most_scores))
    count = max(least, min(-(-least // jobs) * jobs, scores // LEAST_SCORES))
    cuts = np.searchsorted(data.offsets, data.n_tokens * np.arange(1, count) / count)
    bounds = np.unique(np.concatenate([[0], cuts, [len(data)]])).tolist()
    return list(zip(bounds, bounds[1:]))
