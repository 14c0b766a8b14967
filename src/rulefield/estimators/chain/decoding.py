"""What a fitted chain answers, in label numbers: chunks of sequences, on several threads."""

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple, TypeVar

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InfeasibleError
from rulefield.inference.sequences.exact import (
    clamp,
    forward_backward,
    kbest,
    log_partition_batch,
    marginals_batch,
    sample,
    score_batch,
    viterbi_batch,
)
from rulefield.interrupts import check
from rulefield.kernels.certificate import TOLERANCE, rounding_error
from rulefield.models.chain import ChainModel
from rulefield.parallel import in_threads, n_threads
from rulefield.problem.chain import ChainPotentials

CHUNK_SCORES = 1 << 21  # scores held at a time by a thread: 16 MB
LEAST_SCORES = 1 << 16  # in a chunk that is made for one more thread: milliseconds of work
T = TypeVar("T")

MOST_TOGETHER, LEAST_TASKS = 32, 8
"""Sequences handed to a thread at once, and tasks per thread below which fewer are."""

LEAST_SECONDS, EASY_SECONDS = 0.02, 0.002
"""Time after which one thread looks how it fares, and time of a sequence up to which it goes on alone."""


class BestLabelings(NamedTuple):
    """Best labels of all tokens, and of each sequence: its score, log partition function, and whether that is a proof.

    A score of ``-inf`` says that no labeling is possible. The log partition function is NaN where it was not asked for.
    ``proved``: the rounding error of the sums is far below the tolerance of proofs.
    """

    labels: np.ndarray
    score: np.ndarray
    total: np.ndarray
    proved: np.ndarray


class ChainDecoder:
    """Inference with the weights ``theta`` of a chain model.

    ``allowed`` arguments, uint8 (n_tokens, n_labels), restrict tokens to sets of labels.
    """

    def __init__(self, model: ChainModel, theta: np.ndarray, n_jobs: int = 1):
        self.model, self.theta, self.n_jobs = model, theta, n_jobs
        self.pairwise = model.pairwise(theta)
        self.edges = model.start_scores(theta), model.end_scores(theta)

    def best(self, data: Sequences, allowed: np.ndarray | None = None) -> np.ndarray:
        """Best labels of all tokens, (n_tokens,)."""

        def chunk(first: int, last: int) -> np.ndarray:
            unary, pairwise, offsets = self.scores(data, allowed, first, last)
            labels, scores = viterbi_batch(unary, pairwise, offsets)
            _check_possible(scores, first)
            return labels

        return _joined(self.over_chunks(data, chunk), np.int64, 0)

    def labelings(
        self, data: Sequences, allowed: np.ndarray | None = None, probability: bool = False
    ) -> "BestLabelings":
        """Best labeling of each sequence, in one pass over all of them."""

        def chunk(first: int, last: int) -> BestLabelings:
            return best_labelings(*self.scores(data, allowed, first, last), probability)

        parts = self.over_chunks(data, chunk)
        kinds = (np.int64, np.float64, np.float64, np.bool_)
        return BestLabelings(*(_joined([part[k] for part in parts], kinds[k], 0) for k in range(4)))

    def marginals(self, data: Sequences, allowed: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of all labels at all tokens, (n_tokens, n_labels)."""

        def chunk(first: int, last: int) -> np.ndarray:
            unary, pairwise, offsets = self.scores(data, allowed, first, last)
            node, totals = marginals_batch(unary, pairwise, offsets)
            _check_possible(totals, first)
            return node

        return _joined(self.over_chunks(data, chunk), np.float64, self.model.n_labels)

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

        return _joined(self.over_chunks(data, chunk), np.float64, 0)

    def kbest(
        self, data: Sequences, k: int, allowed: np.ndarray | None = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """Return the k best labelings of each sequence and their probabilities."""

        def one(i: int) -> list[tuple[np.ndarray, float]]:
            potentials = self.potentials(data, i, allowed)
            answers = kbest(potentials, k)
            if not answers:
                _check_possible(np.array([-np.inf]), i)
            total = forward_backward(potentials).log_partition
            return [(answer.labels, float(np.exp(answer.score - total))) for answer in answers]

        return self.each(len(data), one)

    def sample(
        self, data: Sequences, n: int, generator: np.random.Generator, allowed: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Draw ``n`` labelings of each sequence, (n, length) each."""
        return [sample(self.potentials(data, i, allowed), n, generator) for i in range(len(data))]

    def potentials(self, data: Sequences, i: int, allowed: np.ndarray | None = None) -> ChainPotentials:
        """Potentials of sequence ``i``."""
        made = self.model.potentials(self.theta, data, i, self.pairwise)
        if allowed is None:
            return made
        return clamp(made, allowed[int(data.offsets[i]) : int(data.offsets[i + 1])])

    def each(self, n: int, work: Callable[[int], T]) -> list[T]:
        """Return ``[work(0), ..., work(n - 1)]``, one answer per sequence, on several threads where that pays.

        Easy sequences are mostly Python's work, of which one thread at a time gets on: two threads that wait for each other
        took 1.6 times as long as one. So one thread begins, and hands the rest to several when sequences turn out to be hard.
        Many are handed over together: handing one over costs as much as an easy sequence does.
        """
        if n_threads(self.n_jobs) == 1:
            return in_threads(work, range(n))
        answers: list[T] = []
        begun = perf_counter()
        while len(answers) < n and not _are_hard(len(answers), perf_counter() - begun):
            check()
            answers.append(work(len(answers)))
        left = n - len(answers)
        together = max(1, min(MOST_TOGETHER, left // (LEAST_TASKS * n_threads(self.n_jobs))))
        parts = in_threads(
            lambda first: in_threads(work, range(first, min(first + together, n))),
            range(len(answers), n, together),
            self.n_jobs,
        )
        return answers + [answer for part in parts for answer in part]

    def scores(
        self, data: Sequences, allowed: np.ndarray | None, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unary scores, transition scores and offsets of sequences ``first`` to ``last``."""
        part = data if (first, last) == (0, len(data)) else data[first:last]
        unary = self.model.unary(self.theta, part, self.edges)
        if allowed is not None:
            tokens = slice(int(data.offsets[first]), int(data.offsets[last]))
            unary = np.where(allowed[tokens] != 0, unary, -np.inf)
        if not self.model.conditioned:
            return unary, self.pairwise, part.offsets
        m = self.model.n_labels
        steps = np.zeros((max(part.n_tokens, 1), m, m))
        for i in range(len(part)):
            begin, end = int(part.offsets[i]), int(part.offsets[i + 1])
            if end - begin > 1:
                steps[begin : end - 1] = self.model.step_pairwise(self.theta, part, i)
        return unary, steps, part.offsets

    def over_chunks(self, data: Sequences, work: Callable[[int, int], T], most_scores: int = CHUNK_SCORES) -> list[T]:
        """Return ``[work(first, last), ...]`` over ranges of sequences with about so many scores at the most, in threads."""
        m = self.model.n_labels
        return over_chunks(data, m * m if self.model.conditioned else m, work, most_scores, self.n_jobs)


def over_chunks(
    data: Sequences, per_token: int, work: Callable[[int, int], T], most_scores: int, n_jobs: int
) -> list[T]:
    """Return ``[work(first, last), ...]`` over ranges of sequences with about so many scores at the most, in threads."""
    bounds = _chunks(data, per_token, most_scores, n_threads(n_jobs))
    return in_threads(lambda k: work(*bounds[k]), range(len(bounds)), n_jobs)


def best_labelings(
    unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, probability: bool = False
) -> BestLabelings:
    """Best labelings of chains that lie one after the other (as :func:`viterbi_batch` reads them)."""
    labels, best = viterbi_batch(unary, pairwise, offsets)
    total = log_partition_batch(unary, pairwise, offsets) if probability else np.full_like(best, np.nan)
    score = np.where(best > -np.inf, score_batch(unary, pairwise, offsets, labels), best)
    length = np.diff(offsets)
    error = rounding_error(2.0 * length, length * (_largest(unary) + _largest(pairwise)))
    return BestLabelings(labels, score, total, (score > -np.inf) & (error <= TOLERANCE / 4))


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


def _joined(pieces: list[np.ndarray], dtype: type, width: int) -> np.ndarray:
    if pieces:
        return np.concatenate(pieces)
    return np.zeros((0, width) if width else 0, dtype)


def _are_hard(done: int, seconds: float) -> bool:
    """Whether sequences took so long on average that most of it was compiled work; not before a while."""
    return seconds > LEAST_SECONDS and seconds > EASY_SECONDS * done


def _largest(scores: np.ndarray) -> float:
    """Largest magnitude of scores, those that forbid aside."""
    high = float(scores.max(initial=0.0))
    low = float(scores.min(initial=0.0))
    if low == -np.inf:
        low = float(np.where(scores > -np.inf, scores, 0.0).min(initial=0.0))
    return max(high, -low)


def _check_possible(scores: np.ndarray, first: int) -> None:
    bad = np.flatnonzero(scores == -np.inf)
    if len(bad):
        raise InfeasibleError(
            f"sequence {first + int(bad[0])} has no possible labeling: the scheme and the known labels forbid all; "
            "correct the known labels."
        )
