"""Learning from scattered annotation under expectations.

Objective, minimized over theta: minus the log-likelihood of what is known, plus the least divergence of the
posterior from distributions that meet the expectations, plus (l2 / 2) |theta|^2. Without expectations it is the
plain marginal likelihood. Its gradient is E_p[f] - E_q[f], where q is the nearest of these distributions (the envelope
theorem). [Goyal16] lowers the same objective by EM, in more passes over the data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.expectations.posterior import DualResult, Posterior
from rulefield.learning.expectations.tilted import TiltedCorpus
from rulefield.learning.fit_log import Callback, FitResult
from rulefield.learning.lbfgs import minimize_lbfgs
from rulefield.problem.expectation import CompiledExpectation


@dataclass(frozen=True)
class ExpectationFit(FitResult):
    """A fit under expectations: their multipliers ``nu`` (n_sides,) and values under q ``shares``, at ``theta``."""

    nu: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, done: FitResult, nu: np.ndarray, shares: np.ndarray) -> "ExpectationFit":
        """``done`` with multipliers and shares."""
        return cls(done.theta, done.objective, done.ending, done.message, done.log, nu, shares)


class RegularizedObjective:
    """The objective of this file and its pieces, at a given theta; multipliers are warm-started between calls.

    Parameters
    ----------
    corpus : JointCorpus
    expectations : sequence of CompiledExpectation
        Compiled for the whole corpus.
    l2 : float
    slack : as in :class:`Posterior`
    dual_tol : tolerance of :meth:`Posterior.minimize`
    batch_size : int, optional
        Sequences in a batch (the last may be smaller). Every batch then meets the expectations with multipliers of its own:
        a share over a long corpus may otherwise be met by too many in one part and too few in another (one month of log
        lines, one author's letters). A batch in which an expectation counts nothing is free of it.
    """

    def __init__(
        self,
        corpus: JointCorpus,
        expectations: Sequence[CompiledExpectation],
        l2: float,
        slack: float = 0.0,
        dual_tol: float = 1e-9,
        batch_size: int | None = None,
    ):
        self.corpus, self.l2, self.dual_tol = corpus, l2, dual_tol
        self.n_expectations = len(expectations)
        self.posteriors: list[Posterior] = []
        self.members: list[np.ndarray] = []
        for part, members, compiled in _batches(corpus, expectations, batch_size):
            self.posteriors.append(Posterior(TiltedCorpus(part, compiled), slack))
            self.members.append(members)
        self.ends = np.cumsum([posterior.n_sides for posterior in self.posteriors])[:-1]
        self.nu = np.zeros(sum(posterior.n_sides for posterior in self.posteriors))
        self.shares = np.zeros(0)

    def expectation_step(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return min_nu F(nu) at theta, and the expected features under the nearest distribution q."""

        def step(work: tuple[Posterior, np.ndarray]) -> tuple[DualResult, np.ndarray]:
            posterior, nu = work
            posterior.tilted.set_theta(theta)
            answer = posterior.minimize(nu, self.dual_tol)
            return answer, posterior.tilted.counts(posterior.tau(answer.nu))

        work = list(zip(self.posteriors, np.split(self.nu, self.ends)))
        found = self.corpus.threads.map(step, work) if len(work) > 1 else [step(one) for one in work]
        self.nu = np.concatenate([answer.nu for answer, _ in found])
        self.shares = self._mean([answer.shares for answer, _ in found])
        return sum(answer.value for answer, _ in found), np.sum([counts for _, counts in found], axis=0)

    def multipliers(self, nu: np.ndarray) -> np.ndarray:
        """Tilt of each expectation per unit of phi under the multipliers ``nu``, the mean over batches."""
        parts = np.split(nu, self.ends)
        return self._mean([posterior.tau(part) for posterior, part in zip(self.posteriors, parts)])

    def _mean(self, values: list[np.ndarray]) -> np.ndarray:
        """Mean over batches by what they count, (n_expectations,)."""
        total, weight = np.zeros(self.n_expectations), np.zeros(self.n_expectations)
        for posterior, members, value in zip(self.posteriors, self.members, values):
            total[members] += value * posterior.total
            weight[members] += posterior.total
        return total / weight

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at ``theta``."""
        near, wanted = self.expectation_step(theta)
        every, model = self.corpus.sums(theta, clamp=False)
        return every - near + 0.5 * self.l2 * float(theta @ theta), model - wanted + self.l2 * theta


def _batches(
    corpus: JointCorpus, expectations: Sequence[CompiledExpectation], size: int | None
) -> Iterator[tuple[JointCorpus, np.ndarray, list[CompiledExpectation]]]:
    """Each batch: its sequences, the numbers of the expectations that refer to them, and these, cut to the batch."""
    if size is None:
        yield corpus, np.arange(len(expectations)), list(expectations)
        return
    for first in range(0, len(corpus.data), size):
        last = min(first + size, len(corpus.data))
        cut = [e.of_sequences(first, last, corpus.data.offsets, corpus.weight) for e in expectations]
        members = np.array([i for i, e in enumerate(cut) if e.total > 0], dtype=np.int64)
        yield corpus.part(first, last), members, [cut[i] for i in members]


def minimize_regularized(
    objective: RegularizedObjective, theta: np.ndarray, max_iter: int, tol: float, callback: Callback | None = None
) -> ExpectationFit:
    """Minimize the objective by L-BFGS; Ctrl-C keeps the newest weights."""
    done = minimize_lbfgs(objective, theta, max_iter, tol, callback, n_jobs=objective.corpus.n_jobs)
    objective.expectation_step(done.theta)
    return ExpectationFit.of(done, objective.nu.copy(), objective.shares)
