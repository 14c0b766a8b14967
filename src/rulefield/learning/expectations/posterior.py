r"""Posterior regularization: the distribution nearest to the model's posterior that meets expectations.

.. math:: \min_q KL(q \| p(\cdot | x, known)) \;\text{s.t.}\; low_i - \xi_i \le E_q[\phi_i]/N_i \le high_i + \xi_i,\;
          \|\xi\| \le \varepsilon

Its solution is :math:`q(y) \propto p(y | x, known) \exp(-\sum_i \tau_i \phi_i(y))`, a chain with changed potentials.
With one multiplier :math:`\nu_r \ge 0` a side (high or low of i, in units of shares) the dual to be minimized is
:math:`F(\nu) = b \cdot \nu + \log Z(\nu) + \varepsilon \|\nu\|_*`, convex, its gradient the slack of every side.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.exceptions import InputError
from rulefield.learning.expectations.tilted import TiltedCorpus

NORMS = ("l1", "l2", "linf")

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
    norm : {"linf", "l2", "l1"}
        Norm of the slacks; the multipliers are penalized by its dual norm.
    """

    def __init__(self, tilted: TiltedCorpus, slack: float = 0.0, norm: str = "linf"):
        if norm not in NORMS:
            raise InputError(f"the norm of the slack must be one of {', '.join(NORMS)}; got {norm!r}.")
        self.tilted, self.slack, self.norm = tilted, slack, norm
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

    def penalty(self, nu: np.ndarray) -> float:
        """Return epsilon times the dual norm of the multipliers."""
        if self.slack == 0.0 or not len(nu):
            return 0.0
        dual = {"linf": nu.sum(), "l2": float(np.linalg.norm(nu)), "l1": nu.max()}[self.norm]
        return self.slack * float(dual)

    def minimize(self, start: np.ndarray | None = None, method: str = "lbfgs", tol: float = 1e-9) -> DualResult:
        """Solve the dual from ``start``; ``method`` is ``lbfgs`` or ``proximal`` (the paper's)."""
        nu = np.zeros(self.n_sides) if start is None else start
        if not self.n_sides:
            return DualResult(nu, self.smooth(nu)[0], np.zeros(0), 0)
        solve = self._proximal if method == "proximal" else self._quasi_newton
        nu, steps = solve(nu, tol)
        value, _, shares = self.smooth(nu)
        return DualResult(nu, value + self.penalty(nu), shares, steps)

    # In the variables nu / scale the curvature of every side is near 1: Var(phi) is at most about total / 4, so
    # d2F / d nu2 is about share (1 - share) / total.
    def _scale(self) -> np.ndarray:
        share = np.clip(np.abs(self.bound), 1e-4, 0.5)
        return np.sqrt(self.total[self.index] / (share * (1 - share)))

    def _most(self) -> np.ndarray:
        return MOST_TILT * self.total[self.index]

    def _bounds(self, scale: np.ndarray) -> list[tuple[float, float]]:
        return [(0.0, float(most)) for most in self._most() / scale]

    def _quasi_newton(self, nu: np.ndarray, tol: float) -> tuple[np.ndarray, int]:
        from scipy.optimize import minimize

        scale = self._scale()
        linear = self.slack if self.norm == "linf" else 0.0

        def smooth(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient, _ = self.smooth(x * scale)
            return value + linear * float((x * scale).sum()), (gradient + linear) * scale

        if self.slack == 0.0 or self.norm == "linf":
            options = {"maxiter": 200, "ftol": 1e-15, "gtol": tol, "maxcor": 20}
            bounds = self._bounds(scale)
            done = minimize(smooth, nu / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            return done.x * scale, int(done.nit)
        return self._with_norm(nu, scale, smooth)

    def _with_norm(self, nu: np.ndarray, scale: np.ndarray, smooth: object) -> tuple[np.ndarray, int]:
        """Norms that are not smooth: one more variable t bounds the norm, and pays for it."""
        from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize

        n = len(nu)

        def value(z: np.ndarray) -> tuple[float, np.ndarray]:
            f, g = smooth(z[:n])  # type: ignore[operator]
            return f + self.slack * z[n] * scale.max(), np.append(g, self.slack * scale.max())

        relative = scale / scale.max()
        if self.norm == "l1":  # the dual norm is the largest multiplier
            rows = np.hstack([-np.diag(relative), np.ones((n, 1))])
            constraint: object = LinearConstraint(rows, 0.0, np.inf)
        else:
            constraint = NonlinearConstraint(
                lambda z: z[n] ** 2 - float((relative * z[:n]) @ (relative * z[:n])),
                0.0,
                np.inf,
                jac=lambda z: np.append(-2 * relative**2 * z[:n], 2 * z[n])[None],
            )
        begin = np.append(nu / scale, np.linalg.norm(nu) / scale.max() + 1e-3)
        options = {"maxiter": 300, "ftol": 1e-14}
        limits = [*self._bounds(scale), (0.0, None)]
        done = minimize(
            value, begin, jac=True, method="SLSQP", bounds=limits, constraints=[constraint], options=options
        )
        return np.maximum(done.x[:n], 0.0) * scale, int(done.nit)

    def _proximal(self, nu: np.ndarray, tol: float) -> tuple[np.ndarray, int]:
        """Accelerated proximal gradient with backtracking and restarts (section 4 of the paper, made faster)."""
        step = float(np.min(self._scale()) ** 2)
        ahead, momentum = nu, 1.0
        value, gradient, _ = self.smooth(ahead)
        best = value + self.penalty(nu)
        for iteration in range(1, 3000):
            while True:
                new = self._prox(ahead - step * gradient, step)
                change = new - ahead
                new_value, new_gradient, _ = self.smooth(new)
                if new_value <= value + gradient @ change + (change @ change) / (2 * step) + 1e-12 * abs(value):
                    break
                step *= 0.5
            total = new_value + self.penalty(new)
            if total > best:  # momentum overshot: start it again from the best point
                if momentum == 1.0 or np.array_equal(ahead, nu):
                    return nu, iteration
                ahead, momentum = nu, 1.0
                value, gradient, _ = self.smooth(ahead)
                continue
            done = np.max(np.abs(new - nu) / self._scale()) < tol
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead, nu, momentum, best = new + (momentum - 1) / faster * (new - nu), new, faster, total
            if done:
                return nu, iteration
            value, gradient = (new_value, new_gradient) if np.array_equal(ahead, new) else self.smooth(ahead)[:2]
            step *= 1.2
        return nu, 3000

    def _prox(self, v: np.ndarray, step: float) -> np.ndarray:
        """Proximal operator of step * epsilon * dual norm, on the nonnegative orthant."""
        cut = step * self.slack
        v = np.clip(v, 0.0, self._most())
        if cut == 0.0:
            return v
        if self.norm == "linf":
            return np.maximum(v - cut, 0.0)
        if self.norm == "l2":
            size = float(np.linalg.norm(v))
            return v * max(0.0, 1 - cut / size) if size else v
        return np.minimum(v, _level(v, cut))


def _level(v: np.ndarray, cut: float) -> float:
    """Return the level at which what stands above it sums to ``cut`` (0 if all of ``v`` sums to less)."""
    if v.sum() <= cut:
        return 0.0
    ordered = np.sort(v)[::-1]
    above = np.cumsum(ordered) - cut
    count = np.arange(1, len(v) + 1)
    k = int(np.flatnonzero(ordered - above / count > 0)[-1])
    return float(above[k] / (k + 1))
