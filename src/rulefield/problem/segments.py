"""Potentials of a semi-Markov chain: a sequence is cut into labelled segments."""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError


@dataclass(frozen=True)
class Spans:
    """Scores of particular segments, such as whole-segment lexicon matches.

    Parameters
    ----------
    start, length : ndarray of int64, shape (n_spans,)
        Sorted by end (start + length). A segment may stand there several times; its scores add up.
    score : ndarray of float64, shape (n_spans, n_states)
        Added where a segment with that start and length has that label. ``-inf`` forbids.
    """

    start: np.ndarray
    length: np.ndarray
    score: np.ndarray

    @classmethod
    def none(cls, n_states: int) -> "Spans":
        """No span."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, n_states)))


@dataclass(frozen=True)
class SegmentPotentials:
    r"""Log-scores of one sequence cut into segments.

    A segmentation is a list of segments (first token b, last token e, label l) that cover the sequence. It scores

    .. math:: \sum_{(b,e,l)} \Big(\sum_{t=b}^{e} u_t(l) + f_b(l) + g_e(l) + h_{e-b+1}(l) + s_{b,e}(l)\Big)
              + \sum_{\text{neighbours}} p(l, l')

    Parameters
    ----------
    token, first, last : ndarray of float64, shape (n_steps, n_states)
        u, f and g. Scores of beginning and ending the sequence with a label are already added to the first row of
        ``first`` and the last row of ``last``. ``-inf`` forbids.
    length : ndarray of float64, shape (max_length, n_states)
        h: row d - 1 scores segments of d tokens; longer ones are impossible. ``-inf`` forbids.
    pairwise : ndarray of float64, shape (n_states, n_states)
        p, indexed [from, to]. ``-inf`` forbids.
    spans : Spans
        s.
    """

    token: np.ndarray
    first: np.ndarray
    last: np.ndarray
    length: np.ndarray
    pairwise: np.ndarray
    spans: Spans

    def __post_init__(self) -> None:
        n, m = self.token.shape
        for name, array, expected in (
            ("first", self.first, (n, m)),
            ("last", self.last, (n, m)),
            ("length", self.length, (len(self.length), m)),
            ("pairwise", self.pairwise, (m, m)),
            ("spans.score", self.spans.score, (len(self.spans.start), m)),
        ):
            if array.shape != expected:
                raise InputError(
                    f"{name} must have shape {expected} to fit token of shape {(n, m)}; got {array.shape}."
                )

    @property
    def n_steps(self) -> int:
        """Number of tokens."""
        return self.token.shape[0]

    @property
    def n_states(self) -> int:
        """Number of labels."""
        return self.token.shape[1]

    @property
    def max_length(self) -> int:
        """Most tokens in a segment."""
        return self.length.shape[0]

    def segment_score(self, start: int, length: int, label: int) -> float:
        """Score of one segment, its neighbours aside."""
        if length > self.max_length:
            return -np.inf
        stop = start + length
        total = self.token[start:stop, label].sum() + self.first[start, label] + self.last[stop - 1, label]
        here = (self.spans.start == start) & (self.spans.length == length)
        return float(total + self.length[length - 1, label] + self.spans.score[here, label].sum())

    def score(self, lengths: np.ndarray, labels: np.ndarray) -> float:
        """Score of the segmentation into segments of these lengths and labels, (n_segments,) each."""
        lengths, labels = np.asarray(lengths), np.asarray(labels)
        starts = np.cumsum(lengths) - lengths
        parts = [self.segment_score(*segment) for segment in zip(starts, lengths, labels)]
        return float(sum(parts) + self.pairwise[labels[:-1], labels[1:]].sum())
