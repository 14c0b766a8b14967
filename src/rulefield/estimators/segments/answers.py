"""Answers of a fitted semi-Markov model by name."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.answers import Batch
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.segments.coding import SegmentCoder
from rulefield.estimators.segments.decoding import SegmentDecoder
from rulefield.estimators.sequences import refuse_probability

if TYPE_CHECKING:
    from rulefield.estimators.segments.under_rules import RuledSegmentDecoder


class SegmentAnswers:
    """Answers of one semi-Markov model under rules; a fast pass serves labels and marginals that nothing restricts."""

    def __init__(self, decoder: SegmentDecoder, coder: SegmentCoder, rules: list[Any], on_infeasible: str):
        self.decoder, self.coder = decoder, coder
        self.rules, self.on_infeasible = rules, on_infeasible

    def ids(self, batch: Batch) -> list[np.ndarray]:
        """Return the token labels, as places in the coder's ``labels``, of each sequence's best segmentation."""
        if self._is_restricted(batch):
            return [result.labels for result in self.under_rules().results(*_parts(batch))]
        best = self.decoder.best(batch.data)
        offsets = batch.sequences.offsets.tolist()
        return [self.coder.spelling.write(best.opens[a:b], best.labels[a:b]) for a, b in pairwise(offsets)]

    def labels(self, batch: Batch) -> list[list[Any]]:
        """Return the token labels of the best segmentations."""
        return [self.coder.named(ids) for ids in self.ids(batch)]

    def labelings(self, batch: Batch, *, probability: bool = False, **how: Any) -> list[Labeling]:
        """Return the best segmentations with their proofs."""
        refuse_probability(probability)
        return self.under_rules().decode(*_parts(batch), **how)

    def marginals(self, batch: Batch, quick: bool = False, tolerance: float = 1e-6) -> list[np.ndarray]:
        """Return the probability that each token lies in a segment of each type, (n, n_types) each."""
        if self._is_restricted(batch):
            return self.under_rules().marginals(*_parts(batch), tolerance)
        return np.split(self.decoder.marginals(batch.data), batch.sequences.offsets[1:-1])[: len(batch.sequences)]

    def kbest(self, batch: Batch, k: int) -> list[list[tuple[list[Any], float]]]:
        """Return the token labels of the k best segmentations and their probabilities."""
        return self.under_rules().kbest(*_parts(batch), k)

    def samples(self, batch: Batch, n_samples: int, seed: int) -> list[list[list[Any]]]:
        """Draw segmentations."""
        return self.under_rules().sample(*_parts(batch), n_samples, seed)

    def under_rules(self) -> "RuledSegmentDecoder":
        """Return the decoder under rules, which loads rules and engines."""
        from rulefield.estimators.segments.under_rules import RuledSegmentDecoder

        return RuledSegmentDecoder(self.decoder, self.coder, self.rules, self.on_infeasible)

    def _is_restricted(self, batch: Batch) -> bool:
        return bool(self.rules) or batch.allowed is not None


def _parts(batch: Batch) -> tuple[Any, list[Any], np.ndarray | None]:
    return batch.data, batch.tokens, batch.allowed
