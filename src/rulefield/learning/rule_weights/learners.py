r"""Learning what rules should cost, on labeled sequences that the model was not trained on.

With potentials fixed, a labeling is worth s(y) - c.v(y): its score minus the weights c >= 0 of the rules times the
amounts v(y) by which it breaks them.

*Perceptron* (Anzaroot et al. 2014, section 3.1): c <- max(0, c + rate (v(predicted) - v(gold))). A rule whose weight
ends at 0 is dropped; the others get the mean of their weights over all steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.exact import kbest_labels
from rulefield.inference.sequences.segments.decode import decode as decode_segments
from rulefield.inference.sequences.segments.sums import segment_chances
from rulefield.inference.sequences.sums import TOLERANCE, Question
from rulefield.learning.fit_log import Callback, FitResult, Pass, run_passes
from rulefield.parallel import Executor, Threads
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.problem.segments import SegmentPotentials, SegmentProblem, Spelling

CHUNK, LEAST_TO_SEND = 32, 64
"""Examples of one task of a cluster, and how many there have to be: learners that go by small batches stay in one process."""


class Compiler(Protocol):
    """What learners need of a rule compiler."""

    def with_weights(self, weights: np.ndarray) -> "Compiler":
        """Return the same rules at other prices."""
        ...

    def __call__(self, tokens: Any) -> tuple[CompiledRule, ...]:
        """Compile for one input."""
        ...

    def amounts_of_all(
        self,
        inputs: Sequence[Any],
        labelings: Sequence[np.ndarray],
        owner: np.ndarray | None = None,
        threads: Threads | None = None,
    ) -> csr_matrix:
        """By how much each labeling breaks each rule, (n_labelings, n_rules)."""
        ...


@dataclass(frozen=True)
class Example:
    """A held-out sequence.

    Parameters
    ----------
    tokens : sequence
    potentials : ChainPotentials or SegmentPotentials
        By a model that has not seen it.
    gold : ndarray of int64, shape (n_tokens,)
        Numbers of the gold labels; for segments, of the labels that spell them.
    spelling : Spelling, optional
        Of segments.
    word_of : ndarray of int64, shape (n_labels,), optional
        Tokens are right if the words of their labels are; by default each label is its own.
    """

    tokens: Any
    potentials: ChainPotentials | SegmentPotentials
    gold: np.ndarray
    spelling: Spelling | None = None
    word_of: np.ndarray | None = None

    def problem(self, rules: tuple[CompiledRule, ...] = ()) -> ChainProblem | SegmentProblem:
        """Return the problem of the sequence under rules."""
        if isinstance(self.potentials, ChainPotentials):
            return ChainProblem(self.potentials, rules)
        assert self.spelling is not None
        return SegmentProblem(self.potentials, self.spelling, rules)

    def score(self, labels: np.ndarray) -> float:
        """Return the score of labels; ``-inf`` if they are forbidden."""
        problem = self.problem()
        return problem.score(labels) if isinstance(problem, SegmentProblem) else problem.potentials.score(labels)

    def decode(self, rules: tuple[CompiledRule, ...]) -> np.ndarray:
        """Return the best labels under rules; empty if none were found."""
        problem = self.problem(rules)
        return (decode_segments(problem) if isinstance(problem, SegmentProblem) else decode(problem)).labels

    def kbest(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labelings as rows (k, n_tokens), best first, and their scores; fewer if there are fewer."""
        problem = self.problem()
        if isinstance(problem, ChainProblem):
            return kbest_labels(problem.potentials, k)
        if not len(self.gold):
            return np.empty((1, 0), np.int64), np.zeros(1)
        found = segment_chances(problem, Question(k=k), TOLERANCE)
        rows = found.best.reshape(k, -1)[found.best_chance[0] > 0]
        return rows, np.array([problem.score(row) for row in rows])


def costs_of(units: csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Return what rules of these weights cost each labeling (rows of ``units``); ``inf`` if one breaks a hard rule."""
    hard = np.isinf(weights)
    return units @ np.where(hard, 0.0, weights) + np.where((units @ hard.astype(float)) > 0, np.inf, 0.0)


class Examples:
    """Held-out sequences with the amounts of their gold labels, decoded in threads.

    Parameters
    ----------
    examples : sequence of Example
    compiler : Compiler
    fixed : ndarray, shape (n_rules,)
        Weights of rules that are not learned; NaN for those that are.
    once : ndarray of bool, shape (n_rules,)
        Rules that are paid once, whatever the amount.
    n_jobs : int
    executor : Executor, optional
        Where many examples are decoded, instead of in threads.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        compiler: Compiler,
        fixed: np.ndarray,
        once: np.ndarray,
        n_jobs: int = 1,
        executor: Executor | None = None,
    ):
        self.examples, self.compiler, self.once, self.threads = list(examples), compiler, once, Threads(n_jobs)
        self.executor = self.threads if executor is None else executor
        self.learned = np.isnan(fixed)
        self._fixed = np.where(self.learned, 0.0, fixed)

    @cached_property
    def gold(self) -> csr_matrix:
        """Units that gold labels pay for, (n_examples, n_rules)."""
        return self.units([e.gold for e in self.examples])

    def __len__(self) -> int:
        return len(self.examples)

    def weights(self, learned: np.ndarray) -> np.ndarray:
        """All weights, those of fixed rules included."""
        return np.where(self.learned, learned, self._fixed)

    def units(self, labelings: Sequence[np.ndarray], members: Sequence[int] | np.ndarray | None = None) -> csr_matrix:
        """Units that labelings pay for, (n_labelings, n_rules); labeling j is one of example ``members[j]``."""
        inputs = [e.tokens for e in self.examples]
        owner = None if members is None else np.asarray(members, dtype=np.int64)
        if owner is not None and len(owner) < len(inputs):
            inputs, owner = [inputs[i] for i in owner], None
        units = self.compiler.amounts_of_all(inputs, labelings, owner, self.threads)
        if self.once.any():
            once = self.once[units.indices]
            units.data[once] = np.minimum(units.data[once], 1.0)
        return units

    def fixed_costs(self, units: csr_matrix) -> np.ndarray:
        """Return what fixed rules cost each labeling (rows of ``units``); ``inf`` if one breaks a hard rule."""
        return costs_of(units, self._fixed)

    def best(self, members: Sequence[int], learned: np.ndarray) -> list[np.ndarray]:
        """Best labels of some examples."""
        compiler = self.compiler.with_weights(self.weights(learned))
        run = self.executor if len(members) >= LEAST_TO_SEND else self.threads
        chunks = in_chunks([self.examples[i] for i in members], CHUNK if run.apart else 1)
        return [labels for some in run.map(best_labels, chunks, run.hold(compiler)) for labels in some]

    def decode(self, members: Sequence[int], learned: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Best labels of some examples, as :meth:`best` finds them, and their units."""
        found = self.best(members, learned)
        return list(zip(found, self.units(found, np.asarray(members)).toarray()))

    def some(self, members: Sequence[int] | np.ndarray) -> "Examples":
        """Return some of the examples under the same rules."""
        fixed = np.where(self.learned, np.nan, self._fixed)
        some = [self.examples[i] for i in members]
        return Examples(some, self.compiler, fixed, self.once, self.threads.n, self.executor)


def best_labels(examples: Sequence[Example], compiler: Compiler) -> list[np.ndarray]:
    """Best labels of some examples."""
    found = []
    for example in examples:
        labels = example.decode(compiler(example.tokens))
        found.append(labels if len(labels) else example.gold)
    return found


def in_chunks(examples: Sequence[Example], size: int) -> list[Sequence[Example]]:
    """Cut a list, by itself and not by who works on it."""
    return [examples[first : first + size] for first in range(0, len(examples), size)]


def learn_perceptron(
    examples: Examples,
    *,
    epochs: int = 10,
    rate: float = 0.1,
    batch: int = 16,
    seed: int = 0,
    callback: Callback | None = None,
) -> FitResult:
    """Structured perceptron with truncation at 0; its objective counts the tokens labeled wrongly in an epoch.

    Parameters
    ----------
    epochs : int
        Passes over all examples; that many, as in [Anzaroot14].
    rate : float
        Step; it matters, because the potentials have a scale of their own (nats).
    batch : int
        Examples decoded, in threads, between two updates. It does not depend on the number of threads.
    """
    learner = _RulePerceptron(examples, rate, batch, seed)
    return run_passes(learner, epochs, -np.inf, callback, fixed=True)


class _RulePerceptron:
    """The weights of rules, their sum over all steps, and an epoch."""

    def __init__(self, examples: Examples, rate: float, batch: int, seed: int):
        self.examples, self.rate, self.batch = examples, rate, batch
        self._gold = examples.gold.toarray()
        self._rng = np.random.default_rng(seed)
        n_rules = len(examples.learned)
        self._c, self._total, self._steps = np.zeros(n_rules), np.zeros(n_rules), 0

    @property
    def theta(self) -> np.ndarray:
        """Mean of the weights over all steps, 0 for rules whose last weight is 0."""
        return np.where(self._c > 0, self._total / max(self._steps, 1), 0.0)

    def learn(self) -> Pass:
        """One epoch in a new random order."""
        data, wrong = self.examples, 0
        order = self._rng.permutation(len(data))
        for first in range(0, len(order), self.batch):
            members = order[first : first + self.batch].tolist()
            for i, (labels, amounts) in zip(members, data.decode(members, self._c)):
                change = self.rate * (amounts - self._gold[i])
                self._c = np.where(data.learned, np.maximum(0.0, self._c + change), 0.0)
                wrong += int((labels != data.examples[i].gold).sum())
                self._total += self._c
                self._steps += 1
        return Pass(float(wrong))
