"""Answers of a fitted joint model; labels are numbers of joint states, users see labels by task."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from rulefield.data.sequences import Labels
from rulefield.estimators.answers import Answers, Ask
from rulefield.estimators.base import Batch
from rulefield.estimators.chain.decoding import over_chunks
from rulefield.estimators.joint.labels import TaskLabels
from rulefield.inference.proof.proof import Proof
from rulefield.inference.proof.sequences import prove_chain
from rulefield.inference.result import INFEASIBLE, Result, Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.joint.decode import decode_joint, whole
from rulefield.inference.sequences.joint.exact import joint_marginals, joint_viterbi
from rulefield.inference.sequences.joint.sums import joint_chances
from rulefield.inference.sequences.sums import Chances
from rulefield.models.joint import JointModel
from rulefield.parallel import in_threads
from rulefield.problem.joint import JointPotentials, JointProblem
from rulefield.rules.joint import JointRuleCompiler

CHUNK_SCORES = 1 << 20  # scores of joint states held at a time by a thread: 8 MB
Known = tuple[Labels, ...] | None
TaskRows = dict[str, list[Any]]
T = TypeVar("T")


class JointAnswers(Answers[JointProblem]):
    """Answers of one joint model with the weights ``theta`` under the rules of a compiler."""

    compiler: JointRuleCompiler
    forbidden_by = "the schemes, the forbidden joint labels and the known labels forbid all; correct them"

    def __init__(
        self,
        model: JointModel,
        theta: np.ndarray,
        names: TaskLabels,
        compiler: JointRuleCompiler,
        relax: bool,
        n_jobs: int,
    ):
        self.model, self.theta, self.task_labels, self.compiler = model, theta, names, compiler
        self.relax, self.n_jobs = relax, n_jobs

    def problem(self, batch: Batch, i: int) -> JointProblem:
        """Return the potentials and compiled rules of sequence ``i``."""
        return self._problems(batch, i, i + 1)

    def decode(self, problem: JointProblem, **how: Any) -> Result:
        """Return the best joint states of one sequence."""
        return decode_joint(problem, **how)[0]

    def prove(self, problem: JointProblem, result: Result, words: Sequence[str]) -> Proof | None:
        """Return a proof of an answer, over a chain of joint states."""
        return prove_chain(problem.over(0), result, words)

    def relaxed(self, problem: JointProblem, **how: Any) -> Result:
        """Return the joint states that break hard rules least."""
        chain, states = whole(problem)
        if not len(states):
            return INFEASIBLE
        found = decode_relaxed(chain, **how)
        return replace(found, labels=states[found.labels])

    def conflict(self, problem: JointProblem) -> tuple[int, ...]:
        """Return numbers of hard rules that contradict each other."""
        chain, states = whole(problem)
        return minimal_conflict(chain) if len(states) else ()

    def named(self, labels: np.ndarray) -> TaskRows:
        """Return joint states as labels by task."""
        ids = np.unravel_index(labels, self.model.sizes)
        encoders = self.task_labels.encoders
        return {task: encoders[task].decode(own) for task, own in zip(self.task_labels.tasks, ids)}

    def named_chances(self, node: np.ndarray) -> dict[str, np.ndarray]:
        """Sum probabilities of joint states (n, S) to those of each task's labels, (n, m_k)."""
        tasks, cube = self.task_labels.tasks, node.reshape(len(node), *self.model.sizes)
        axes = range(1, len(tasks) + 1)
        return {t: cube.sum(axis=tuple(a for a in axes if a != k + 1)) for k, t in enumerate(tasks)}

    def chances(self, batch: Batch, ask: Ask, tolerance: float) -> list[Chances]:
        """Sum over the labelings of each sequence, in numbers of all joint states."""

        def one(i: int) -> Chances:
            return joint_chances(self.problem(batch, i), 0, ask(i, i + 1), tolerance)

        return in_threads(one, range(len(batch)), self.n_jobs)

    # --- passes over many sequences ---------------------------------------------------------------

    def quick_results(self, batch: Batch, how: dict[str, Any]) -> list[Result | None]:
        """Return the answers to chunks of sequences, whose factored maxima are found together."""

        def chunk(first: int, last: int) -> list[Result | None]:
            results = decode_joint(self._problems(batch, first, last), **how)
            return [None if result.status is Status.infeasible else result for result in results]

        return self._over_chunks(batch, chunk)

    def quick_labels(self, batch: Batch) -> list[np.ndarray | None]:
        """Return the best joint states of chunks of sequences."""
        if self.names:
            return super().quick_labels(batch)

        def chunk(first: int, last: int) -> list[np.ndarray | None]:
            potentials = self._potentials(batch, first, last)
            states, scores = joint_viterbi(potentials)
            rows = np.split(states, potentials.offsets[1:-1])
            return [row if score > -np.inf else None for row, score in zip(rows, scores.tolist())]

        return self._over_chunks(batch, chunk)

    def quick_marginals(self, batch: Batch) -> np.ndarray | None:
        """Return the probabilities of joint states at all tokens, if there are no rules and no sequence is impossible."""
        if self.names:
            return None

        def chunk(first: int, last: int) -> list[tuple[np.ndarray, bool]]:
            sums = joint_marginals(self._potentials(batch, first, last))
            return [(sums.node, bool((sums.log_partition > -np.inf).all()))]

        parts = self._over_chunks(batch, chunk)
        if not all(possible for _, possible in parts):
            return None
        return np.concatenate([np.zeros((0, self.model.n_states)), *(node for node, _ in parts)])

    def _problems(self, batch: Batch, first: int, last: int) -> JointProblem:
        inputs = batch.tokens if self.names else [()] * len(batch)
        rules = tuple(self.compiler(inputs[i]) for i in range(first, last))
        return JointProblem(self._potentials(batch, first, last), rules, self.compiler.letters)

    def _potentials(self, batch: Batch, first: int, last: int) -> JointPotentials:
        known: Known = None if batch.allowed is None else tuple(labels[first:last] for labels in batch.allowed)
        return self.model.potentials(self.theta, batch.data[first:last], known)

    def _over_chunks(self, batch: Batch, work: Callable[[int, int], list[T]]) -> list[T]:
        """Work on ranges of sequences with a limited number of scores; return their answers in order."""
        parts = over_chunks(batch.data, self.model.n_states, work, CHUNK_SCORES, self.n_jobs)
        return [answer for part in parts for answer in part]
