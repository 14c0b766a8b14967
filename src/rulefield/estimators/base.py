"""What every estimator of the library shares: one model file, and the tags of scikit-learn for structured input."""

import warnings
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from rulefield.estimators.attributes import check_attribute
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.packing import Packer, State, arrays_named, given_or, pack_or_name, unpack
from rulefield.estimators.parameters import Table, check_parameters, rule_list
from rulefield.estimators.types import RulesLike, Transformer
from rulefield.exceptions import ModelFileError, callers_level
from rulefield.forms import FileArrays, check_typed, refused_as_file
from rulefield.learning.fit_log import FitRecord
from rulefield.persistence import load_model, model_to_bytes, save_model
from rulefield.scikit import Estimator, check_is_fitted

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


class SavedModel(Estimator):
    """``save``, ``to_bytes`` and ``load``: every constructor parameter and fitted attribute, in one file.

    The base writes the parameters and the attributes named in ``_saved`` by :class:`Packer`, which refuses what a file
    cannot hold; an estimator adds its model by :meth:`_state` and takes it back by :meth:`_restore`.
    """

    _kind: ClassVar[str]
    _parameters: ClassVar[Table]
    _saved: ClassVar[tuple[str, ...]] = ()
    """Fitted attributes that are written as they are; :mod:`rulefield.estimators.attributes` has their types."""
    log_: list[FitRecord]
    n_iter_: int
    converged_: bool
    stopped_because_: str
    _given_to_load: ClassVar[tuple[str, ...]] = ()
    """Parameters that are the user's own code: the file names them, and ``load`` is given them again."""

    @abstractmethod
    def _state(self) -> State:
        """Return what the model needs to predict, beyond parameters and ``_saved`` attributes."""

    @abstractmethod
    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        """Take back a :data:`State`; ``given`` stands in for what a file cannot hold."""

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

    # --- the state as a whole ---------------------------------------------------------------------

    def _whole_state(self) -> State:
        packer = Packer(type(self).__name__)
        owner = self._library_class()
        own = {} if type(self) is owner else self.get_params(deep=False)
        names = owner._get_param_names()
        values = {name: getattr(self, name) for name in names} | self._params_to_save()
        arrays, model = self._state()
        metadata = {
            "class": type(self).__name__,
            "params": {name: self._pack(packer, name, values[name]) for name in names},
            "own_params": {name: self._pack(packer, name, value) for name, value in own.items()},
            "attributes": {name: packer.pack(getattr(self, name), name) for name in self._saved},
            "model": model,
        }
        return arrays | packer.arrays, metadata

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
            value = unpack(metadata["attributes"][name], arrays)
            check_attribute(name, value)
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


class StructuredModel(SavedModel):
    """A model file, and the tags of an estimator whose X is a list of sequences or graphs and whose y is needed."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags


class SequenceEstimator(StructuredModel):
    """What models of sequences share: names of features, and which rules act."""

    _given_to_load = ("features",)

    rules: Any
    _encoder: InputEncoder

    def _usual(self, name: str) -> Any:
        """Return the features that plain tokens get by default: ``GridSearchCV`` sets ``features__window``."""
        if name != "features":
            return super()._usual(name)
        from rulefield.encode.tokens import TokenFeatures

        return TokenFeatures()

    def _acting(self, rules: RulesLike | None) -> list[Any]:
        """Return the rules that act: the model's own unless others are given."""
        return rule_list(self.rules if rules is None else rules)

    @property
    def n_features_in_(self) -> int:
        """Number of features seen in training (AttributeError before ``fit``)."""
        return self._encoder.n_features

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features seen in training, by column; for matrices the column numbers."""
        return np.array(self._encoder.names, dtype=object)
