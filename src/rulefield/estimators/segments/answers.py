"""Answers of a fitted semi-Markov model; labels are places in the coder's ``labels``, which spell segments."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from rulefield.estimators.answers import Answers, Ask
from rulefield.estimators.base import Batch
from rulefield.estimators.segments.coding import SegmentCoder, SegmentData
from rulefield.estimators.sequences import object_array
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_segments
from rulefield.inference.result import Result
from rulefield.inference.sequences.segments.decode import decode
from rulefield.inference.sequences.segments.exact import as_roles
from rulefield.inference.sequences.segments.sums import segment_chances
from rulefield.inference.sequences.sums import Chances
from rulefield.kernels.segments.best import best_segments_batch
from rulefield.kernels.segments.sums import segment_sums_batch
from rulefield.models.pairs import csr_rows
from rulefield.models.segments import Segmentation, SegmentModel
from rulefield.parallel import in_threads, shard_bounds
from rulefield.problem.segments import SegmentParts, SegmentProblem
from rulefield.rules import RuleCompiler


class SegmentAnswers(Answers[SegmentProblem]):
    """Answers of one semi-Markov model under rules; a fast pass serves labels and marginals that nothing restricts."""

    what = "segmentation"
    forbidden_by = (
        "the known labels and the longest segments forbid all; correct them, or fit with a larger max_length"
    )

    def __init__(
        self, model: SegmentModel, theta: np.ndarray, coder: SegmentCoder, rules: list[Any], relax: bool, n_jobs: int
    ):
        self.model, self.theta, self.coder, self.rules = model, theta, coder, rules
        self.relax, self.n_jobs = relax, n_jobs
        self._by_number = object_array(coder.labels)

    @cached_property
    def compiler(self) -> RuleCompiler:  # type: ignore[override]
        """Compiles the rules for token labels."""
        return RuleCompiler(self.rules, self.coder.table)

    def problem(self, batch: Batch, i: int) -> SegmentProblem:
        """Return the potentials and compiled rules of sequence ``i``."""
        if batch.potentials is None:
            batch.potentials = self.model.potentials(self.theta, *batch.data)
        allowed = None if batch.allowed is None else batch.allowed[slice(*batch.sequences.offsets[i : i + 2])]
        tokens = batch.tokens[i] if self.compiler.reads_tokens else batch.lengths[i]
        return SegmentProblem(batch.potentials[i], self.coder.spelling, self.compiler(tokens), allowed)

    def decode(self, problem: SegmentProblem, **how: Any) -> Result:
        """Return the best segmentation of one sequence."""
        return decode(problem, **how)

    def prove(self, problem: SegmentProblem, result: Result, words: Sequence[str]) -> Proof | None:
        """Return a proof of an answer."""
        return prove_segments(problem, result, words)

    def named(self, labels: np.ndarray) -> list[Any]:
        """Return token labels as users see them."""
        return self._by_number[labels].tolist()

    def named_chances(self, node: np.ndarray) -> np.ndarray:
        """Return the probability that each token lies in a segment of each type, (n, n_types)."""
        types = np.arange(len(self.coder.types))
        return node @ (self.coder.spelling.type_of[:, None] == types) if node.shape[1] != len(types) else node

    def chances(self, batch: Batch, ask: Ask, tolerance: float) -> list[Chances]:
        """Sum over the segmentations of each sequence."""

        def one(i: int) -> Chances:
            return segment_chances(self.problem(batch, i), ask(i, i + 1), tolerance)

        return in_threads(one, range(len(batch)), self.n_jobs)

    def quick_labels(self, batch: Batch) -> list[np.ndarray | None]:
        """Return the labels of the best segmentations, if nothing restricts them."""
        if self._is_restricted(batch):
            return [None] * len(batch)
        found = in_threads(self._best, self._runs(batch.data), self.n_jobs)
        opens, types, scores = (np.concatenate(parts) for parts in zip(*found))
        rows = zip(batch.cut(opens), batch.cut(types), scores.tolist())
        return [self.coder.spelling.write(opens, types) if score > -np.inf else None for opens, types, score in rows]

    def quick_marginals(self, batch: Batch) -> np.ndarray | None:
        """Return the probabilities of types at all tokens, if nothing restricts them."""
        if self._is_restricted(batch):
            return None
        found = in_threads(lambda run: self._sums(run, True)[0].token, self._runs(batch.data), self.n_jobs)
        return np.concatenate(found)

    def log_likelihood(self, data: SegmentData, gold: Segmentation) -> np.ndarray:
        """Return the log-probability of each sequence's segments without rules, (n_sequences,)."""
        totals = np.concatenate(in_threads(lambda run: self._sums(run, False)[1], self._runs(data), self.n_jobs))
        ends = pairwise(data.sequences.offsets.tolist())
        cut = [Segmentation(gold.opens[first:last], gold.labels[first:last]) for first, last in ends]
        potentials = self.model.potentials(self.theta, *data)
        return np.array([p.score(own.lengths, own.labels[own.starts]) for p, own in zip(potentials, cut)]) - totals

    def _best(self, data: SegmentData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where the best segments open, their types, and the scores of sequences, ``-inf`` if there are none."""
        n = data.sequences.n_tokens
        opens, types, scores = np.zeros(n, np.uint8), np.zeros(n, np.int64), np.empty(len(data.sequences))
        best_segments_batch(as_roles(self._parts(data)), data.sequences.offsets, opens, types, scores)
        return opens, types, scores

    def _sums(self, data: SegmentData, marginals: bool) -> tuple[SegmentParts, np.ndarray]:
        """Return expected parts (zeros unless ``marginals``) and log partition functions."""
        parts, totals = self._parts(data), np.empty(len(data.sequences))
        counts = parts.zeros() if marginals else parts._replace(token=parts.token[:0])
        segment_sums_batch(as_roles(parts), data.sequences.offsets, np.ones(len(totals)), counts, totals)
        return counts, totals

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

    def _is_restricted(self, batch: Batch) -> bool:
        return bool(self.rules) or batch.allowed is not None
