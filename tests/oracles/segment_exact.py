"""The kernels of segmentations, asked about one sequence."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.result import Status
from rulefield.inference.sequences.segments.exact import as_parts, as_roles
from rulefield.kernels.segments.best import best_segments_batch
from rulefield.kernels.segments.sums import segment_sums_batch
from rulefield.problem.segments import SegmentPotentials


@dataclass(frozen=True)
class SegmentResult:
    """The best segmentation of a sequence.

    Parameters
    ----------
    lengths, labels : ndarray of int64, shape (n_segments,)
        Segments in order; empty where the problem is infeasible.
    score : float
        Its log-score; ``-inf`` where every segmentation is forbidden.
    status : Status
        ``optimal`` or ``infeasible``.
    """

    lengths: np.ndarray
    labels: np.ndarray
    score: float
    status: Status


@dataclass(frozen=True)
class SegmentMarginals:
    """Probabilities of parts under p(segmentation) proportional to exp(score).

    Parameters
    ----------
    log_partition : float
        ``-inf`` where every segmentation is forbidden; all probabilities are then 0.
    token, first, last : ndarray of float64, shape (n_steps, n_states)
        That a token lies in, begins, ends a segment with this label.
    length : ndarray of float64, shape (max_length, n_states)
        Expected number of segments of this length and label.
    pairwise : ndarray of float64, shape (n_states, n_states)
        Expected number of neighbors [left label, right label].
    span : ndarray of float64, shape (n_spans, n_states)
        That a scored span is a segment with this label.
    """

    log_partition: float
    token: np.ndarray
    first: np.ndarray
    last: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    span: np.ndarray


def best_segmentation(potentials: SegmentPotentials) -> SegmentResult:
    """Return a highest-scoring segmentation (semi-Markov Viterbi; [Sarawagi04], eq. 2).

    Exact. O(n_steps * n_states * (max_length + n_states)) time.
    """
    scores_of_roles = as_roles(as_parts(potentials))
    n = potentials.n_steps
    opens, labels, scores = np.zeros(n, np.uint8), np.zeros(n, np.int64), np.empty(1)
    best_segments_batch(scores_of_roles, np.array([0, n]), opens, labels, scores)
    if scores[0] == -np.inf:
        nothing = np.empty(0, np.int64)
        return SegmentResult(nothing, nothing, -np.inf, Status.infeasible)
    starts = np.flatnonzero(opens)
    return SegmentResult(np.diff(np.append(starts, n)), labels[starts], float(scores[0]), Status.optimal)


def segment_marginals(potentials: SegmentPotentials) -> SegmentMarginals:
    """Return the log partition function over all segmentations and the expected parts. Exact; cost of Viterbi."""
    parts = as_parts(potentials)
    counts, total = parts.zeros(), np.empty(1)
    segment_sums_batch(as_roles(parts), np.array([0, potentials.n_steps]), np.ones(1), counts, total)
    return SegmentMarginals(float(total[0]), *counts[:6])
