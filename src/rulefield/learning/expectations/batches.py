"""Expectations that hold in every batch of sequences, not only in the corpus as a whole.

A share over a long corpus may be met by too many in one part and too few in another (one month of log lines, one
author's letters). Here every batch has multipliers of its own; the objective is the sum over batches of the one in
:mod:`rulefield.learning.expectations.em`, so that EM and direct descent fit it in the same way.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.expectations.em import RegularizedObjective
from rulefield.problem.expectation import CompiledExpectation


class BatchedObjective(RegularizedObjective):
    """The regularized objective with multipliers by batch.

    Parameters
    ----------
    corpus : JointCorpus
    expectations : sequence of CompiledExpectation
        Compiled for the whole corpus. A batch in which one counts nothing is free of it.
    batch_size : int
        Sequences in a batch; the last batch may be smaller.
    """

    def __init__(
        self,
        corpus: JointCorpus,
        expectations: Sequence[CompiledExpectation],
        l2: float,
        slack: float = 0.0,
        norm: str = "linf",
        dual: str = "lbfgs",
        dual_tol: float = 1e-9,
        *,
        batch_size: int,
    ):
        self.corpus, self.l2 = corpus, l2
        self.parts: list[RegularizedObjective] = []
        self.own: list[np.ndarray] = []
        for part, own, compiled in _batches(corpus, expectations, batch_size):
            self.parts.append(RegularizedObjective(part, compiled, 0.0, slack, norm, dual, dual_tol))
            self.own.append(own)
        self.n_expectations = len(expectations)
        self.nu = np.concatenate([part.nu for part in self.parts])
        self.shares = np.zeros(0)

    def expectation_step(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum over batches of min_nu F(nu) at theta, and of the expected features under q."""
        answers = self.corpus.executor.map(lambda part: part.expectation_step(theta), self.parts)
        self.nu = np.concatenate([part.nu for part in self.parts])
        self.shares = self._mean([part.shares for part in self.parts])
        return sum(value for value, _ in answers), np.sum([counts for _, counts in answers], axis=0)

    def multipliers(self, nu: np.ndarray) -> np.ndarray:
        """Tilt of each expectation per unit of phi, the mean over batches."""
        cuts = np.cumsum([len(part.nu) for part in self.parts])[:-1]
        return self._mean([part.multipliers(own) for part, own in zip(self.parts, np.split(nu, cuts))])

    def _mean(self, values: list[np.ndarray]) -> np.ndarray:
        """Mean over batches by what they count, (n_expectations,)."""
        total, weight = np.zeros(self.n_expectations), np.zeros(self.n_expectations)
        for part, own, value in zip(self.parts, self.own, values):
            total[own] += value * part.posterior.total
            weight[own] += part.posterior.total
        return total / weight


def _batches(
    corpus: JointCorpus, expectations: Sequence[CompiledExpectation], size: int
) -> Iterator[tuple[JointCorpus, np.ndarray, list[CompiledExpectation]]]:
    """Each batch: its sequences, the numbers of the expectations that refer to them, and these, cut to the batch."""
    for first in range(0, len(corpus.data), size):
        last = min(first + size, len(corpus.data))
        cut = [e.of_sequences(first, last, corpus.data.offsets, corpus.weight) for e in expectations]
        own = np.array([i for i, e in enumerate(cut) if e.total > 0], dtype=np.int64)
        yield corpus.part(first, last), own, [cut[i] for i in own]
