"""How a chain learns from sequences in memory: encode, choose which weights there are, maximize the likelihood, keep it."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import check_possible
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, is_stream, tokens_and_labels, tokens_of
from rulefield.estimators.parameters import check_parameters, rule_list
from rulefield.estimators.progress import ProgressLine
from rulefield.estimators.sequences import (
    check_some_tokens,
    checked_weights,
    label_lists,
    label_names,
    numbers_of,
    object_array,
    places_of,
)
from rulefield.estimators.types import ArrayLike, LabelsLike, SequencesLike
from rulefield.exceptions import InputError, InterruptedFitWarning, callers_level
from rulefield.learning.chain.fit import fit_likelihood
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.parts import CorpusLikelihood
from rulefield.learning.chain.penalties import AUTO, USUAL_L1, USUAL_L2, Build, Penalties, choose_penalties
from rulefield.learning.chain.stochastic import StochasticLikelihood, Stream
from rulefield.learning.expectations.initial_label import presumed
from rulefield.learning.fit_log import Ending, FitRecord, FitResult, run_passes
from rulefield.learning.owlqn import minimize_owlqn
from rulefield.metrics import span_f1
from rulefield.models.chain import ChainModel
from rulefield.models.chain_structure import label_masks
from rulefield.models.chain_transfer import transfer, union
from rulefield.parallel import n_threads
from rulefield.scikit import check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF
    from rulefield.estimators.chain.expectations import ChainExpectations

DEFAULT_ITERATIONS = {"lbfgs": 1000, "sgd": 100}
DEFAULT_TOL = {"lbfgs": 1e-5, "sgd": 1e-2}
CHOSEN_L1_TOL = 1e-3
"""Where the fit with a chosen l1 ends: labels settle long before weights near zero do."""
"""Stochastic steps reach in reasonable time what is coarser than what L-BFGS does."""
START_ITERATIONS, PRESUMED_ITERATIONS = 40, 100
LEAST_L2 = 1e-3
"""Penalty of a start if the model itself has none: weights of a start must be finite."""

Score = Callable[[np.ndarray], float]
"""Score of weights on held-out data."""


@dataclass
class Training:
    """What a fit works on: the structure, the data, and where it begins."""

    model: ChainModel
    data: Sequences
    labels: Labels
    weight: np.ndarray | None
    start: np.ndarray | None
    penalties: Penalties
    seed: int
    n_jobs: int

    def likelihood(self) -> ChainLikelihood:
        """Return the likelihood of the data; our reference to them is released, because the likelihood packs a copy."""
        data = self.data
        del self.data
        how: dict[str, Any] = {"sample_weight": self.weight, "n_jobs": self.n_jobs}
        return ChainLikelihood(self.model, data, self.labels, l2=self.penalties.l2, **how)

    def learned_start(self, labels: Labels, max_iter: int, tol: float) -> np.ndarray:
        """Return weights learned as if ``labels`` were known: where the search for the true labels begins."""
        how: dict[str, Any] = {"sample_weight": self.weight, "n_jobs": self.n_jobs}
        likelihood = ChainLikelihood(self.model, self.data, labels, l2=max(self.penalties.l2, LEAST_L2), **how)
        done = fit_likelihood(likelihood, max_iter=max_iter, tol=tol, n_jobs=self.n_jobs, seed=self.seed)
        if done.interrupted:
            raise KeyboardInterrupt
        return done.theta


def fit_rows(
    crf: "ChainCRF",
    X: SequencesLike,
    y: LabelsLike | None,
    sample_weight: ArrayLike | None,
    X_dev: SequencesLike | None,
    y_dev: LabelsLike | None,
) -> None:
    """Fit a chain to sequences and labels in memory."""
    begun, penalties = perf_counter(), checked_penalties(crf)
    X, y = tokens_and_labels(X, y)
    if not _reads_once(crf, X, X_dev):
        X, y = as_list(X), as_list(y)
        check_some_tokens(X)
    names = None if is_stream(X) else label_names(y, crf.initial_label, X)
    if crf.early_stopping is not None and X_dev is None:
        X, y, sample_weight, X_dev, y_dev = _hold_out(crf, X, y, checked_weights(sample_weight, len(y)))
    encoder = InputEncoder(copy.deepcopy(crf.features), None if names is None else names.classes_)
    data = encoder.fit_transform(X)
    check_some_tokens(data)
    y = as_list(y)
    names = names or label_names(y, crf.initial_label)
    labels = encode_labels(names, y, data)
    check_scores(data, labels, bool(crf.expectations))
    weight = checked_weights(sample_weight, len(data))
    expected = _expected(crf, penalties, names, X, data, labels, weight)
    build = partial(build_model, crf, names.classes_, encoder, expected)
    penalties = _chosen_penalties(crf, penalties, build, data, labels, weight)
    model = build(data, labels)
    guess = labels if crf.initial_label is None else _presumed(crf, labels, names, model)
    if guess is not labels:
        model = union(model, build(data, guess))
    start = warm_weights(crf, model, encoder, names.classes_) if crf.warm_start else None
    training = Training(model, data, labels, weight, start, penalties, seed_of(crf), n_threads(crf.n_jobs))
    del data  # what training lays out otherwise need not stay
    if guess is not labels and start is None:
        training.start = training.learned_start(guess, PRESUMED_ITERATIONS, 1e-4)
    dev = dev_scorer(crf, X_dev, y_dev, encoder, names, model)
    reports: list[Any] = []
    with Monitor(crf, begun, dev) as monitor:
        if expected is not None:
            done, reports = expected.train(training, monitor)
        elif crf.train_with_rules and rule_list(crf.rules):
            done = _maximized_under_rules(crf, training, X, names, monitor)
        else:
            done = maximized(crf, training.likelihood(), training.start, penalties, monitor)
    crf._stream = Stream(len(labels), float(len(labels)))
    keep_fit(crf, model, monitor.result(done), penalties, encoder, names, reports)


def checked_penalties(crf: "ChainCRF") -> Penalties:
    """Check the parameters, each by itself and together; return the penalties, usual ones for those to be chosen."""
    check_parameters(crf)
    if AUTO in (crf.l1, crf.l2) and crf.expectations:
        raise InputError("l1 and l2 'auto' are chosen by labels held out, not by expectations; give numbers.")
    if crf.solver != "lbfgs" and crf.l1 != AUTO and crf.l1 > 0:
        raise InputError(f"l1 = {crf.l1} needs solver='lbfgs'; {crf.solver} has no L1 penalty.")
    return Penalties(
        USUAL_L1 if crf.l1 == AUTO else float(crf.l1),
        USUAL_L2 if crf.l2 == AUTO else float(crf.l2),
    )


def _reads_once(crf: "ChainCRF", X: SequencesLike, X_dev: SequencesLike | None) -> bool:
    """Whether ``X`` is an iterator, and nothing but its features is needed."""
    again = crf.expectations or crf.train_with_rules or (crf.early_stopping is not None and X_dev is None)
    return is_stream(X) and not again


def _hold_out(
    crf: "ChainCRF", X: SequencesLike, y: LabelsLike, weight: np.ndarray | None
) -> tuple[Any, Any, np.ndarray | None, Any, Any]:
    """Set ``validation_fraction`` of the sequences aside, at random by ``random_state``."""
    if not 0 < crf.validation_fraction < 1 or len(y) < 2:
        raise InputError(
            f"early_stopping needs held-out data: give X_dev and y_dev, or a validation_fraction between 0 and 1 "
            f"(got {crf.validation_fraction!r}) of at least two sequences (got {len(y)})."
        )
    order = np.random.default_rng(seed_of(crf)).permutation(len(y))
    n_dev = min(max(1, round(crf.validation_fraction * len(y))), len(y) - 1)
    dev, rest = np.sort(order[:n_dev]), np.sort(order[n_dev:])

    def pick(rows: Any, which: np.ndarray) -> Any:
        return rows[which] if isinstance(rows, (Sequences, np.ndarray)) else [rows[i] for i in which]

    kept = None if weight is None else weight[rest]
    return pick(X, rest), pick(y, rest), kept, pick(X, dev), pick(y, dev)


def encode_labels(names: LabelEncoder, y: LabelsLike, data: Sequences) -> Labels:
    """Return labels by number; refuse empty sequences."""
    if len(data.empty):
        raise InputError(f"sequence {int(data.empty[0])} of X has no tokens; leave empty sequences out of fit.")
    return names.encode(y, data.lengths)


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


# --- which weights there are ----------------------------------------------------------------------


def _expected(
    crf: "ChainCRF",
    penalties: Penalties,
    names: LabelEncoder,
    X: SequencesLike,
    data: Sequences,
    labels: Labels,
    weight: np.ndarray | None,
) -> "ChainExpectations | None":
    """Return the compiled expectations, or None; rules, which they are written in, are only loaded for them."""
    if not crf.expectations:
        return None
    from rulefield.estimators.chain.expectations import chain_expectations

    expected = chain_expectations(crf, penalties, names, [tokens_of(X, i) for i in range(len(data))], weight)
    if expected is not None:
        expected.check_labels(labels, names.classes_, weight)
    return expected


def _chosen_penalties(
    crf: "ChainCRF",
    penalties: Penalties,
    build: Build,
    data: Sequences,
    labels: Labels,
    weight: np.ndarray | None,
) -> Penalties:
    """Return penalties, of which those that were ``"auto"`` are chosen on held-out sequences."""
    if AUTO not in (crf.l1, crf.l2):
        return penalties
    l1 = crf.l1 if crf.solver == "lbfgs" else penalties.l1
    chosen = choose_penalties(
        build, data, labels, weight, l1, crf.l2, seed=seed_of(crf), n_jobs=n_threads(crf.n_jobs)
    )
    if chosen.interrupted:
        warnings.warn(
            f"{type(crf).__name__}: interrupted while penalties were chosen; the fit goes on with the best so far, l1 "
            f"{chosen.l1:g} and l2 {chosen.l2:g}. Ctrl-C again ends it and keeps its model.",
            InterruptedFitWarning,
            stacklevel=callers_level(),
        )
    return chosen


def build_model(
    crf: "ChainCRF",
    classes: list[Any],
    encoder: InputEncoder,
    expected: "ChainExpectations | None",
    data: Sequences,
    labels: Labels,
    columns: np.ndarray | None = None,
) -> ChainModel:
    """Return the weights that the data, the parameters and the expectations ask for."""
    allowed = allowed_transitions([str(c) for c in classes], crf.scheme)
    if expected is not None:
        allowed = expected.without_forbidden(allowed)
    check_possible(labels, [str(c) for c in classes], crf.scheme, allowed)
    numbers = numbers_of(crf.transition_features, encoder)
    if numbers is not None and columns is not None:
        numbers = np.flatnonzero(np.isin(columns, numbers))
    return ChainModel.build(data, labels, allowed=allowed, transition_features=numbers, **structure_of(crf))


def structure_of(crf: "ChainCRF") -> dict[str, Any]:
    """Return the parameters that say which weights there are."""
    structure = {name: getattr(crf, name) for name in ("all_states", "all_transitions", "start_end")}
    return structure | {"min_count": max(1, crf.min_count)}


def _presumed(crf: "ChainCRF", labels: Labels, names: LabelEncoder, model: ChainModel) -> Labels:
    masks = model.allowed, model.allowed_start, model.allowed_end
    return presumed(labels, list(names.classes_).index(crf.initial_label), masks)


def warm_weights(crf: "ChainCRF", model: ChainModel, encoder: InputEncoder, classes: list[Any]) -> np.ndarray | None:
    """Return weights to begin from: those of the last fit, by name; None if there is none."""
    if not crf.__sklearn_is_fitted__():
        return None
    feature = places_of(crf._encoder.names, encoder.names)
    return transfer(crf.theta_, crf.model_, model, feature, places_of(crf.classes_, classes))


# --- the search for the weights -------------------------------------------------------------------


class Monitor(ProgressLine):
    """Watches the fit of a chain: shows progress, keeps the best model on held-out data and says when to stop.

    Parameters
    ----------
    crf : ChainCRF
    begun : float
        When ``fit`` was called, by ``perf_counter``.
    dev : callable or None
        Score of weights on held-out data.
    """

    def __init__(self, crf: "ChainCRF", begun: float, dev: Score | None = None):
        super().__init__(f"fitting ({crf.solver})", bool(crf.verbose))
        self.called, self.dev, self.patience = begun, dev, crf.early_stopping
        self.seen: list[tuple[float, float | None]] = []
        self.best: tuple[float, np.ndarray] | None = None
        self.waited = 0

    def __call__(self, record: FitRecord, theta: np.ndarray) -> bool:
        """Take note of an iteration; whether the fit should stop."""
        score = None if self.dev is None else self.dev(theta)
        self.seen.append((perf_counter() - self.called, score))
        self.update(record, score)
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


def maximized(
    crf: "ChainCRF",
    likelihood: ChainLikelihood | CorpusLikelihood,
    start: np.ndarray | None,
    penalties: Penalties,
    monitor: Monitor,
) -> FitResult:
    """Maximize a likelihood by the solver; Ctrl-C keeps the newest (or best on held-out data) weights."""
    max_iter, tol = limits(crf)
    if crf.solver == "lbfgs":
        if crf.tol is None and crf.l1 == AUTO and penalties.l1 > 0.0:
            tol = CHOSEN_L1_TOL
        how: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "callback": monitor, "n_jobs": n_threads(crf.n_jobs)}
        return fit_likelihood(likelihood, start, l1=penalties.l1, seed=seed_of(crf), **how)
    if isinstance(likelihood, CorpusLikelihood):
        return run_passes(likelihood.walk(seed_of(crf), start, average=True), max_iter, tol, monitor)
    return run_passes(StochasticLikelihood(likelihood, seed=seed_of(crf), start=start), max_iter, tol, monitor)


def _maximized_under_rules(
    crf: "ChainCRF", training: Training, X: SequencesLike, names: LabelEncoder, monitor: Monitor
) -> FitResult:
    """Maximize the likelihood among labelings that the rules allow."""
    if crf.solver != "lbfgs":
        raise InputError(f"train_with_rules needs solver='lbfgs'; got {crf.solver!r}.")
    if training.labels.is_partial:
        raise InputError("train_with_rules needs every label; leave sequences with unknown labels out.")
    from rulefield.learning.chain.under_rules import RuledLikelihood
    from rulefield.rules import RuleCompiler

    compiler = RuleCompiler(rule_list(crf.rules), [str(c) for c in names.classes_], crf.scheme)
    compiled = [compiler(tokens_of(X, i)) for i in range(len(X))]
    data = training.model, training.data, training.labels, compiled, lambda r: compiler.rules[r].label
    penalties = training.penalties
    how: dict[str, Any] = {"sample_weight": training.weight, "n_jobs": training.n_jobs}
    objective = RuledLikelihood(*data, l2=penalties.l2, **how)
    start = training.model.zeros() if training.start is None else training.start
    return minimize_owlqn(objective, start, penalties.l1, *limits(crf), monitor, n_jobs=training.n_jobs)


def limits(crf: "ChainCRF") -> tuple[int, float]:
    """Return the most iterations, and the share of itself by which the objective must fall."""
    return crf.max_iter or DEFAULT_ITERATIONS[crf.solver], DEFAULT_TOL[crf.solver] if crf.tol is None else crf.tol


def dev_scorer(
    crf: "ChainCRF",
    X_dev: SequencesLike | None,
    y_dev: LabelsLike | None,
    encoder: InputEncoder,
    names: LabelEncoder,
    model: ChainModel,
) -> Score | None:
    """Return a function that scores weights on held-out data; None without early stopping."""
    if crf.early_stopping is None:
        return None
    if X_dev is None or y_dev is None:
        raise InputError("held-out data is X_dev and y_dev together; one of them is missing.")
    data, jobs = encoder.transform(as_list(X_dev)), n_threads(crf.n_jobs)

    def score(theta: np.ndarray) -> float:
        ids = ChainDecoder(model, theta, jobs).best(data)
        return span_f1(y_dev, label_lists(names, ids, data.lengths), scheme=crf.scheme or "auto")

    return score


def keep_fit(
    crf: "ChainCRF",
    model: ChainModel,
    done: FitResult,
    penalties: Penalties,
    encoder: InputEncoder,
    names: LabelEncoder,
    reports: Sequence[Any] = (),
) -> None:
    """Set what a fit leaves on its estimator."""
    crf.classes_ = object_array(names.classes_)
    crf.l1_, crf.l2_ = penalties.l1, penalties.l2
    crf.model_, crf.theta_ = model, done.theta
    encoder.labels = names.classes_
    crf._encoder, crf._labels_encoder = encoder, names
    crf.expectations_ = list(reports)
    report_fit(crf, done)


def seed_of(crf: "ChainCRF") -> int:
    """Return a seed; without a ``random_state`` always the same one, so that a fit can be repeated."""
    return 0 if crf.random_state is None else int(check_random_state(crf.random_state).randint(2**31 - 1))
