"""What a fitted semi-Markov model answers: segments, their labels, probabilities, k best, samples; under rules if any."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.base import SequenceEstimator
from rulefield.estimators.explanations import Explanation, ModelExplanation, with_rules_or_without
from rulefield.estimators.inputs import InputEncoder, as_list, tokens_of
from rulefield.estimators.labelings import Labeling
from rulefield.estimators.parameters import check_call
from rulefield.estimators.segments.coding import LexiconMatcher, SegmentCoder
from rulefield.estimators.segments.decoding import SegmentData, SegmentDecoder
from rulefield.estimators.segments.explanations import SegmentExplainer, explain_weights
from rulefield.estimators.sequences import (
    checked_output,
    in_form,
    object_array,
    refuse_weights,
    token_lists,
    whole_rows,
)
from rulefield.estimators.types import ArrayLike, KnownLike, LabelsLike, RandomState, RulesLike, SequencesLike, Tokens
from rulefield.metrics import span_f1
from rulefield.models.segments import SegmentModel, SpanMatches
from rulefield.parallel import n_threads
from rulefield.scikit import check_is_fitted, check_random_state

if TYPE_CHECKING:
    from rulefield.estimators.segments.under_rules import RuledSegmentDecoder


class Segment(NamedTuple):
    """Tokens ``start`` to ``stop`` (not included) are a ``type``."""

    start: int
    stop: int
    type: Any


class FittedSegments(SequenceEstimator):
    """The half of :class:`rulefield.SegmentCRF` that works once weights are there."""

    scheme: str | None
    rules: RulesLike | None
    on_infeasible: str
    random_state: RandomState
    n_jobs: int | None
    classes_: list[Any]
    model_: SegmentModel
    theta_: np.ndarray
    _encoder: InputEncoder
    _lexicons: LexiconMatcher
    _coder: SegmentCoder

    def predict(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None
    ) -> np.ndarray:
        """Return the token labels of the best segmentation of each sequence: a 1-D object array of lists.

        Parameters
        ----------
        X : as in ``fit``
        rules : list of rules, optional
            In place of the model's own; ``[]`` for none.
        known : list of sequences, optional
            Token labels known beforehand, as ``y`` writes them (``None``: unknown; a set: one of these).
        """
        return object_array([self._coder.named(ids) for ids in self._best(X, rules, known)])

    def predict_segments(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None
    ) -> list[list[Segment]]:
        """Return the best segments of each sequence as (start, stop, type); arguments of ``predict``."""
        rows = []
        for ids in self._best(X, rules, known):
            opens, types = self._coder.spelling.read(ids)
            starts = np.flatnonzero(opens).tolist()
            ends = [*starts[1:], len(ids)]
            rows.append([Segment(a, b, self.classes_[types[a]]) for a, b in zip(starts, ends)])
        return rows

    def decode(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        engine: str = "auto",
        node_limit: int | None = None,
        seconds: float | None = None,
        verify: bool = False,
    ) -> list[Labeling]:
        """Return the best segmentation of each sequence with its score, bound, status and the rules it breaks.

        Parameters
        ----------
        X, rules, known : as in ``predict``
        engine : str
            One of ``auto`` (cheap to exact, until the first proof), ``viterbi``, ``soft_dd``, ``product``, ``enumerate``.
        node_limit : int, optional
            Lattice nodes per sequence; where they do not suffice the answer is ``bounded``, with a true gap.
        seconds : float, optional
            Further limit per sequence.
        verify : bool
            Whether the checker of proofs must accept each answer's proof before it is returned.
        """
        check_call(node_limit=node_limit, seconds=seconds)
        data, tokens, allowed = self._given(X, known)
        limits = {"seconds": seconds} | ({} if node_limit is None else {"node_limit": node_limit})
        found = self._ruled(self._acting(rules)).decode(data, tokens, allowed, engine=engine, **limits)
        return [answer.verified() for answer in found] if verify else found

    def predict_marginals(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        output: str = "dict",
    ) -> list[Any]:
        """Return the probability that each token lies in a segment of each type.

        Parameters
        ----------
        X, rules, known : as in ``predict``
            Segmentations that break a hard rule do not count, soft rules are paid for.
        output : {"dict", "array"}
            A list of {type: probability} for each sequence, or an array (n_tokens, n_types) in the order of
            ``classes_``.
        """
        checked_output(output)
        data, tokens, allowed = self._given(X, known)
        acting = self._acting(rules)
        if acting or allowed is not None:
            pieces = self._ruled(acting).marginals(data, tokens, allowed)
        else:
            pieces = np.split(self._decoder().marginals(data), data.sequences.offsets[1:-1])[: len(tokens)]
        return in_form(output, pieces, self.classes_)

    def predict_kbest(
        self, X: SequencesLike, *, rules: RulesLike | None = None, known: KnownLike | None = None, k: int = 5
    ) -> list[list[tuple[list[Any], float]]]:
        """Return the token labels of the k best segmentations of each sequence, with their probabilities.

        Without a scheme two of them may have the same labels, cut differently, only where there is a single type.
        """
        check_call(k=k)
        data, tokens, allowed = self._given(X, known)
        return self._ruled(self._acting(rules)).kbest(data, tokens, allowed, k)

    def sample(
        self,
        X: SequencesLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        n_samples: int = 1,
        random_state: RandomState = None,
    ) -> list[list[list[Any]]]:
        """Draw ``n_samples`` segmentations of each sequence from the model's distribution, as token labels."""
        check_call(n_samples=n_samples)
        data, tokens, allowed = self._given(X, known)
        seed = check_random_state(self.random_state if random_state is None else random_state).randint(2**31 - 1)
        return self._ruled(self._acting(rules)).sample(data, tokens, allowed, n_samples, seed)

    def log_likelihood(self, X: SequencesLike, y: LabelsLike) -> np.ndarray:
        """Return the log-probability of the segments of each sequence, (n_sequences,); rules play no part."""
        data, _, _ = self._given(X, None)
        labels = LabelEncoder().set_classes(self._coder.classes).encode(y, data.sequences.lengths)
        return self._decoder().log_likelihood(data, self._coder.encode(labels))

    def explain(
        self,
        x: Tokens | None = None,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        top: int = 5,
    ) -> Explanation | ModelExplanation:
        """Say what decided the segments of one sequence, token by token; without ``x``, the largest weights.

        Parameters
        ----------
        x, rules, known, top : as in :meth:`ChainCRF.explain`
        """
        check_is_fitted(self)
        if x is None:
            return explain_weights(self.model_, self.theta_, self.classes_, self._encoder.names, top)
        X, known = x if isinstance(x, Sequences) else [x], None if known is None else [known]
        data, tokens, allowed = self._given(X, known)
        ruled = self._ruled(self._acting(rules))
        result = ruled.results(data, tokens, allowed)[0]
        (marginals,), note = with_rules_or_without(
            lambda: ruled.marginals(data, tokens, allowed), lambda: self._ruled([]).marginals(data, tokens, allowed)
        )
        names = self._encoder.names_in(X)
        explainer = SegmentExplainer(self.model_, self.theta_, self._coder, names, self._lexicons.names, top)
        return explainer.explain(tokens[0], data, result.labels, ruled.named(result), marginals, note)

    def score(
        self,
        X: SequencesLike,
        y: LabelsLike,
        *,
        rules: RulesLike | None = None,
        known: KnownLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Span F1, as conlleval counts it (under no scheme a span is a run of one label)."""
        refuse_weights(sample_weight)
        return span_f1(list(y), list(self.predict(X, rules=rules, known=known)), scheme=self.scheme)

    # --- helpers ----------------------------------------------------------------------------------

    def _best(self, X: SequencesLike, rules: RulesLike | None, known: KnownLike | None) -> list[np.ndarray]:
        """Token labels, as places in the coder's ``labels``, of each sequence's best segmentation."""
        data, tokens, allowed = self._given(X, known)
        acting = self._acting(rules)
        if acting or allowed is not None:
            return [result.labels for result in self._ruled(acting).results(data, tokens, allowed)]
        best = self._decoder().best(data)
        offsets = data.sequences.offsets.tolist()
        return [self._coder.spelling.write(best.opens[a:b], best.labels[a:b]) for a, b in pairwise(offsets)]

    def _given(self, X: SequencesLike, known: KnownLike | None) -> tuple[SegmentData, list[Any], np.ndarray | None]:
        """Encode the input; return it with its tokens and the token labels that are possible (None: all)."""
        check_is_fitted(self)
        X = as_list(X)
        data = self._data(X, self._encoder.transform(X))
        sequences = data.sequences
        return data, token_lists(X, sequences), self._known(known, sequences.lengths)

    def _known(self, known: KnownLike | None, lengths: np.ndarray) -> np.ndarray | None:
        if known is None:
            return None
        rows = whole_rows(list(known), lengths)
        return self._coder.possible(LabelEncoder().set_classes(self._coder.words).encode(rows, lengths))

    def _ruled(self, rules: Sequence[Any]) -> "RuledSegmentDecoder":
        from rulefield.estimators.segments.under_rules import (
            RuledSegmentDecoder,  # loads rules and engines: only where asked for
        )

        return RuledSegmentDecoder(self._decoder(), self._coder, rules, self.on_infeasible)

    def _decoder(self) -> SegmentDecoder:
        return SegmentDecoder(self.model_, self.theta_, n_threads(self.n_jobs))

    def _data(self, X: SequencesLike, sequences: Sequences) -> SegmentData:
        if not len(self._lexicons):
            return SegmentData(sequences, SpanMatches.none())
        return SegmentData(sequences, self._lexicons.find([tokens_of(X, i) for i in range(len(sequences))]))
