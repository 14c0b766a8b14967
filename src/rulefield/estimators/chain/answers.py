"""Answers of a fitted chain by name: fast passes over all sequences without rules, an engine under rules."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.answers import Batch
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.sequences import label_lists

if TYPE_CHECKING:
    from rulefield.estimators.chain.under_rules import RuledDecoder
    from rulefield.inference.proof.proof import Proof


QUICK_TOLERANCE = 1e-3
"""Share of the probability mass that an explanation may leave out."""


class ChainAnswers:
    """Answers of one chain.

    Parameters
    ----------
    decoder : ChainDecoder
    names : LabelEncoder
    under_rules : callable
        Returns the decoder under rules; called only if it is needed, because it loads rules and engines.
    plain : bool
        Whether the model alone decides: no rules and no other way of decoding.
    """

    def __init__(
        self, decoder: ChainDecoder, names: LabelEncoder, under_rules: Callable[[], "RuledDecoder"], plain: bool
    ):
        self.decoder, self.names, self.plain = decoder, names, plain
        self._under_rules = under_rules

    def labels(self, batch: Batch) -> list[list[Any]]:
        """Return the best labels of each sequence."""
        if not self.plain:
            ruled = self._under_rules()
            return ruled.predict(batch.data, _tokens_read(ruled, batch), batch.allowed)
        ids = self.decoder.best(batch.data, batch.allowed)
        return label_lists(self.names, ids, batch.data.lengths)

    def labelings(self, batch: Batch, *, probability: bool = False, **how: Any) -> list[Labeling]:
        """Return the best labelings with their proofs."""
        if self.plain and how.get("engine", "auto") == "auto":
            found = self._plain_labelings(batch, probability)
            if found is not None:
                return found
        ruled = self._under_rules()
        return ruled.decode(batch.data, _tokens_read(ruled, batch), batch.allowed, probability, **how)

    def marginals(self, batch: Batch, quick: bool = False, tolerance: float = 1e-6) -> list[np.ndarray]:
        """Return the probabilities of all labels at the tokens of each sequence, (n, n_labels) each."""
        if self.plain:
            node = self.decoder.marginals(batch.data, batch.allowed)
        else:
            ruled, most = self._under_rules(), max(tolerance, QUICK_TOLERANCE) if quick else tolerance
            node = ruled.marginals(batch.data, _tokens_read(ruled, batch), batch.allowed, most)
        return np.split(node, batch.data.offsets[1:-1]) if len(batch.data) else []

    def kbest(self, batch: Batch, k: int) -> list[list[tuple[list[Any], float]]]:
        """Return the k best labelings of each sequence and their probabilities."""
        if self.plain:
            rows = self.decoder.kbest(batch.data, k, batch.allowed)
        else:
            ruled = self._under_rules()
            rows = ruled.kbest(batch.data, k, _tokens_read(ruled, batch), batch.allowed)
        return [[(self.names.decode(ids), p) for ids, p in row] for row in rows]

    def samples(self, batch: Batch, n_samples: int, seed: int) -> list[list[list[Any]]]:
        """Draw labelings of each sequence."""
        generator = np.random.default_rng(seed)
        if self.plain:
            drawn = self.decoder.sample(batch.data, n_samples, generator, batch.allowed)
        else:
            ruled = self._under_rules()
            drawn = ruled.sample(batch.data, n_samples, _tokens_read(ruled, batch), generator, batch.allowed)
        return [[self.names.decode(ids) for ids in rows] for rows in drawn]

    def _plain_labelings(self, batch: Batch, probability: bool) -> list[Labeling] | None:
        """Return the best labelings by one pass over all sequences; None if that does not prove each."""
        data, allowed = batch.data, batch.allowed
        best = self.decoder.labelings(data, allowed, probability)
        if not best.proved.all():
            return None
        chances = np.exp(best.score - best.total).tolist() if probability else [None] * len(data)
        rows = label_lists(self.names, best.labels, data.lengths)
        ids = np.split(best.labels, data.offsets[1:-1])
        return [
            Labeling(
                labels,
                score,
                score,
                score,
                "optimal",
                "viterbi",
                probability=chance,
                probability_error=0.0 if probability else None,
                probability_reason="exact" if probability else "",
                prover=partial(self._prove, data, i, allowed, ids[i]),
            )
            for i, (labels, score, chance) in enumerate(zip(rows, best.score.tolist(), chances))
        ]

    def _prove(self, data: Sequences, i: int, allowed: np.ndarray | None, labels: np.ndarray) -> "Proof | None":
        """Return a proof that no labels of sequence ``i`` score more than these."""
        from rulefield.inference.proof.sequences import prove_chain
        from rulefield.inference.result import Result, Status
        from rulefield.problem.chain_rules import ChainProblem

        potentials = self.decoder.potentials(data, i, allowed)
        score = potentials.score(labels)
        result = Result(labels, score, score, score, Status.optimal, "viterbi")
        return prove_chain(ChainProblem(potentials), result)


def _tokens_read(ruled: "RuledDecoder", batch: Batch) -> list[Any]:
    """Return what the rules read: tokens, or only how many there are."""
    return batch.tokens if ruled.compiler.reads_tokens else batch.data.lengths.tolist()
