"""Decoding with a fitted chain under rules: compile for each input, decode, give rules their names back."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.spans import SegmentTable
from rulefield.estimators.answers import report_unanswered
from rulefield.estimators.chain.together import Proved, TogetherDecoder
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import ON_INFEASIBLE, check_value
from rulefield.estimators.sequences import object_array
from rulefield.estimators.types import RulesLike, Tokens
from rulefield.exceptions import InfeasibleError
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.reading import SegmentRows
from rulefield.inference.sequences.sums import IMPOSSIBLE, REASONS, SUM_ONLY, TOLERANCE, Chances, Question
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import RuleCompiler

T = TypeVar("T")
WHOLE_TOLERANCE = 1e-3
"""Share of the probability mass that may be left out of the probabilities of whole labelings and of segments."""


class PotentialSource(Protocol):
    """What gives the potentials of sequences: a fitted chain, or scores of another model."""

    def potentials(self, data: Sequences, i: int, allowed: np.ndarray | None = None, /) -> ChainPotentials:
        """Potentials of sequence ``i``."""

    def each(self, n: int, work: Callable[[int], T], /) -> list[T]:
        """Work on every sequence."""

    def scores(
        self, data: Sequences, allowed: np.ndarray | None, first: int, last: int, /
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unary scores, transition scores and offsets of sequences ``first`` to ``last``."""

    def over_chunks(self, data: Sequences, work: Callable[[int, int], T], most_scores: int, /) -> list[T]:
        """Work on ranges of sequences."""


class RuledDecoder:
    """Best labelings under rules.

    Parameters
    ----------
    decoder : ChainDecoder, or any source of potentials
    rules : list of rules, or the compiler of these
    labels : list of labels, in the model's order
    scheme : label scheme
    on_infeasible : {"raise", "relax"}
        Where no labeling obeys the hard rules: raise, naming a minimal set in conflict; or break them as little as
        possible.
    """

    def __init__(
        self,
        decoder: PotentialSource,
        rules: RulesLike | RuleCompiler,
        labels: list[Any],
        scheme: str | None,
        on_infeasible: str = "raise",
    ):
        check_value("on_infeasible", on_infeasible, ON_INFEASIBLE)
        self.decoder, self.labels, self.on_infeasible = decoder, labels, on_infeasible
        self.compiler = (
            rules
            if isinstance(rules, RuleCompiler)
            else RuleCompiler(rules, [str(label) for label in labels], scheme)
        )
        self._by_number = object_array(list(labels))
        self.names = [rule.label for rule in self.compiler.rules]

    def decode(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None = None,
        probability: bool = False,
        tolerance: float = WHOLE_TOLERANCE,
        **how: Any,
    ) -> list[Labeling]:
        """Decode every sequence; ``how`` goes to the engine (``engine``, ``node_limit``, ``seconds``)."""
        together = how.get("engine", "auto") == "auto" and self._is_plain
        easy: list[Labeling | None] = [None] * len(data)
        if together:
            easy = self._first(data, tokens, allowed, how, self._labelings)
        found = self._rest(easy, lambda i: self._one(data, tokens[i], i, allowed, how))
        if probability:
            found = self._with_probabilities(data, tokens, allowed, found, tolerance)
        if not self._is_plain:
            return found
        return [
            replace(one, prover=partial(self._prove, data, tokens[i], i, allowed, one)) for i, one in enumerate(found)
        ]

    def _prove(
        self, data: Sequences, tokens: Tokens, i: int, allowed: np.ndarray | None, answer: Labeling
    ) -> Proof | None:
        """Return a proof of an answer; none where hard rules gave way."""
        if any(b.cost == np.inf for b in answer.broken):
            return None
        number = {label: k for k, label in enumerate(self.labels)}
        labels = np.array([number[label] for label in answer.labels], np.int64)
        values = answer.score, answer.objective, answer.upper_bound
        result = Result(labels, *values, Status(answer.status), answer.engine)
        return prove_chain(self.problem(data, tokens, i, allowed), result, [*map(repr, self.compiler.rules)])

    def predict(self, data: Sequences, tokens: list[Any], allowed: np.ndarray | None = None) -> list[list[Any]]:
        """Labels of every sequence alone: those that :meth:`decode` gives, without an object for each of its answers."""
        easy: list[list[Any] | None] = [None] * len(data)
        if self._is_plain:
            easy = self._first(data, tokens, allowed, {}, self._label_lists)
        return self._rest(easy, lambda i: self._labels(data, tokens[i], i, allowed))

    def _labels(self, data: Sequences, tokens: Tokens, i: int, allowed: np.ndarray | None) -> list[Any]:
        """Return the best labels of one sequence; if none were found, raise, or let hard rules give way and warn."""
        labels = self._one(data, tokens, i, allowed, {}).labels
        if not labels and data.lengths[i]:
            report_unanswered(i, self.on_infeasible == "relax")
            labels = self._named(self._infeasible(self.problem(data, tokens, i, allowed), i, {})).labels
        return labels

    @property
    def _is_plain(self) -> bool:
        """Whether this decodes as chains do, not in some other way of its own."""
        return type(self)._solve is RuledDecoder._solve

    def _first(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None,
        how: dict[str, Any],
        say: Callable[[Proved], list[T | None]],
    ) -> list[T | None]:
        """Say what compiled passes over many sequences prove; None for those that need an engine of their own."""
        limit = {name: how[name] for name in ("node_limit",) if name in how}
        return TogetherDecoder(self.decoder, self.compiler, **limit)(data, tokens, allowed, say)

    def _rest(self, easy: list[T | None], one: Callable[[int], T]) -> list[T]:
        """Return answers with those filled in that are missing."""
        missing = [i for i, answer in enumerate(easy) if answer is None]
        found = dict(zip(missing, self.decoder.each(len(missing), lambda k: one(missing[k]))))
        return [found[i] if answer is None else answer for i, answer in enumerate(easy)]

    def _label_lists(self, found: Proved) -> list[list[Any] | None]:
        """Names of proved labels."""
        names, cuts = self._by_number[found.labels].tolist(), found.offsets.tolist()
        return [names[a:b] if proved else None for a, b, proved in zip(cuts, cuts[1:], found.proved.tolist())]

    def _labelings(self, found: Proved) -> list[Labeling | None]:
        """Whole answers where they are proved."""
        scores, labels = found.score.tolist(), self._label_lists(found)
        answers: list[Labeling | None] = [
            Labeling(names, score, score, score, "optimal", "viterbi") if plain and names is not None else None
            for names, score, plain in zip(labels, scores, found.plain.tolist())
        ]
        for part in found.settled:
            for i, result in part.results().items():
                answers[i] = self._named(result)
        return answers

    def sums(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None,
        ask: Callable[[int, int], Question],
        tolerance: float,
    ) -> list[Chances]:
        """Sum over the labelings of chunks of sequences, possible or not."""
        return TogetherDecoder(self.decoder, self.compiler).chances(data, tokens, allowed, ask, tolerance)

    def chances(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None,
        ask: Callable[[int, int], Question],
        tolerance: float = TOLERANCE,
    ) -> list[Chances]:
        """Sum over the labelings of chunks of sequences; ``ask`` says what is asked of sequences first to last.

        Raises
        ------
        InfeasibleError
            If a sequence has no labeling that obeys the hard rules.
        """
        found = self.sums(data, tokens, allowed, ask, tolerance)
        impossible = np.flatnonzero(np.concatenate([np.zeros(0), *(part.reason for part in found)]) == IMPOSSIBLE)
        if len(impossible):
            i = int(impossible[0])
            self._refuse(self.problem(data, tokens[i], i, allowed), i)
        return found

    def segment_chances(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None,
        segments: SegmentRows,
        table: SegmentTable,
        tolerance: float = WHOLE_TOLERANCE,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return probabilities of segments under the rules, bounds on their errors, (segments,), and of each sequence.

        Of each sequence: the log sum, and the bound on the error of a labeling's probability as a share of it.
        """
        begins = np.repeat(data.offsets[:-1], np.diff(segments.pointer))
        spans = np.stack([segments.first - begins, segments.last + 1 - begins, segments.kind, segments.level], axis=1)
        pointer = segments.pointer

        def ask(first: int, last: int) -> Question:
            own = spans[pointer[first] : pointer[last]].astype(np.int64)
            return Question(
                spans=own,
                span_ptr=pointer[first : last + 1] - pointer[first],
                starts=table.starts,
                kinds=table.type_of,
            )

        parts = self.sums(data, tokens, allowed, ask, tolerance)
        chance = np.concatenate([np.zeros(0), *(part.span for part in parts)])
        share = np.concatenate([np.zeros(0), *(part.error for part in parts)])
        error = np.repeat(share, np.diff(pointer))
        total = np.concatenate([np.zeros(0), *(part.log_partition for part in parts)])
        return chance, error * np.maximum(chance, 1.0 - chance), total, share

    def marginals(
        self, data: Sequences, tokens: list[Any], allowed: np.ndarray | None = None, tolerance: float = TOLERANCE
    ) -> np.ndarray:
        """Probabilities of labels among labelings that obey the hard rules, soft ones paid for, (n_tokens, m)."""
        found = self.chances(data, tokens, allowed, lambda first, last: Question(marginals=True), tolerance)
        return np.concatenate([np.zeros((0, len(self.labels))), *(part.node for part in found)])

    def kbest(
        self, data: Sequences, k: int, tokens: list[Any], allowed: np.ndarray | None = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """Return the k best labelings under the rules, with their probabilities under the rules."""
        found = self.chances(data, tokens, allowed, lambda first, last: Question(k=k), WHOLE_TOLERANCE)
        best = np.concatenate([np.zeros(0, np.int64), *(part.best for part in found)])
        chance = np.concatenate([np.zeros((0, k)), *(part.best_chance for part in found)])
        ends = (k * data.offsets).tolist()
        return [
            list(zip(best[a:b].reshape(k, -1)[row > 0], row[row > 0].tolist()))
            for a, b, row in zip(ends, ends[1:], chance)
        ]

    def sample(
        self,
        data: Sequences,
        n: int,
        tokens: list[Any],
        generator: np.random.Generator,
        allowed: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Draw labelings that obey the rules, (n, length) of each sequence; those of least mass, .001 of it, are left out."""
        uniform, ends = generator.random(n * data.n_tokens), n * data.offsets

        def ask(first: int, last: int) -> Question:
            return Question(uniform=uniform[ends[first] : ends[last]])

        found = self.chances(data, tokens, allowed, ask, WHOLE_TOLERANCE)
        drawn = np.concatenate([np.zeros(0, np.int64), *(part.drawn for part in found)])
        return [drawn[a:b].reshape(n, -1) for a, b in zip(ends.tolist(), ends[1:].tolist())]

    def problem(self, data: Sequences, tokens: Tokens, i: int, allowed: np.ndarray | None = None) -> ChainProblem:
        """Potentials and compiled rules of sequence ``i``."""
        return ChainProblem(self.decoder.potentials(data, i, allowed), self.compiler(tokens))

    def _one(
        self,
        data: Sequences,
        tokens: Tokens,
        i: int,
        allowed: np.ndarray | None,
        how: dict[str, Any],
    ) -> Labeling:
        problem = self.problem(data, tokens, i, allowed)
        result = self._solve(problem, how)
        if result.status is Status.infeasible:
            result = self._infeasible(problem, i, how)
        return self._named(result)

    def _solve(self, problem: ChainProblem, how: dict[str, Any]) -> Result:
        return decode(problem, **how)

    def _with_probabilities(
        self, data: Sequences, tokens: list[Any], allowed: np.ndarray | None, found: list[Labeling], tolerance: float
    ) -> list[Labeling]:
        """Return labelings with their probabilities among those that obey the hard rules, soft ones paid for."""
        parts = self.sums(data, tokens, allowed, lambda first, last: SUM_ONLY, tolerance)
        objective = np.array([one.objective for one in found])
        made, begin = [], 0
        for part in parts:
            stop = begin + len(part.reason)
            chance, error = part.whole(objective[begin:stop])
            for one, p, e, reason in zip(found[begin:stop], chance.tolist(), error.tolist(), part.reason.tolist()):
                if any(b.cost == np.inf for b in one.broken):
                    p, e, reason = 0.0, 0.0, IMPOSSIBLE
                made.append(replace(one, probability=p, probability_error=e, probability_reason=REASONS[reason]))
            begin = stop
        return made

    def _infeasible(self, problem: ChainProblem, i: int, how: dict[str, Any]) -> Result:
        if self.on_infeasible == "raise":
            self._refuse(problem, i)
        found = decode_relaxed(problem, **{k: v for k, v in how.items() if k != "engine"})
        if found.status is Status.infeasible:  # nothing that rules could give way to
            self._refuse(problem, i)
        return found

    def _refuse(self, problem: ChainProblem, i: int) -> NoReturn:
        rules = tuple(self.names[r] for r in minimal_conflict(problem))
        prover = partial(prove_chain, problem, INFEASIBLE, [*map(repr, self.compiler.rules)])
        if not rules:
            raise InfeasibleError(
                f"sequence {i} has no possible labeling: the scheme and the known labels forbid all; correct them.",
                prover=prover,
            )
        raise InfeasibleError(
            f"sequence {i} ({len(problem.potentials.unary)} tokens): no labeling obeys these hard rules together: "
            f"{'; '.join(rules)}. Make one soft, or use on_infeasible='relax'.",
            rules,
            prover,
        )

    def _named(self, result: Result) -> Labeling:
        return Labeling.of(result, self.labels, self.names)
