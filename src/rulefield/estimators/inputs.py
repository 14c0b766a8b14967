"""X in any form to Sequences, the same way in fit and in predict."""

from typing import Any, TypedDict

import numpy as np

from rulefield.data.sequences import Sequences
from rulefield.encode.features import FeatureEncoder, InputForm, input_form
from rulefield.encode.tokens import TokenFeatures
from rulefield.estimators.packing import Packer, State, given_or, pack_or_name
from rulefield.estimators.types import SequencesLike, Transformer
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import Form, check_arrays, pointers
from rulefield.persistence import pack_strings, unpack_strings


class InputEncoder:
    """Remembers the form that training data had and the features it brought.

    Parameters
    ----------
    features : transformer or None
        Turns tokens into features first (:class:`TokenFeatures`, a CRF++ template, or any object whose
        ``transform`` gives feature dicts or lists). None reads feature dicts and lists as they are, and plain
        string tokens through ``TokenFeatures()``.
    """

    def __init__(self, features: Transformer | None = None):
        self.features = features
        self.encoder: FeatureEncoder | None = None
        self.n_columns = 0

    def fit_transform(self, X: SequencesLike) -> Sequences:
        """Learn the form and the vocabulary of ``X``, and encode it."""
        X = as_list(X)
        form = input_form(X)
        if form in (InputForm.sequences, InputForm.matrices):
            data = _stacked(X)
            self.n_columns = data.n_features
            return data
        if self.features is None and form is InputForm.tokens:
            self.features = TokenFeatures()
        self.encoder = FeatureEncoder()
        return self.encoder.fit_transform(self._features(X, fit=True))

    def transform(self, X: SequencesLike) -> Sequences:
        """Encode ``X``; features that training did not see are ignored."""
        return self._encoded(X, grow=False)

    def extend(self, X: SequencesLike) -> Sequences:
        """Encode ``X``; features that are new get new columns."""
        return self._encoded(X, grow=True)

    @property
    def names(self) -> list[str]:
        """Feature names by column; for matrices the column numbers."""
        return self.encoder.names if self.encoder else [str(i) for i in range(self.n_columns)]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.encoder.vocabulary_) if self.encoder else self.n_columns

    def _encoded(self, X: SequencesLike, grow: bool) -> Sequences:
        X = as_list(X)
        form = input_form(X)
        matrix = form in (InputForm.sequences, InputForm.matrices)
        if form is InputForm.empty and self.encoder is None:
            return Sequences(np.zeros((0, self.n_columns)), np.zeros(len(X), np.int64))
        if matrix != (self.encoder is None):
            trained = "matrices" if self.encoder is None else "named features or tokens"
            raise InputError(
                f"the model was trained on {trained}, but X is given as {form.value}; give the same form."
            )
        if matrix:
            return self._checked(_stacked(X))
        if self.features is None and form is InputForm.tokens:
            raise InputError("the model was trained on features, but X holds plain tokens; give the same features.")
        assert self.encoder is not None
        features = self._features(X, fit=False)
        return self.encoder.extend(features) if grow else self.encoder.transform(features)

    def _features(self, X: SequencesLike, fit: bool) -> Any:
        if self.features is None:
            return X
        if fit and hasattr(self.features, "fit"):
            self.features.fit(X)
        return self.features.transform(X)

    def _checked(self, data: Sequences) -> Sequences:
        if data.n_features != self.n_columns:
            raise InputError(f"X has {data.n_features} feature columns; the model was trained with {self.n_columns}.")
        return data

    def state(self) -> State:
        """Return the vocabulary as arrays and the rest as metadata, for a model file."""
        arrays = {f"names_{k}": v for k, v in pack_strings(self.names).items()} if self.encoder else {}
        packer = Packer("InputEncoder")
        return arrays, {"features": pack_or_name(packer, "features", self.features), "n_columns": self.n_columns}

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
        made.n_columns = metadata["n_columns"]
        if "names_text" in arrays:
            made.encoder = FeatureEncoder.from_names(_names(arrays))
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


class SequenceMetadata(TypedDict):
    """What a sequence model gives beside arrays."""

    encoder: EncoderMetadata


def as_list(X: SequencesLike) -> Any:
    """Return ``X`` with generators and other iterables made into lists; lists, arrays and Sequences as they are."""
    if isinstance(X, (list, tuple, np.ndarray, Sequences, str, bytes, dict)) or not hasattr(X, "__iter__"):
        return X
    return X if hasattr(X, "tocsr") else list(X)


def tokens_of(X: SequencesLike, i: int) -> Any:
    """Tokens of sequence ``i``, as the user gave them (for rules about tokens, and for explanations)."""
    if isinstance(X, Sequences):
        return [f"token {t}" for t in range(int(X.lengths[i]))]
    return X[i]


def _stacked(X: SequencesLike) -> Sequences:
    if isinstance(X, Sequences):
        return X
    lengths = np.array([x.shape[0] for x in X], dtype=np.int64)
    if any(hasattr(x, "tocsr") for x in X):
        from scipy.sparse import vstack

        return Sequences(vstack(list(X), format="csr"), lengths)
    return Sequences(np.vstack(list(X)), lengths)
