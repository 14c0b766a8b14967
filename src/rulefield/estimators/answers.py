"""Answers of a fitted sequence model under rules, by name: written once; a family gives what differs."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from rulefield.encode.spans import SegmentTable
from rulefield.estimators.base import Batch
from rulefield.estimators.labelings import Labeling
from rulefield.exceptions import InfeasibleError
from rulefield.inference.proof.proof import Proof
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.reading import SegmentRows
from rulefield.inference.sequences.sums import IMPOSSIBLE, REASONS, SUM_ONLY, TOLERANCE, Chances, Question
from rulefield.parallel import in_threads
from rulefield.rules import RuleCompiler

T = TypeVar("T")
Problem = TypeVar("Problem")
Ask = Callable[[int, int], Question]
"""What is asked of sequences ``first`` to ``last``."""
QUICK_TOLERANCE = 1e-3
"""Share of the probability mass that may be left out of explanations and of the probabilities of segments."""


class Answers(ABC, Generic[Problem]):
    """Answers of one fitted model under one list of rules.

    If no labeling obeys the hard rules, ``relax`` breaks them as little as possible; otherwise rules that clash are named.
    """

    what: ClassVar[str] = "labeling"
    forbidden_by: ClassVar[str] = "the scheme and the known labels forbid all; correct them"
    whole_tolerance: ClassVar[float] = TOLERANCE
    """Share of the probability mass that may be left out of the probabilities of whole labelings."""
    compiler: RuleCompiler
    relax: bool
    n_jobs: int

    # --- what a family gives ----------------------------------------------------------------------

    @abstractmethod
    def problem(self, batch: Batch, i: int) -> Problem:
        """Return the potentials and compiled rules of sequence ``i``."""

    @abstractmethod
    def decode(self, problem: Problem, **how: Any) -> Result:
        """Return the best labeling of one problem; ``how`` goes to the engine (``engine``, ``node_limit``, ``seconds``)."""

    @abstractmethod
    def prove(self, problem: Problem, result: Result, words: Sequence[str]) -> Proof | None:
        """Return a proof of an answer; ``words`` are the rules as text."""

    @abstractmethod
    def chances(self, batch: Batch, ask: Ask, tolerance: float) -> list[Chances]:
        """Sum over the labelings of all sequences, in parts that lie one after the other; impossible ones are marked."""

    @abstractmethod
    def named(self, labels: np.ndarray) -> Any:
        """Return labels as users see them."""

    def named_chances(self, node: np.ndarray) -> Any:
        """Return the probabilities of labels at the tokens of one sequence as users see them."""
        return node

    def quick_results(self, batch: Batch, how: dict[str, Any]) -> list[Result | None]:
        """Return what passes over many sequences prove; None for sequences that need an engine of their own."""
        return [None] * len(batch)

    def quick_labels(self, batch: Batch) -> list[np.ndarray | None]:
        """Return the labels of the same passes alone."""
        found = self.quick_results(batch, {})
        return [None if one is None or not len(one.labels) else one.labels for one in found]

    def quick_marginals(self, batch: Batch) -> np.ndarray | None:
        """Return probabilities of labels at all tokens by a pass of its own; None if there is none."""
        return None

    def relaxed(self, problem: Problem, **how: Any) -> Result:
        """Return the labeling that breaks hard rules least."""
        return decode_relaxed(problem, **how)  # type: ignore[arg-type]

    def conflict(self, problem: Problem) -> tuple[int, ...]:
        """Return numbers of hard rules that contradict each other."""
        return minimal_conflict(problem)  # type: ignore[arg-type]

    # --- best labelings ---------------------------------------------------------------------------

    def ids(self, batch: Batch) -> list[np.ndarray]:
        """Return the best labels of each sequence, by number; if none was found, raise, or break rules and warn."""
        return self._filled(self.quick_labels(batch), lambda i: self._solved(batch, i, {}, insist=True).labels)

    def labels(self, batch: Batch) -> list[Any]:
        """Return the best labels of each sequence."""
        return list(map(self.named, self.ids(batch)))

    def results(self, batch: Batch, insist: bool = False, **how: Any) -> list[Result]:
        """Return the best labeling of each sequence, by number.

        ``insist``: if the search ends without one, raise, or break rules and warn.
        """
        quick: list[Result | None] = [None] * len(batch)
        if how.get("engine", "auto") == "auto":
            quick = self.quick_results(batch, how)
        return self._filled(quick, lambda i: self._solved(batch, i, how, insist))

    def labelings(
        self, batch: Batch, *, probability: bool = False, tolerance: float = QUICK_TOLERANCE, **how: Any
    ) -> list[Labeling]:
        """Return the best labelings with their proofs; ``how`` goes to the engine."""
        results = self.results(batch, **how)
        if not probability:
            return [self.labeling(batch, i, result) for i, result in enumerate(results)]
        columns = [column.tolist() for column in self.probabilities(results, self.sums(batch, tolerance))]
        return [self.labeling(batch, *row) for row in zip(range(len(batch)), results, *columns)]

    def labeling(
        self,
        batch: Batch,
        i: int,
        result: Result,
        p: float | None = None,
        error: float | None = None,
        reason: int = -1,
    ) -> Labeling:
        """Return an answer to sequence ``i`` with labels and rules by name; the rest is what :meth:`probabilities` says."""
        prover = partial(self._proof, batch, i, result)
        why = REASONS[reason] if reason >= 0 else ""
        return Labeling.named(result, self.named(result.labels), self.names, prover, p, error, why)

    def probabilities(self, results: list[Result], sums: "SequenceSums") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return probabilities among the labelings that obey the hard rules, soft ones paid for.

        For each answer: its probability, the error of that, and how the sum was found: a place in ``REASONS``, or -1.
        """
        objective = np.array([-np.inf if _breaks_hard_rules(one) else one.objective for one in results])
        with np.errstate(invalid="ignore"):
            chance = np.exp(np.minimum(objective - sums.log_partition, 0.0))
        impossible = objective == -np.inf
        chance = np.where(impossible, 0.0, chance)
        return chance, chance * sums.error, np.where(impossible, IMPOSSIBLE, sums.reason)

    @cached_property
    def names(self) -> list[str]:
        """Name of each rule."""
        return [rule.label for rule in self.compiler.rules]

    def _filled(self, quick: list[T | None], one: Callable[[int], T]) -> list[T]:
        """Return answers with those filled in that are missing."""
        missing = [i for i, answer in enumerate(quick) if answer is None]
        found = dict(zip(missing, in_threads(one, missing, self.n_jobs)))
        return [found[i] if answer is None else answer for i, answer in enumerate(quick)]

    def _solved(self, batch: Batch, i: int, how: dict[str, Any], insist: bool = False) -> Result:
        problem = self.problem(batch, i)
        result = self.decode(problem, **how)
        unanswered = insist and result.status is Status.bounded and not len(result.labels) and batch.lengths[i]
        if unanswered:
            report_unanswered(i, self.relax)
        if not unanswered and result.status is not Status.infeasible:
            return result
        if self.relax:
            found = self.relaxed(problem, **{name: value for name, value in how.items() if name != "engine"})
            if found.status is not Status.infeasible:
                return found
        raise self._refusal(problem, batch, i)

    def _refusal(self, problem: Problem, batch: Batch, i: int) -> InfeasibleError:
        """Return the error that no labeling is possible, which names hard rules that contradict each other."""
        rules = tuple(self.names[r] for r in self.conflict(problem))
        prover = partial(self.prove, problem, INFEASIBLE, [*map(repr, self.compiler.rules)])
        message = f"sequence {i} has no possible {self.what}: {self.forbidden_by}."
        if rules:
            message = (
                f"sequence {i} ({batch.lengths[i]} tokens): no {self.what} obeys these hard rules together: "
                f"{'; '.join(rules)}. Make one soft, or use on_infeasible='relax'."
            )
        return InfeasibleError(message, rules, prover)

    def _proof(self, batch: Batch, i: int, result: Result) -> Proof | None:
        """Return a proof of an answer; None if hard rules gave way."""
        if _breaks_hard_rules(result):
            return None
        return self.prove(self.problem(batch, i), result, [*map(repr, self.compiler.rules)])

    # --- distributions ----------------------------------------------------------------------------

    def sums(self, batch: Batch, tolerance: float = QUICK_TOLERANCE) -> "SequenceSums":
        """Sum over the labelings of each sequence."""
        return SequenceSums.of(self.chances(batch, lambda first, last: SUM_ONLY, tolerance))

    def marginals(self, batch: Batch, quick: bool = False, tolerance: float = TOLERANCE) -> list[Any]:
        """Return probabilities of labels at the tokens of each sequence; sums may leave out ``tolerance`` (quick: more)."""
        node = self.quick_marginals(batch)
        if node is None:
            most = max(tolerance, QUICK_TOLERANCE) if quick else tolerance
            parts = self._possible_chances(batch, lambda first, last: Question(marginals=True), most)
            node = _joined([part.node for part in parts])
        return [self.named_chances(own) for own in batch.cut(node)]

    def kbest(self, batch: Batch, k: int) -> list[list[tuple[Any, float]]]:
        """Return the k best labelings of each sequence and their probabilities."""
        parts = self._possible_chances(batch, lambda first, last: Question(k=k), self.whole_tolerance)
        best, chance = _joined([part.best for part in parts]), _joined([part.best_chance for part in parts])
        return [
            [(self.named(row), p) for row, p in zip(own.reshape(k, -1), chances.tolist()) if p > 0]
            for own, chances in zip(batch.cut(best, k), chance)
        ]

    def samples(self, batch: Batch, n_samples: int, seed: int) -> list[list[Any]]:
        """Draw labelings of each sequence; the same for any number of threads."""
        ends = (n_samples * batch.sequences.offsets).tolist()
        uniform = np.random.default_rng(seed).random(ends[-1])
        parts = self._possible_chances(
            batch, lambda first, last: Question(uniform=uniform[ends[first] : ends[last]]), self.whole_tolerance
        )
        drawn = _joined([part.drawn for part in parts])
        return [list(map(self.named, own.reshape(n_samples, -1))) for own in batch.cut(drawn, n_samples)]

    def segment_chances(
        self, batch: Batch, segments: SegmentRows, table: SegmentTable, tolerance: float = QUICK_TOLERANCE
    ) -> tuple[np.ndarray, np.ndarray, "SequenceSums"]:
        """Return probabilities of segments under the rules and bounds on their errors, (segments,), and the sums."""
        pointer = segments.pointer
        begins = np.repeat(batch.sequences.offsets[:-1], np.diff(pointer))
        spans = np.stack([segments.first - begins, segments.last + 1 - begins, segments.kind, segments.level], axis=1)

        def ask(first: int, last: int) -> Question:
            own = spans[pointer[first] : pointer[last]].astype(np.int64)
            places = pointer[first : last + 1] - pointer[first]
            return Question(spans=own, span_ptr=places, starts=table.starts, kinds=table.type_of)

        parts = self.chances(batch, ask, tolerance)
        chance, sums = _joined([part.span for part in parts]), SequenceSums.of(parts)
        return chance, np.repeat(sums.error, np.diff(pointer)) * np.maximum(chance, 1.0 - chance), sums

    def _possible_chances(self, batch: Batch, ask: Ask, tolerance: float) -> list[Chances]:
        """Sum over labelings; raise if a sequence has none that obeys the hard rules."""
        found = self.chances(batch, ask, tolerance)
        impossible = np.flatnonzero(_joined([part.reason for part in found]) == IMPOSSIBLE)
        if len(impossible):
            i = int(impossible[0])
            raise self._refusal(self.problem(batch, i), batch, i)
        return found


class SequenceSums(NamedTuple):
    """Of each sequence: log of the sum over its labelings, bound on the share that is left out, a place in ``REASONS``."""

    log_partition: np.ndarray
    error: np.ndarray
    reason: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Chances]) -> "SequenceSums":
        """Join what parts say, one after the other."""
        return cls(*(_joined([getattr(part, name) for part in parts]) for name in cls._fields))


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _breaks_hard_rules(result: Result) -> bool:
    return any(breach.cost == np.inf for breach in result.broken)


def report_unanswered(i: int, relax: bool) -> None:
    """Raise that the search found no labeling of sequence ``i``; if rules may give way, warn that they do."""
    found = f"sequence {i}: no labeling that obeys the hard rules was found within the limits, and none is excluded"
    if not relax:
        raise InfeasibleError(
            f"{found}; give known labels, make a rule soft, decode with a larger node_limit, or use on_infeasible='relax'."
        )
    warnings.warn(
        f"{found}; its labeling breaks them as little as the search could find.", RuntimeWarning, stacklevel=2
    )
