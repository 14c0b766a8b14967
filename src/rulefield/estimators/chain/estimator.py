"""The linear-chain CRF as a scikit-learn estimator."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.labels import Labels
from rulefield.data.sequences import Sequences
from rulefield.encode.corpora.corpus import Corpus, CorpusSlice
from rulefield.encode.labels import LabelEncoder
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import check_possible
from rulefield.estimators.base import State
from rulefield.estimators.chain.corpora import Held, continue_with_corpus, fit_corpus
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.files import chain_state, restore_chain
from rulefield.estimators.chain.fitted import FittedChain
from rulefield.estimators.chain.options import PARAMETERS, ChainOptions, chain_options
from rulefield.estimators.chain.training import (
    ChainTraining,
    TrainingRules,
    check_scores,
    continue_chain,
    train_chain,
)
from rulefield.estimators.expectations import Keeper
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, is_stream, tokens_and_labels, tokens_of
from rulefield.estimators.sequences import (
    check_some_tokens,
    checked_weights,
    label_lists,
    narrowed,
    numbers_of,
    places_of,
)
from rulefield.estimators.types import (
    ArrayLike,
    Client,
    Label,
    LabelsLike,
    RandomState,
    RulesLike,
    SequencesLike,
    Transformer,
)
from rulefield.exceptions import InputError
from rulefield.interrupts import interruptible
from rulefield.learning.chain.penalties import AUTO, Penalty, choose_penalties
from rulefield.learning.chain.stochastic import Stream
from rulefield.learning.expectations.initial_label import presumed
from rulefield.learning.fit_log import FitResult
from rulefield.metrics import span_f1
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import grown, restricted, transfer, union
from rulefield.scikit import check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.chain.expectations import ChainExpectations
    from rulefield.rules.expectations import Expectation


class ChainCRF(FittedChain):
    r"""Linear-chain conditional random field for labelling sequences.

    Maximises :math:`\sum_i \log p(y_i \mid x_i) - l_1 |w|_1 - \frac{l_2}{2} |w|^2` (``algorithm="likelihood"``),
    where unknown labels are summed over.

    Parameters
    ----------
    algorithm : {"likelihood", "perceptron", "ssvm"}, default "likelihood"
        What is optimised: the likelihood; the averaged structured perceptron [Collins02]; a structured SVM, by
        block-coordinate Frank-Wolfe [LacosteJulien13].
    solver : {"lbfgs", "sgd"}, default "lbfgs"
        How the likelihood is maximised: by L-BFGS (OWL-QN where ``l1`` > 0), or by stochastic steps.
    l1, l2 : float or "auto", defaults 0.0 and 1.0
        Strength of the penalties, in nats. CRFsuite's ``c1`` is ``l1`` and its ``c2`` is ``l2 / 2``. "auto" tries a few
        values and takes the one under which held-out sequences are most likely, in about three times the time of one fit.
    scheme : {None, "BIO", "IOB1", "BIOES", "BILOU", "IOE1", "IOE2"}, default None
        Labels are prefixed segments (``B-title``, or paths of them, ``I-authors/B-person``); transitions and starts
        that the scheme forbids are impossible in training and prediction.
    rules : list of rules, optional
        Every prediction obeys the hard ones and pays for breaking soft ones; see :mod:`rulefield.rules`.
    expectations : list of expectations, PosteriorRegularization or GeneralizedExpectation, optional
        What should hold on average in training, for partial labels: ``rules.share(["B-PER", "I-PER"]).between(.04, .06)``
        (docs/expectations.md). A list is kept by :class:`PosteriorRegularization` with its defaults. L-BFGS only.
    initial_label : label, optional
        Where learning from partial labels begins, tokens of which nothing is known are taken to have this label:
        ``"O"`` for positives-only annotation. A start, never a claim; it joins the label set if ``y`` never shows it.
    features : transformer, optional
        What turns tokens into features. By default plain tokens go through :class:`TokenFeatures`, and feature
        dicts and lists are read as they are.
    transition_features : {None, "all"} or list of str, default None
        Features that also get weights for label pairs (observation-conditioned transitions).
    start_end : bool, default True
        Whether beginning and ending with a label have weights.
    all_states, all_transitions : bool, default False
        Weights for all feature/label pairs (transitions), not only for those seen in training.
    min_count : int, default 1
        Feature/label pairs seen less often get no weight.
    max_iter : int, optional
        Most iterations, 1000 by default; of ``sgd`` and ``perceptron`` 100 epochs, of ``ssvm`` 300.
    tol : float, optional
        Stop where the objective falls by less than this share of itself over ten iterations (epochs), or a duality gap
        proves that it cannot. 1e-5 by default; 1e-2 for learners that work by epochs.
    early_stopping : int, optional
        Stop where span F1 on held-out data has not improved for that many iterations, and keep the best model.
    validation_fraction : float, default 0.1
        Share of the training sequences held out for that, where ``fit`` is given no ``X_dev``.
    warm_start : bool, default False
        Begin ``fit`` from the weights of the last one; features and labels may have changed.
    train_with_rules : bool, default False
        Maximise the likelihood among labelings that ``rules`` allow (exact, slower; L-BFGS only); otherwise rules
        act in prediction alone.
    on_infeasible : {"raise", "relax"}, default "raise"
        What predictions do where hard rules contradict each other: raise, naming a minimal set of them; or break them
        by the least total amount, and list them in ``broken`` at an infinite cost.
    random_state : int or RandomState, optional
        Order of sequences in stochastic steps, choice of held-out sequences; by default always the same.
    n_jobs : int, optional
        Threads (-1: one per core). The result is the same for any number.
    verbose : int, default 0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : list
        Labels, sorted.
    l1_, l2_ : float
        The penalties that were used.
    log_ : list of FitRecord
        One record per iteration: objective, gradient norm, seconds since ``fit`` began, score on held-out data.
    expectations_ : list of ExpectationReport
        For every expectation its value under q and under the model, and its multiplier.
    n_iter_ : int
        Iterations done.
    converged_ : bool
        Whether the fit ended by itself.
    stopped_because_ : str
        How it ended, in words.
    model_ : ChainModel
        The structure: which features, labels and transitions have weights.
    theta_ : ndarray
        All weights; ``model_`` says which is which.
    n_features_in_ : int
        Number of features seen in training.
    feature_names_in_ : ndarray of str
        Their names, by column.

    Examples
    --------
    >>> from rulefield import ChainCRF
    >>> X = [["Ada", "Lovelace", "1843"], ["Alan", "Turing", "1936"]]
    >>> y = [["B-name", "I-name", "B-year"], ["B-name", "I-name", "B-year"]]
    >>> crf = ChainCRF(scheme="BIO").fit(X, y)
    >>> crf.predict([["Emmy", "Noether", "1918"]])[0]
    ['B-name', 'I-name', 'B-year']
    """

    _kind = "chain"
    _stream: Stream
    _parameters = PARAMETERS
    _saved = (
        "classes_",
        "l1_",
        "l2_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
        "expectations_",
        "_stream",
    )

    def __init__(
        self,
        *,
        algorithm: str = "likelihood",
        solver: str = "lbfgs",
        l1: Penalty = 0.0,
        l2: Penalty = 1.0,
        scheme: str | None = None,
        rules: RulesLike | None = None,
        expectations: "Sequence[Expectation] | Keeper | None" = None,
        initial_label: Label | None = None,
        features: Transformer | None = None,
        transition_features: str | Sequence[str] | None = None,
        start_end: bool = True,
        all_states: bool = False,
        all_transitions: bool = False,
        min_count: int = 1,
        max_iter: int | None = None,
        tol: float | None = None,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        train_with_rules: bool = False,
        on_infeasible: str = "raise",
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.algorithm = algorithm
        self.solver = solver
        self.l1 = l1
        self.l2 = l2
        self.scheme = scheme
        self.rules = rules
        self.expectations = expectations
        self.initial_label = initial_label
        self.features = features
        self.transition_features = transition_features
        self.start_end = start_end
        self.all_states = all_states
        self.all_transitions = all_transitions
        self.min_count = min_count
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.train_with_rules = train_with_rules
        self.on_infeasible = on_infeasible
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self,
        X: SequencesLike | Corpus,
        y: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *misplaced: object,
        X_dev: SequencesLike | None = None,
        y_dev: LabelsLike | None = None,
        client: Client | None = None,
    ) -> "ChainCRF":
        """Learn from labelled sequences.

        Parameters
        ----------
        X : list of sequences of tokens, Sequences, or Corpus
            Tokens are feature dicts, lists of feature strings, or plain strings; all of one form. With scores of labels
            from another model each is a :class:`rulefield.Scored`. An iterator is read
            as it comes, so that its features are never held together; without ``y`` it gives pairs (tokens, labels).
            A corpus on disk (:func:`rulefield.open_corpus`) holds its labels; its parts are in memory in turn.
        y : list of sequences of labels
            ``None`` is an unknown label, a set means one of these.
        sample_weight : array-like of shape (n_sequences,), optional
        X_dev, y_dev : optional
            Held-out data for ``early_stopping``.
        client : distributed.Client, optional
            Workers that see the corpus's folder share its parts; the result is the same to the last bit.
        """
        begun = perf_counter()
        if misplaced:
            raise TypeError(
                "fit takes X, y and sample_weight by position; give held-out data by name: X_dev=, y_dev=."
            )
        options = chain_options(self)
        if isinstance(X, Corpus):
            fit_corpus(self, X, y, sample_weight, (X_dev, y_dev), client, options, begun)
            return self
        if client is not None:
            raise InputError(
                "client= works on a corpus, whose parts workers can read: write one with rf.write_corpus."
            )
        self._fit_rows(*tokens_and_labels(X, y), sample_weight, (X_dev, y_dev), options, begun)
        return self

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
        if not (self.train_with_rules and self.rules):
            return None
        if options.algorithm != "lbfgs":
            raise InputError(
                f"train_with_rules needs algorithm='likelihood' and solver='lbfgs'; got {options.algorithm!r}."
            )
        from rulefield.rules import RuleCompiler

        compiler = RuleCompiler(self.rules, [str(c) for c in names.classes_], self.scheme)
        return TrainingRules(
            [compiler(tokens_of(X, i)) for i in range(len(X))], [rule.label for rule in compiler.rules]
        )

    @interruptible
    def partial_fit(
        self,
        X: SequencesLike | Corpus,
        y: LabelsLike | None = None,
        classes: Sequence[Label] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "ChainCRF":
        """Continue on more data with stochastic steps; new features are added, labels are fixed by the first call.

        Batches of one corpus give what one batch of all of it gives, within noise: the penalty is spread over all
        sequences seen so far, and the rate of the steps goes on where the last batch left it.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
            The parts of a corpus are batches.
        classes : sequence of labels, optional
            All labels that will ever occur; by default those of the first call.
        """
        if self.expectations:
            raise InputError("partial_fit takes no expectations: they refer to a whole corpus; call fit.")
        begun = perf_counter()
        options = chain_options(self)
        if isinstance(X, Corpus):
            continue_with_corpus(self, X, y, classes, sample_weight, options, begun)
            return self
        rows, given = tokens_and_labels(X, y)
        rows, known = as_list(rows), as_list(given)
        check_some_tokens(rows)
        if not self.__sklearn_is_fitted__():
            names = self._batch_names(rows, known, classes)
            encoder = InputEncoder(copy.deepcopy(self.features), names.classes_)
            data = encoder.fit_transform(rows)
            self._learn_batch(data, self._labels(names, known, data), sample_weight, options, encoder, names, begun)
            return self
        if self.l2 == AUTO:
            options = replace(options, l2=self.l2_)
        self._extend(
            rows, lambda data: self._labels(self._labels_encoder, known, data), sample_weight, options, begun
        )
        return self

    def _extend(
        self,
        X: SequencesLike | CorpusSlice,
        labels_of: Callable[[Sequences], Labels],
        sample_weight: ArrayLike | None,
        options: ChainOptions,
        begun: float,
    ) -> None:
        """Learn from one batch more; where that fails, features that came with it are forgotten."""
        encoder, known = self._encoder, self._encoder.n_features
        try:
            data = encoder.extend(X)
            self._learn_batch(data, labels_of(data), sample_weight, options, encoder, self._labels_encoder, begun)
        except BaseException:
            encoder.forget_after(known)
            raise

    def _batch_names(self, X: Any, y: LabelsLike, classes: Sequence[Label] | None) -> LabelEncoder:
        if classes is None:
            from rulefield.estimators.chain.expectations import label_names

            return label_names(y, self.initial_label, X)
        return LabelEncoder().set_classes(sorted(classes, key=_by_kind))

    def _learn_batch(
        self,
        data: Sequences,
        labels: Labels,
        sample_weight: ArrayLike | None,
        options: ChainOptions,
        encoder: InputEncoder,
        names: LabelEncoder,
        begun: float,
    ) -> None:
        """Take steps on the weights of the batch's features; the others are copied and shrink by the penalty."""
        check_scores(data, labels, options.algorithm)
        weight = checked_weights(sample_weight, len(data))
        first = not self.__sklearn_is_fitted__()
        stream = Stream() if first else self._stream
        own, columns = (data, np.arange(data.n_features)) if first else narrowed(data)
        model = self._model(own, labels, names.classes_, encoder, options, columns=columns)
        theta = model.zeros()
        if not first:
            model, theta = grown(self.theta_, self.model_, model, columns, data.n_features)
        part, index = restricted(model, columns)
        start = None if first else theta[index]
        training = ChainTraining(part, own, labels, weight, start, self._seed() + stream.seen, begun)
        done, self._stream, shrunk = continue_chain(training, options, stream, self.verbose)
        theta *= shrunk
        theta[index] = done.theta
        self._keep(model, replace(done, theta=theta), options, encoder, names)

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

    # --- files and scikit-learn -------------------------------------------------------------------

    def _state(self) -> State:
        return chain_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        restore_chain(self, arrays, metadata, **given)


def _by_kind(label: Label) -> tuple[str, Any]:
    """Sort labels of one type among themselves, as :class:`LabelEncoder` does."""
    return type(label).__name__, label
