"""What a fitted chain answers: labels, probabilities, k best, samples, explanations; rules where there are some."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.base import SequenceEstimator
from rulefield.estimators.chain.decoding import ChainDecoder
from rulefield.estimators.chain.explanations import ChainExplainer, Explanation, ModelExplanation, explain_model
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.sequences import label_lists, object_array, token_lists
from rulefield.exceptions import InputError
from rulefield.metrics import span_f1
from rulefield.models.chain import ChainModel
from rulefield.parallel import n_threads

if TYPE_CHECKING:
    from rulefield.estimators.chain.under_rules import RuledDecoder


class FittedChain(SequenceEstimator):
    """The half of :class:`rulefield.ChainCRF` that works once weights are there, however they were learned."""

    scheme: str | None
    rules: Sequence[Any] | None
    on_infeasible: str
    random_state: Any
    n_jobs: int | None
    classes_: list[Any]
    model_: ChainModel
    theta_: np.ndarray
    _encoder: InputEncoder
    _labels_encoder: LabelEncoder

    def predict(self, X: Any, *, rules: Sequence[Any] | None = None, known: Any = None) -> np.ndarray:
        """Return the best labels of each sequence: a 1-D object array of lists.

        Parameters
        ----------
        X : as in ``fit``
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list of sequences, optional
            Labels known beforehand (``None``: unknown; a set: one of these).
        """
        self._check_fitted()
        X = as_list(X)
        data = self._encoder.transform(X)
        rules = self.rules if rules is None else rules
        if rules:
            return object_array([labelling.labels for labelling in self._ruled(X, data, rules, known, {})])
        ids = self._decoder().best(data, self._known(known, data))
        return object_array(label_lists(self._labels_encoder, ids, data.lengths))

    def decode(
        self, X: Any, *, rules: Sequence[Any] | None = None, known: Any = None, engine: str = "auto", **limits: Any
    ) -> list[Labeling]:
        """Return the best labelling of each sequence with its score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine : str
            The engine for rules; ``auto`` walks from cheap to exact and stops at the first proof.
        **limits : ``node_limit``, ``seconds``
        """
        self._check_fitted()
        X = as_list(X)
        data = self._encoder.transform(X)
        rules = self.rules if rules is None else rules
        return self._ruled(X, data, rules or [], known, {"engine": engine, **limits})

    def _ruled(
        self, X: Any, data: Sequences, rules: Sequence[Any], known: Any, how: dict[str, Any]
    ) -> list[Labeling]:
        return self._ruled_decoder(rules).decode(data, token_lists(X, data), self._known(known, data), **how)

    def _ruled_decoder(self, rules: Sequence[Any]) -> "RuledDecoder":
        from rulefield.estimators.chain.under_rules import (
            RuledDecoder,  # loads rules and engines: only where asked for
        )

        return RuledDecoder(self._decoder(), rules, self.classes_, self.scheme, self.on_infeasible)

    def predict_marginals(
        self, X: Any, *, output: str = "dict", known: Any = None, rules: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return the probability of every label at every token.

        Parameters
        ----------
        rules : list of rules, optional
            Probabilities under these: labellings that break a hard one do not count, soft ones are paid for. By
            default the model's plain probabilities, whatever its rules.
        output : {"dict", "array"}
            A list of {label: probability} for each sequence, or an array (n_tokens, n_labels) in the order of
            ``classes_``.
        """
        self._check_fitted()
        if output not in ("dict", "array"):
            raise InputError(f"output must be 'dict' or 'array'; got {output!r}.")
        X = as_list(X)
        data = self._encoder.transform(X)
        allowed = self._known(known, data)
        if rules:
            node = self._ruled_decoder(rules).marginals(data, token_lists(X, data), allowed)
        else:
            node = self._decoder().marginals(data, allowed)
        pieces = np.split(node, data.offsets[1:-1]) if len(data) else []
        if output == "array":
            return pieces
        return [[dict(zip(self.classes_, row)) for row in piece.tolist()] for piece in pieces]

    def predict_kbest(
        self, X: Any, k: int = 5, *, known: Any = None, rules: Sequence[Any] | None = None
    ) -> list[list[tuple[list[Any], float]]]:
        """Return the k best labellings of each sequence (under ``rules``, if given) and their probabilities."""
        self._check_fitted()
        X = as_list(X)
        data = self._encoder.transform(X)
        allowed = self._known(known, data)
        if rules:
            answers = self._ruled_decoder(rules).kbest(data, k, token_lists(X, data), allowed)
        else:
            answers = self._decoder().kbest(data, k, allowed)
        return [[(self._labels_encoder.decode(ids), p) for ids, p in row] for row in answers]

    def sample(
        self, X: Any, n: int = 1, *, random_state: Any = None, rules: Sequence[Any] | None = None
    ) -> list[list[list[Any]]]:
        """Draw ``n`` labellings of each sequence from the model's distribution (under ``rules``, if given)."""
        self._check_fitted()
        X = as_list(X)
        data = self._encoder.transform(X)
        seed = check_random_state(self.random_state if random_state is None else random_state).randint(2**31 - 1)
        generator = np.random.default_rng(seed)
        if rules:
            drawn = self._ruled_decoder(rules).sample(data, n, token_lists(X, data), generator)
        else:
            drawn = self._decoder().sample(data, n, generator)
        return [[self._labels_encoder.decode(ids) for ids in rows] for rows in drawn]

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of the labels of each sequence, (n_sequences,); unknown labels are summed over."""
        self._check_fitted()
        data = self._encoder.transform(as_list(X))
        return self._decoder().log_likelihood(data, self._labels_encoder.encode(y, data.lengths))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Span F1, as conlleval counts it; without a scheme the prefixes of the labels tell it, or runs are spans."""
        if sample_weight is not None:
            raise InputError("score() counts spans over all sequences and takes no sample_weight; leave it out.")
        return span_f1(list(y), list(self.predict(X)), scheme=self.scheme or "auto")

    def explain(self, x: Any = None, top: int = 5) -> Explanation | ModelExplanation:
        """Say which features and transitions decided the labels of ``x``; without ``x``, the largest weights."""
        self._check_fitted()
        names = self._encoder.names
        if x is None:
            return explain_model(self.model_, self.theta_, self.classes_, names, top)
        X = x if isinstance(x, Sequences) else [x]
        data = self._encoder.transform(X)
        decoder = self._decoder()
        explainer = ChainExplainer(self.model_, self.theta_, self.classes_, names, top)
        return explainer.explain(tokens_of(X, 0), data, decoder.best(data), decoder.marginals(data))

    def _decoder(self) -> ChainDecoder:
        return ChainDecoder(self.model_, self.theta_, n_threads(self.n_jobs))

    def _known(self, known: Any, data: Sequences) -> np.ndarray | None:
        if known is None:
            return None
        labels = self._labels_encoder.encode(known, data.lengths)
        if labels.allowed is not None:
            return labels.allowed
        return (labels.ids[:, None] == np.arange(labels.n_labels)).astype(np.uint8)

    def _check_fitted(self) -> None:
        check_is_fitted(self)
