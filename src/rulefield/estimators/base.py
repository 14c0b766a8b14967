"""The base of sequence estimators: everything that they answer once they are fitted."""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.estimators.explanations import Explanation, ModelExplanation, with_rules_or_without
from rulefield.estimators.inputs import InputEncoder, SequenceMetadata, as_list, tokens_of
from rulefield.estimators.labelings import Labeling
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
    number,
    optional,
    rule_list,
    whole,
)
from rulefield.estimators.saving import SavedModel, State
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
from rulefield.forms import check_arrays, check_typed, weights
from rulefield.parallel import n_threads
from rulefield.scikit import check_is_fitted, check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.answers import Answers  # loads rules and engines

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
    """Sequences of one call: ``rows`` as the user gave them, ``data`` as the family encodes them.

    ``data`` has an attribute ``sequences`` if it is more than feature rows; ``allowed`` are the labels that are
    possible, in the family's form (None: all); ``potentials`` those of each sequence, if a family makes them all
    together.
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


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceEstimator(SavedModel):
    """A model of sequences: everything that it answers once it is fitted, written once for all families.

    A family gives the methods from ``_encode`` to ``_score_labels``; the rest is the same for all of them.
    Parameters are those of :class:`ChainCRF`.
    """

    rules: RulesLike | None = None
    on_infeasible: str = "raise"
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: int = 0

    _given_to_load = ("features",)
    _structured = True
    classes_: Any = field(init=False)
    model_: Any = field(init=False)
    theta_: np.ndarray = field(init=False)
    _encoder: InputEncoder = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    # --- what a family gives ----------------------------------------------------------------------

    def _encode(self, X: SequencesLike) -> Batch:
        """Encode sequences."""
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

    def _check_restored(self) -> None:
        """Refuse attributes of a file that do not fit each other; set those that follow from them."""

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
        answers, batch = self._asked(X, rules, known)
        return object_array(answers.labels(batch))

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
        answers, batch = self._asked(X, rules, known)
        labelings = answers.labelings(batch, probability=probability, tolerance=tolerance, engine=engine, **how)
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
        answers, batch = self._asked(X, rules, known)
        return in_form(output, answers.marginals(batch, tolerance=tolerance), self.classes_)

    def predict_kbest(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None, k: int = 5
    ) -> list[list[tuple[Any, float]]]:
        """Return the k best labelings of each sequence under the rules, best first, and their probabilities."""
        check_call(k=k)
        answers, batch = self._asked(X, rules, known)
        return answers.kbest(batch, k)

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
        answers, batch = self._asked(X, rules, known)
        return answers.samples(batch, n_samples, int(generator.randint(2**31 - 1)))

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
        answers, batch = self._asked(X, rules, None if known is None else [known])
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

    def _state(self) -> State:
        arrays, encoder = self._encoder.state()
        return arrays, {"encoder": encoder}

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        check_typed(metadata, SequenceMetadata, "the model")
        self._check_restored()
        check_arrays({"theta": self.theta_}, {"theta": weights("weights")}, {"weights": self.model_.size})
        self._encoder = InputEncoder.from_state(arrays, metadata["encoder"], self.model_.n_features, **given)

    # --- shared -----------------------------------------------------------------------------------

    def _asked(self, X: SequencesLike, rules: RulesLike | None, known: KnownLike | None) -> tuple[Any, Batch]:
        """Return the answers under the rules that act, and the encoded sequences to ask them for."""
        check_is_fitted(self)
        answers = self._answers_under(self._acting(rules))
        batch = self._encode(as_list(X))
        if known is not None:
            batch.allowed = self._possible(known, batch)
        return answers, batch

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
