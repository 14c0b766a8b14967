"""What a fitted semi-Markov model answers, in numbers: runs of sequences, on several threads."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.exceptions import InfeasibleError
from rulefield.inference.sequences.segments.exact import as_roles, empty_counts
from rulefield.kernels.segments.best import best_segments_batch
from rulefield.kernels.segments.parts import SegmentParts, gold_parts_batch
from rulefield.kernels.segments.sums import segment_sums_batch
from rulefield.models.pairs import csr_rows
from rulefield.models.segments import Segmentation, SegmentModel, SpanMatches
from rulefield.parallel import Threads, shard_bounds
from rulefield.problem.segments import SegmentPotentials, Spans


class SegmentData(NamedTuple):
    """Encoded input: sequences of feature rows, and the span features that match somewhere."""

    sequences: Sequences
    matches: SpanMatches


class SegmentDecoder:
    """Inference with the weights ``theta`` of a semi-Markov model."""

    def __init__(self, model: SegmentModel, theta: np.ndarray, n_jobs: int = 1):
        self.model, self.theta, self.threads = model, theta, Threads(n_jobs)

    def best(self, data: SegmentData) -> Segmentation:
        """Return the best segments of all sequences."""
        found = self.threads.map(self._best, self._runs(data))
        opens = np.concatenate([segments.opens for segments in found])
        return Segmentation(opens, np.concatenate([segments.labels for segments in found]))

    def marginals(self, data: SegmentData) -> np.ndarray:
        """Return the probability that a token lies in a segment of each label, (n_tokens, n_labels)."""
        return np.concatenate(self.threads.map(lambda run: self._sums(run, True)[0].token, self._runs(data)))

    def potentials(self, data: SegmentData) -> list[SegmentPotentials]:
        """Return the potentials of each sequence."""
        parts, offsets = self._parts(data), data.sequences.offsets.tolist()
        found = []
        for first, last in pairwise(offsets):
            here = data.matches.within(first, last)
            spans = Spans(here.end - here.length + 1, here.length, parts.span[slice(*parts.span_ptr[[first, last]])])
            token, begin, end = (array[first:last] for array in (parts.token, parts.first, parts.last))
            found.append(SegmentPotentials(token, begin, end, parts.length, parts.pairwise, spans))
        return found

    def log_likelihood(self, data: SegmentData, gold: Segmentation) -> np.ndarray:
        """Return the log-probability of each sequence's segments, (n_sequences,)."""
        found, begin = [], 0
        for run in self._runs(data):
            stop = begin + run.sequences.n_tokens
            found.append(self._log_likelihood(run, Segmentation(gold.opens[begin:stop], gold.labels[begin:stop])))
            begin = stop
        return np.concatenate(found)

    def _best(self, data: SegmentData) -> Segmentation:
        n = data.sequences.n_tokens
        opens, labels, scores = np.zeros(n, np.uint8), np.zeros(n, np.int64), np.empty(len(data.sequences))
        best_segments_batch(as_roles(self._parts(data)), data.sequences.offsets, opens, labels, scores)
        if (scores == -np.inf).any():
            raise InfeasibleError(
                "a sequence has no possible segmentation: it is longer than segments may be; fit with a larger "
                "max_length."
            )
        return Segmentation(opens, labels)

    def _log_likelihood(self, data: SegmentData, gold: Segmentation) -> np.ndarray:
        _, totals, parts = self._sums(data, False)
        scores = np.empty(len(totals))
        ignored, unweighted = empty_counts(parts), np.zeros(len(totals))
        gold_parts_batch(parts, data.sequences.offsets, gold.opens, gold.labels, unweighted, ignored, scores)
        return scores - totals

    def _sums(self, data: SegmentData, marginals: bool) -> tuple[SegmentParts, np.ndarray, SegmentParts]:
        """Return expected parts (zeros unless ``marginals``), log partition functions, and scores of parts."""
        parts, totals = self._parts(data), np.empty(len(data.sequences))
        counts = empty_counts(parts) if marginals else parts._replace(token=parts.token[:0])
        segment_sums_batch(parts, data.sequences.offsets, np.ones(len(totals)), counts, totals)
        return counts, totals, parts

    def _parts(self, data: SegmentData) -> SegmentParts:
        rows = csr_rows(data.sequences.entries, 0, data.sequences.n_tokens)
        return self.model.parts(self.theta, data.sequences, rows, data.matches)

    def _runs(self, data: SegmentData) -> Iterator[SegmentData]:
        """Cut the input into runs of sequences whose scores fit into little memory; at least one, perhaps empty."""
        sequences = data.sequences
        bounds = shard_bounds(sequences.lengths, self.model.n_labels).astype(np.int64).tolist()
        for a, b in pairwise(bounds if len(bounds) > 1 else [0, 0]):
            tokens = int(sequences.offsets[a]), int(sequences.offsets[b])
            yield SegmentData(sequences[a:b], data.matches.within(*tokens))
