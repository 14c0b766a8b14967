"""Learning a joint model from scattered annotation: EM (with or without expectations) and direct ascent.

Objective, to be maximised over theta: the log-likelihood of what is known, minus the least divergence of the
posterior from distributions that meet the expectations, minus (l2 / 2) |theta|^2. Without expectations it is the
plain marginal likelihood. Both ways climb the same objective: EM alternates the nearest distribution q (E-step) with
the best theta for q (M-step); direct ascent uses its gradient, E_q[f] - E_p[f] (the envelope theorem).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from scipy.optimize import minimize

from rulefield.learning.expectations.corpus import ExpectedLikelihood, JointCorpus
from rulefield.learning.expectations.posterior import Posterior, TiltedCorpus
from rulefield.learning.lbfgs import minimise_lbfgs
from rulefield.problem.expectation import CompiledExpectation


@dataclass(frozen=True)
class EmRecord:
    """One iteration: the objective after its E-step (never falls), seconds since the start."""

    iteration: int
    objective: float
    seconds: float


@dataclass
class EmOutcome:
    """Weights, multipliers of the expectations, their values under q, and the log."""

    theta: np.ndarray
    nu: np.ndarray
    shares: np.ndarray
    log: list[EmRecord] = field(default_factory=list)
    converged: bool = False
    interrupted: bool = False


class RegularisedObjective:
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
        answer = self.posterior.minimise(self.nu, self.dual, self.dual_tol)
        self.nu, self.shares = answer.nu, answer.shares
        sums = self.tilted.sums(self.posterior.tau(self.nu))
        return answer.value, self.tilted.counts(sums)

    def pull(self, nu: np.ndarray) -> np.ndarray:
        """Tilt of each expectation per unit of phi, under the multipliers ``nu``."""
        return self.posterior.tau(nu)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the objective, and its gradient."""
        near, wanted = self.expectation_step(theta)
        every, model = self.corpus.sums(theta, clamp=False)
        return every - near + 0.5 * self.l2 * float(theta @ theta), model - wanted + self.l2 * theta


def expectation_maximisation(
    objective: RegularisedObjective,
    theta: np.ndarray,
    max_iter: int = 50,
    tol: float = 1e-5,
    m_steps: int = 10,
    callback: Callable[[EmRecord], None] | None = None,
) -> EmOutcome:
    """Climb by EM until an iteration gains less than ``tol`` of the objective; Ctrl-C keeps the newest theta.

    Parameters
    ----------
    m_steps : int
        L-BFGS steps of one M-step: it need not be finished for the objective to rise.
    """
    begun = perf_counter()
    outcome = EmOutcome(theta, objective.nu, objective.shares)
    corpus, l2 = objective.corpus, objective.l2
    try:
        for iteration in range(max_iter):
            near, counts = objective.expectation_step(theta)
            every = corpus.log_partition(theta, clamp=False)
            value = near - every - 0.5 * l2 * float(theta @ theta)
            record = EmRecord(iteration, value, perf_counter() - begun)
            previous = outcome.log[-1].objective if outcome.log else -np.inf
            outcome.log.append(record)
            outcome.theta, outcome.nu, outcome.shares = theta, objective.nu.copy(), objective.shares
            if callback:
                callback(record)
            if value - previous <= tol * abs(value):
                outcome.converged = True
                break
            if iteration == max_iter - 1:
                break
            step = ExpectedLikelihood(corpus, counts, l2)
            done = minimise_lbfgs(step, theta, max_iter=m_steps, tol=1e-2 * tol, n_jobs=corpus.n_jobs)
            if done.interrupted:
                raise KeyboardInterrupt
            theta = done.theta
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome


def direct_ascent(
    objective: RegularisedObjective,
    theta: np.ndarray,
    max_iter: int = 200,
    tol: float = 1e-6,
    callback: Callable[[EmRecord], None] | None = None,
) -> EmOutcome:
    """Climb by L-BFGS on the objective itself; usually fewer passes than EM."""
    begun = perf_counter()
    outcome = EmOutcome(theta, objective.nu, objective.shares)

    def note(intermediate_result: object) -> None:
        value = -float(intermediate_result.fun)  # type: ignore[attr-defined]
        record = EmRecord(len(outcome.log), value, perf_counter() - begun)
        outcome.log.append(record)
        outcome.theta = np.array(intermediate_result.x)  # type: ignore[attr-defined]
        if callback:
            callback(record)

    try:
        options = {"maxiter": max_iter, "ftol": tol * 1e-2, "gtol": 1e-6, "maxcor": 10}
        done = minimize(
            objective.value_and_gradient, theta, jac=True, method="L-BFGS-B", callback=note, options=options
        )
        outcome.theta, outcome.converged = done.x, bool(done.success)
    except KeyboardInterrupt:
        outcome.interrupted = True
    objective.expectation_step(outcome.theta)
    outcome.nu, outcome.shares = objective.nu.copy(), objective.shares
    return outcome
