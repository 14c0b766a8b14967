"""Fitting a chain: which learner runs, what is logged, when it stops."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.estimators.chain.options import ChainOptions
from rulefield.estimators.progress import ProgressLine
from rulefield.exceptions import InputError
from rulefield.learning.chain.fit import fit_likelihood
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.stochastic import StochasticLikelihood, Stream
from rulefield.learning.fit_log import Ending, FitRecord, FitResult, run_passes
from rulefield.learning.lbfgs import minimize_lbfgs
from rulefield.learning.owlqn import minimize_owlqn
from rulefield.models.chain import ChainModel
from rulefield.models.chain_structure import label_masks
from rulefield.problem.chain_rules import CompiledRule

if TYPE_CHECKING:
    from rulefield.estimators.chain.expectations import ChainExpectations
    from rulefield.learning.chain.under_rules import RuledLikelihood

DEFAULT_ITERATIONS = {"lbfgs": 1000, "sgd": 100}
DEFAULT_TOL = {"lbfgs": 1e-5, "sgd": 1e-2}
"""Stochastic steps reach in reasonable time what is coarser than what L-BFGS does."""


@dataclass(frozen=True)
class TrainingRules:
    """Rules to train under: compiled for each sequence, and their names."""

    compiled: list[tuple[CompiledRule, ...]]
    names: list[str]


@dataclass
class ChainTraining:
    """One fit: structure, data, and where it begins."""

    model: ChainModel
    data: Sequences
    labels: Labels
    weight: np.ndarray | None
    start: np.ndarray | None
    seed: int
    begun: float
    rules: TrainingRules | None = None
    expectations: "ChainExpectations | None" = None

    def handed_over(self) -> Sequences:
        """Give the data away: a learner that lays them out otherwise is the last who needs them."""
        data = self.data
        del self.data
        return data


def check_scores(data: Sequences, labels: Labels, expectations: bool = False) -> None:
    """Refuse scores from elsewhere that a learner cannot use, or that forbid the labels of a token."""
    if data.scores is None:
        return
    if expectations:
        raise InputError("scores from elsewhere (rf.Scored) do not go with expectations; leave one of them out.")
    open_labels = np.where(label_masks(labels), data.scores, -np.inf)
    if len(open_labels) and (open_labels.max(axis=1) == -np.inf).any():
        token = int(np.flatnonzero(open_labels.max(axis=1) == -np.inf)[0])
        sequence = int(np.searchsorted(data.offsets, token, side="right")) - 1
        raise InputError(
            f"the scores of sequence {sequence} forbid (-inf) the label of token {token - int(data.offsets[sequence])}; "
            "give it a finite score."
        )


class Monitor:
    """Watches a fit: shows progress, keeps the best model on held-out data and says when to stop.

    Parameters
    ----------
    begun : float
        When ``fit`` was called, by ``perf_counter``.
    dev : callable or None
        Score of weights on held-out data.
    patience : int or None
        Iterations without a better score after which the fit stops.
    progress : ProgressLine
    """

    def __init__(
        self, begun: float, dev: Callable[[np.ndarray], float] | None, patience: int | None, progress: ProgressLine
    ):
        self.begun, self.dev, self.patience, self.progress = begun, dev, patience, progress
        self.seen: list[tuple[float, float | None]] = []
        self.best: tuple[float, np.ndarray] | None = None
        self.waited = 0

    def __call__(self, record: FitRecord, theta: np.ndarray) -> bool:
        """Take note of an iteration; whether the fit should stop."""
        score = None if self.dev is None else self.dev(theta)
        self.seen.append((perf_counter() - self.begun, score))
        self.progress.update(record, score)
        return score is not None and self._enough(score, theta)

    def _enough(self, score: float, theta: np.ndarray) -> bool:
        if self.best is None or score > self.best[0]:
            self.best, self.waited = (score, theta.copy()), 0
            return False
        self.waited += 1
        return self.patience is not None and self.waited >= self.patience

    def result(self, done: FitResult) -> FitResult:
        """``done`` with scores and seconds since ``fit`` was called; the best model on held-out data, if there is some."""
        log = tuple(replace(r, seconds=t, dev_score=score) for r, (t, score) in zip(done.log, self.seen))
        theta = done.theta if self.best is None else self.best[1]
        message = done.message
        if done.ending is Ending.stopped:
            message = f"The held-out score has not improved for {self.waited} iterations."
        return replace(done, theta=theta, log=log, message=message)


def train_chain(
    training: ChainTraining, options: ChainOptions, dev: Callable[[np.ndarray], float] | None, verbose: int
) -> FitResult:
    """Maximize the likelihood by the solver of the options; Ctrl-C keeps the newest (or best on held-out data) weights."""
    limit = options.max_iter or DEFAULT_ITERATIONS[options.solver]
    tol = DEFAULT_TOL[options.solver] if options.tol is None else options.tol
    with ProgressLine(f"fitting ({options.solver})", bool(verbose)) as progress:
        monitor = Monitor(training.begun, dev, options.patience, progress)
        if options.solver == "lbfgs":
            return monitor.result(_minimized(training, options, limit, tol, monitor))
        walk = StochasticLikelihood(_likelihood(training, options), seed=training.seed, start=training.start)
        return monitor.result(run_passes(walk, limit, tol, monitor))


def continue_chain(
    training: ChainTraining, options: ChainOptions, stream: Stream, verbose: int
) -> tuple[FitResult, Stream, float]:
    """Go on with one batch more, by stochastic steps.

    Returns the result, where the stream stands, and what is left of weights that the batch does not touch.
    """
    limit = options.max_iter or 1
    with ProgressLine("fitting a batch", bool(verbose)) as progress:
        monitor = Monitor(training.begun, None, None, progress)
        walk = StochasticLikelihood(
            _likelihood(training, options), seed=training.seed, start=training.start, average=False, stream=stream
        )
        done = run_passes(walk, limit, -np.inf, monitor, fixed=True)
        return monitor.result(done), walk.stream, walk.shrunk


def _minimized(training: ChainTraining, options: ChainOptions, limit: int, tol: float, monitor: Monitor) -> FitResult:
    objective = _objective(training, options)
    how: dict[str, Any] = {"max_iter": limit, "tol": tol, "callback": monitor, "n_jobs": options.n_jobs}
    if isinstance(objective, ChainLikelihood):
        return fit_likelihood(objective, training.start, l1=options.l1, seed=training.seed, **how)
    start = training.model.zeros() if training.start is None else training.start
    if options.l1 > 0:
        return minimize_owlqn(objective, start, options.l1, **how)
    return minimize_lbfgs(objective, start, **how)


def _objective(training: ChainTraining, options: ChainOptions) -> "ChainLikelihood | RuledLikelihood":
    how: dict[str, Any] = {"l2": options.l2, "sample_weight": training.weight, "n_jobs": options.n_jobs}
    if training.rules is None:
        return ChainLikelihood(training.model, training.handed_over(), training.labels, **how)
    if training.labels.is_partial:
        raise InputError("train_with_rules needs every label; leave sequences with unknown labels out.")
    from rulefield.learning.chain.under_rules import RuledLikelihood

    names = training.rules.names
    data = (training.model, training.data, training.labels)
    return RuledLikelihood(*data, training.rules.compiled, lambda r: names[r], **how)


def _likelihood(training: ChainTraining, options: ChainOptions) -> ChainLikelihood:
    data = training.handed_over()
    return ChainLikelihood(training.model, data, training.labels, l2=options.l2, sample_weight=training.weight)
