"""Expectations in training, for every estimator that takes them: compilation, the fit, the report."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rulefield.estimators.expectations import Keeper, PosteriorRegularization
from rulefield.exceptions import MissedExpectationWarning, RuleError, callers_level
from rulefield.learning.expectations.corpus import JointCorpus, TiltedCorpus
from rulefield.learning.expectations.regularized import (
    ExpectationFit,
    GeneralizedObjective,
    RegularizedObjective,
    minimize_regularized,
)
from rulefield.learning.fit_log import Callback
from rulefield.learning.lbfgs import minimize_lbfgs
from rulefield.problem.expectation import CompiledExpectation
from rulefield.rules.expectations import Expectation, ExpectationCompiler, Share

Expected = list[tuple[Expectation, CompiledExpectation]]
"""Expectations as they were written, and compiled for a corpus."""

MISSED = 1e-3
"""By how much, beyond the slack, an expectation may be missed before it is worth a warning."""

DUAL_TOL = 1e-4
"""How well an expectation is met under q, in standard errors; the dual then is at most about its square too high."""

DEFAULT_ITERATIONS, DEFAULT_TOL = 1_000, 1e-4
"""Most iterations of a fit, and by which share of itself the objective must fall in ten of them for the fit to go on."""


@dataclass(frozen=True)
class ExpectationReport:
    """How an expectation fared on the training corpus.

    Its range; its value under q, under the model, and in the model's best labelings; its multiplier, of one unit:
    positive if the upper end binds, negative if the lower end does, 0 if the expectation holds by itself.
    """

    expectation: str
    low: float
    high: float
    under_q: float
    under_model: float
    multiplier: float
    predicted: float = float("nan")

    @property
    def binds(self) -> bool:
        """Whether the expectation changed anything."""
        return self.multiplier != 0.0


@dataclass(frozen=True)
class ExpectationTraining:
    """What should hold on average while a model is trained, compiled for its corpus, and how to fit.

    Parameters
    ----------
    expected : list of (Expectation, CompiledExpectation)
    forbidden : ndarray of bool, shape (S,)
        Joint states that ``.at_most(0)`` forbids.
    keeper : PosteriorRegularization or GeneralizedExpectation
    l2, max_iter, tol
    """

    expected: Expected
    forbidden: np.ndarray
    keeper: Keeper
    l2: float
    max_iter: int
    tol: float

    @classmethod
    def of(
        cls,
        keeper: Keeper | None,
        tasks: Mapping[Any, tuple[Sequence[str], str | None]],
        tokens: Sequence[Sequence[Any]],
        weight: np.ndarray | None,
        *,
        l2: float,
        max_iter: int | None,
        tol: float | None,
    ) -> Self:
        """Compile the expectations of a keeper (None: there are none).

        Parameters
        ----------
        tasks : dict of task to (labels, scheme)
        tokens : list of sequences of tokens
        weight : ndarray, shape (n_sequences,), optional
            Of the sequences: a sequence of weight 2 counts twice in every share.
        """
        keeper = PosteriorRegularization() if keeper is None else keeper
        expectations = list(keeper.expectations or [])
        check_ranges(expectations)
        compiler = ExpectationCompiler(tasks)
        forbidden = np.zeros(int(np.prod(compiler.sizes)), bool)
        kept = []
        for expectation in expectations:
            compiled = compiler(expectation, tokens, weight)
            if _forbids(expectation):
                forbidden |= compiled.node[1] > 0
            else:
                kept.append((expectation, compiled))
        return cls(kept, forbidden, keeper, l2, max_iter or DEFAULT_ITERATIONS, DEFAULT_TOL if tol is None else tol)

    @property
    def slack(self) -> float:
        """How far each expectation may be missed under q."""
        return self.keeper.slack if isinstance(self.keeper, PosteriorRegularization) else 0.0

    def fit(self, corpus: JointCorpus, start: np.ndarray, show: Callback) -> ExpectationFit:
        """Learn from ``start`` by the method of the keeper; Ctrl-C keeps the newest weights."""
        if isinstance(self.keeper, PosteriorRegularization) or not self.expected:
            return minimize_regularized(self._regularized(corpus), start, self.max_iter, self.tol, show)
        objective = GeneralizedObjective(corpus, self._compiled, self.l2, self.keeper.strength)
        done = minimize_lbfgs(objective, start, self.max_iter, self.tol, show, n_jobs=corpus.n_jobs)
        return ExpectationFit.of(done, np.zeros(0), objective.shares)

    def reports(self, corpus: JointCorpus, fit: ExpectationFit) -> list[ExpectationReport]:
        """How every expectation fared on the training corpus: under q, under the model, in predictions."""
        if not self.expected:
            return []
        tilted = TiltedCorpus(corpus, self._compiled)
        tilted.set_theta(fit.theta, clamp=False)
        _, model = tilted.evaluate(np.zeros(len(self.expected)))
        under_q, multipliers = model, np.zeros(len(self.expected))
        if isinstance(self.keeper, PosteriorRegularization):
            under_q, multipliers = fit.shares, self._regularized(corpus).posterior.tau(fit.nu)
        return [
            ExpectationReport(e.label, e.low, e.high, float(q), float(p), float(t), float(b))
            for (e, _), q, p, t, b in zip(self.expected, under_q, model, multipliers, tilted.best_shares())
        ]

    def warn_of_missed(self, reports: Sequence[ExpectationReport]) -> None:
        """Warn if q does not meet an expectation: what is known, or another expectation, contradicts it."""
        if not isinstance(self.keeper, PosteriorRegularization):
            return
        for report in reports:
            if not report.low - self.slack - MISSED <= report.under_q <= report.high + self.slack + MISSED:
                warnings.warn(
                    f"{report.expectation} could not be met: it is {report.under_q:.4g} in training; the known labels, or "
                    "the other expectations, contradict it.",
                    MissedExpectationWarning,
                    stacklevel=callers_level(),
                )

    @property
    def _compiled(self) -> list[CompiledExpectation]:
        return [compiled for _, compiled in self.expected]

    def _regularized(self, corpus: JointCorpus) -> RegularizedObjective:
        return RegularizedObjective(corpus, self._compiled, self.l2, self.slack, DUAL_TOL)


def check_ranges(expectations: Sequence[Expectation]) -> None:
    """Refuse shares that cannot be shares, and ranges of one quantity that have nothing in common."""
    tightest: dict[str, tuple[Expectation, Expectation]] = {}
    for e in expectations:
        if not isinstance(e, Expectation):
            continue
        if isinstance(e.quantity, Share) and not (e.low <= 1 and e.high >= 0):
            raise RuleError(f"{e.label}: a share lies between 0 and 1, so this can never hold; correct its range.")
        low, high = tightest.get(repr(e.quantity), (e, e))
        low, high = max(low, e, key=lambda x: x.low), min(high, e, key=lambda x: x.high)
        if low.low > high.high:
            raise RuleError(f"{low.label} and {high.label} contradict each other; widen one of them.")
        tightest[repr(e.quantity)] = low, high


def _forbids(expectation: Expectation) -> bool:
    quantity = expectation.quantity
    return (
        expectation.high == 0
        and isinstance(quantity, Share)
        and quantity.after is None
        and quantity.given is None
    )  # fmt: skip
