r"""Posterior regularization: the distribution nearest to the model's posterior that meets expectations.

.. math:: \min_q KL(q \| p(\cdot | x, known)) \;\text{s.t.}\; low_i - \varepsilon \le E_q[\phi_i]/N_i \le high_i + \varepsilon

Its solution is :math:`q(y) \propto p(y | x, known) \exp(-\sum_i \tau_i \phi_i(y))`, a chain with changed potentials.
With one multiplier :math:`\nu_r \ge 0` a side (high or low of i, in units of shares) the dual to be minimized is
:math:`F(\nu) = b \cdot \nu + \log Z(\nu) + \varepsilon \sum_r \nu_r`, convex, its gradient the slack of every side.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.learning.expectations.tilted import TiltedCorpus

MOST_TILT = 40.0
"""Largest multiplier of a unit of phi: e^-40 is as good as forbidden, and a dual without a minimum (expectations that
cannot hold together) still ends."""


@dataclass(frozen=True)
class DualResult:
    """Multipliers ``nu`` (n_sides,), dual value, expected shares (n_expectations,), steps taken."""

    nu: np.ndarray
    value: float
    shares: np.ndarray
    iterations: int


class Posterior:
    """The dual problem of one E-step.

    Parameters
    ----------
    tilted : TiltedCorpus
    slack : float
        epsilon, in units of shares.
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
            return DualResult(nu, self.smooth(nu)[0], np.zeros(0), 0)
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
        return DualResult(nu, value + self.slack * float(nu.sum()), shares, int(done.nit))
