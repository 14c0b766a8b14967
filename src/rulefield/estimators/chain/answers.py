"""Answers of a fitted chain: what compiled passes over many sequences prove, an engine for each of the others."""

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.answers import QUICK_TOLERANCE, Answers, Ask
from rulefield.estimators.base import Batch
from rulefield.estimators.sequences import object_array
from rulefield.inference.flatten import Cache, Flat, flatten
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.batch import settle
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.exact import kbest, log_partition, marginals_batch, score_batch, viterbi_batch
from rulefield.inference.sequences.sums import Chances, chances
from rulefield.kernels.certificate import TOLERANCE, rounding_error
from rulefield.parallel import in_threads
from rulefield.problem.chain import ChainPotentials, as_chains
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import RuleCompiler

T = TypeVar("T")
Scores = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Unary scores, transition scores and offsets of sequences that lie one after the other."""
CHUNK_SCORES = 1 << 19
"""Scores held at a time by a thread: enough sequences that Python's part is small, and chunks for all threads."""
LEAST_TOGETHER = 8
"""Sequences below which each is decoded by itself: their kernels are loaded anyway."""
LENGTHS = 256
"""Lengths of sequences whose rules are remembered: most texts have fewer different ones."""


class ScoreSource(Protocol):
    """What gives the scores of sequences: a fitted chain, or tables of another model."""

    def potentials(self, data: Sequences, i: int, allowed: np.ndarray | None = None, /) -> ChainPotentials:
        """Potentials of sequence ``i``."""

    def scores(self, data: Sequences, allowed: np.ndarray | None, first: int, last: int, /) -> Scores:
        """Scores of sequences ``first`` to ``last``."""

    def over_chunks(self, data: Sequences, work: Callable[[int, int], T], most_scores: int, /) -> list[T]:
        """Work on ranges of sequences."""


class Plain(NamedTuple):
    """Best labels without rules, (tokens,), of each sequence their score, and whether they are proved best."""

    labels: np.ndarray
    score: np.ndarray
    proved: np.ndarray


class ChainAnswers(Answers[ChainProblem]):
    """Answers of one chain.

    Sequences go through the plain chain first, then those whose labels break rules through the first levels of ``auto``
    together. What Python does for one sequence costs more than most of them do, and threads take turns at it. So nothing of
    this is done sequence by sequence, except compiling rules that read tokens.
    """

    whole_tolerance = QUICK_TOLERANCE

    def __init__(
        self, source: ScoreSource, labels: list[Any], scheme: str | None, rules: list[Any], relax: bool, n_jobs: int
    ):
        self.source, self.names_of_labels, self.scheme, self.rules = source, labels, scheme, rules
        self.relax, self.n_jobs = relax, n_jobs
        self._by_number = object_array(list(labels))
        self._of_length: Cache[Flat] = Cache(LENGTHS)
        self._compiling = Lock()

    @cached_property
    def compiler(self) -> RuleCompiler:  # type: ignore[override]
        """Compiles the rules for the labels of the chain."""
        return RuleCompiler(self.rules, [str(label) for label in self.names_of_labels], self.scheme)

    def problem(self, batch: Batch, i: int) -> ChainProblem:
        """Return the potentials and compiled rules of sequence ``i``."""
        return ChainProblem(
            self.source.potentials(batch.data, i, batch.allowed), self.compiler(self._inputs(batch)[i])
        )

    def decode(self, problem: ChainProblem, **how: Any) -> Result:
        """Return the best labeling of one chain."""
        return decode(problem, **how)

    def prove(self, problem: ChainProblem, result: Result, words: Sequence[str]) -> Proof | None:
        """Return a proof of an answer."""
        return prove_chain(problem, result, words)

    def named(self, labels: np.ndarray) -> list[Any]:
        """Return labels as users see them."""
        return self._by_number[labels].tolist()

    def chances(self, batch: Batch, ask: Ask, tolerance: float) -> list[Chances]:
        """Sum over the labelings of chunks of sequences."""
        self.compiler.refuse_unlearned()
        inputs, most = self._inputs(batch), tolerance if self.rules else 0.0

        def chunk(first: int, last: int) -> Chances:
            unary, pairwise, offsets = self.source.scores(batch.data, batch.allowed, first, last)
            rules, which = self._of_sums(inputs[first:last], offsets)
            return chances(as_chains(unary, pairwise, offsets), rules, which, ask(first, last), most)

        return self._over_chunks(batch, chunk)

    def kbest(self, batch: Batch, k: int) -> list[list[tuple[Any, float]]]:
        """Return the k best labelings of each sequence and their probabilities; without rules by a search of their own."""
        if self.rules:
            return super().kbest(batch, k)

        def one(i: int) -> list[tuple[Any, float]]:
            potentials = self.source.potentials(batch.data, i, batch.allowed)
            found, total = kbest(potentials, k), log_partition(potentials)
            if not found:
                raise self._refusal(self.problem(batch, i), batch, i)
            return [(self.named(own.labels), float(np.exp(own.score - total))) for own in found]

        return in_threads(one, range(len(batch)), self.n_jobs)

    # --- passes over many sequences ---------------------------------------------------------------

    def quick_marginals(self, batch: Batch) -> np.ndarray | None:
        """Return the probabilities of labels at all tokens, if there are no rules and no sequence is impossible."""
        if self.rules:
            return None

        def chunk(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
            return marginals_batch(*self.source.scores(batch.data, batch.allowed, first, last))

        parts = self._over_chunks(batch, chunk)
        if any((totals == -np.inf).any() for _, totals in parts):
            return None
        return np.concatenate([np.zeros((0, len(self.names_of_labels))), *(node for node, _ in parts)])

    def quick_labels(self, batch: Batch) -> list[np.ndarray | None]:
        """Return the labels that are proved best."""
        if self.rules:
            return self._quick(batch, {}, _proved_labels)

        def chunk(first: int, last: int) -> list[np.ndarray | None]:
            unary, pairwise, offsets = self.source.scores(batch.data, batch.allowed, first, last)
            labels, score = viterbi_batch(unary, pairwise, offsets)
            return _cut(labels, offsets, score > -np.inf)

        return [labels for part in self._over_chunks(batch, chunk) for labels in part]

    def quick_results(self, batch: Batch, how: dict[str, Any]) -> list[Result | None]:
        """Return the answers that are proved."""
        return self._quick(batch, how, _proved_results)

    def _quick(self, batch: Batch, how: dict[str, Any], say: Callable[..., list[T | None]]) -> list[T | None]:
        """Return what ``say`` makes of the answers to chunks, in the thread of each chunk."""
        self.compiler.refuse_unlearned()
        inputs, node_limit = self._inputs(batch), how.get("node_limit", NODE_LIMIT)

        def chunk(first: int, last: int) -> list[T | None]:
            scores = self.source.scores(batch.data, batch.allowed, first, last)
            return say(scores, *self._settled(*scores, inputs[first:last], node_limit))

        return [answer for part in self._over_chunks(batch, chunk) for answer in part]

    def _settled(
        self, unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray, inputs: list[Any], node_limit: int
    ) -> tuple[Plain, list[Any]]:
        """Return the best labels without rules, proved if they break none, and what ``auto`` settles of the others."""
        plain, lengths = best_without_rules(unary, pairwise, offsets), np.diff(offsets)
        classes = self.compiler.reader.classes_of_all(inputs, lengths)
        plain = plain._replace(
            proved=plain.proved & (lengths > 0) & ~self.compiler.reader.broken(classes, plain.labels, offsets)
        )
        left = np.flatnonzero(~plain.proved)
        if len(left) < LEAST_TOGETHER:
            return plain, []
        rules, which = self._tables(inputs, classes, offsets, left)
        parts = settle(as_chains(unary, pairwise, offsets).of(left), rules, which, node_limit)
        return plain, [part._replace(numbers=left[part.numbers]) for part in parts]

    def _over_chunks(self, batch: Batch, work: Callable[[int, int], T]) -> list[T]:
        return self.source.over_chunks(batch.data, work, CHUNK_SCORES)

    # --- rules of many sequences ------------------------------------------------------------------

    def _inputs(self, batch: Batch) -> list[Any]:
        """Return what rules read of each sequence: its tokens, or how many there are."""
        return batch.tokens if self.compiler.reads_tokens else batch.lengths

    def _of_sums(self, inputs: list[Any], offsets: np.ndarray) -> tuple[list[Flat], np.ndarray]:
        """Return the rules of sequences for sums, which read tables and classes of tokens, but no caps."""
        if not self.compiler.reads_tokens or not inputs:
            return self._compiled(inputs, np.diff(offsets))
        classes = self.compiler.reader.classes_of_all(inputs, np.diff(offsets))
        return self._tables(inputs, classes, offsets, np.arange(len(inputs)), False)

    def _tables(
        self, inputs: list[Any], classes: np.ndarray, offsets: np.ndarray, some: np.ndarray, capped: bool = True
    ) -> tuple[list[Flat], np.ndarray]:
        """Return the rules of some sequences for engines that read tables, as :meth:`_compiled` does, but compiled once.

        Inputs differ in the ``classes`` of their tokens; tables of rules that grow differ by length, and rules that are paid
        once have caps of their own.
        """
        soft = self.compiler.weights < np.inf
        once = capped and any(rule.per == "once" for rule, is_soft in zip(self.compiler.rules, soft) if is_soft)
        if self.compiler.reads_tokens and not self.compiler.grows and not once:
            longest = int(some[np.argmax(np.diff(offsets)[some])])
            first = flatten(self.compiler(inputs[longest]), len(self.compiler.labels))
            if not first.shared.rows_only:
                by_rule, cuts = self.compiler.reader.by_rule(classes), offsets.tolist()
                own = [first.with_classes(by_rule[:, cuts[i] : cuts[i + 1]]) for i in some.tolist()]
                return own, np.arange(len(some))
        return self._compiled([inputs[i] for i in some.tolist()], np.diff(offsets)[some])

    def _compiled(self, inputs: list[Any], lengths: np.ndarray) -> tuple[list[Flat], np.ndarray]:
        """Compile rules: the different ones, and which of them each sequence has; by length if no rule reads tokens."""
        m = len(self.compiler.labels)
        if self.compiler.reads_tokens:
            return [flatten(self.compiler(own), m) for own in inputs], np.arange(len(inputs))
        different, which = np.unique(lengths, return_inverse=True)
        with self._compiling:  # threads begin together, and would do the same work twice
            return [self._at_length(n, m) for n in different.tolist()], which

    def _at_length(self, n: int, m: int) -> Flat:
        known = self._of_length.get((n,))
        return known or self._of_length.put((n,), flatten(self.compiler(n), m))


def best_without_rules(unary: np.ndarray, pairwise: np.ndarray, offsets: np.ndarray) -> Plain:
    """Return the best labels of chains, proved best if the rounding error of sums is far below the tolerance of proofs."""
    labels, best = viterbi_batch(unary, pairwise, offsets)
    score = np.where(best > -np.inf, score_batch(unary, pairwise, offsets, labels), best)
    length = np.diff(offsets)
    error = rounding_error(2.0 * length, length * (_largest(unary) + _largest(pairwise)))
    return Plain(labels, score, (score > -np.inf) & (error <= TOLERANCE / 4))


def _largest(scores: np.ndarray) -> float:
    """Largest magnitude of scores, those that forbid aside."""
    high, low = float(scores.max(initial=0.0)), float(scores.min(initial=0.0))
    if low == -np.inf:
        low = float(np.where(scores > -np.inf, scores, 0.0).min(initial=0.0))
    return max(high, -low)


def _proved_labels(scores: Scores, plain: Plain, settled: list[Any]) -> list[np.ndarray | None]:
    answers = _cut(plain.labels, scores[2], plain.proved)
    for part in settled:
        for i, labels in zip(part.numbers.tolist(), _cut(part.labels, part.offsets, part.sure)):
            answers[i] = labels
    return answers


def _proved_results(scores: Scores, plain: Plain, settled: list[Any]) -> list[Result | None]:
    labels = _cut(plain.labels, scores[2], plain.proved)
    answers: list[Result | None] = [
        None if own is None else Result(own, score, score, score, Status.optimal, "viterbi")
        for own, score in zip(labels, plain.score.tolist())
    ]
    for part in settled:
        for i, result in part.results().items():
            answers[i] = result
    return answers


def _cut(labels: np.ndarray, offsets: np.ndarray, kept: np.ndarray) -> list[np.ndarray | None]:
    """Cut labels by sequence; None for those that are not kept."""
    cuts = offsets.tolist()
    return [labels[a:b] if good else None for a, b, good in zip(cuts, cuts[1:], kept.tolist())]
