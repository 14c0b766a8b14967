"""Held-out sequences that rules are weighed on: potentials of a model that has not seen them, and gold labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.inference.sequences.exact import kbest_labels
from rulefield.inference.sequences.segments.sums import segment_chances
from rulefield.inference.sequences.sums import TOLERANCE, Question
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.segments import SegmentPotentials, SegmentProblem, Spelling


@dataclass(frozen=True)
class Example:
    """A held-out sequence.

    Parameters
    ----------
    tokens : sequence
    potentials : ChainPotentials or SegmentPotentials
        By a model that has not seen it.
    gold : ndarray of int64, shape (n_tokens,)
        Numbers of the gold labels; for segments, of the labels that spell them.
    spelling : Spelling, optional
        Of segments.
    word_of : ndarray of int64, shape (n_labels,), optional
        Tokens are right if the words of their labels are; by default each label is its own.
    """

    tokens: Any
    potentials: ChainPotentials | SegmentPotentials
    gold: np.ndarray
    spelling: Spelling | None = None
    word_of: np.ndarray | None = None

    def score(self, labels: np.ndarray) -> float:
        """Return the score of labels; ``-inf`` if they are forbidden."""
        if isinstance(self.potentials, ChainPotentials):
            return self.potentials.score(labels)
        return self._segments().score(labels)

    def kbest(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labelings as rows (k, n_tokens), best first, and their scores; fewer if there are fewer."""
        if isinstance(self.potentials, ChainPotentials):
            return kbest_labels(self.potentials, k)
        if not len(self.gold):
            return np.empty((1, 0), np.int64), np.zeros(1)
        problem = self._segments()
        found = segment_chances(problem, Question(k=k), TOLERANCE)
        rows = found.best.reshape(k, -1)[found.best_chance[0] > 0]
        return rows, np.array([problem.score(row) for row in rows])

    def _segments(self) -> SegmentProblem:
        assert isinstance(self.potentials, SegmentPotentials)
        assert self.spelling is not None
        return SegmentProblem(self.potentials, self.spelling, ())
