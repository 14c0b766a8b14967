"""How a chain learns from rows of sequences: encode, choose the weights there are, learn them, keep what was learned."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import check_possible
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.options import ChainOptions
from rulefield.estimators.chain.training import ChainTraining, TrainingRules, check_scores, train_chain
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, is_stream, tokens_of
from rulefield.estimators.parameters import rule_list
from rulefield.estimators.sequences import (
    check_some_tokens,
    checked_weights,
    label_lists,
    label_names,
    numbers_of,
    places_of,
)
from rulefield.estimators.types import (
    ArrayLike,
    LabelsLike,
    SequencesLike,
)
from rulefield.exceptions import InputError, InterruptedFitWarning, callers_level
from rulefield.learning.chain.penalties import AUTO, choose_penalties
from rulefield.learning.chain.stochastic import Stream
from rulefield.learning.expectations.initial_label import presumed
from rulefield.learning.fit_log import FitResult
from rulefield.metrics import span_f1
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import transfer, union
from rulefield.scikit import check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF
    from rulefield.estimators.chain.expectations import ChainExpectations


Held = tuple[SequencesLike | None, LabelsLike | None]
"""Held-out X and y."""


def fit_rows(
    crf: "ChainCRF",
    X: SequencesLike,
    y: LabelsLike,
    sample_weight: ArrayLike | None,
    held_out: Held,
    options: ChainOptions,
    begun: float,
) -> None:
    """Fit a chain to sequences and labels in memory."""
    X_dev, y_dev = held_out
    if not _reads_once(crf, X, X_dev):
        X, y = as_list(X), as_list(y)
        check_some_tokens(X)
        names = label_names(y, crf.initial_label, X)
    if options.patience is not None and X_dev is None:
        X, y, sample_weight, X_dev, y_dev = _hold_out(crf, X, y, checked_weights(sample_weight, len(y)))
    encoder = InputEncoder(copy.deepcopy(crf.features), None if is_stream(X) else names.classes_)
    data = encoder.fit_transform(X)
    check_some_tokens(data)
    if is_stream(X):
        y = as_list(y)
        names = label_names(y, crf.initial_label)
    labels = encode_labels(crf, names, y, data)
    check_scores(data, labels, bool(crf.expectations))
    weight = checked_weights(sample_weight, len(data))
    expected = _expected(crf, options, names, X, data, weight)
    if expected is not None:
        expected.check_labels(labels, names.classes_, weight)
    options = _penalized(crf, options, data, labels, weight, names, encoder)
    model = build_model(crf, data, labels, names.classes_, encoder, options, expected)
    guess = labels if crf.initial_label is None else _presumed(crf, labels, names, model)
    if guess is not labels:
        model = union(model, build_model(crf, data, guess, names.classes_, encoder, options, expected))
    start = warm_weights(crf, model, encoder, names.classes_) if crf.warm_start else None
    dev = dev_scorer(crf, X_dev, y_dev, encoder, names, model, options)
    rules = _training_rules(crf, X, names, options)
    training = ChainTraining(model, data, labels, weight, start, seed_of(crf), begun, rules, expected)
    del data  # what training lays out otherwise need not stay
    if guess is not labels and start is None:
        from rulefield.estimators.chain.expectations import presumed_start

        training = replace(training, start=presumed_start(training, options, guess))
    _learn(crf, training, options, encoder, names, dev)


def _expected(
    crf: "ChainCRF",
    options: ChainOptions,
    names: LabelEncoder,
    X: SequencesLike,
    data: Sequences,
    weight: np.ndarray | None,
) -> "ChainExpectations | None":
    """Return the compiled expectations, or None; rules, which they are written in, are only loaded for them."""
    if not crf.expectations:
        return None
    from rulefield.estimators.chain.expectations import chain_expectations

    return chain_expectations(crf, options, names, X, data, weight)


def _penalized(
    crf: "ChainCRF",
    options: ChainOptions,
    data: Sequences,
    labels: Labels,
    weight: np.ndarray | None,
    names: LabelEncoder,
    encoder: InputEncoder,
) -> ChainOptions:
    """Return the options with penalties that were ``"auto"`` chosen on held-out sequences."""
    if AUTO not in (crf.l1, crf.l2):
        return options
    found = choose_penalties(
        lambda part, known: build_model(crf, part, known, names.classes_, encoder, options),
        data,
        labels,
        weight,
        crf.l1 if options.solver == "lbfgs" else options.l1,
        crf.l2,
        seed=seed_of(crf),
        n_jobs=options.n_jobs,
    )
    if found.interrupted:
        warnings.warn(
            f"{type(crf).__name__}: interrupted while penalties were chosen; the fit goes on with the best so far, l1 "
            f"{found.l1:g} and l2 {found.l2:g}. Ctrl-C again ends it and keeps its model.",
            InterruptedFitWarning,
            stacklevel=callers_level(),
        )
    return replace(options, l1=found.l1, l2=found.l2)


def _reads_once(crf: "ChainCRF", X: SequencesLike, X_dev: SequencesLike | None) -> bool:
    """Whether ``X`` is an iterator, and nothing but its features is needed."""
    again = crf.expectations or crf.train_with_rules or (crf.early_stopping is not None and X_dev is None)
    return is_stream(X) and not again


def _presumed(crf: "ChainCRF", labels: Labels, names: LabelEncoder, model: ChainModel) -> Labels:
    masks = model.allowed, model.allowed_start, model.allowed_end
    return presumed(labels, names.classes_.index(crf.initial_label), masks)


def _training_rules(
    crf: "ChainCRF", X: SequencesLike, names: LabelEncoder, options: ChainOptions
) -> TrainingRules | None:
    if not (crf.train_with_rules and rule_list(crf.rules)):
        return None
    if options.solver != "lbfgs":
        raise InputError(f"train_with_rules needs solver='lbfgs'; got {options.solver!r}.")
    from rulefield.rules import RuleCompiler

    compiler = RuleCompiler(rule_list(crf.rules), [str(c) for c in names.classes_], crf.scheme)
    return TrainingRules([compiler(tokens_of(X, i)) for i in range(len(X))], [rule.label for rule in compiler.rules])


def encode_labels(crf: "ChainCRF", names: LabelEncoder, y: LabelsLike, data: Sequences) -> Labels:
    """Return labels by number; refuse empty sequences."""
    if len(data.empty):
        raise InputError(f"sequence {int(data.empty[0])} of X has no tokens; leave empty sequences out of fit.")
    return names.encode(y, data.lengths)


def build_model(
    crf: "ChainCRF",
    data: Sequences,
    labels: Labels,
    classes: list[Any],
    encoder: InputEncoder,
    options: ChainOptions,
    expected: "ChainExpectations | None" = None,
    columns: np.ndarray | None = None,
) -> ChainModel:
    """Return the weights that the data, the options and the expectations ask for."""
    allowed = allowed_transitions([str(c) for c in classes], crf.scheme)
    if expected is not None:
        allowed = expected.without_forbidden(allowed)
    check_possible(labels, [str(c) for c in classes], crf.scheme, allowed)
    numbers = numbers_of(crf.transition_features, encoder)
    if numbers is not None and columns is not None:
        numbers = np.flatnonzero(np.isin(columns, numbers))
    return ChainModel.build(
        data,
        labels,
        allowed=allowed,
        all_states=crf.all_states,
        all_transitions=crf.all_transitions,
        start_end=crf.start_end,
        min_count=max(1, crf.min_count),
        transition_features=numbers,
    )


def _learn(
    crf: "ChainCRF",
    training: ChainTraining,
    options: ChainOptions,
    encoder: InputEncoder,
    names: LabelEncoder,
    dev: Callable[[np.ndarray], float] | None,
) -> None:
    reports: list[Any] = []
    if training.expectations is None:
        done = train_chain(training, options, dev, crf.verbose)
    else:
        from rulefield.estimators.chain.expectations import train_expected

        done, reports = train_expected(training, options, crf.verbose)
    crf._stream = Stream(len(training.labels), float(len(training.labels)))
    keep_fit(crf, training.model, done, options, encoder, names, reports)


def keep_fit(
    crf: "ChainCRF",
    model: ChainModel,
    done: FitResult,
    options: ChainOptions,
    encoder: InputEncoder,
    names: LabelEncoder,
    reports: Sequence[Any] = (),
) -> None:
    """Set what a fit leaves on its estimator."""
    crf.classes_ = names.classes_
    crf.l1_, crf.l2_ = options.l1, options.l2
    crf.model_, crf.theta_ = model, done.theta
    encoder.labels = names.classes_
    crf._encoder, crf._labels_encoder = encoder, names
    crf.expectations_ = list(reports)
    report_fit(crf, done)


def warm_weights(crf: "ChainCRF", model: ChainModel, encoder: InputEncoder, classes: list[Any]) -> np.ndarray | None:
    """Return weights to begin from: those of the last fit, by name; None if there is none."""
    if not crf.__sklearn_is_fitted__():
        return None
    feature = places_of(crf._encoder.names, encoder.names)
    return transfer(crf.theta_, crf.model_, model, feature, places_of(crf.classes_, classes))


def dev_scorer(
    crf: "ChainCRF",
    X_dev: SequencesLike | None,
    y_dev: LabelsLike | None,
    encoder: InputEncoder,
    names: LabelEncoder,
    model: ChainModel,
    options: ChainOptions,
) -> Callable[[np.ndarray], float] | None:
    """Return a function that scores weights on held-out data; None without early stopping."""
    if options.patience is None:
        return None
    if X_dev is None or y_dev is None:
        raise InputError("held-out data is X_dev and y_dev together; one of them is missing.")
    data = encoder.transform(as_list(X_dev))

    def score(theta: np.ndarray) -> float:
        ids = ChainDecoder(model, theta, options.n_jobs).best(data)
        return span_f1(y_dev, label_lists(names, ids, data.lengths), scheme=crf.scheme or "auto")

    return score


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


def seed_of(crf: "ChainCRF") -> int:
    """Return a seed; without a ``random_state`` always the same one, so that a fit can be repeated."""
    return 0 if crf.random_state is None else int(check_random_state(crf.random_state).randint(2**31 - 1))
