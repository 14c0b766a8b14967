"""Learning from scattered annotation under expectations: posterior regularization, and a penalty on the model itself.

The objective of regularization, minimized over theta: minus the log-likelihood of what is known, plus the least
divergence of the posterior from distributions that meet the expectations, plus (l2 / 2) |theta|^2. Without expectations
it is the plain marginal likelihood. Its gradient is E_p[f] - E_q[f], where q is the nearest of these distributions
(the envelope theorem). [Goyal16] lowers the same objective by EM, in more passes over the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rulefield.learning.expectations.corpus import JointCorpus, JointLikelihood, TiltedCorpus
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
    """The objective of regularization at a given theta; multipliers are warm-started between calls.

    ``slack`` is as in :class:`Posterior`, ``dual_tol`` the tolerance of :meth:`Posterior.minimize`.
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


STEP = 1e-4


class GeneralizedObjective:
    r"""A penalty on how far the model's own expectations stray from their ranges; ``strength`` is kappa.

    .. math:: -\log p(known | x) + \tfrac{l_2}{2} |\theta|^2
              + \tfrac{\kappa}{2} \sum_i N_i\, dist(E_p[\phi_i]/N_i, [low_i, high_i])^2

    The gradient of :math:`E_p[\phi_i]` is a covariance of :math:`\phi_i` with all features. For one direction v it is the
    derivative of the expected features along the tilt v, here by a central difference of exact sums: two passes whatever
    the number of expectations, relative error about 1e-9.
    """

    def __init__(
        self, corpus: JointCorpus, expectations: Sequence[CompiledExpectation], l2: float, strength: float = 10.0
    ):
        self.likelihood = JointLikelihood(corpus, l2)
        self.tilted = TiltedCorpus(corpus, expectations)
        self.strength = strength
        self.low = np.array([e.low for e in expectations])
        self.high = np.array([e.high for e in expectations])
        self.total = np.array([e.total for e in expectations])
        self.shares = np.zeros(len(expectations))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        value, gradient = self.likelihood.value_and_gradient(theta)
        self.tilted.set_theta(theta, clamp=False)
        _, self.shares = self.tilted.evaluate(np.zeros(len(self.total)))
        stray = self.shares - np.clip(self.shares, self.low, self.high)
        value += 0.5 * self.strength * float(self.total @ stray**2)
        if stray.any():
            gradient += self.strength * self._covariance(stray)
        return value, gradient

    def _covariance(self, direction: np.ndarray) -> np.ndarray:
        """Return the covariance of sum_i direction_i phi_i with all features; N_i cancels against phi_i / N_i."""
        step = STEP / np.abs(direction).max()
        up, down = (self.tilted.counts(sign * step * direction) for sign in (-1.0, 1.0))
        return (up - down) / (2 * step)


MOST_TILT = 40.0
"""Largest multiplier of a unit of phi: e^-40 is as good as forbidden, and a dual without a minimum (expectations that
cannot hold together) still ends."""


class DualResult(NamedTuple):
    """Multipliers ``nu`` (n_sides,), dual value, expected shares (n_expectations,)."""

    nu: np.ndarray
    value: float
    shares: np.ndarray


class Posterior:
    r"""The dual problem of one E-step: the distribution nearest to the model's posterior that meets expectations.

    .. math:: \min_q KL(q \| p(\cdot | x, known))
              \;\text{s.t.}\; low_i - \varepsilon \le E_q[\phi_i]/N_i \le high_i + \varepsilon

    Its solution is :math:`q(y) \propto p(y | x, known) \exp(-\sum_i \tau_i \phi_i(y))`, a chain with changed potentials.
    With one multiplier :math:`\nu_r \ge 0` a side (high or low of i, in units of shares) the dual to be minimized is
    :math:`F(\nu) = b \cdot \nu + \log Z(\nu) + \varepsilon \sum_r \nu_r`, convex, its gradient the slack of every side;
    epsilon is ``slack``, in units of shares.
    """

    def __init__(self, tilted: TiltedCorpus, slack: float = 0.0):
        self.tilted, self.slack = tilted, slack
        high = [(i, 1.0, e.high) for i, e in enumerate(tilted.expectations) if np.isfinite(e.high)]
        low = [(i, -1.0, -e.low) for i, e in enumerate(tilted.expectations) if np.isfinite(e.low)]
        sides = high + low
        self.index = np.array([i for i, _, _ in sides], dtype=np.int64)
        self.sign = np.array([s for _, s, _ in sides])
        self.bound = np.array([b for _, _, b in sides])
        self.total = np.array([e.total for e in tilted.expectations])

    @property
    def n_sides(self) -> int:
        """Number of multipliers."""
        return len(self.sign)

    def tau(self, nu: np.ndarray) -> np.ndarray:
        """Tilt of each expectation, per unit of phi."""
        out = np.zeros(len(self.total))
        np.add.at(out, self.index, self.sign * nu)
        return out / self.total

    def smooth(self, nu: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return b . nu + log Z(nu), its gradient, and the expected shares behind it."""
        log_partition, shares = self.tilted.evaluate(self.tau(nu))
        return float(self.bound @ nu) + log_partition, self.bound - self.sign * shares[self.index], shares

    def minimize(self, start: np.ndarray | None = None, tol: float = 1e-9) -> DualResult:
        """Solve the dual from ``start``.

        In the variables nu / scale the curvature of every side is near 1: Var(phi) is at most about total / 4, so
        d2F / d nu2 is about share (1 - share) / total.
        """
        from scipy.optimize import minimize

        nu = np.zeros(self.n_sides) if start is None else start
        if not self.n_sides:
            return DualResult(nu, self.smooth(nu)[0], np.zeros(0))
        share, total = np.clip(np.abs(self.bound), 1e-4, 0.5), self.total[self.index]
        scale = np.sqrt(total / (share * (1 - share)))

        def penalized(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient, _ = self.smooth(x * scale)
            return value + self.slack * float((x * scale).sum()), (gradient + self.slack) * scale

        options = {"maxiter": 200, "ftol": 1e-15, "gtol": tol, "maxcor": 20}
        bounds = [(0.0, float(most)) for most in MOST_TILT * total / scale]
        done = minimize(penalized, nu / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        nu = done.x * scale
        value, _, shares = self.smooth(nu)
        return DualResult(nu, value + self.slack * float(nu.sum()), shares)
