"""Fitting a chain: which learner runs, what is logged, when it stops."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.estimators.chain.options import ChainOptions
from rulefield.estimators.progress import Progress
from rulefield.exceptions import InputError
from rulefield.learning.chain.fit import fit_likelihood
from rulefield.learning.chain.frank_wolfe import FrankWolfe
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.perceptron import AveragedPerceptron
from rulefield.learning.chain.stochastic import StochasticLikelihood
from rulefield.learning.fit_log import Record
from rulefield.learning.lbfgs import minimise_lbfgs
from rulefield.learning.owlqn import minimise_owlqn
from rulefield.models.chain import ChainModel
from rulefield.problem.chain_rules import CompiledRule

if TYPE_CHECKING:
    from rulefield.estimators.chain.expectations import ChainExpectations
    from rulefield.estimators.expectation_training import ExpectationReport
    from rulefield.learning.chain.under_rules import RuledLikelihood

DEFAULT_ITERATIONS = {"lbfgs": 1000, "sgd": 30, "perceptron": 20, "ssvm": 50}


@dataclass(frozen=True)
class TrainingRules:
    """Rules to train under: compiled for each sequence, and their names."""

    compiled: list[tuple[CompiledRule, ...]]
    names: list[str]


@dataclass(frozen=True)
class Training:
    """One fit: structure, data, and where it begins."""

    model: ChainModel
    data: Sequences
    labels: Labels
    weight: np.ndarray | None
    start: np.ndarray | None
    seed: int
    begun: float
    one_pass: bool = False
    rules: TrainingRules | None = None
    expectations: "ChainExpectations | None" = None


@dataclass(frozen=True)
class FitRecord:
    """One iteration (or epoch) of a fit.

    ``objective`` is what the learner minimises (for the perceptron: tokens labelled wrongly on the way), ``seconds``
    count from the beginning of ``fit``, ``dev_score`` is the span F1 on held-out data where that is watched.
    """

    iteration: int
    objective: float
    gradient_norm: float
    seconds: float
    dev_score: float | None = None


@dataclass
class Outcome:
    """What a fit leaves behind."""

    theta: np.ndarray
    log: list[FitRecord] = field(default_factory=list)
    converged: bool = False
    interrupted: bool = False
    message: str = ""
    reports: list["ExpectationReport"] = field(default_factory=list)

    @property
    def n_iter(self) -> int:
        """Iterations done."""
        return len(self.log)


class _Stop(Exception):  # noqa: N818 (not an error)
    """Raised inside a learner when held-out data says that it is enough."""


class Monitor:
    """Watches a fit: writes the log, shows progress, keeps the best model on held-out data, says when to stop."""

    def __init__(
        self, begun: float, dev: Callable[[np.ndarray], float] | None, patience: int | None, progress: Progress
    ):
        self.begun, self.dev, self.patience, self.progress = begun, dev, patience, progress
        self.log: list[FitRecord] = []
        self.newest: np.ndarray | None = None
        self.best: tuple[float, np.ndarray] | None = None
        self.waited = 0

    def __call__(self, objective: float, gradient_norm: float, theta: np.ndarray) -> None:
        """Take note of an iteration; raises where the fit should stop."""
        self.newest = theta
        score = None if self.dev is None else self.dev(theta)
        record = FitRecord(len(self.log), objective, gradient_norm, perf_counter() - self.begun, score)
        self.log.append(record)
        if score is not None:
            self._judge(score, theta)
        self.progress.update(record, score)

    def _judge(self, score: float, theta: np.ndarray) -> None:
        if self.best is None or score > self.best[0]:
            self.best, self.waited = (score, theta.copy()), 0
            return
        self.waited += 1
        if self.patience is not None and self.waited >= self.patience:
            raise _Stop

    def outcome(self, theta: np.ndarray, converged: bool, message: str, interrupted: bool = False) -> Outcome:
        """Return the result of the fit: the best model on held-out data where there is some."""
        chosen = theta if self.best is None else self.best[1]
        return Outcome(chosen, self.log, converged, interrupted, message)


def train_chain(
    training: Training, options: ChainOptions, dev: Callable[[np.ndarray], float] | None, verbose: int
) -> Outcome:
    """Run the learner that the options name; Ctrl-C keeps the newest (or best on held-out data) weights."""
    algorithm = "sgd" if training.one_pass and options.algorithm == "lbfgs" else options.algorithm
    if training.labels.is_partial and algorithm in ("perceptron", "ssvm"):
        raise InputError(f"algorithm={algorithm!r} needs every label; unknown labels (None, sets) need lbfgs or sgd.")
    run = {"lbfgs": _likelihood, "sgd": _stochastic, "perceptron": _perceptron, "ssvm": _margin}[algorithm]
    limit = options.max_iter or (1 if training.one_pass else DEFAULT_ITERATIONS[algorithm])
    with Progress(f"fitting ({algorithm})", bool(verbose)) as progress:
        monitor = Monitor(training.begun, dev, options.patience, progress)
        try:
            theta, converged, message = run(training, options, limit, monitor)
            return monitor.outcome(theta, converged, message)
        except _Stop:
            assert monitor.newest is not None
            return monitor.outcome(monitor.newest, True, "held-out score stopped improving")
        except KeyboardInterrupt:
            if monitor.newest is None:
                raise
            return monitor.outcome(monitor.newest, False, "interrupted", interrupted=True)


def _start(training: Training) -> np.ndarray:
    return training.model.zeros() if training.start is None else training.start


def _likelihood(
    training: Training, options: ChainOptions, limit: int, monitor: Monitor
) -> tuple[np.ndarray, bool, str]:
    objective = _objective(training, options)

    def note(record: Record, theta: np.ndarray) -> None:
        monitor(record.objective, record.gradient_norm, theta)

    how: dict[str, Any] = {"max_iter": limit, "tol": options.tol, "callback": note, "n_jobs": options.n_jobs}
    if isinstance(objective, ChainLikelihood):
        done = fit_likelihood(objective, training.start, l1=options.l1, seed=training.seed, **how)
    elif options.l1 > 0:
        done = minimise_owlqn(objective, _start(training), options.l1, **how)
    else:
        done = minimise_lbfgs(objective, _start(training), **how)
    if done.interrupted:
        monitor.newest = done.theta
        raise KeyboardInterrupt
    return done.theta, done.converged, done.message


def _objective(training: Training, options: ChainOptions) -> "ChainLikelihood | RuledLikelihood":
    data = (training.model, training.data, training.labels)
    how: dict[str, Any] = {"l2": options.l2, "sample_weight": training.weight, "n_jobs": options.n_jobs}
    if training.rules is None:
        return ChainLikelihood(*data, **how)
    if training.labels.is_partial:
        raise InputError("train_with_rules needs every label; leave sequences with unknown labels out.")
    from rulefield.learning.chain.under_rules import RuledLikelihood

    names = training.rules.names
    return RuledLikelihood(*data, training.rules.compiled, lambda r: names[r], **how)


def _stochastic(
    training: Training, options: ChainOptions, limit: int, monitor: Monitor
) -> tuple[np.ndarray, bool, str]:
    learner = StochasticLikelihood(
        training.model,
        training.data,
        training.labels,
        l2=options.l2,
        sample_weight=training.weight,
        seed=training.seed,
        start=training.start,
    )
    for _ in range(limit):
        loss = learner.epoch()
        monitor(loss, float("nan"), learner.theta)
        if _settled(monitor.log, options.tol):
            return learner.theta, True, "objective stopped improving"
    return learner.theta, False, f"{limit} epochs done"


def _perceptron(
    training: Training, options: ChainOptions, limit: int, monitor: Monitor
) -> tuple[np.ndarray, bool, str]:
    learner = AveragedPerceptron(
        training.model,
        training.data,
        training.labels,
        sample_weight=training.weight,
        seed=training.seed,
        start=training.start,
    )
    for _ in range(limit):
        mistakes = learner.epoch()
        monitor(float(mistakes), float("nan"), learner.theta)
        if mistakes == 0:
            return learner.theta, True, "no mistake in an epoch"
    return learner.theta, False, f"{limit} epochs done"


def _margin(training: Training, options: ChainOptions, limit: int, monitor: Monitor) -> tuple[np.ndarray, bool, str]:
    learner = FrankWolfe(
        training.model,
        training.data,
        training.labels,
        l2=options.l2,
        max_iter=limit,
        sample_weight=training.weight,
        seed=training.seed,
    )
    for _ in range(limit):
        gap = learner.epoch()
        certificate = learner.certify()
        monitor(certificate.primal, gap, learner.theta)
        if certificate.gap <= max(options.tol, 1e-3) * abs(certificate.primal):
            return learner.theta, True, f"duality gap {certificate.gap:.3g}"
    return learner.theta, False, f"{limit} epochs done, duality gap {certificate.gap:.3g}"


def _settled(log: list[FitRecord], tol: float, period: int = 3) -> bool:
    if len(log) <= period:
        return False
    before, now = log[-1 - period].objective, log[-1].objective
    return before - now <= 100 * tol * abs(now)
