"""Learning a joint model from scattered annotation: EM (with or without expectations) and direct descent.

Objective, minimized over theta: minus the log-likelihood of what is known, plus the least divergence of the
posterior from distributions that meet the expectations, plus (l2 / 2) |theta|^2. Without expectations it is the
plain marginal likelihood. Both ways lower the same objective: EM alternates the nearest distribution q (E-step) with
the best theta for q (M-step); direct descent uses its gradient, E_p[f] - E_q[f] (the envelope theorem).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rulefield.learning.expectations.corpus import ExpectedLikelihood, JointCorpus
from rulefield.learning.expectations.posterior import Posterior
from rulefield.learning.expectations.tilted import TiltedCorpus
from rulefield.learning.fit_log import Callback, FitResult, Pass, run_passes
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
    """The objective of this file and its pieces, at a given theta; multipliers are warm-started between calls."""

    def __init__(
        self,
        corpus: JointCorpus,
        expectations: Sequence[CompiledExpectation],
        l2: float,
        slack: float = 0.0,
        norm: str = "linf",
        dual: str = "lbfgs",
        dual_tol: float = 1e-9,
    ):
        self.corpus, self.l2, self.dual, self.dual_tol = corpus, l2, dual, dual_tol
        self.tilted = TiltedCorpus(corpus, expectations)
        self.posterior = Posterior(self.tilted, slack, norm)
        self.nu = np.zeros(self.posterior.n_sides)
        self.shares = np.zeros(0)

    def expectation_step(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return min_nu F(nu) at theta, and the expected features under the nearest distribution q."""
        self.tilted.set_theta(theta)
        answer = self.posterior.minimize(self.nu, self.dual, self.dual_tol)
        self.nu, self.shares = answer.nu, answer.shares
        return answer.value, self.tilted.counts(self.posterior.tau(self.nu))

    def multipliers(self, nu: np.ndarray) -> np.ndarray:
        """Tilt of each expectation per unit of phi, under the multipliers ``nu``."""
        return self.posterior.tau(nu)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at ``theta``."""
        near, wanted = self.expectation_step(theta)
        every, model = self.corpus.sums(theta, clamp=False)
        return every - near + 0.5 * self.l2 * float(theta @ theta), model - wanted + self.l2 * theta


class ExpectationMaximization:
    """EM as passes: the best theta for the last q (except in the first pass), then the q nearest to it.

    Parameters
    ----------
    objective : RegularizedObjective
    theta : ndarray
        Where to begin.
    tol : float
        Of the whole fit; M-steps are a hundred times finer.
    m_steps : int
        L-BFGS steps of one M-step: it need not be finished for the objective to fall.
    """

    def __init__(self, objective: RegularizedObjective, theta: np.ndarray, tol: float, m_steps: int):
        self.objective, self.theta, self.tol, self.m_steps = objective, theta, tol, m_steps
        self.nu, self.shares = objective.nu, objective.shares
        self._wanted: np.ndarray | None = None

    def learn(self) -> Pass:
        """One M-step and one E-step; weights, multipliers and shares change together."""
        objective, corpus, theta = self.objective, self.objective.corpus, self.theta
        if self._wanted is not None:
            step = ExpectedLikelihood(corpus, self._wanted, objective.l2)
            done = minimize_lbfgs(step, theta, self.m_steps, 1e-2 * self.tol, n_jobs=corpus.n_jobs)
            if done.interrupted:
                raise KeyboardInterrupt
            theta = done.theta
        near, wanted = objective.expectation_step(theta)
        value = corpus.log_partition(theta, clamp=False) - near + 0.5 * objective.l2 * float(theta @ theta)
        self.theta, self._wanted = theta, wanted
        self.nu, self.shares = objective.nu.copy(), objective.shares
        return Pass(value)


def expectation_maximization(
    objective: RegularizedObjective,
    theta: np.ndarray,
    max_iter: int = 50,
    tol: float = 1e-5,
    m_steps: int = 10,
    callback: Callback | None = None,
) -> ExpectationFit:
    """Minimize by EM; Ctrl-C keeps the weights of the last whole iteration."""
    learner = ExpectationMaximization(objective, theta, tol, m_steps)
    done = run_passes(learner, max_iter, tol, callback)
    return ExpectationFit.of(done, learner.nu, learner.shares)


def direct_descent(
    objective: RegularizedObjective,
    theta: np.ndarray,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> ExpectationFit:
    """Minimize by L-BFGS on the objective itself; usually fewer passes than EM."""
    done = minimize_lbfgs(objective, theta, max_iter, tol, callback, n_jobs=objective.corpus.n_jobs)
    objective.expectation_step(done.theta)
    return ExpectationFit.of(done, objective.nu.copy(), objective.shares)
