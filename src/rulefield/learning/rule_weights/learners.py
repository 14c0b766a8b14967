r"""Learning what rules should cost, on labeled sequences that the model was not trained on.

With potentials fixed, a labeling is worth s(y) - c.v(y): its score minus the weights c >= 0 of the rules times the
amounts v(y) by which it breaks them. Both learners decode exactly at every step.

*Perceptron* (Anzaroot et al. 2014, section 3.1): c <- max(0, c + rate (v(predicted) - v(gold))). A rule whose weight
ends at 0 is dropped; the others get the mean of their weights over all steps.

*Structured SVM*: the convex :math:`\min_{c \ge 0} \frac{l_2}{2}|c|^2 + l_1 |c|_1 + \sum_i H_i(c)`, where the hinge
loss of an example is :math:`\max_y [\Delta(y_i, y) + s(y) - c.v(y)] - [s(y_i) - c.v(y_i)]`, by block-coordinate
Frank-Wolfe on its dual, with its duality gap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_matrix

from rulefield.inference.sequences.decode import decode
from rulefield.learning.fit_log import Callback, FitResult, Pass, run_passes
from rulefield.parallel import Executor, Threads
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule

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
    """A held-out sequence: tokens, potentials of a model that has not seen it, gold label numbers."""

    tokens: Any
    potentials: ChainPotentials
    gold: np.ndarray


def costs_of(units: csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Return what rules of these weights cost each labeling (rows of ``units``); ``inf`` where one breaks a hard rule."""
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
        """Return what fixed rules cost each labeling (rows of ``units``); ``inf`` where one breaks a hard rule."""
        return costs_of(units, self._fixed)

    def fixed_cost(self, units: np.ndarray) -> float:
        """Return what ``units`` of the fixed soft rules cost (hard rules are never broken by what is decoded)."""
        return float(np.where(np.isfinite(self._fixed), self._fixed, 0.0) @ units)

    def best(self, members: Sequence[int], learned: np.ndarray, loss: float = 0.0) -> list[np.ndarray]:
        """Best labels of some examples; ``loss`` is added to every wrong label (Hamming)."""
        compiler = self.compiler.with_weights(self.weights(learned))
        run = self.executor if len(members) >= LEAST_TO_SEND else self.threads
        chunks = in_chunks([self.examples[i] for i in members], CHUNK if run.apart else 1)
        return [labels for some in run.map(best_labels, chunks, run.hold(compiler), loss) for labels in some]

    def decode(
        self, members: Sequence[int], learned: np.ndarray, loss: float = 0.0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Best labels of some examples, as :meth:`best` finds them, and their units."""
        found = self.best(members, learned, loss)
        return list(zip(found, self.units(found, np.asarray(members)).toarray()))

    def some(self, members: Sequence[int] | np.ndarray) -> "Examples":
        """Return some of the examples under the same rules."""
        fixed = np.where(self.learned, np.nan, self._fixed)
        some = [self.examples[i] for i in members]
        return Examples(some, self.compiler, fixed, self.once, self.threads.n, self.executor)


def best_labels(examples: Sequence[Example], compiler: Compiler, loss: float) -> list[np.ndarray]:
    """Best labels of some examples; ``loss`` is added to every wrong label (Hamming)."""
    found = []
    for example in examples:
        potentials = example.potentials if loss == 0.0 else _augmented(example, loss)
        result = decode(ChainProblem(potentials, compiler(example.tokens)))
        found.append(result.labels if len(result.labels) else example.gold)
    return found


def in_chunks(examples: Sequence[Example], size: int) -> list[Sequence[Example]]:
    """Cut a list, by itself and not by who works on it."""
    return [examples[first : first + size] for first in range(0, len(examples), size)]


def _augmented(example: Example, loss: float) -> ChainPotentials:
    unary = example.potentials.unary + loss
    unary[np.arange(len(unary)), example.gold] -= loss
    return ChainPotentials(unary, example.potentials.pairwise)


def learn_perceptron(
    examples: Examples,
    *,
    epochs: int = 10,
    rate: float = 0.1,
    l1: float = 0.0,
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
    l1 : float
        Subtracted from every weight at each example, times ``rate``: drives more of them to 0.
    batch : int
        Examples decoded, in threads, between two updates. It does not depend on the number of threads.
    """
    learner = _RulePerceptron(examples, rate, l1, batch, seed)
    return run_passes(learner, epochs, -np.inf, callback, fixed=True)


class _RulePerceptron:
    """The weights of rules, their sum over all steps, and an epoch."""

    def __init__(self, examples: Examples, rate: float, l1: float, batch: int, seed: int):
        self.examples, self.rate, self.l1, self.batch = examples, rate, l1, batch
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
                change = self.rate * (amounts - self._gold[i] - self.l1)
                self._c = np.where(data.learned, np.maximum(0.0, self._c + change), 0.0)
                wrong += int((labels != data.examples[i].gold).sum())
                self._total += self._c
                self._steps += 1
        return Pass(float(wrong))


def learn_margin(
    examples: Examples,
    *,
    epochs: int = 10,
    l2: float = 1.0,
    l1: float = 0.0,
    loss: float = 1.0,
    batch: int = 16,
    seed: int = 0,
    tol: float = 1e-2,
    callback: Callback | None = None,
) -> FitResult:
    """Structured SVM in the weights of rules. The objective is minus the dual; the gap of the last epoch is a true one."""
    return run_passes(_Margin(examples, l1, l2, loss, batch, epochs, seed), epochs, tol, callback)


class _Margin:
    """The dual of the structured SVM: one convex combination of labelings an example, as (amounts, worth)."""

    def __init__(
        self, examples: Examples, l1: float, l2: float, loss: float, batch: int = 16, epochs: int = 0, seed: int = 0
    ):
        self.examples, self.l1, self.l2, self.loss = examples, l1, l2, loss
        self._gold = examples.gold.toarray()
        self.batch, self._left, self._rng = batch, epochs, np.random.default_rng(seed)
        n, n_rules = len(examples), len(examples.learned)
        self.blocks = np.zeros((n, n_rules))  # mean of v(y) - v(gold)
        self.worth = np.zeros(n)  # mean of loss + score - score of gold, prices of fixed rules included
        self.sum = np.zeros(n_rules)

    @property
    def c(self) -> np.ndarray:
        """Weights of the present dual point."""
        return self.weights(self.sum)

    @property
    def theta(self) -> np.ndarray:
        """Weights of the present dual point."""
        return self.c

    def learn(self) -> Pass:
        """One epoch in a new random order; the last one measures the gap."""
        order = self._rng.permutation(len(self.examples))
        for first in range(0, len(order), self.batch):
            self.step(order[first : first + self.batch].tolist())
        self._left -= 1
        gap = max(0.0, self.primal() - self.dual()) if self._left == 0 else None
        return Pass(-self.dual(), gap)

    def weights(self, total: np.ndarray) -> np.ndarray:
        """Weights from the sum of the blocks: they push up where predictions break a rule more than gold does."""
        return np.where(self.examples.learned, np.maximum(0.0, total - self.l1) / self.l2, 0.0)

    def step(self, members: list[int]) -> None:
        """Move the blocks of a batch toward their most violated labelings, with one exact line search."""
        corners = [self._corner(i, *found) for i, found in zip(members, self._decode(members))]
        change = np.array([v for v, _ in corners]) - self.blocks[members]
        gain = np.array([w for _, w in corners]) - self.worth[members]
        move = change.sum(axis=0)
        share = self._line_search(move, float(gain.sum()))
        self.blocks[members] += share * change
        self.worth[members] += share * gain
        self.sum += share * move

    def dual(self) -> float:
        """Value of the dual: a lower bound of the objective."""
        return float(self.worth.sum() - 0.5 * self.l2 * self.c @ self.c)

    def primal(self) -> float:
        """Value of the objective at the present weights; costs one decoding of all examples."""
        c = self.c
        every = list(range(len(self.examples)))
        hinge = sum(
            worth - float(c @ v) for v, worth in (self._corner(i, *f) for i, f in zip(every, self._decode(every)))
        )
        return float(0.5 * self.l2 * c @ c + self.l1 * c.sum() + hinge)

    def _decode(self, members: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        return self.examples.decode(members, self.c, self.loss)

    def _corner(self, i: int, labels: np.ndarray, amounts: np.ndarray) -> tuple[np.ndarray, float]:
        example, gold = self.examples.examples[i], self._gold[i]
        v = np.where(self.examples.learned, amounts - gold, 0.0)
        worth = example.potentials.score(labels) - example.potentials.score(example.gold)
        worth += self.loss * float((labels != example.gold).sum())
        return v, worth - self.examples.fixed_cost(amounts - gold)

    def _line_search(self, move: np.ndarray, gain: float) -> float:
        """Maximize the concave dual along a segment by bisection on its derivative."""

        def slope(share: float) -> float:
            return gain - float(self.weights(self.sum + share * move) @ move)

        if slope(1.0) >= 0:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        return low
