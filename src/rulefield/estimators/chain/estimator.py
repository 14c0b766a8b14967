"""The linear-chain CRF as a scikit-learn estimator."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rulefield.data.scored import is_scored
from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.labels import LabelEncoder, check_possible
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.base import SEQUENCE_PARAMETERS, Batch, SequenceEstimator
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.explanations import ChainExplainer, explain_model, weight_rows
from rulefield.estimators.explanations import ModelExplanation, TokenExplanation, Weight
from rulefield.estimators.fitting import ProgressLine, report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, is_stream, tokens_and_labels, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    FLAG,
    KEEPER,
    LABEL,
    SCHEME,
    Requirement,
    Table,
    check_parameters,
    number,
    optional,
)
from rulefield.estimators.sequences import (
    check_scores,
    check_some_tokens,
    checked_weights,
    encode_labels,
    label_lists,
    label_names,
    object_array,
    places_of,
    possible_labels,
)
from rulefield.estimators.types import (
    ArrayLike,
    Client,
    KnownLike,
    Label,
    LabelsLike,
    RulesLike,
    SequencesLike,
    Transformer,
)
from rulefield.exceptions import InputError, InterruptedFitWarning, ModelFileError, RulefieldError, callers_level
from rulefield.interrupts import interruptible
from rulefield.learning.chain.corpus import Corpus
from rulefield.learning.chain.likelihood import ChainLikelihood, fit_likelihood
from rulefield.learning.chain.penalties import AUTO, USUAL_L1, USUAL_L2, Penalties, Penalty, choose_penalties
from rulefield.learning.fit_log import FitResult, counted_from
from rulefield.metrics import span_f1
from rulefield.models.chain import ChainModel
from rulefield.models.chain_transfer import transfer, union
from rulefield.parallel import in_threads, n_threads
from rulefield.scikit import check_is_fitted, check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.chain.answers import ChainAnswers
    from rulefield.estimators.chain.expectations import ChainExpectations
    from rulefield.estimators.expectations import Keeper
    from rulefield.rules.expectations import Expectation


PENALTY = Requirement(f"{AUTO!r} or {number().words}", lambda value: value == AUTO or number().holds(value))
"""What ``l1`` and ``l2`` may be."""
DEFAULT_ITERATIONS, DEFAULT_TOL = 1000, 1e-5
CHOSEN_L1_TOL = 1e-3
"""Tolerance of a fit whose l1 was chosen: labels settle long before weights near zero do."""
PRESUMED_START: dict[str, Any] = {"max_iter": 100, "tol": 1e-4}
KNOWN_START: dict[str, Any] = {"max_iter": 40, "tol": 1e-5}
"""Limits of the fits that give weights to begin from: to presumed labels; to known labels, before expectations."""
LEAST_L2 = 1e-3
"""Penalty of these fits if the model itself has none: weights to begin from must be finite."""
LEAST_APART, PORTIONS, PORTION = 200, 2, (50, 1000)
"""Sequences of tokens from which threads share encoding; portions of each thread; least and most sequences of a portion."""


@dataclass(kw_only=True, eq=False, repr=False)
class ChainCRF(SequenceEstimator):
    r"""Linear-chain conditional random field for labeling sequences.

    Maximizes :math:`\sum_i \log p(y_i \mid x_i) - l_1 |w|_1 - \frac{l_2}{2} |w|^2`,
    where unknown labels are summed over.

    Parameters
    ----------
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
        (docs/expectations.md). A list is kept by :class:`PosteriorRegularization` with its defaults.
    initial_label : label, optional
        Where learning from partial labels begins, tokens of which nothing is known are taken to have this label:
        ``"O"`` for positives-only annotation. A start, never a claim; it joins the label set if ``y`` never shows it.
    features : transformer, optional
        What turns tokens into features. By default plain tokens go through :class:`TokenFeatures`, and feature
        dicts and lists are read as they are.
    start_end : bool, default True
        Whether beginning and ending with a label have weights.
    all_states, all_transitions : bool, default False
        Weights for all feature/label pairs (transitions), not only for those seen in training.
    min_count : int, default 1
        Feature/label pairs seen less often get no weight.
    max_iter : int, optional
        Most iterations of L-BFGS (OWL-QN if ``l1`` > 0); 1000 by default.
    tol : float, optional
        Stop if the objective falls by less than this share of itself over ten iterations; 1e-5 by default.
    warm_start : bool, default False
        Begin ``fit`` from the weights of the last one; features and labels may have changed.
    on_infeasible : {"raise", "relax"}, default "raise"
        What predictions do where hard rules contradict each other: raise, naming a minimal set of them; or break them
        by the least total amount, and list them in ``broken`` at an infinite cost.
    random_state : int or RandomState, optional
        Order of sequences in stochastic steps, choice of sequences held out for ``l2="auto"``; by default always the same.
    n_jobs : int, optional
        Threads (-1: one per core). The result is the same for any number.
    verbose : int, default 0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted.
    l1_, l2_ : float
        The penalties that were used.
    log_ : list of FitRecord
        One record per iteration: objective, gradient norm, seconds since ``fit`` began.
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

    l1: Penalty = 0.0
    l2: Penalty = 1.0
    scheme: str | None = None
    expectations: "Sequence[Expectation] | Keeper | None" = None
    initial_label: Label | None = None
    features: Transformer | None = None
    start_end: bool = True
    all_states: bool = False
    all_transitions: bool = False
    min_count: int = 1
    max_iter: int | None = None
    tol: float | None = None
    warm_start: bool = False

    _kind = "chain"
    _parameters: ClassVar[Table] = {
        **SEQUENCE_PARAMETERS,
        "l1": PENALTY,
        "l2": PENALTY,
        "scheme": SCHEME,
        "expectations": KEEPER,
        "initial_label": optional(LABEL),
        "start_end": FLAG,
        "warm_start": FLAG,
    }
    classes_: np.ndarray = field(init=False)
    model_: ChainModel = field(init=False)
    theta_: np.ndarray = field(init=False)
    l1_: float = field(init=False)
    l2_: float = field(init=False)
    expectations_: list[Any] = field(init=False)
    _labels_encoder: LabelEncoder = field(init=False)
    _saved = (
        "classes_",
        "model_",
        "theta_",
        "l1_",
        "l2_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
        "expectations_",
    )

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self,
        X: SequencesLike | Corpus,
        y: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        client: Client | None = None,
    ) -> "ChainCRF":
        """Learn from labeled sequences.

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
        client : distributed.Client, optional
            Workers that see the corpus's folder share its parts; the result is the same to the last bit.
        """
        begun, penalties = perf_counter(), self._checked_penalties()
        if isinstance(X, Corpus):
            from rulefield.estimators.chain.corpora import fit_corpus

            return fit_corpus(self, begun, X, y, sample_weight, client)
        if client is not None:
            raise InputError(
                "client= works on a corpus, whose parts workers can read: write one with rf.write_corpus."
            )
        rows, y = tokens_and_labels(X, y)
        if self.expectations or not is_stream(rows):  # expectations are about tokens
            rows = as_list(rows)
            check_some_tokens(rows)
        encoder = InputEncoder(copy.deepcopy(self.features))
        if is_scored(rows):
            encoder.labels = label_names(y, self.initial_label, rows).classes_
        data = encoder.fit_transform(rows)
        check_some_tokens(data)
        names = label_names(y, self.initial_label, rows)
        labels = encode_labels(names, y, data)
        check_scores(data, labels, bool(self.expectations))
        weight = checked_weights(sample_weight, len(data))
        expected = self._expected(penalties, names, rows, labels, weight)
        build = partial(self._build, names.classes_, expected)
        penalties = self._chosen_penalties(penalties, build, data, labels, weight)
        model = build(data, labels)
        guess = labels if self.initial_label is None else self._presumed(labels, names, model)
        if guess is not labels:
            model = union(model, build(data, guess))
        start = self._warm_weights(model, encoder, names) if self.warm_start else None
        how: dict[str, Any] = {"sample_weight": weight, "n_jobs": n_threads(self.n_jobs)}
        if start is None and (expected is not None or guess is not labels):
            first = ChainLikelihood(model, data, guess, l2=max(penalties.l2, LEAST_L2), **how)
            start = self._first_weights(first, KNOWN_START if guess is labels else PRESUMED_START)
        with ProgressLine("fitting", bool(self.verbose)) as progress:
            if expected is not None and start is not None:
                done, reports = expected.train(model, data, labels, start, progress, **how)
            else:
                likelihood = ChainLikelihood(model, data, labels, l2=penalties.l2, **how)
                del data  # the likelihood holds a copy, laid out otherwise
                done, reports = self._maximize(likelihood, start, penalties, progress), []
        return self._keep(model, counted_from(begun, done), penalties, encoder, names, reports)

    # --- the steps of a fit -----------------------------------------------------------------------

    def _checked_penalties(self) -> Penalties:
        """Check the parameters; return the penalties, the usual ones for those that are to be chosen."""
        check_parameters(self)
        if AUTO in (self.l1, self.l2) and self.expectations:
            raise InputError("l1 and l2 'auto' are chosen by labels held out, not by expectations; give numbers.")
        return Penalties(
            USUAL_L1 if self.l1 == AUTO else float(self.l1),
            USUAL_L2 if self.l2 == AUTO else float(self.l2),
        )

    def _expected(
        self, penalties: Penalties, names: LabelEncoder, X: SequencesLike, labels: Labels, weight: np.ndarray | None
    ) -> "ChainExpectations | None":
        """Return the compiled expectations, or None; rules, which they are written in, are only loaded for them."""
        if not self.expectations:
            return None
        from rulefield.estimators.chain.expectations import chain_expectations

        tokens = [tokens_of(X, i) for i in range(len(labels))]
        expected = chain_expectations(self, penalties, names, tokens, weight)
        if expected is not None:
            expected.check_labels(labels, names.classes_, weight)
        return expected

    def _chosen_penalties(
        self, penalties: Penalties, build: Any, data: Sequences, labels: Labels, weight: np.ndarray | None
    ) -> Penalties:
        """Return penalties, of which those that were ``"auto"`` are chosen on held-out sequences."""
        if AUTO not in (self.l1, self.l2):
            return penalties
        how: dict[str, Any] = {"seed": self._seed(), "n_jobs": n_threads(self.n_jobs)}
        chosen = choose_penalties(build, data, labels, weight, self.l1, self.l2, **how)
        if chosen.interrupted:
            warnings.warn(
                f"{type(self).__name__}: interrupted while penalties were chosen; the fit goes on with the best so far, "
                f"l1 {chosen.l1:g} and l2 {chosen.l2:g}. Ctrl-C again ends it and keeps its model.",
                InterruptedFitWarning,
                stacklevel=callers_level(),
            )
        return chosen

    def _build(
        self,
        classes: list[Any],
        expected: "ChainExpectations | None",
        data: Sequences,
        labels: Labels,
    ) -> ChainModel:
        """Return the model with the weights that the data, the parameters and the expectations ask for."""
        words = [str(c) for c in classes]
        allowed = allowed_transitions(words, self.scheme)
        if expected is not None:
            allowed = expected.without_forbidden(allowed)
        check_possible(labels, words, self.scheme, allowed)
        return ChainModel.build(data, labels, allowed=allowed, start_end=self.start_end, **self._structure())

    def _structure(self) -> dict[str, Any]:
        """Return the parameters that say which features and transitions have weights."""
        return {
            "all_states": self.all_states,
            "all_transitions": self.all_transitions,
            "min_count": max(1, self.min_count),
        }

    def _presumed(self, labels: Labels, names: LabelEncoder, model: ChainModel) -> Labels:
        """Return labels in which tokens of which nothing is known have the initial label."""
        from rulefield.estimators.chain.expectations import presumed

        masks = model.allowed, model.allowed_start, model.allowed_end
        return presumed(labels, list(names.classes_).index(self.initial_label), masks)

    def _warm_weights(self, model: ChainModel, encoder: InputEncoder, names: LabelEncoder) -> np.ndarray | None:
        """Return weights to begin from: those of the last fit, by name; None if there is none."""
        if not self.__sklearn_is_fitted__():
            return None
        feature = places_of(self._encoder.names, encoder.names)
        return transfer(self.theta_, self.model_, model, feature, places_of(self.classes_, names.classes_))

    def _first_weights(self, likelihood: ChainLikelihood, limits: dict[str, Any]) -> np.ndarray:
        """Return weights that maximize a likelihood roughly, to begin from."""
        done = fit_likelihood(likelihood, **limits, n_jobs=n_threads(self.n_jobs), seed=self._seed())
        if done.interrupted:
            raise KeyboardInterrupt
        return done.theta

    def _maximize(
        self, likelihood: Any, start: np.ndarray | None, penalties: Penalties, progress: ProgressLine
    ) -> FitResult:
        """Maximize the likelihood of data in memory or on disk; Ctrl-C keeps the newest weights."""
        tol = self.tol
        if tol is None:
            tol = CHOSEN_L1_TOL if self.l1 == AUTO and penalties.l1 > 0.0 else DEFAULT_TOL
        how: dict[str, Any] = {"callback": progress, "n_jobs": n_threads(self.n_jobs), "seed": self._seed()}
        max_iter = self.max_iter or DEFAULT_ITERATIONS
        return fit_likelihood(likelihood, start, l1=penalties.l1, max_iter=max_iter, tol=tol, **how)

    def _keep(
        self,
        model: ChainModel,
        done: FitResult,
        penalties: Penalties,
        encoder: InputEncoder,
        names: LabelEncoder,
        reports: Sequence[Any] = (),
    ) -> "ChainCRF":
        """Set the attributes of a fitted chain, and warn if the fit did not end by itself."""
        self.classes_ = object_array(names.classes_)
        self.l1_, self.l2_ = penalties.l1, penalties.l2
        self.model_, self.theta_ = model, done.theta
        encoder.labels = names.classes_
        self._encoder, self._labels_encoder = encoder, names
        self.expectations_ = list(reports)
        report_fit(self, done)
        return self

    def _seed(self) -> int:
        """Return a seed; without a ``random_state`` always the same one, so that a fit can be repeated."""
        return 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))

    # --- answers ----------------------------------------------------------------------------------

    def predict(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
    ) -> np.ndarray:
        """Return the best labels of each sequence, as :meth:`SequenceEstimator.predict` describes."""
        check_is_fitted(self)
        rows = as_list(X)
        if known is None and not self._acting(rules):
            labels = self._labels_without_rules(rows)
            if labels is not None:
                return object_array(labels)
        return super().predict(rows, rules=rules, known=known)

    def _labels_without_rules(self, rows: Any) -> list[Any] | None:
        """Return the best labels of sequences, of many tokens one thread encoding while another decodes; loads no engines.

        None if something is wrong with a sequence: who reads them all says what.
        """
        encoder, jobs = self._encoder, n_threads(self.n_jobs)
        shares = isinstance(rows, list) and len(rows) >= LEAST_APART and not encoder.scored and encoder.by_keys
        apart = jobs > 1 and shares
        size = int(np.clip(len(rows) // (PORTIONS * jobs), *PORTION)) if apart else max(len(rows), 1)
        decoder = ChainDecoder(self.model_, self.theta_, 1 if apart else jobs)

        def labels(first: int) -> list[Any]:
            data = encoder.transform(rows[first : first + size] if apart else rows)
            return label_lists(self._labels_encoder, decoder.best(data), data.lengths)

        try:
            done = in_threads(labels, range(0, max(len(rows), 1), size), jobs if apart else 1)
        except RulefieldError:
            return None
        return [own for part in done for own in part]

    def log_likelihood(self, X: SequencesLike, y: LabelsLike) -> np.ndarray:
        """Log-probability of the labels of each sequence, (n_sequences,), by the model without rules.

        Unknown labels are summed over.
        """
        check_is_fitted(self)
        data = self._encoder.transform(as_list(X))
        return self._decoder().log_likelihood(data, self._labels_encoder.encode(y, data.lengths))

    def weights(self) -> list[Weight]:
        """Return every weight that is not 0 as rows (feature, previous, label, weight) for ``pandas.DataFrame``."""
        check_is_fitted(self)
        return weight_rows(self.model_, self.theta_, self.classes_.tolist(), self._encoder.names)

    # --- the family: what the base asks of a chain ------------------------------------------------

    def _possible(self, known: KnownLike, batch: Batch) -> np.ndarray:
        return possible_labels(self._labels_encoder, known, batch.data.lengths)

    def _answers(self, rules: list[Any], on_infeasible: str, n_jobs: int) -> "ChainAnswers":
        from rulefield.estimators.chain.answers import ChainAnswers  # loads rules and engines

        decoder = ChainDecoder(self.model_, self.theta_, n_jobs)
        return ChainAnswers(decoder, self.classes_.tolist(), self.scheme, rules, on_infeasible == "relax", n_jobs)

    def _decoder(self) -> ChainDecoder:
        return ChainDecoder(self.model_, self.theta_, n_threads(self.n_jobs))

    def _explain_weights(self, top: int) -> ModelExplanation:
        return explain_model(self.model_, self.theta_, self.classes_.tolist(), self._encoder.names, top)

    def _explain_labels(
        self, batch: Batch, ids: np.ndarray, labeling: Labeling, marginals: Any, top: int
    ) -> list[TokenExplanation]:
        explainer = ChainExplainer(self.model_, self.theta_, self.classes_.tolist(), self._encoder.columns, top)
        return explainer.explain(batch.tokens[0], batch.data, ids, marginals)

    def _score_labels(self, y: LabelsLike, predicted: LabelsLike) -> float:
        return span_f1(list(y), list(predicted), scheme=self.scheme or "auto")

    # --- files ------------------------------------------------------------------------------------

    def _check_restored(self) -> None:
        if self.model_.n_labels != len(self.classes_):
            raise ModelFileError("the model file has weights for other labels; save the model again.")
        self._labels_encoder = LabelEncoder().set_classes(self.classes_.tolist())

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        super()._restore(arrays, metadata, **given)
        self._encoder.labels = self._labels_encoder.classes_
