"""Answers of a fitted semi-Markov model under rules and known labels: compile for each input, decode, name the rules."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from rulefield.estimators.answers import report_unanswered
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.segments.coding import SegmentCoder
from rulefield.estimators.segments.decoding import SegmentData, SegmentDecoder
from rulefield.exceptions import InfeasibleError
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_segments
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.segments.decode import decode
from rulefield.inference.sequences.segments.sums import segment_chances
from rulefield.inference.sequences.sums import TOLERANCE, Chances, Question
from rulefield.problem.segments import SegmentProblem
from rulefield.rules import RuleCompiler
from rulefield.rules.labels import CutLabels, LabelTable

Answer = TypeVar("Answer")


class RuledSegmentDecoder:
    """Segmentations under rules.

    Parameters
    ----------
    decoder : SegmentDecoder
    coder : SegmentCoder
    rules : list of rules
    on_infeasible : {"raise", "relax"}
        Where no segmentation obeys the hard rules: raise, naming a minimal set in conflict, or break them as little as
        possible.
    """

    def __init__(self, decoder: SegmentDecoder, coder: SegmentCoder, rules: Sequence[Any], on_infeasible: str):
        self.decoder, self.coder, self.on_infeasible = decoder, coder, on_infeasible
        self.compiler = RuleCompiler(rules, label_table(coder))
        self.names = [rule.label for rule in self.compiler.rules]

    def decode(self, data: SegmentData, tokens: list[Any], allowed: np.ndarray | None, **how: Any) -> list[Labeling]:
        """Best segmentations; ``how`` goes to the engine (``engine``, ``node_limit``, ``seconds``)."""

        def one(i: int, problem: SegmentProblem) -> Labeling:
            result = self._result(i, problem, how)
            return replace(self.named(result), prover=partial(self._prove, problem, result))

        return self._each(data, tokens, allowed, one)

    def _prove(self, problem: SegmentProblem, result: Result) -> Proof | None:
        """Return a proof of an answer; none where hard rules gave way."""
        relaxed = any(breach.cost == np.inf for breach in result.broken)
        return None if relaxed else prove_segments(problem, result, [*map(repr, self.compiler.rules)])

    def results(self, data: SegmentData, tokens: list[Any], allowed: np.ndarray | None, **how: Any) -> list[Result]:
        """Best segmentations as token labels by place in the coder's ``labels``; if none was found, raise or warn."""

        def one(i: int, problem: SegmentProblem) -> Result:
            result = self._result(i, problem, how)
            if not len(result.labels) and problem.potentials.n_steps:
                report_unanswered(i, self.on_infeasible == "relax")
                result = self._infeasible(problem, i, how)
            return result

        return self._each(data, tokens, allowed, one)

    def named(self, result: Result) -> Labeling:
        """Return an answer with labels and rules by name."""
        return Labeling.of(result, self.coder.labels, self.names)

    def _result(self, i: int, problem: SegmentProblem, how: dict[str, Any]) -> Result:
        result = decode(problem, **how)
        return self._infeasible(problem, i, how) if result.status is Status.infeasible else result

    def marginals(
        self, data: SegmentData, tokens: list[Any], allowed: np.ndarray | None, tolerance: float = TOLERANCE
    ) -> list[np.ndarray]:
        """Probabilities of types among segmentations that obey the hard rules, soft ones paid for, (n, types) each."""
        types = self.coder.spelling.type_of == np.arange(len(self.coder.types))[:, None]

        def one(i: int, problem: SegmentProblem) -> np.ndarray:
            if problem.potentials.n_steps == 0:
                return np.zeros((0, len(self.coder.types)))
            return self._chances(i, problem, Question(), tolerance).node @ types.T

        return self._each(data, tokens, allowed, one)

    def kbest(
        self, data: SegmentData, tokens: list[Any], allowed: np.ndarray | None, k: int
    ) -> list[list[tuple[list[Any], float]]]:
        """Return the k best segmentations under the rules, with their probabilities under the rules."""

        def one(i: int, problem: SegmentProblem) -> list[tuple[list[Any], float]]:
            if problem.potentials.n_steps == 0:
                return [([], 1.0)]
            found = self._chances(i, problem, Question(k=k))
            rows = zip(found.best.reshape(k, -1), found.best_chance[0].tolist())
            return [(self.coder.named(row), chance) for row, chance in rows if chance > 0]

        return self._each(data, tokens, allowed, one)

    def sample(
        self, data: SegmentData, tokens: list[Any], allowed: np.ndarray | None, n_samples: int, seed: int
    ) -> list[list[list[Any]]]:
        """Draw segmentations that obey the rules; the seed of a sequence depends on its place only."""

        def one(i: int, problem: SegmentProblem) -> list[list[Any]]:
            if problem.potentials.n_steps == 0:
                return [[] for _ in range(n_samples)]
            uniform = np.random.default_rng([seed, i]).random(n_samples * problem.potentials.n_steps)
            drawn = self._chances(i, problem, Question(uniform=uniform)).drawn
            return [self.coder.named(row) for row in drawn.reshape(n_samples, -1)]

        return self._each(data, tokens, allowed, one)

    def _chances(self, i: int, problem: SegmentProblem, question: Question, tolerance: float = TOLERANCE) -> Chances:
        found = segment_chances(problem, question, tolerance)
        if found.log_partition[0] == -np.inf:
            self._refuse(problem, i)
        return found

    def _each(
        self,
        data: SegmentData,
        tokens: list[Any],
        allowed: np.ndarray | None,
        answer: Callable[[int, SegmentProblem], Answer],
    ) -> list[Answer]:
        potentials, offsets = self.decoder.potentials(data), data.sequences.offsets.tolist()

        def one(i: int) -> Answer:
            rows = None if allowed is None else allowed[offsets[i] : offsets[i + 1]]
            return answer(i, SegmentProblem(potentials[i], self.coder.spelling, self.compiler(tokens[i]), rows))

        return self.decoder.threads.map(one, range(len(tokens)))

    def _infeasible(self, problem: SegmentProblem, i: int, how: dict[str, Any]) -> Result:
        if self.on_infeasible == "raise":
            self._refuse(problem, i)
        relaxed = decode_relaxed(problem, **{k: v for k, v in how.items() if k != "engine"})
        if relaxed.status is Status.infeasible:
            self._refuse(problem, i)
        return relaxed

    def _refuse(self, problem: SegmentProblem, i: int) -> NoReturn:
        rules = tuple(self.names[r] for r in minimal_conflict(problem))
        prover = partial(prove_segments, problem, INFEASIBLE, [*map(repr, self.compiler.rules)])
        if not rules:
            raise InfeasibleError(
                f"sequence {i} has no possible segmentation: the known labels and the longest segments forbid all; "
                "correct them, or fit with a larger max_length.",
                prover=prover,
            )
        raise InfeasibleError(
            f"sequence {i} ({problem.potentials.n_steps} tokens): no segmentation obeys these hard rules together: "
            f"{'; '.join(rules)}. Make one soft, or use on_infeasible='relax'.",
            rules,
            prover,
        )


def label_table(coder: SegmentCoder) -> LabelTable:
    """Token labels as rules read them; without a scheme neighbors of one type stay two segments."""
    if coder.scheme == "none":
        return CutLabels([str(kind) for kind in coder.types])
    return LabelTable(coder.labels, coder.scheme)
