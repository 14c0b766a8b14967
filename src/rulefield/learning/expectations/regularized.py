"""Learning from scattered annotation under expectations.

Objective, minimized over theta: minus the log-likelihood of what is known, plus the least divergence of the
posterior from distributions that meet the expectations, plus (l2 / 2) |theta|^2. Without expectations it is the
plain marginal likelihood. Its gradient is E_p[f] - E_q[f], where q is the nearest of these distributions (the envelope
theorem). [Goyal16] lowers the same objective by EM, in more passes over the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.expectations.posterior import Posterior
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
    """The objective of this file at a given theta; multipliers are warm-started between calls.

    Parameters
    ----------
    corpus : JointCorpus
    expectations : sequence of CompiledExpectation
    l2 : float
    slack : as in :class:`Posterior`
    dual_tol : tolerance of :meth:`Posterior.minimize`
    """

    def __init__(
        self,
        corpus: JointCorpus,
        expectations: Sequence[CompiledExpectation],
        l2: float,
        slack: float = 0.0,
        dual_tol: float = 1e-9,
    ):
        self.corpus, self.l2, self.dual_tol = corpus, l2, dual_tol
        self.posterior = Posterior(TiltedCorpus(corpus, expectations), slack)
        self.nu = np.zeros(self.posterior.n_sides)
        self.shares = np.zeros(0)

    def expectation_step(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return min_nu F(nu) at theta, and the expected features under the nearest distribution q."""
        posterior = self.posterior
        posterior.tilted.set_theta(theta)
        answer = posterior.minimize(self.nu, self.dual_tol)
        self.nu, self.shares = answer.nu, answer.shares
        return answer.value, posterior.tilted.counts(posterior.tau(answer.nu))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at ``theta``."""
        near, wanted = self.expectation_step(theta)
        every, model = self.corpus.sums(theta, clamp=False)
        return every - near + 0.5 * self.l2 * float(theta @ theta), model - wanted + self.l2 * theta


def minimize_regularized(
    objective: RegularizedObjective, theta: np.ndarray, max_iter: int, tol: float, callback: Callback | None = None
) -> ExpectationFit:
    """Minimize the objective by L-BFGS; Ctrl-C keeps the newest weights."""
    done = minimize_lbfgs(objective, theta, max_iter, tol, callback, n_jobs=objective.corpus.n_jobs)
    objective.expectation_step(done.theta)
    return ExpectationFit.of(done, objective.nu, objective.shares)
