"""How a chain learns from rows of sequences: encode, choose the weights there are, learn them, keep what was learned."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import check_possible
from rulefield.estimators.chain.corpora import Held
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.fitted import FittedChain
from rulefield.estimators.chain.options import ChainOptions
from rulefield.estimators.chain.training import ChainTraining, TrainingRules, check_scores, train_chain
from rulefield.estimators.expectations import Keeper
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, is_stream, tokens_of
from rulefield.estimators.parameters import rule_list
from rulefield.estimators.sequences import (
    check_some_tokens,
    checked_weights,
    label_lists,
    numbers_of,
    places_of,
)
from rulefield.estimators.types import (
    ArrayLike,
    Label,
    LabelsLike,
    SequencesLike,
    Transformer,
)
from rulefield.exceptions import InputError
from rulefield.learning.chain.penalties import AUTO, Penalty, choose_penalties
from rulefield.learning.chain.stochastic import Stream
from rulefield.learning.expectations.initial_label import presumed
from rulefield.learning.fit_log import FitRecord, FitResult
from rulefield.metrics import span_f1
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import transfer, union
from rulefield.scikit import check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.chain.expectations import ChainExpectations
    from rulefield.rules.expectations import Expectation


class LearningChain(FittedChain):
    """The half of :class:`rulefield.ChainCRF` that turns labeled sequences into weights."""

    algorithm: str
    solver: str
    l1: Penalty
    l2: Penalty
    expectations: "Sequence[Expectation] | Keeper | None"
    initial_label: Label | None
    features: Transformer | None
    transition_features: str | Sequence[str] | None
    start_end: bool
    all_states: bool
    all_transitions: bool
    min_count: int
    max_iter: int | None
    tol: float | None
    early_stopping: int | None
    validation_fraction: float
    warm_start: bool
    train_with_rules: bool
    verbose: int
    l1_: float
    l2_: float
    log_: list[FitRecord]
    n_iter_: int
    converged_: bool
    stopped_because_: str
    expectations_: list[Any]
    _stream: Stream

    def _fit_rows(
        self,
        X: SequencesLike,
        y: LabelsLike,
        sample_weight: ArrayLike | None,
        held_out: Held,
        options: ChainOptions,
        begun: float,
    ) -> None:
        from rulefield.estimators.chain.expectations import chain_expectations, label_names, presumed_start

        X_dev, y_dev = held_out
        if not self._reads_once(X, X_dev):
            X, y = as_list(X), as_list(y)
            check_some_tokens(X)
            names = label_names(y, self.initial_label, X)
        if options.patience is not None and X_dev is None:
            X, y, sample_weight, X_dev, y_dev = self._hold_out(X, y, checked_weights(sample_weight, len(y)))
        encoder = InputEncoder(copy.deepcopy(self.features), None if is_stream(X) else names.classes_)
        data = encoder.fit_transform(X)
        check_some_tokens(data)
        if is_stream(X):
            y = as_list(y)
            names = label_names(y, self.initial_label)
        labels = self._labels(names, y, data)
        check_scores(data, labels, options.algorithm, bool(self.expectations))
        weight = checked_weights(sample_weight, len(data))
        expected = chain_expectations(self, options, names, X, data, weight)
        if expected is not None:
            expected.check_labels(labels, names.classes_, weight)
        options = self._penalized(options, data, labels, weight, names, encoder)
        model = self._model(data, labels, names.classes_, encoder, options, expected)
        guess = labels if self.initial_label is None else self._presumed(labels, names, model)
        if guess is not labels:
            model = union(model, self._model(data, guess, names.classes_, encoder, options, expected))
        start = self._warm_weights(model, encoder, names.classes_) if self.warm_start else None
        dev = self._dev_scorer(X_dev, y_dev, encoder, names, model, options)
        rules = self._training_rules(X, names, options)
        training = ChainTraining(model, data, labels, weight, start, self._seed(), begun, rules, expected)
        del data  # what training lays out otherwise need not stay
        if guess is not labels and start is None:
            training = replace(training, start=presumed_start(training, options, guess))
        self._learn(training, options, encoder, names, dev)

    def _penalized(
        self,
        options: ChainOptions,
        data: Sequences,
        labels: Labels,
        weight: np.ndarray | None,
        names: LabelEncoder,
        encoder: InputEncoder,
    ) -> ChainOptions:
        """Return the options with penalties that were ``"auto"`` chosen on held-out sequences."""
        if AUTO not in (self.l1, self.l2):
            return options
        found = choose_penalties(
            lambda part, known: self._model(part, known, names.classes_, encoder, options),
            data,
            labels,
            weight,
            self.l1 if options.algorithm == "lbfgs" else options.l1,
            self.l2,
            seed=self._seed(),
            n_jobs=options.n_jobs,
        )
        return replace(options, l1=found.l1, l2=found.l2)

    def _reads_once(self, X: SequencesLike, X_dev: SequencesLike | None) -> bool:
        """Whether ``X`` is an iterator, and nothing but its features is needed."""
        again = self.expectations or self.train_with_rules or (self.early_stopping is not None and X_dev is None)
        return is_stream(X) and not again

    def _presumed(self, labels: Labels, names: LabelEncoder, model: ChainModel) -> Labels:
        masks = model.allowed, model.allowed_start, model.allowed_end
        return presumed(labels, names.classes_.index(self.initial_label), masks)

    def _training_rules(self, X: SequencesLike, names: LabelEncoder, options: ChainOptions) -> TrainingRules | None:
        if not (self.train_with_rules and rule_list(self.rules)):
            return None
        if options.algorithm != "lbfgs":
            raise InputError(
                f"train_with_rules needs algorithm='likelihood' and solver='lbfgs'; got {options.algorithm!r}."
            )
        from rulefield.rules import RuleCompiler

        compiler = RuleCompiler(rule_list(self.rules), [str(c) for c in names.classes_], self.scheme)
        return TrainingRules(
            [compiler(tokens_of(X, i)) for i in range(len(X))], [rule.label for rule in compiler.rules]
        )

    def _labels(self, names: LabelEncoder, y: LabelsLike, data: Sequences) -> Labels:
        if len(data.empty):
            raise InputError(f"sequence {int(data.empty[0])} of X has no tokens; leave empty sequences out of fit.")
        return names.encode(y, data.lengths)

    def _model(
        self,
        data: Sequences,
        labels: Labels,
        classes: list[Any],
        encoder: InputEncoder,
        options: ChainOptions,
        expected: "ChainExpectations | None" = None,
        columns: np.ndarray | None = None,
    ) -> ChainModel:
        allowed = allowed_transitions([str(c) for c in classes], self.scheme)
        if expected is not None:
            allowed = expected.without_forbidden(allowed)
        check_possible(labels, [str(c) for c in classes], self.scheme, allowed)
        numbers = numbers_of(self.transition_features, encoder)
        if numbers is not None and columns is not None:
            numbers = np.flatnonzero(np.isin(columns, numbers))
        return ChainModel.build(
            data,
            labels,
            allowed=allowed,
            all_states=self.all_states,
            all_transitions=self.all_transitions,
            start_end=self.start_end,
            min_count=max(1, self.min_count),
            transition_features=numbers,
        )

    def _learn(
        self,
        training: ChainTraining,
        options: ChainOptions,
        encoder: InputEncoder,
        names: LabelEncoder,
        dev: Callable[[np.ndarray], float] | None,
    ) -> None:
        reports: list[Any] = []
        if training.expectations is None:
            done = train_chain(training, options, dev, self.verbose)
        else:
            from rulefield.estimators.chain.expectations import train_expected

            done, reports = train_expected(training, options, self.verbose)
        self._stream = Stream(len(training.labels), float(len(training.labels)))
        self._keep(training.model, done, options, encoder, names, reports)

    def _keep(
        self,
        model: ChainModel,
        done: FitResult,
        options: ChainOptions,
        encoder: InputEncoder,
        names: LabelEncoder,
        reports: Sequence[Any] = (),
    ) -> None:
        self.classes_ = names.classes_
        self.l1_, self.l2_ = options.l1, options.l2
        self.model_, self.theta_ = model, done.theta
        encoder.labels = names.classes_
        self._encoder, self._labels_encoder = encoder, names
        self.expectations_ = list(reports)
        report_fit(self, done)

    def _warm_weights(self, model: ChainModel, encoder: InputEncoder, classes: list[Any]) -> np.ndarray | None:
        if not self.__sklearn_is_fitted__():
            return None
        feature = places_of(self._encoder.names, encoder.names)
        return transfer(self.theta_, self.model_, model, feature, places_of(self.classes_, classes))

    def _dev_scorer(
        self,
        X_dev: SequencesLike | None,
        y_dev: LabelsLike | None,
        encoder: InputEncoder,
        names: LabelEncoder,
        model: ChainModel,
        options: ChainOptions,
    ) -> Callable[[np.ndarray], float] | None:
        if options.patience is None:
            return None
        if X_dev is None or y_dev is None:
            raise InputError("held-out data is X_dev and y_dev together; one of them is missing.")
        data = encoder.transform(as_list(X_dev))

        def score(theta: np.ndarray) -> float:
            ids = ChainDecoder(model, theta, options.n_jobs).best(data)
            return span_f1(y_dev, label_lists(names, ids, data.lengths), scheme=self.scheme or "auto")

        return score

    def _hold_out(
        self, X: SequencesLike, y: LabelsLike, weight: np.ndarray | None
    ) -> tuple[Any, Any, np.ndarray | None, Any, Any]:
        """Set ``validation_fraction`` of the sequences aside, at random by ``random_state``."""
        if not 0 < self.validation_fraction < 1 or len(y) < 2:
            raise InputError(
                f"early_stopping needs held-out data: give X_dev and y_dev, or a validation_fraction between 0 and 1 "
                f"(got {self.validation_fraction!r}) of at least two sequences (got {len(y)})."
            )
        order = np.random.default_rng(self._seed()).permutation(len(y))
        n_dev = min(max(1, round(self.validation_fraction * len(y))), len(y) - 1)
        dev, rest = np.sort(order[:n_dev]), np.sort(order[n_dev:])

        def pick(rows: Any, which: np.ndarray) -> Any:
            return rows[which] if isinstance(rows, (Sequences, np.ndarray)) else [rows[i] for i in which]

        kept = None if weight is None else weight[rest]
        return pick(X, rest), pick(y, rest), kept, pick(X, dev), pick(y, dev)

    def _seed(self) -> int:
        """Return a seed; without a ``random_state`` always the same one, so that a fit can be repeated."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))
