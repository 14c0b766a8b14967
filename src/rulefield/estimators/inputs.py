"""X in any form to Sequences, the same way in fit and in predict."""

import threading
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypedDict, cast

import numpy as np

from rulefield.data.cut_texts import CutTexts
from rulefield.data.limits import LARGE_FEATURE
from rulefield.data.scored import Scored, is_scored
from rulefield.data.sequences import Sequences, is_ones
from rulefield.encode.features import Entries, FeatureEncoder, InputForm, input_form, refuse_columns
from rulefield.encode.keyed.tokens import CrowdedError, GroupNumbers, TokenKeys
from rulefield.encode.tokens import TokenFeatures
from rulefield.estimators.saving import Packer, State, given_or, pack_or_name
from rulefield.estimators.types import LabelsLike, SequencesLike, Transformer
from rulefield.exceptions import InputError, LabelError, ModelFileError, callers_level
from rulefield.forms import Form, check_arrays, pointers
from rulefield.kernels.jit import Kernel
from rulefield.learning.chain.corpus import Corpus
from rulefield.locks import held_over_forks
from rulefield.persistence import pack_strings, unpack_strings

PORTION = 1000
"""Sequences whose features are made at a time: strings are larger than what they are encoded to."""
MOST_KEPT = 12_000
"""Distinct tokens that prediction remembers."""
_ONE_AT_A_TIME = held_over_forks(threading.Lock())
"""Threads that share a model share what it remembers of tokens, which grows in prediction too."""
LEAST_TOKENS = 40
"""Fewer tokens are described one by one: that is as quick, and loads no compiled code."""


class InputEncoder:
    """Remembers the form that training data had and the features it brought.

    Parameters
    ----------
    features : transformer or None
        Turns tokens into features first (:class:`TokenFeatures`, or any object whose
        ``transform`` gives feature dicts or lists). None reads feature dicts and lists as they are, and plain
        string tokens through ``TokenFeatures()``.
    labels : list, optional
        Labels of the model, for sequences that carry scores of them (:class:`rulefield.Scored`); None where a model takes
        no such scores.

    Attributes
    ----------
    scored : bool
        Whether training data carried scores.
    """

    def __init__(self, features: Transformer | None = None, labels: list[Any] | None = None):
        self.features = features
        self.labels = labels
        self.scored = False
        self.encoder: FeatureEncoder | None = None
        self.n_columns = 0
        self._numbers: GroupNumbers | None = None

    def fit_transform(self, X: SequencesLike | Iterator[Any]) -> Sequences:
        """Learn the form and the vocabulary of ``X``, and encode it.

        An iterator of sequences is read as it comes, unless ``features`` must see all of it to learn.
        """
        data = self._fitted(X)
        _warn_of_large(data)
        if self.encoder is not None:
            self.encoder.vocabulary_.drop_table()  # training looks nothing up
        return data

    def _fitted(self, X: SequencesLike | Iterator[Any]) -> Sequences:
        if is_stream(X):
            return self._fit_stream(iter(X))
        rows = as_list(X)
        if is_scored(rows):
            data = self._with_scores(self._fitted([row.tokens for row in rows]), rows)
            self.scored = True
            return data
        form = input_form(rows)
        if form in (InputForm.sequences, InputForm.matrices):
            data = _stacked(rows)
            self.n_columns = data.n_features
            return data
        return self._begun(rows, form).joined(self._entries(rows, form, grow=True))

    @property
    def by_keys(self) -> bool:
        """Whether features of many tokens are made by keys, which look at each sequence for itself."""
        return TokenKeys.can(self.features)

    def _begun(self, rows: Any, form: InputForm) -> FeatureEncoder:
        """Settle from which features a model learns; return the encoder, still without names."""
        if self.features is None and form is InputForm.tokens:
            self.features = TokenFeatures()
        if self.features is None and form is InputForm.strings:
            refuse_columns(rows)
        if self.features is not None and hasattr(self.features, "fit"):
            self.features.fit(rows)
        self.encoder = FeatureEncoder()
        return self.encoder

    def _fit_stream(self, X: Iterator[Any]) -> Sequences:
        first = list(islice(X, PORTION))
        if is_scored(first):
            raise InputError(
                "sequences with scores (rf.Scored) are taken from a list, not from an iterator and not into a corpus."
            )
        learns = hasattr(self.features, "fit") and not isinstance(self.features, TokenFeatures)
        form = input_form(first)
        if learns or not first or form in (InputForm.sequences, InputForm.matrices):
            return self._fitted([*first, *X])
        encoder = self._begun(first, form)
        made = self._entries(first, form, grow=True)
        while portion := list(islice(X, PORTION)):
            self._check_scored(portion)
            made += self._entries(portion, self._checked_form(portion), grow=True)
        return encoder.joined(made)

    def transform(self, X: SequencesLike) -> Sequences:
        """Encode ``X``; features that training did not see are ignored."""
        if isinstance(X, CutTexts) and not self.scored and self.encoder is not None and self._pays(X):
            return self._encoded_texts(X)
        rows: Any = as_list(X)
        if self._check_scored(rows):
            return self._with_scores(self._encoded([row.tokens for row in rows]), rows)
        return self._encoded(rows)

    @property
    def names(self) -> Sequence[str]:
        """Feature names by column; for matrices the column numbers."""
        return self.encoder.names if self.encoder else [str(i) for i in range(self.n_columns)]

    @property
    def columns(self) -> Sequence[str]:
        """Feature names by column, for a few that are looked up."""
        return cast(Sequence[str], self.encoder.vocabulary_) if self.encoder else self.names

    def find(self, names: Sequence[str]) -> np.ndarray:
        """Columns of features by name; -1 where there is none."""
        if self.encoder is not None:
            return self.encoder.vocabulary_.find(names)
        columns = {str(i): i for i in range(self.n_columns)}
        return np.array([columns.get(name, -1) for name in names], dtype=np.int32)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.encoder.vocabulary_) if self.encoder else self.n_columns

    def _encoded_texts(self, X: CutTexts) -> Sequences:
        """Encode texts that are cut; nothing of them needs to be checked."""
        assert self.encoder is not None
        portions = [X] if len(X) <= PORTION else [X[i : i + PORTION] for i in range(0, len(X), PORTION)]
        return self.encoder.joined([self._keyed(part, grow=False) for part in portions])

    def _check_scored(self, rows: Any) -> bool:
        """Whether rows carry scores; refuse them where training data did not, and the other way round."""
        scored = is_scored(rows)
        if scored != self.scored and len(rows):
            had, has = ("with", "without") if self.scored else ("without", "with")
            raise InputError(
                f"the model was trained {had} scores from elsewhere (rf.Scored), but X comes {has} them."
            )
        return scored

    def _with_scores(self, data: Sequences, X: Sequence[Scored]) -> Sequences:
        if self.labels is None:
            raise InputError("scores from elsewhere (rf.Scored) are taken by ChainCRF and RuledCRF only.")
        tables = [x.columns(self.labels) for x in X]
        return Sequences(data.entries, data.lengths, np.concatenate([np.zeros((0, len(self.labels))), *tables]))

    def _encoded(self, X: Any) -> Sequences:
        form = self._checked_form(X)
        if self.encoder is not None:
            return self.encoder.joined(self._entries(X, form, grow=False))
        if form is InputForm.empty:
            return Sequences(np.zeros((0, self.n_columns)), np.zeros(len(X), np.int64))
        return self._checked(_stacked(X))

    def _checked_form(self, X: Any) -> InputForm:
        """How ``X`` is given; refuse another form than that of the training data."""
        form = input_form(X, quick=self.features is None or self.by_keys)
        matrix = form in (InputForm.sequences, InputForm.matrices)
        if matrix != (self.encoder is None) and not (form is InputForm.empty and self.encoder is None):
            trained = "matrices" if self.encoder is None else "named features or tokens"
            raise InputError(
                f"the model was trained on {trained}, but X is given as {form.value}; give the same form."
            )
        if self.features is None and form is InputForm.tokens:
            raise InputError("the model was trained on features, but X holds plain tokens; give the same features.")
        return form

    def _entries(self, X: Any, form: InputForm, grow: bool) -> list[Entries]:
        """Make features of ``X`` and number them: by keys where that is possible and pays."""
        assert self.encoder is not None
        if self.features is None:
            return [self.encoder.read(X, grow, form)]
        if not self._pays(X):
            return [self.encoder.read(made, grow) for made in self._features(X)]
        return [self._keyed(X[i : i + PORTION], grow) for i in range(0, len(X), PORTION)]

    def _pays(self, X: Any) -> bool:
        """Whether features are made by keys: not if few tokens are all that a process without compiled code is asked."""
        return self.by_keys and (Kernel.any_loaded or sum(map(len, X[:LEAST_TOKENS])) >= LEAST_TOKENS)

    def _keyed(self, X: Any, grow: bool) -> Entries:
        assert self.encoder is not None
        assert self.features is not None
        lengths = X.lengths if isinstance(X, CutTexts) else np.fromiter(map(len, X), np.int64, len(X))
        with _ONE_AT_A_TIME:
            for _ in range(2):
                try:
                    ids, counts = self._groups(grow).encode(X, grow)
                except CrowdedError:
                    self._numbers = None
                else:
                    return ids, None, counts, lengths
        return self.encoder.read(self.features.transform(X), grow)  # more distinct tokens than there are keys

    def _groups(self, grow: bool) -> GroupNumbers:
        """Return the numbers of groups for the features and the vocabulary that there are now.

        In prediction they begin anew from time to time, so that a stream does not fill the memory.
        """
        assert self.encoder is not None
        made, vocabulary = self._numbers, self.encoder.vocabulary_
        if made is not None and not grow and len(made.source.number) > MOST_KEPT:
            made = None
        if made is None or made.vocabulary is not vocabulary or not made.source.serves(self.features):
            assert isinstance(self.features, TokenFeatures)
            made = self._numbers = GroupNumbers(vocabulary, TokenKeys(self.features))
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_numbers": None}

    def _features(self, X: Any) -> Iterator[Any]:
        """Features of ``X``, made a portion at a time."""
        features = self.features
        assert features is not None
        if isinstance(X, CutTexts):
            X = list(X)
        if not isinstance(features, TokenFeatures):  # another one may need to see all of it
            return iter([features.transform(X)])
        return (features.transform(X[i : i + PORTION]) for i in range(0, max(len(X), 1), PORTION))

    def _checked(self, data: Sequences) -> Sequences:
        if data.n_features != self.n_columns:
            raise InputError(f"X has {data.n_features} feature columns; the model was trained with {self.n_columns}.")
        return data

    def state(self) -> State:
        """Return the vocabulary as arrays and the rest as metadata, for a model file."""
        arrays = {f"names_{k}": v for k, v in pack_strings(self.names).items()} if self.encoder else {}
        packer = Packer("InputEncoder")
        features = pack_or_name(packer, "features", self.features)
        return arrays, {"features": features, "n_columns": self.n_columns, "scored": self.scored}

    @classmethod
    def from_state(
        cls,
        arrays: dict[str, np.ndarray],
        metadata: dict[str, Any],
        n_features: int,
        features: Transformer | None = None,
    ) -> "InputEncoder":
        """Undo :meth:`state`; ``features`` stands in for a transformer that a file cannot hold.

        ``n_features`` is how many the model has weights for: names or columns must be as many.
        """
        made = cls(given_or(metadata["features"], arrays, "features", {"features": features}))
        if made.features is not None and not callable(getattr(made.features, "transform", None)):
            raise ModelFileError("the features of the model file are no transformer; save the model again.")
        made.n_columns, made.scored = metadata["n_columns"], metadata["scored"]
        if "names_text" in arrays:
            made.encoder = FeatureEncoder(_names(arrays))
        if made.n_features != n_features:
            raise ModelFileError(
                f"the model file holds {made.n_features} distinct features, but weights for {n_features}; save it again."
            )
        return made


def _names(arrays: dict[str, np.ndarray]) -> list[str]:
    text, stop = arrays["names_text"], arrays.get("names_stop", np.zeros(0))
    check_arrays({"text": text, "stop": stop}, _NAMES, {})
    starts = np.concatenate([np.zeros(1, np.uint64), stop.astype(np.uint64)])  # what is negative becomes huge
    check_arrays({"names_stop": starts}, {"names_stop": pointers("names", into="bytes")}, {"bytes": len(text)})
    return unpack_strings(text, stop)


_NAMES = {"text": Form(("uint8",), ("bytes",)), "stop": Form(("int64",), ("names",))}


class EncoderMetadata(TypedDict):
    """What :meth:`InputEncoder.state` gives beside arrays."""

    features: Any
    n_columns: int
    scored: bool


class SequenceMetadata(TypedDict):
    """What a sequence model gives beside arrays."""

    encoder: EncoderMetadata


def as_list(X: SequencesLike | LabelsLike | Iterator[Any]) -> Any:
    """Return ``X`` with generators and other iterables made into lists; lists, arrays and Sequences as they are."""
    if isinstance(X, Corpus):
        raise InputError("a corpus on disk goes to ChainCRF.fit, which keeps none of its tokens; give lists here.")
    if isinstance(X, (list, tuple, np.ndarray, Sequences, CutTexts, str, bytes, dict)) or not hasattr(X, "__iter__"):
        return X
    return X if hasattr(X, "tocsr") else list(X)


def is_stream(X: object) -> bool:
    """Whether ``X`` can be read once only, and has no length: a generator, a map, a file."""
    return isinstance(X, Iterator) and not isinstance(X, (str, bytes))


def tokens_and_labels(X: Any, y: LabelsLike | None) -> tuple[Any, Any]:
    """Return ``X`` and ``y``; if ``y`` is None, from pairs (tokens, labels): labels gather while tokens are read."""
    if y is not None:
        return X, as_list(y)
    if isinstance(X, Sequences) or not hasattr(X, "__iter__"):
        raise LabelError("y is missing: give labels, or an iterator of pairs (tokens, labels) as X.")
    labels: list[Any] = []

    def tokens() -> Iterator[Any]:
        for i, pair in enumerate(X):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise LabelError(f"y is missing, and item {i} of X is no pair (tokens, labels); call fit(X, y).")
            labels.append(pair[1])
            yield pair[0]

    return tokens(), labels


def tokens_of(X: SequencesLike, i: int) -> Any:
    """Tokens of sequence ``i``, as the user gave them (for rules about tokens, and for explanations)."""
    if isinstance(X, Sequences):
        return [f"token {t}" for t in range(int(X.lengths[i]))]
    row = X[i]
    return row.tokens if isinstance(row, Scored) else row


def _warn_of_large(data: Sequences) -> None:
    """Warn of features whose weights a fit cannot find beside the others: it would stop too early."""
    values = data.entries if isinstance(data.entries, np.ndarray) else data.entries.data
    if not values.size or is_ones(values) or (largest := float(np.abs(values).max())) <= LARGE_FEATURE:
        return
    warnings.warn(
        f"a feature has the value {largest:g}; beside ones of about 1, values beyond {LARGE_FEATURE:g} are not learned "
        "well: scale them (to a deviation of 1, or by their logarithm).",
        UserWarning,
        stacklevel=callers_level(),
    )


def _stacked(X: Any) -> Sequences:
    if isinstance(X, Sequences):
        return X
    lengths = np.array([x.shape[0] for x in X], dtype=np.int64)
    if any(hasattr(x, "tocsr") for x in X):
        from scipy.sparse import vstack

        return Sequences(vstack(list(X), format="csr"), lengths)
    return Sequences(np.vstack(list(X)), lengths)
