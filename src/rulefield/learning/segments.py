"""Maximum likelihood for semi-Markov chains."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.inference.sequences.segments.exact import as_roles
from rulefield.kernels.segments.sums import segment_sums_batch
from rulefield.learning.chain.likelihood import as_rates
from rulefield.learning.fit_log import penalized
from rulefield.models.pairs import CsrRows, csr_rows
from rulefield.models.segments import Segmentation, SegmentModel, SpanMatches
from rulefield.parallel import Threads, shard_bounds


@dataclass(frozen=True)
class SegmentShard:
    """Some consecutive sequences of the training data."""

    sequences: Sequences
    rows: CsrRows
    matches: SpanMatches
    weight: np.ndarray


class SegmentLikelihood:
    r"""Negative log-likelihood of segmentations as a function of theta.

    .. math:: f(\theta) = -\sum_i \omega_i \log p_\theta(s_i \mid x_i) + \tfrac{1}{2} l_2 |\theta|^2

    ``gold`` are the right segments of all sequences. The value and the gradient are the same for any ``n_jobs``.
    An evaluation costs O(n_tokens * n_labels * (max_length + n_labels)), and the weights touched.
    """

    def __init__(
        self,
        model: SegmentModel,
        sequences: Sequences,
        gold: Segmentation,
        matches: SpanMatches | None = None,
        *,
        l2: float = 0.0,
        sample_weight: np.ndarray | None = None,
        n_jobs: int | None = 1,
    ):
        model.check_gold(gold)
        self.model, self.l2, self.threads = model, float(l2), Threads(n_jobs)
        weight = as_rates(sample_weight, len(sequences))
        matches = matches or SpanMatches.none()
        self._gold = model.features(gold, sequences, matches, weight)
        self._shards = list(_shards(sequences, matches, weight, model.n_labels * model.max_length))

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.model.size

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient (size,) at ``theta``."""
        parts = self.threads.map(lambda shard: self._shard(theta, shard), self._shards)
        value, gradient = penalized(parts, theta, self.l2)
        return value - float(self._gold @ theta), gradient - self._gold

    def value(self, theta: np.ndarray) -> float:
        """Value at ``theta``."""
        return self.value_and_gradient(theta)[0]

    def _shard(self, theta: np.ndarray, shard: SegmentShard) -> tuple[float, np.ndarray]:
        """Weighted sum of log partition functions, and expected features."""
        parts, totals = (
            self.model.parts(theta, shard.sequences, shard.rows, shard.matches),
            np.empty(len(shard.weight)),
        )
        counts = parts.zeros()
        segment_sums_batch(as_roles(parts), shard.sequences.offsets, shard.weight, counts, totals)
        features = self.model.pullback(counts, shard.sequences, shard.rows, shard.matches)
        return float(shard.weight @ totals), features


def _shards(sequences: Sequences, matches: SpanMatches, weight: np.ndarray, scores: int) -> Iterator[SegmentShard]:
    """Cut the data into runs of sequences; ``scores`` is the work of one token."""
    bounds = shard_bounds(sequences.lengths, scores).astype(np.int64).tolist()
    for first, last in pairwise(bounds):
        tokens = slice(int(sequences.offsets[first]), int(sequences.offsets[last]))
        yield SegmentShard(
            sequences[first:last],
            csr_rows(sequences[first:last].entries, 0, tokens.stop - tokens.start),
            matches.within(tokens.start, tokens.stop),
            weight[first:last],
        )
