"""Decoding with a fitted chain under rules: compile for each input, decode, give rules their names back."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.answers import report_unanswered
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.together import Proved, TogetherDecoder
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import ON_INFEASIBLE, check_value
from rulefield.estimators.sequences import object_array
from rulefield.estimators.types import RulesLike, Tokens
from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.sums import (
    constrained_kbest,
    constrained_log_partition,
    constrained_marginals,
    constrained_samples,
    path_mass,
)
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import RuleCompiler

T = TypeVar("T")
LISTED = 10_000
"""Labelings of the plain chain that are weighed where the rules are too many for exact sums: 0.1 s for a line of text."""
EXACT_NODES = 100_000
"""Largest lattice of exact sums for one probability; beyond it the k best tell, with a bound, or nothing does."""
EXPLAINED_NODES = 2_000
"""The same where somebody waits for an explanation."""


class PotentialSource(Protocol):
    """What gives the potentials of sequences: a fitted chain, or scores of another model."""

    def potentials(self, data: Sequences, i: int, allowed: np.ndarray | None = None, /) -> ChainPotentials:
        """Potentials of sequence ``i``."""

    def each(self, n: int, work: Callable[[int], T], /) -> list[T]:
        """Work on every sequence."""


class RuledDecoder:
    """Best labelings under rules.

    Parameters
    ----------
    decoder : ChainDecoder, or any source of potentials
    rules : list of rules
    labels : list of labels, in the model's order
    scheme : label scheme
    on_infeasible : {"raise", "relax"}
        Where no labeling obeys the hard rules: raise, naming a minimal set in conflict; or break them as little as
        possible.
    """

    def __init__(
        self,
        decoder: PotentialSource,
        rules: RulesLike,
        labels: list[Any],
        scheme: str | None,
        on_infeasible: str = "raise",
    ):
        check_value("on_infeasible", on_infeasible, ON_INFEASIBLE)
        self.decoder, self.labels, self.on_infeasible = decoder, labels, on_infeasible
        self.compiler = RuleCompiler(rules, [str(label) for label in labels], scheme)
        self._by_number = object_array(list(labels))
        self.names = [rule.label for rule in self.compiler.rules]

    def decode(
        self,
        data: Sequences,
        tokens: list[Any],
        allowed: np.ndarray | None = None,
        probability: bool = False,
        **how: Any,
    ) -> list[Labeling]:
        """Decode every sequence; ``how`` goes to the engine (``engine``, ``node_limit``, ``seconds``)."""
        together = not probability and how.get("engine", "auto") == "auto" and self._is_plain
        easy: list[Labeling | None] = [None] * len(data)
        if together:
            easy = self._first(data, tokens, allowed, how, self._labelings)
        found = self._rest(easy, lambda i: self._one(data, tokens[i], i, allowed, probability, how))
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
        labels = self._one(data, tokens, i, allowed, False, {}).labels
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
        if not isinstance(self.decoder, ChainDecoder):
            return [None] * len(data)
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

    def marginals(
        self, data: Sequences, tokens: list[Any], allowed: np.ndarray | None = None, node_limit: int = EXACT_NODES
    ) -> np.ndarray:
        """Probabilities of labels among labelings that obey the hard rules, soft ones paid for, (n_tokens, m)."""

        def one(i: int) -> np.ndarray:
            if data.lengths[i] == 0:
                self._check_empty(data, tokens[i], i)
                return np.zeros((0, len(self.labels)))
            problem = self.problem(data, tokens[i], i, allowed)
            found = constrained_marginals(problem, node_limit)
            if found.status is Status.infeasible:
                self._refuse(problem, i)
            return found.node

        parts = self.decoder.each(len(data), one)
        return np.concatenate(parts) if parts else np.zeros((0, len(self.labels)))

    def kbest(
        self, data: Sequences, k: int, tokens: list[Any], allowed: np.ndarray | None = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """Return the k best labelings under the rules, with their probabilities under the rules."""

        def one(i: int) -> list[tuple[np.ndarray, float]]:
            if data.lengths[i] == 0:
                self._check_empty(data, tokens[i], i)
                return [(np.zeros(0, np.int64), 1.0)]
            problem = self.problem(data, tokens[i], i, allowed)
            try:
                total = constrained_log_partition(problem)
            except InputError:  # too many rules for exact sums
                listed = _kbest_of_listed(problem, k)
                if listed is None:
                    raise
                return listed
            if total == -np.inf:
                self._refuse(problem, i)
            return [(r.labels, float(np.exp(r.objective - total))) for r in constrained_kbest(problem, k)]

        return self.decoder.each(len(data), one)

    def sample(
        self,
        data: Sequences,
        n: int,
        tokens: list[Any],
        generator: np.random.Generator,
        allowed: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Draw labelings that obey the rules."""
        drawn = []
        for i in range(len(data)):
            if data.lengths[i] == 0:
                self._check_empty(data, tokens[i], i)
                drawn.append(np.zeros((n, 0), int))
            else:
                drawn.append(constrained_samples(self.problem(data, tokens[i], i, allowed), n, generator))
        return drawn

    def _check_empty(self, data: Sequences, tokens: Tokens, i: int) -> None:
        """Refuse a sequence without tokens where a hard rule asks for a label."""
        problem = self.problem(data, tokens, i)
        if decode(problem).status is Status.infeasible:
            self._refuse(problem, i)

    def problem(self, data: Sequences, tokens: Tokens, i: int, allowed: np.ndarray | None = None) -> ChainProblem:
        """Potentials and compiled rules of sequence ``i``."""
        return ChainProblem(self.decoder.potentials(data, i, allowed), self.compiler(tokens))

    def _one(
        self,
        data: Sequences,
        tokens: Tokens,
        i: int,
        allowed: np.ndarray | None,
        probability: bool,
        how: dict[str, Any],
    ) -> Labeling:
        problem = self.problem(data, tokens, i, allowed)
        result = self._solve(problem, how)
        if result.status is Status.infeasible:
            result = self._infeasible(problem, i, how)
        labeling = self._named(result)
        return replace(labeling, probability=self._probability(problem, labeling)) if probability else labeling

    def _solve(self, problem: ChainProblem, how: dict[str, Any]) -> Result:
        return decode(problem, **how)

    def _probability(self, problem: ChainProblem, labeling: Labeling) -> float | None:
        """Probability of a labeling among those that obey the hard rules, soft ones paid for; None where unknown."""
        if any(b.cost == np.inf for b in labeling.broken):
            return 0.0
        if problem.potentials.n_steps == 0:
            return 1.0
        if not labeling.labels:  # no time for any
            return None
        try:
            return float(np.exp(labeling.objective - constrained_log_partition(problem, EXACT_NODES)))
        except InputError:  # too many rules for exact sums
            mass = path_mass(problem)
            number = {label: i for i, label in enumerate(self.labels)}
            path = np.array([number[label] for label in labeling.labels])
            return mass.probability((mass.paths == path).all(axis=1))

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


def _kbest_of_listed(problem: ChainProblem, k: int) -> list[tuple[np.ndarray, float]] | None:
    """Return the k best of many labelings that the plain chain likes, where no other can be better; else None."""
    mass = path_mass(problem, LISTED)
    best = np.argsort(-mass.weight, kind="stable")[:k]
    chances = [mass.probability(np.arange(len(mass.weight)) == j) for j in best]
    known = [chance for chance in chances if chance is not None]
    proved = (
        len(known) == k and float(mass.weight[best[-1]]) > mass.rest
    )  # rest bounds each labeling that is not listed
    return [(mass.paths[j], chance) for j, chance in zip(best, known)] if proved else None
