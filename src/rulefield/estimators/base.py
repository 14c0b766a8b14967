"""What every estimator of the library shares: one model file, and the tags of scikit-learn for structured input."""

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rulefield.exceptions import ModelFileError
from rulefield.persistence import load_model, model_to_bytes, save_model

State = tuple[dict[str, np.ndarray], dict[str, Any]]
"""The arrays and the JSON-able metadata of a fitted model."""


class SavedModel:
    """``save``, ``to_bytes`` and ``load`` for an estimator that can tell and take back its :data:`State`."""

    _kind: ClassVar[str]

    @abstractmethod
    def _state(self) -> State:
        """Return all that a fitted model needs to predict."""

    @abstractmethod
    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Any) -> None:
        """Become the fitted model of a :data:`State`; ``given`` stands in for what a file cannot hold."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file, which :func:`rulefield.load` reads; opening it runs no code."""
        check_is_fitted(self)
        save_model(path, self._kind, *self._state())

    def to_bytes(self) -> bytes:
        """Return what ``save`` would write."""
        check_is_fitted(self)
        return model_to_bytes(self._kind, *self._state())

    @classmethod
    def load(cls, source: str | Path | bytes, **given: Any) -> Self:
        """Read a model file (a path or its bytes). ``features=`` replaces a transformer that was not saved."""
        kind, arrays, metadata = load_model(source)
        if kind != cls._kind:
            raise ModelFileError(
                f"this file holds a {kind!r} model, not a {cls._kind!r} one; open it with rulefield.load()."
            )
        crf = cls()
        crf._restore(arrays, metadata, **given)
        return crf


class SequenceEstimator(SavedModel, BaseEstimator):
    """A model file, and the tags of an estimator whose X is a list of sequences and whose y is needed."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags
