"""Expectations in training, for every estimator that takes them: options, compilation, the fit, the report."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.estimators.expectations import GeneralizedExpectation, Keeper, PosteriorRegularization
from rulefield.exceptions import MissedExpectationWarning, RuleError, callers_level
from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.expectations.regularized import (
    ExpectationFit,
    GeneralizedObjective,
    RegularizedObjective,
    minimize_regularized,
)
from rulefield.learning.expectations.tilted import TiltedCorpus
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
class ExpectationOptions:
    """How to fit: the method for expectations, its slack or strength, penalty, limits."""

    method: str
    l2: float
    max_iter: int
    tol: float
    slack: float = 0.0
    strength: float = 0.0


def expectation_options(
    keeper: Keeper | None, l2: float, max_iter: int | None, tol: float | None
) -> ExpectationOptions:
    """Return how to fit: as the keeper of the expectations says."""
    max_iter, tol = max_iter or DEFAULT_ITERATIONS, DEFAULT_TOL if tol is None else tol
    if isinstance(keeper, GeneralizedExpectation):
        return ExpectationOptions("ge", l2=l2, max_iter=max_iter, tol=tol, strength=keeper.strength)
    k = PosteriorRegularization() if keeper is None else keeper
    return ExpectationOptions("pr", l2, max_iter, tol, slack=k.slack)


def compiled_expectations(
    expectations: Sequence[Expectation] | None,
    tasks: Mapping[Any, tuple[Sequence[str], str | None]],
    tokens: Sequence[Sequence[Any]],
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, Expected]:
    """Return the joint states that ``.at_most(0)`` forbids, bool (S,), and all other expectations, compiled.

    Parameters
    ----------
    expectations : list of expectations
    tasks : dict of task to (labels, scheme)
    tokens : list of sequences of tokens
    weight : ndarray, shape (n_sequences,), optional
        Of the sequences: a sequence of weight 2 counts twice in every share.
    """
    check_ranges(expectations or [])
    compiler = ExpectationCompiler(tasks)
    forbidden = np.zeros(int(np.prod(compiler.sizes)), bool)
    kept = []
    for expectation in expectations or []:
        compiled = compiler(expectation, tokens, weight)
        if _forbids(expectation):
            forbidden |= compiled.node[1] > 0
        else:
            kept.append((expectation, compiled))
    return forbidden, kept


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


def fit_with_expectations(
    corpus: JointCorpus,
    expected: Expected,
    start: np.ndarray,
    options: ExpectationOptions,
    show: Callback,
) -> ExpectationFit:
    """Learn from ``start`` by the method that the options name; Ctrl-C keeps the newest weights."""
    o, compiled = options, [c for _, c in expected]
    if o.method == "ge" and compiled:
        return _penalized(GeneralizedObjective(corpus, compiled, o.l2, o.strength), start, o, show)
    return minimize_regularized(_objective(corpus, compiled, o), start, o.max_iter, o.tol, show)


def _objective(
    corpus: JointCorpus, compiled: list[CompiledExpectation], o: ExpectationOptions
) -> RegularizedObjective:
    return RegularizedObjective(corpus, compiled, o.l2, o.slack, DUAL_TOL)


def _penalized(
    objective: GeneralizedObjective, start: np.ndarray, options: ExpectationOptions, show: Callback
) -> ExpectationFit:
    """Minimize by L-BFGS."""
    n_jobs = objective.tilted.corpus.n_jobs
    done = minimize_lbfgs(objective, start, options.max_iter, options.tol, show, n_jobs=n_jobs)
    return ExpectationFit.of(done, np.zeros(0), objective.shares)


def expectation_reports(
    corpus: JointCorpus, expected: Expected, outcome: ExpectationFit, options: ExpectationOptions
) -> list[ExpectationReport]:
    """How every expectation fared on the training corpus: under q, under the model, in predictions."""
    if not expected:
        return []
    compiled = [c for _, c in expected]
    tilted = TiltedCorpus(corpus, compiled)
    tilted.set_theta(outcome.theta, clamp=False)
    _, model = tilted.evaluate(np.zeros(len(expected)))
    best = tilted.best_shares()
    if options.method == "ge":
        under_q, multipliers = model, np.zeros(len(expected))
    else:
        under_q, multipliers = outcome.shares, _objective(corpus, compiled, options).posterior.tau(outcome.nu)
    return [
        ExpectationReport(e.label, e.low, e.high, float(q), float(p), float(t), float(b))
        for (e, _), q, p, t, b in zip(expected, under_q, model, multipliers, best)
    ]


def warn_of_missed(reports: Sequence[ExpectationReport], options: ExpectationOptions) -> None:
    """Warn if q does not meet an expectation: what is known, or another expectation, contradicts it."""
    if options.method == "ge":
        return
    for report in reports:
        if not report.low - options.slack - MISSED <= report.under_q <= report.high + options.slack + MISSED:
            warnings.warn(
                f"{report.expectation} could not be met: it is {report.under_q:.4g} in training; the known labels, or "
                "the other expectations, contradict it.",
                MissedExpectationWarning,
                stacklevel=callers_level(),
            )
