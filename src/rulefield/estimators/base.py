"""What estimators share: one model file for all of them, and everything that models of sequences answer."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.corpora.corpus import Corpus
from rulefield.estimators.explanations import Explanation, ModelExplanation, with_rules_or_without
from rulefield.estimators.inputs import InputEncoder, SequenceMetadata, as_list, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.packing import Packer, State, arrays_named, check_attribute, given_or, pack_or_name, unpack
from rulefield.estimators.parameters import (
    FLAG,
    N_JOBS,
    ON_INFEASIBLE,
    RANDOM_STATE,
    RULES,
    TRANSFORMER,
    VERBOSE,
    Table,
    check_call,
    check_parameters,
    number,
    optional,
    rule_list,
    whole,
)
from rulefield.estimators.sequences import checked_output, in_form, object_array, refuse_weights
from rulefield.estimators.types import (
    ArrayLike,
    KnownLike,
    LabelsLike,
    RandomState,
    RulesLike,
    SequencesLike,
    Tokens,
    Transformer,
)
from rulefield.exceptions import InputError, ModelFileError, callers_level
from rulefield.forms import FileArrays, check_arrays, check_typed, refused_as_file, weights
from rulefield.learning.fit_log import FitRecord
from rulefield.models.arrays import arrays_of
from rulefield.parallel import n_threads
from rulefield.persistence import load_model, model_to_bytes, save_model
from rulefield.scikit import Estimator, check_is_fitted, check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.answers import Answers  # loads rules and engines

_Metadata = TypedDict(
    "_Metadata",
    {
        "class": str,
        "params": dict[str, Any],
        "own_params": dict[str, Any],
        "attributes": dict[str, Any],
        "model": dict[str, Any],
    },
)
_OPTIONAL = ("n_features_in_", "feature_names_in_")
"""Attributes that a model only has if its X is a table (with names)."""


class SavedModel(Estimator):
    """``save``, ``to_bytes`` and ``load``: every constructor parameter and fitted attribute, in one file.

    The base writes the parameters and the attributes named in ``_saved`` by :class:`Packer`, which refuses what a file
    cannot hold; an estimator adds its model by :meth:`_state` and takes it back by :meth:`_restore`.
    """

    _kind: ClassVar[str]
    _parameters: ClassVar[Table]
    _saved: ClassVar[tuple[str, ...]] = ()
    """Fitted attributes that are written as they are; the class or :mod:`rulefield.estimators.packing` has their types."""
    _structured: ClassVar[bool] = False
    """Whether X is a list of sequences or graphs and y is needed, for scikit-learn's tags."""
    log_: list[FitRecord]
    n_iter_: int
    converged_: bool
    stopped_because_: str
    _given_to_load: ClassVar[tuple[str, ...]] = ()
    """Parameters that are the user's own code: the file names them, and ``load`` is given them again."""

    def _state(self) -> State:
        """Return what the model needs to predict, beyond parameters and ``_saved`` attributes."""
        return {}, {}

    @abstractmethod
    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        """Take back a :data:`State` and check that all parts fit; ``given`` stands in for what a file cannot hold."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file, which :func:`rulefield.load` reads; opening it runs no code."""
        check_is_fitted(self)
        save_model(path, self._kind, *self._whole_state())

    def to_bytes(self) -> bytes:
        """Return what ``save`` would write."""
        check_is_fitted(self)
        return model_to_bytes(self._kind, *self._whole_state())

    @classmethod
    def load(cls, source: str | Path | bytes, **given: Transformer) -> Self:
        """Read a model file: a path or its bytes.

        Parameters
        ----------
        source : path or bytes
        **given
            What a file cannot hold: ``features=`` for a transformer of your own.
        """
        kind, arrays, metadata = load_model(source)
        if kind != cls._kind:
            raise ModelFileError(
                f"this file holds a {kind!r} model, not a {cls._kind!r} one; open it with rulefield.load()."
            )
        return cls._from_state(arrays, metadata, **given)

    def _html_repr(self) -> str:
        """Return what notebooks show: scikit-learn's diagram, and of a fitted model what it holds."""
        from sklearn.exceptions import NotFittedError
        from sklearn.utils import estimator_html_repr

        from rulefield.report.notebook import model_html

        diagram = estimator_html_repr(self)
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + model_html(fitted_facts(self))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self._structured:
            tags.input_tags.two_d_array = False
            tags.target_tags.required = True
        return tags

    # --- the state as a whole ---------------------------------------------------------------------

    def _whole_state(self) -> State:
        packer = Packer(type(self).__name__)
        learned = Packer(type(self).__name__, lenient="predictors" in self._given_to_load)
        owner = self._library_class()
        own = {} if type(self) is owner else self.get_params(deep=False)
        names = owner._get_param_names()
        values = {name: getattr(self, name) for name in names} | self._params_to_save()
        arrays, model = self._state()
        metadata = {
            "class": type(self).__name__,
            "params": {name: self._pack(packer, name, values[name]) for name in names},
            "own_params": {name: self._pack(packer, name, value) for name, value in own.items()},
            "attributes": {
                name: learned.pack(getattr(self, name), name)
                for name in self._saved
                if name not in _OPTIONAL or hasattr(self, name)
            },
            "model": model,
        }
        return arrays | packer.arrays | learned.arrays, metadata

    def _params_to_save(self) -> dict[str, Any]:
        """Return parameters that a file holds otherwise than they are."""
        return {}

    def _pack(self, packer: Packer, name: str, value: object) -> Any:
        return pack_or_name(packer, name, value) if name in self._given_to_load else packer.pack(value, name)

    @classmethod
    def _library_class(cls) -> "type[SavedModel]":
        """Return the class of the library that a user's subclass comes from: the one that names the kind."""
        return next(c for c in cls.__mro__ if "_kind" in vars(c))

    @classmethod
    def _from_state(cls, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> Self:
        strange = set(given) - set(cls._given_to_load)
        if strange:
            raise TypeError(f"load() got an unexpected keyword argument {sorted(strange)[0]!r}.")
        with refused_as_file():
            return cls._read_state(arrays, metadata, given)

    @classmethod
    def _read_state(cls, arrays: dict[str, np.ndarray], metadata: dict[str, Any], given: dict[str, Any]) -> Self:
        check_typed(metadata, _Metadata, "the metadata")
        arrays = FileArrays(arrays)
        owner = cls._library_class()
        params = cls._unpacked(metadata["params"], arrays, given, owner._get_param_names())
        if cls is owner:
            made = cls(**params)
            if metadata["class"] != cls.__name__:
                warnings.warn(
                    f"the file was saved by {metadata['class']}, a subclass; it is opened as a plain {cls.__name__} "
                    f"({metadata['class']}.load opens it as one).",
                    UserWarning,
                    stacklevel=callers_level(),
                )
        else:
            made = cls(**cls._unpacked(metadata["own_params"], arrays, given, cls._get_param_names()))
            made.__dict__.update(params)
        if hasattr(cls, "_parameters"):
            check_parameters(made)
        for name in cls._saved:
            if name in metadata["attributes"] or name not in _OPTIONAL:
                value = unpack(metadata["attributes"][name], arrays)
                check_attribute(name, value, owner)
                setattr(made, name, value)
        made._restore(arrays, metadata["model"], **given)
        arrays.read.update(arrays_named(metadata["own_params"]))  # a subclass's own, which only that class reads
        arrays.check_nothing_else()
        return made

    @classmethod
    def _unpacked(
        cls, params: dict[str, Any], arrays: dict[str, np.ndarray], given: dict[str, Any], known: list[str]
    ) -> dict[str, Any]:
        strange = set(params) - set(known)
        if strange:
            raise ModelFileError(
                f"the file names a parameter {sorted(strange)[0]!r} that {cls.__name__} does not have."
            )
        return {name: given_or(value, arrays, name, given) for name, value in params.items()}


def fitted_facts(model: Any) -> list[tuple[str, str]]:
    """Say what a fitted model holds, in rows of (name, value): sizes, labels, rules, how the fit ended."""
    inner = getattr(model, "estimator_", getattr(model, "model_", model)) if not hasattr(model, "theta_") else model
    rows: list[tuple[str, str]] = []
    labels = getattr(model, "labels_", getattr(inner, "classes_", None))
    if labels is not None:
        names = [str(label) for label in labels]
        rows.append(("labels", f"{len(names)}: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"))
    if hasattr(inner, "n_features_in_"):
        rows.append(("features", f"{inner.n_features_in_:,}"))
    if hasattr(inner, "theta_"):
        rows.append(("weights", f"{inner.theta_.size:,}"))
    rules = getattr(model, "rules_", getattr(inner, "rules", None))
    rows += [("rule", repr(rule)) for rule in rules or ()]
    if hasattr(inner, "stopped_because_"):
        rows.append(("fit", f"{inner.n_iter_} iterations; {inner.stopped_because_}"))
    return rows


SEQUENCE_PARAMETERS: Table = {
    "rules": RULES,
    "on_infeasible": ON_INFEASIBLE,
    "features": TRANSFORMER,
    "all_states": FLAG,
    "all_transitions": FLAG,
    "min_count": whole(0),
    "max_iter": optional(whole(1)),
    "tol": optional(number()),
    "random_state": RANDOM_STATE,
    "n_jobs": N_JOBS,
    "verbose": VERBOSE,
}
"""Parameters that all families have."""


@dataclass(eq=False)
class Batch:
    """Sequences of one call.

    Parameters
    ----------
    rows : list or Sequences
        As the user gave them.
    data : Sequences, or what a family encodes to
        With an attribute ``sequences`` if it is more than feature rows.
    allowed : optional
        Labels that are possible, in the family's form; None if all are.
    potentials : list, optional
        Of each sequence, where a family makes those of all together.
    """

    rows: Any
    data: Any
    allowed: Any = None
    potentials: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def sequences(self) -> Sequences:
        """Feature rows of all tokens."""
        return getattr(self.data, "sequences", self.data)

    @cached_property
    def tokens(self) -> list[Any]:
        """Tokens of every sequence, as the user gave them."""
        return [tokens_of(self.rows, i) for i in range(len(self))]

    @cached_property
    def lengths(self) -> list[int]:
        """Number of tokens of every sequence."""
        return self.sequences.lengths.tolist()

    def cut(self, rows: np.ndarray, times: int = 1) -> list[np.ndarray]:
        """Cut an array of all tokens, ``times`` rows for each, by sequence."""
        return [rows[times * a : times * b] for a, b in pairwise(self.sequences.offsets.tolist())]


class SequenceEstimator(SavedModel):
    """A model of sequences: everything that it answers once it is fitted, written once for all families.

    A family gives the methods from ``_encode`` to ``_score_labels``; the rest is the same for all of them.
    """

    _given_to_load = ("features",)
    _structured = True
    _reads_corpora: ClassVar[bool] = False
    """Whether X of predictions may be a corpus on disk, whose parts are in memory in turn."""

    rules: Any
    on_infeasible: str
    random_state: Any
    n_jobs: int | None
    classes_: Any
    model_: Any
    theta_: np.ndarray
    _encoder: InputEncoder

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    # --- what a family gives ----------------------------------------------------------------------

    def _encode(self, X: SequencesLike) -> Batch:
        """Encode sequences, or a part of a corpus."""
        return Batch(X, self._encoder.transform(X))

    @abstractmethod
    def _possible(self, known: KnownLike, batch: Batch) -> Any:
        """Return the labels that are possible given those known beforehand."""

    @abstractmethod
    def _answers(self, rules: list[Any], on_infeasible: str, n_jobs: int) -> "Answers":
        """Return the answers of the model under rules."""

    @abstractmethod
    def _explain_weights(self, top: int) -> ModelExplanation:
        """Return the largest weights of the model."""

    @abstractmethod
    def _explain_labels(self, batch: Batch, ids: np.ndarray, labeling: Labeling, marginals: Any, top: int) -> Any:
        """Explain the labels of the only sequence of a batch, token by token (by task); ``ids`` are their numbers."""

    @abstractmethod
    def _score_labels(self, y: LabelsLike, predicted: LabelsLike) -> float:
        """Compare labels with the right ones."""

    # --- what users call --------------------------------------------------------------------------

    def predict(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None
    ) -> np.ndarray:
        """Return the best labels of each sequence: a 1-D object array of lists (of dicts by task for several tasks).

        Parameters
        ----------
        X : as in ``fit``
        rules : rule or list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list of sequences, optional
            Labels known beforehand, as ``y`` writes them (``None``: unknown; a set: one of these), or None for a whole
            sequence.
        """
        asked = self._asked(X, rules, known)
        return object_array([labels for answers, batch in asked for labels in answers.labels(batch)])

    def decode(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        engine: str = "auto",
        node_limit: int | None = None,
        seconds: float | None = None,
        probability: bool = False,
        tolerance: float = 1e-3,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best labeling of each sequence with its score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine : str
            The engine for rules; ``auto`` walks from cheap to exact and stops at the first proof.
        node_limit : int, optional
            Largest search of an engine; a labeling is ``bounded`` if it is reached.
        seconds : float, optional
            Further limit in time for each sequence; answers then depend on the machine.
        probability : bool
            Whether to work out the probability of each labeling under the model and the rules.
        tolerance : float
            Share of the probability mass that sums under rules may leave out; ``probability_error`` says what it can
            change. 0: exact, if the rules are few enough.
        verify : bool
            Whether the checker of proofs must accept each answer's proof before it is returned; ``proof_kind`` is then
            ``checked``, or ``solver`` if no proof was found.
        """
        check_call(node_limit=node_limit, seconds=seconds)
        limits: dict[str, float | None] = {"node_limit": node_limit, "seconds": seconds}
        how = {name: value for name, value in limits.items() if value is not None}
        labelings = [
            labeling
            for answers, batch in self._asked(X, rules, known)
            for labeling in answers.labelings(
                batch, probability=probability, tolerance=tolerance, engine=engine, **how
            )
        ]
        return [labeling.verified() for labeling in labelings] if verify else labelings

    def predict_marginals(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        output: str = "dict",
        tolerance: float = 1e-6,
    ) -> list[Any]:
        """Return the probability of every label (of segments: of every type) at every token.

        Labelings that break a hard rule do not count, soft rules are paid for.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        output : {"dict", "array"}
            A list of {label: probability} for each sequence, or an array (n_tokens, n_labels) in the order of
            ``classes_``.
        tolerance : float
            Share of the probability mass that sums under rules may leave out, a bound on the error; 0: none.
        """
        checked_output(output)
        asked = self._asked(X, rules, known)
        found = [table for answers, batch in asked for table in answers.marginals(batch, tolerance=tolerance)]
        return in_form(output, found, self.classes_)

    def predict_kbest(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None, k: int = 5
    ) -> list[list[tuple[Any, float]]]:
        """Return the k best labelings of each sequence under the rules, best first, and their probabilities."""
        check_call(k=k)
        return [row for answers, batch in self._asked(X, rules, known) for row in answers.kbest(batch, k)]

    def sample(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> list[list[Any]]:
        """Draw ``n_samples`` labelings of each sequence from the model's distribution under the rules."""
        check_call(n_samples=n_samples)
        generator = check_random_state(self.random_state if random_state is None else random_state)
        drawn = []
        for answers, batch in self._asked(X, rules, known):
            drawn += answers.samples(batch, n_samples, int(generator.randint(2**31 - 1)))
        return drawn

    def explain(
        self,
        x: Tokens | None = None,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        top: int = 5,
    ) -> Any:
        """Say which features and transitions decided the labels of one sequence; without ``x``, the largest weights.

        Parameters
        ----------
        x : one sequence
        rules : as in ``predict``
        known : sequence of labels
            Of ``x``.
        top : int
            How many features and transitions to name for each token.
        """
        check_is_fitted(self)
        if x is None:
            return self._explain_weights(top)
        X = x if isinstance(x, Sequences) else [x]
        ((answers, batch),) = self._asked(X, rules, None if known is None else [known])
        result = answers.results(batch, insist=True)[0]
        labeling = answers.labeling(batch, 0, result)
        marginals, note = with_rules_or_without(
            lambda: answers.marginals(batch, quick=True)[0],
            lambda: self._answers([], self.on_infeasible, 1).marginals(batch)[0],
        )
        reasons = self._explain_labels(batch, result.labels, labeling, marginals, top)
        if isinstance(reasons, dict):
            return {task: Explanation(tuple(own), labeling.broken, note) for task, own in reasons.items()}
        return Explanation(tuple(reasons), labeling.broken, note)

    def score(
        self,
        X: SequencesLike,
        y: LabelsLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the span F1, as conlleval counts it (for several tasks the mean of their scores).

        Without a scheme the prefixes of the labels tell it, or runs of one label are spans.
        """
        refuse_weights(sample_weight)
        return self._score_labels(y, self.predict(X, rules=rules, known=known))

    # --- files ------------------------------------------------------------------------------------

    _metadata: ClassVar[type] = SequenceMetadata

    def _read_model(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> tuple[Any, int]:
        """Return the checked model of a file, and the number of its weights; a family with weights gives this, too."""
        raise NotImplementedError

    def _model_metadata(self) -> dict[str, Any]:
        """Return what a file holds of the model beside arrays and features."""
        return {}

    def _state(self) -> State:
        arrays, encoder = self._encoder.state()
        arrays |= arrays_of(self.model_) | {"theta": self.theta_}
        return arrays, {"encoder": encoder, **self._model_metadata()}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        check_typed(metadata, self._metadata, "the model")
        self.model_, size = self._read_model(arrays, metadata)
        check_arrays(arrays, {"theta": weights("weights")}, {"weights": size})
        self.theta_ = arrays["theta"]
        self._encoder = InputEncoder.from_state(arrays, metadata["encoder"], self.model_.n_features, **given)

    # --- shared -----------------------------------------------------------------------------------

    def _asked(
        self, X: SequencesLike, rules: RulesLike | None, known: KnownLike | None
    ) -> Iterator[tuple[Any, Batch]]:
        """Give the answers under the rules that act with the encoded sequences to ask them for; a corpus in its parts."""
        check_is_fitted(self)
        answers = self._answers_under(self._acting(rules))
        if self._reads_corpora and isinstance(X, Corpus):
            if known is not None:
                raise InputError("known labels go with lists of sequences; a corpus takes none.")
            for part in X.slices:
                yield answers, self._encode(part)
        else:
            batch = self._encode(as_list(X))
            if known is not None:
                batch.allowed = self._possible(known, batch)
            yield answers, batch

    def _answers_under(self, rules: list[Any]) -> "Answers":
        """Return the answers under rules; they are kept for the next call, so that the same rules are compiled once."""
        model = getattr(self, "estimator_", self)
        how = (
            self.on_infeasible,
            n_threads(self.n_jobs),
            getattr(model, "scheme", None),
            getattr(self, "method", None),
        )
        used = *rules, model.theta_, model.model_
        kept = self.__dict__.get("_kept")
        if kept is None or kept[0] != how or [*map(id, kept[1])] != [*map(id, used)]:
            kept = self._kept = how, used, self._answers(rules, *how[:2])
        return kept[2]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_kept"}

    def _acting(self, rules: RulesLike | None) -> list[Any]:
        """Return the rules that act: the model's own unless others are given."""
        acting = self.rules if rules is None else rules
        return [] if acting is None else rule_list(acting)

    def _usual(self, name: str) -> Any:
        """Return the features that plain tokens get by default: ``GridSearchCV`` sets ``features__window``."""
        if name != "features":
            return super()._usual(name)
        from rulefield.encode.tokens import TokenFeatures

        return TokenFeatures()

    @property
    def n_features_in_(self) -> int:
        """Number of features seen in training (AttributeError before ``fit``)."""
        return self._encoder.n_features

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features seen in training, by column; for matrices the column numbers."""
        return np.array(self._encoder.names, dtype=object)
