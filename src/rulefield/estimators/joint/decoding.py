"""What a fitted joint model answers, in numbers of joint states: chunks of sequences, on several threads, under rules."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.estimators.answers import report_unanswered
from rulefield.exceptions import InfeasibleError
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.joint.decode import decode_joint
from rulefield.inference.sequences.joint.exact import joint_marginals, joint_viterbi
from rulefield.inference.sequences.joint.sums import joint_chances
from rulefield.inference.sequences.joint.windows import whole
from rulefield.inference.sequences.sums import TOLERANCE, Chances, Question
from rulefield.models.joint import JointModel
from rulefield.parallel import in_threads
from rulefield.problem.joint import JointProblem
from rulefield.rules.joint import JointRuleCompiler

CHUNK_SCORES = 1 << 20  # scores of joint states held at a time by a thread: 8 MB
Known = tuple[Labels, ...] | None
T = TypeVar("T")


class JointDecoder:
    """Inference with the weights ``theta`` of a joint model under rules.

    Parameters
    ----------
    model : JointModel
    theta : ndarray
    compiler : JointRuleCompiler
        Of the rules; of none where there are none.
    relax : bool
        Break hard rules as little as possible where no labeling obeys all of them; otherwise such a sequence raises.
    n_jobs : int, optional
    """

    def __init__(
        self, model: JointModel, theta: np.ndarray, compiler: JointRuleCompiler, relax: bool, n_jobs: int | None
    ):
        self.model, self.theta, self.compiler = model, theta, compiler
        self.relax, self.n_jobs = relax, n_jobs
        self.names = [rule.label for rule in compiler.rules]

    def best(self, data: Sequences, tokens: Sequence[Any], known: Known) -> list[np.ndarray]:
        """Best joint states of each sequence."""
        if self.names:
            return [result.labels for result in self.decode(data, tokens, known, insist=True)]

        def chunk(problem: JointProblem, first: int) -> list[np.ndarray]:
            states, scores = joint_viterbi(problem.potentials)
            for i in np.flatnonzero(scores == -np.inf):
                self._refuse(problem, int(i), first)
            return np.split(states, problem.potentials.offsets[1:-1])

        return self._over_chunks(data, tokens, known, chunk)

    def decode(
        self, data: Sequences, tokens: Sequence[Any], known: Known, insist: bool = False, **how: Any
    ) -> list[Result]:
        """Decode every sequence; ``how`` goes to the engine (``engine``, ``node_limit``, ``seconds``).

        ``insist``: if the search ends without a labeling, raise, or let hard rules give way and warn.
        """

        def chunk(problem: JointProblem, first: int) -> list[Result]:
            results = decode_joint(problem, **how)
            for i, result in enumerate(results):
                unanswered = insist and not len(result.labels) and result.status is Status.bounded
                if unanswered:
                    report_unanswered(first + i, self.relax)
                if unanswered or result.status is Status.infeasible:
                    results[i] = self._infeasible(problem, i, first, how)
            return results

        return self._over_chunks(data, tokens, known, chunk)

    def prove(self, data: Sequences, tokens: Sequence[Any], known: Known, i: int, result: Result) -> Proof | None:
        """Return a proof of the answer to sequence ``i``, a chain over joint states; none where hard rules gave way."""
        if any(breach.cost == np.inf for breach in result.broken):
            return None
        own = None if known is None else tuple(labels[i : i + 1] for labels in known)
        rules = (self.compiler(tokens[i]) if self.names else (),)
        potentials = self.model.potentials(self.theta, data[i : i + 1], own)
        words = [*map(repr, self.compiler.rules)]
        return prove_chain(JointProblem(potentials, rules, self.compiler.letters).over(0), result, words)

    def marginals(self, data: Sequences, tokens: Sequence[Any], known: Known) -> list[np.ndarray]:
        """P(joint state) at the tokens of each sequence, (n, S)."""

        def chunk(problem: JointProblem, first: int) -> list[np.ndarray]:
            if not self.names:
                sums = joint_marginals(problem.potentials)
                for i in np.flatnonzero(sums.log_partition == -np.inf):
                    self._refuse(problem, int(i), first)
                return np.split(sums.node, problem.potentials.offsets[1:-1])
            return self._each(problem, first, Question(marginals=True), _spread, problem.potentials.psi[:0])

        def _spread(found: Chances, states: np.ndarray, i: int) -> np.ndarray:
            node = np.zeros((len(found.node), self.model.n_states))
            node[:, states] = found.node
            return node

        return self._over_chunks(data, tokens, known, chunk)

    def kbest(
        self, data: Sequences, tokens: Sequence[Any], known: Known, k: int
    ) -> list[list[tuple[np.ndarray, float]]]:
        """Return the k best labelings of each sequence, with their probabilities under the rules."""

        def read(found: Chances, states: np.ndarray, i: int) -> list[tuple[np.ndarray, float]]:
            chance = found.best_chance[0][found.best_chance[0] > 0]
            return list(zip(states[found.best.reshape(k, -1)][: len(chance)], chance.tolist()))

        def chunk(problem: JointProblem, first: int) -> list[list[tuple[np.ndarray, float]]]:
            return self._each(problem, first, Question(k=k), read, [(np.zeros(0, np.int64), 1.0)])

        return self._over_chunks(data, tokens, known, chunk)

    def sample(self, data: Sequences, tokens: Sequence[Any], known: Known, size: int, seed: int) -> list[np.ndarray]:
        """Draw labelings (size, n) of each sequence from the distribution under the rules."""

        def read(found: Chances, states: np.ndarray, i: int) -> np.ndarray:
            return states[found.drawn.reshape(size, -1)]

        def chunk(problem: JointProblem, first: int) -> list[np.ndarray]:
            def ask(i: int, n: int) -> Question:  # a generator of its own: the same for any number of threads
                return Question(uniform=np.random.default_rng([seed, first + i]).random(size * n))

            return self._each(problem, first, ask, read, np.zeros((size, 0), np.int64))

        return self._over_chunks(data, tokens, known, chunk)

    # --- chunks ---------------------------------------------------------------------------------------

    def _each(
        self,
        problem: JointProblem,
        first: int,
        ask: Question | Callable[[int, int], Question],
        read: Callable[[Chances, np.ndarray, int], T],
        empty: T,
    ) -> list[T]:
        """Return what sums say of each sequence of a chunk."""
        answers = []
        for i, n in enumerate(np.diff(problem.potentials.offsets).tolist()):
            if n == 0:
                if decode(whole(problem, i).chain).status is Status.infeasible:
                    self._refuse(problem, i, first)
                answers.append(empty)
                continue
            found, states = joint_chances(problem, i, ask if isinstance(ask, Question) else ask(i, n), TOLERANCE)
            if found.log_partition[0] == -np.inf:
                self._refuse(problem, i, first)
            answers.append(read(found, states, i))
        return answers

    def _over_chunks(
        self,
        data: Sequences,
        tokens: Sequence[Any],
        known: Known,
        work: Callable[[JointProblem, int], list[T]],
    ) -> list[T]:
        """Work on chunks of sequences, given as a problem and the number of its first sequence; their answers in order."""
        budget = max(1, CHUNK_SCORES // self.model.n_states)
        bounds = [0]
        while bounds[-1] < len(data):
            last = int(np.searchsorted(data.offsets, data.offsets[bounds[-1]] + budget, side="right")) - 1
            bounds.append(min(max(last, bounds[-1] + 1), len(data)))

        def chunk(ends: tuple[int, int]) -> list[T]:
            rows = slice(*ends)
            own = None if known is None else tuple(labels[rows] for labels in known)
            potentials = self.model.potentials(self.theta, data[rows], own)
            rules = tuple(self.compiler(tokens[i]) if self.names else () for i in range(*ends))
            return work(JointProblem(potentials, rules, self.compiler.letters), ends[0])

        return [answer for part in in_threads(chunk, zip(bounds[:-1], bounds[1:]), self.n_jobs) for answer in part]

    # --- hard rules in conflict -----------------------------------------------------------------------

    def _infeasible(self, problem: JointProblem, i: int, first: int, how: dict[str, Any]) -> Result:
        if (
            not self.relax
            or joint_viterbi(problem.potentials.alone(i, problem.potentials.scores(i)))[1][0] == -np.inf
        ):
            self._refuse(problem, i, first)
        part = whole(problem, i)
        result = decode_relaxed(part.chain, **{key: value for key, value in how.items() if key != "engine"})
        return Result(**{**vars(result), "labels": part.states[result.labels]})

    def _refuse(self, problem: JointProblem, i: int, first: int) -> NoReturn:
        part = whole(problem, i)
        rules = tuple(self.names[r] for r in minimal_conflict(part.chain)) if len(part.states) else ()
        prover = partial(prove_chain, problem.over(i), INFEASIBLE, [*map(repr, self.compiler.rules)])
        if not rules:
            raise InfeasibleError(
                f"sequence {first + i} has no possible labeling: the schemes, the forbidden joint labels and the known "
                "labels forbid all; correct them.",
                prover=prover,
            )
        n = int(problem.potentials.offsets[i + 1] - problem.potentials.offsets[i])
        raise InfeasibleError(
            f"sequence {first + i} ({n} tokens): no labeling obeys these hard rules together: "
            f"{'; '.join(rules)}. Make one soft, or use on_infeasible='relax'.",
            rules,
            prover,
        )
