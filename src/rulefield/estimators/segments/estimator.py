"""The semi-Markov CRF as a scikit-learn estimator."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder, check_possible
from rulefield.encode.schemes import allowed_transitions
from rulefield.estimators.base import SEQUENCE_PARAMETERS, Batch, SequenceEstimator
from rulefield.estimators.explanations import ModelExplanation, TokenExplanation
from rulefield.estimators.fitting import ProgressLine, report_fit
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_and_labels, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import (
    FLAG,
    SCHEME,
    Table,
    check_parameters,
    instance_of,
    number,
    optional,
    whole,
)
from rulefield.estimators.segments.coding import LexiconMatcher, SegmentCoder, SegmentData
from rulefield.estimators.segments.explanations import SegmentExplainer, explain_segments
from rulefield.estimators.sequences import check_some_tokens, checked_weights, object_array, whole_rows
from rulefield.estimators.types import (
    ArrayLike,
    KnownLike,
    LabelsLike,
    RulesLike,
    SequencesLike,
    Transformer,
)
from rulefield.exceptions import ModelFileError
from rulefield.interrupts import interruptible
from rulefield.learning.fit_log import FitResult
from rulefield.learning.lbfgs import minimize_owlqn
from rulefield.learning.segments import SegmentLikelihood
from rulefield.metrics import span_f1
from rulefield.models.segments import Segmentation, SegmentModel, SpanMatches
from rulefield.parallel import n_threads

if TYPE_CHECKING:
    from rulefield.estimators.segments.answers import SegmentAnswers

DEFAULT_ITERATIONS, DEFAULT_TOL = 500, 1e-5


class Segment(NamedTuple):
    """Tokens ``start`` to ``stop`` (not included) are a ``type``."""

    start: int
    stop: int
    type: Any


@dataclass(kw_only=True, eq=False, repr=False)
class SegmentCRF(SequenceEstimator):
    r"""Semi-Markov conditional random field: labels whole segments, with features of segments.

    Maximizes :math:`\sum_i \log p(s_i \mid x_i) - l_1 |w|_1 - \frac{l_2}{2} |w|^2` over segmentations s. A segment is
    scored by the features of its tokens, of its first and last token, its length and the lexicons that hold it
    ([Sarawagi04]). Training and prediction are exact and cost, for every token, the longest segment times
    the number of labels.

    Parameters
    ----------
    l1, l2 : float
        Strength of the penalties.
    scheme : {None, "BIO", "IOB1", "IOE1", "IOE2", "BIOES", "BILOU"}
        How ``y`` writes segments. Without a scheme a segment is a maximal run of one label.
    lexicons : mapping of name to phrases, optional
        Being, as a whole, an entry of a lexicon is a feature of a segment. Needs plain tokens in ``X``.
    max_length : int, optional
        Most tokens in a segment; by default the longest of each label in training.
    boundary_features : bool
        Whether features of a segment's first and last token have weights of their own.
    max_iter : int, optional
        Most iterations; 500 by default.
    features, all_states, all_transitions, min_count, tol, rules, on_infeasible, random_state, n_jobs, verbose
        As in :class:`ChainCRF`.

    Attributes
    ----------
    classes_ : ndarray
        Segment labels (``O`` last, where tokens lie outside segments).
    log_ : list
        One record per iteration.
    n_iter_ : int
    converged_ : bool
    stopped_because_ : str
        What ended the fit, in words.
    theta_ : ndarray
        All weights; ``model_`` says which is which.

    Examples
    --------
    >>> from rulefield import SegmentCRF
    >>> X = [["Ada", "Lovelace", "1843"], ["Alan", "Turing", "1936"]]
    >>> y = [["B-name", "I-name", "B-year"], ["B-name", "I-name", "B-year"]]
    >>> crf = SegmentCRF(scheme="BIO").fit(X, y)
    >>> crf.predict_segments([["Emmy", "Noether", "1918"]])[0]
    [Segment(start=0, stop=2, type='name'), Segment(start=2, stop=3, type='year')]
    """

    l1: float = 0.0
    l2: float = 1.0
    scheme: str | None = None
    features: Transformer | None = None
    lexicons: Mapping[str, Iterable[str | Sequence[str]]] | None = None
    max_length: int | None = None
    boundary_features: bool = True
    all_states: bool = False
    all_transitions: bool = False
    min_count: int = 1
    max_iter: int | None = None
    tol: float | None = None

    _kind = "segments"
    classes_: np.ndarray = field(init=False)
    model_: SegmentModel = field(init=False)
    theta_: np.ndarray = field(init=False)
    _lexicons: LexiconMatcher = field(init=False)
    _token_labels: list[Any] = field(init=False)
    _coder: SegmentCoder = field(init=False)
    _saved = ("_token_labels", "model_", "theta_", "log_", "n_iter_", "converged_", "stopped_because_")
    _parameters: ClassVar[Table] = {
        **SEQUENCE_PARAMETERS,
        "l1": number(),
        "l2": number(),
        "scheme": SCHEME,
        "lexicons": optional(instance_of("a dict of name to entries", Mapping)),
        "max_length": optional(whole(1)),
        "boundary_features": FLAG,
    }

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(
        self, X: SequencesLike, y: LabelsLike | None = None, sample_weight: ArrayLike | None = None
    ) -> "SegmentCRF":
        """Learn from labeled sequences.

        Parameters
        ----------
        X : list of sequences of tokens, or Sequences
            As in :class:`ChainCRF`.
        y : list of sequences of token labels
            Every label must be known.
        sample_weight : array-like of shape (n_sequences,), optional
        """
        check_parameters(self)
        self._encoder = InputEncoder(copy.deepcopy(self.features))
        self._lexicons = LexiconMatcher(self.lexicons)
        tokens, y = tokens_and_labels(as_list(X), y)
        tokens = as_list(tokens)
        data = self._data(tokens, self._encoder.fit_transform(tokens))
        check_some_tokens(data.sequences)
        gold = self._gold(LabelEncoder(), y, data.sequences)
        model = self._model(data.sequences, gold)
        objective = SegmentLikelihood(
            model,
            data.sequences,
            gold,
            data.matches,
            l2=self.l2,
            sample_weight=checked_weights(sample_weight, len(data.sequences)),
            n_jobs=n_threads(self.n_jobs),
        )
        found = self._learn(objective)
        self.model_, self.theta_ = model, found.theta
        report_fit(self, found)
        return self

    def _gold(self, names: LabelEncoder, y: LabelsLike, sequences: Sequences) -> Segmentation:
        labels = names.fit(y).encode(y, sequences.lengths)
        self._token_labels = list(names.classes_)
        self._coder = SegmentCoder(self._token_labels, self.scheme)
        self.classes_ = object_array(self._coder.types)
        gold = self._coder.encode(labels)
        words = [str(c) for c in names.classes_]
        check_possible(labels, words, self.scheme, allowed_transitions(words, self.scheme))
        return gold

    def _model(self, sequences: Sequences, gold: Segmentation) -> SegmentModel:
        return SegmentModel.build(
            sequences,
            gold,
            len(self.classes_),
            longest=self._coder.longest(gold, self.max_length),
            allowed=self._coder.allowed,
            n_span_features=len(self._lexicons),
            boundary_features=self.boundary_features,
            all_states=self.all_states,
            all_transitions=self.all_transitions,
            min_count=max(1, self.min_count),
        )

    def _learn(self, objective: SegmentLikelihood) -> FitResult:
        tol = DEFAULT_TOL if self.tol is None else self.tol
        how = self.l1, self.max_iter or DEFAULT_ITERATIONS, tol
        with ProgressLine("fitting segments", bool(self.verbose)) as progress:
            start = np.zeros(objective.size)
            return minimize_owlqn(objective, start, *how, progress, n_jobs=n_threads(self.n_jobs))

    # --- answers ----------------------------------------------------------------------------------

    def predict_segments(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None
    ) -> list[list[Segment]]:
        """Return the best segments of each sequence as (start, stop, type); arguments of ``predict``."""
        answers, batch = self._asked(X, rules, known)
        rows = []
        for ids in answers.ids(batch):
            opens, types = self._coder.spelling.read(ids)
            starts = np.flatnonzero(opens).tolist()
            ends = [*starts[1:], len(ids)]
            rows.append([Segment(a, b, self.classes_[types[a]]) for a, b in zip(starts, ends)])
        return rows

    def log_likelihood(self, X: SequencesLike, y: LabelsLike) -> np.ndarray:
        """Return the log-probability of the segments of each sequence, (n_sequences,); rules play no part."""
        answers, batch = self._asked(X, [], None)
        labels = LabelEncoder().set_classes(self._coder.classes).encode(y, batch.sequences.lengths)
        return answers.log_likelihood(batch.data, self._coder.encode(labels))

    # --- the family: what the base asks of a semi-Markov model ------------------------------------

    def _encode(self, X: SequencesLike) -> Batch:
        return Batch(X, self._data(X, self._encoder.transform(X)))

    def _data(self, X: SequencesLike, sequences: Sequences) -> SegmentData:
        if not len(self._lexicons):
            return SegmentData(sequences, SpanMatches.none())
        return SegmentData(sequences, self._lexicons.find([tokens_of(X, i) for i in range(len(sequences))]))

    def _possible(self, known: KnownLike, batch: Batch) -> np.ndarray | None:
        lengths = batch.sequences.lengths
        rows = whole_rows(list(known), lengths)
        return self._coder.possible(LabelEncoder().set_classes(self._coder.words).encode(rows, lengths))

    def _answers(self, rules: list[Any], on_infeasible: str, n_jobs: int) -> "SegmentAnswers":
        from rulefield.estimators.segments.answers import SegmentAnswers  # loads rules and engines

        return SegmentAnswers(self.model_, self.theta_, self._coder, rules, on_infeasible == "relax", n_jobs)

    def _explain_weights(self, top: int) -> ModelExplanation:
        return explain_segments(self.model_, self.theta_, self.classes_.tolist(), self._encoder.names, top)

    def _explain_labels(
        self, batch: Batch, ids: np.ndarray, labeling: Labeling, marginals: Any, top: int
    ) -> list[TokenExplanation]:
        names = self._encoder.columns
        explainer = SegmentExplainer(self.model_, self.theta_, self._coder, names, self._lexicons.names, top)
        return explainer.explain(batch.tokens[0], batch.data, ids, labeling, marginals)

    def _score_labels(self, y: LabelsLike, predicted: LabelsLike) -> float:
        return span_f1(list(y), list(predicted), scheme=self.scheme)

    # --- files ------------------------------------------------------------------------------------

    def _check_restored(self) -> None:
        self._coder = SegmentCoder(self._token_labels, self.scheme)
        self._lexicons = LexiconMatcher(self.lexicons)
        counts = self.model_.n_labels, self.model_.n_span_features
        too_long = sum(self.model_.longest.tolist()) > len(self.theta_)  # whole numbers of Python do not overflow
        if counts != (len(self._coder.types), len(self._lexicons)) or too_long:
            raise ModelFileError("the model file has weights for other labels or lexicons; save the model again.")
        self.classes_ = object_array(self._coder.types)
