"""Model files: parameters and fitted attributes as JSON and arrays, and back; what a file cannot hold is refused.

Plain values stay as JSON has them. Everything else is a dict with the key ``"$"`` that says what it is. Classes are
named, never pickled: only those listed here are ever made again, so that opening a file runs no foreign code.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from rulefield.data.sequences import is_sparse
from rulefield.estimators.parameters import Table, check_parameters
from rulefield.estimators.types import Transformer, as_transformer
from rulefield.exceptions import ModelFileError
from rulefield.forms import (
    FileArrays,
    Label,
    are_labels,
    check_record,
    check_typed,
    checked_flags,
    refused_as_file,
    sparse_matrix,
)
from rulefield.learning.fit_log import FitRecord
from rulefield.persistence import load_model, model_to_bytes, save_model
from rulefield.scikit import Estimator, check_is_fitted

State = tuple[dict[str, np.ndarray], dict[str, Any]]
"""The arrays and the JSON-able metadata of a fitted model."""
TAG = "$"
GIVEN = "given"
RECORDS = {
    "BoxScales": "rulefield.encode.documents.graphs",
    "ChainModel": "rulefield.models.chain",
    "ExpectationReport": "rulefield.estimators.expectation_training",
    "FittedField": "rulefield.estimators.gaussian.field",
    "FitRecord": "rulefield.learning.fit_log",
    "FittedPredictors": "rulefield.estimators.graph.predictors",
    "FittedScores": "rulefield.estimators.predictors.cross_fitting",
    "Gain": "rulefield.estimators.ruled.gains",
    "GaussianModel": "rulefield.models.gaussian",
    "GraphLabels": "rulefield.encode.graph_labels",
    "GraphSpec": "rulefield.models.graph",
    "JointModel": "rulefield.models.joint",
    "LabelCodes": "rulefield.estimators.gaussian.labels",
    "NodesLayout": "rulefield.estimators.gaussian.inputs",
    "OwnGraph": "rulefield.estimators.gaussian.graphs",
    "PairTable": "rulefield.models.pairs",
    "Prior": "rulefield.estimators.predictors.cross_fitting",
    "QuantileScale": "rulefield.encode.documents.scaling",
    "RuleReport": "rulefield.estimators.ruled.reports",
    "ScoreTask": "rulefield.estimators.predictors.cross_fitting",
    "ScoresLayout": "rulefield.estimators.gaussian.inputs",
    "SegmentModel": "rulefield.models.segments",
    "SharedGraph": "rulefield.estimators.gaussian.graphs",
    "TableLayout": "rulefield.estimators.gaussian.inputs",
    "Units": "rulefield.estimators.gaussian.field",
}
"""Dataclasses that logs, reports and fitted models are made of, by the module that holds them: a file holds their fields,
which are checked against their types when it is opened, and against the forms of arrays declared there."""
UNSAVED = ("seconds",)
"""Their fields that a file leaves out, so that the same fit writes the same bytes."""
ESTIMATORS = {
    "GeneralizedExpectation": "rulefield.estimators.expectations",
    "PosteriorRegularization": "rulefield.estimators.expectations",
    "TokenFeatures": "rulefield.encode.tokens",
}
"""Objects that their constructor's parameters make again, by the module that holds them."""


@dataclass(frozen=True)
class Missing:
    """Stands for a fitted predictor that a file cannot hold, so that ``load`` must be given it."""

    type: str


class Packer:
    """Turns values into JSON; arrays go to ``arrays``; errors name the ``owner``.

    If ``lenient``, predictors that a file cannot hold are named (:class:`Missing` comes back) instead of refused.
    """

    def __init__(self, owner: str, lenient: bool = False):
        self.owner, self.lenient = owner, lenient
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, value: object, where: str) -> Any:
        """Return ``value`` as JSON can hold it; ``where`` names it in errors and in the file."""
        if value is None or (isinstance(value, bool | int | str) and not isinstance(value, np.generic)):
            return str(value) if isinstance(value, str) else value
        if isinstance(value, float | np.generic):
            return self._number(value, where)
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(value, where)
        if isinstance(value, dict):
            return self._mapping(value, where)
        return self._object(value, where)

    def _number(self, value: object, where: str) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float) and not np.isfinite(value):
            return {TAG: "float", "value": repr(value)}
        return value if isinstance(value, float) else self.pack(value, where)

    def _items(self, value: Collection[Any], where: str) -> Any:
        if isinstance(value, set | frozenset):
            items = sorted(value, key=lambda item: (type(item).__name__, repr(item)))
            return {TAG: type(value).__name__, "items": [self.pack(item, where) for item in items]}
        packed = [self.pack(item, f"{where}.{i}") for i, item in enumerate(value)]
        return packed if isinstance(value, list) else {TAG: "tuple", "items": packed}

    def _mapping(self, value: Mapping[Any, Any], where: str) -> Any:
        if all(isinstance(key, str) for key in value) and TAG not in value:
            return {str(key): self.pack(item, f"{where}.{key}") for key, item in value.items()}
        rows = [
            [self.pack(key, where), self.pack(item, f"{where}.{i}")] for i, (key, item) in enumerate(value.items())
        ]
        return {TAG: "dict", "items": rows}

    def _object(self, value: Any, where: str) -> Any:
        name = type(value).__name__
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if is_sparse(value):
            return self._sparse(value, where)
        if isinstance(value, np.random.RandomState):
            return {TAG: "RandomState", "state": self.pack(value.get_state(), where)}
        if _is_known(value, RECORDS):
            kept = [f.name for f in fields(value) if f.name not in UNSAVED]
            return {TAG: name, "values": {key: self.pack(getattr(value, key), f"{where}.{key}") for key in kept}}
        if _is_known(value, ESTIMATORS):
            params = value.get_params(deep=False)
            return {TAG: name, "params": {key: self.pack(item, f"{where}.{key}") for key, item in params.items()}}
        if name == "Rule" and type(value).__module__ == "rulefield.rules.rule":
            from rulefield.rules.text import to_dicts

            return {TAG: "Rule", "entry": to_dicts([value])[0]}
        if name == "Expectation" and type(value).__module__ == "rulefield.rules.expectations":
            from rulefield.rules.expectation_text import dumps

            return {TAG: "Expectation", "text": dumps([value])}
        if isinstance(value, Mapping):
            return self._mapping(value, where)
        if type(value).__module__.startswith("sklearn.") or hasattr(value, "predict"):
            from rulefield.estimators.predictors.files import pack_predictor  # loads scikit-learn

            return pack_predictor(value, self, where)
        raise ModelFileError(
            f"{where} of this {self.owner} is a {name}, which a model file cannot hold; leave it out, or pickle the "
            "model where you trust the reader."
        )

    def _array(self, value: np.ndarray, where: str) -> Any:
        if value.dtype.kind in "OUS":
            return {TAG: "strings", "shape": list(value.shape), "items": self.pack(value.ravel().tolist(), where),
                    "object": value.dtype.kind == "O"}  # fmt: skip
        self.arrays[f"value.{where}"] = value
        return {TAG: "array", "name": f"value.{where}"}

    def _sparse(self, value: object, where: str) -> Any:
        from scipy.sparse import csr_array

        csr = csr_array(value)
        parts = {part: self._array(getattr(csr, part), f"{where}.{part}") for part in ("data", "indices", "indptr")}
        return {TAG: "sparse", "shape": [int(n) for n in csr.shape], **parts}


def unpack(plain: object, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo :meth:`Packer.pack`."""
    if isinstance(plain, list):
        return [unpack(item, arrays) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if TAG not in plain:
        return {key: unpack(item, arrays) for key, item in plain.items()}
    kind = plain[TAG]
    try:
        if kind in _UNPACK:
            return _UNPACK[kind](plain, arrays)
        return _made(kind, plain, arrays)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"the file holds a broken {kind!r} ({error}); save the model again.") from None


def pack_or_name(packer: Packer, name: str, value: object) -> Any:
    """Pack the user's own object, or name it where a file cannot hold it: :func:`given_or` then asks for it."""
    try:
        return packer.pack(value, name)
    except ModelFileError:
        return {TAG: GIVEN, "type": type(value).__name__}


def given_or(plain: object, arrays: Mapping[str, np.ndarray], name: str, given: Mapping[str, Any]) -> Any:
    """Unpack a value, or take the one that ``load`` was given where the file could not hold it."""
    if not isinstance(plain, dict) or plain.get(TAG) != GIVEN:
        return unpack(plain, arrays)
    if given.get(name) is None:
        raise ModelFileError(
            f"the model was trained with your own {name} ({plain['type']}), which a file cannot hold; give it again: "
            f"load(path, {name}=...)."
        )
    return as_transformer(given[name]) if name == "features" else given[name]


def _is_known(value: object, table: Mapping[str, str]) -> bool:
    return table.get(type(value).__name__) == type(value).__module__


def _made(kind: str, plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    module = RECORDS.get(kind) or ESTIMATORS.get(kind)
    if module is None:
        raise ModelFileError(f"the file holds a {kind!r}, which this version of rulefield does not know.")
    values = {k: unpack(v, arrays) for k, v in plain["values" if kind in RECORDS else "params"].items()}
    cls = getattr(import_module(module), kind)
    if kind in RECORDS:
        check_record(cls, values)
        return cls(**values)
    made = cls(**values)
    if hasattr(made, "_parameters"):
        check_parameters(made)
        return made
    return made.fit([])  # a transformer: checks its parameters


def _unpack_strings(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    items = unpack(plain["items"], arrays)
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return (made if plain["object"] else np.array(items)).reshape(plain["shape"])


def _unpack_sparse(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    check_typed(plain["shape"], list[int], "the shape of a sparse matrix")
    own = {part: unpack(plain[part], arrays) for part in ("data", "indices", "indptr")}
    return sparse_matrix(own, tuple(plain["shape"]))


def _unpack_generator(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> np.random.RandomState:
    made = np.random.RandomState()
    made.set_state(unpack(plain["state"], arrays))
    return made


def _unpack_rule(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    from rulefield.rules.text import from_dicts

    return from_dicts([plain["entry"]])[0]


def _unpack_expectation(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    from rulefield.rules.expectation_text import loads

    return loads(plain["text"])[0]


def _unpack_predictor(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    from rulefield.estimators.predictors.files import unpack_predictor

    return unpack_predictor(plain, arrays)


_UNPACK = {
    GIVEN: lambda plain, arrays: Missing(str(plain["type"])),
    "predictor": _unpack_predictor,
    "float": lambda plain, arrays: float(plain["value"]),
    "tuple": lambda plain, arrays: tuple(unpack(plain["items"], arrays)),
    "set": lambda plain, arrays: set(unpack(plain["items"], arrays)),
    "frozenset": lambda plain, arrays: frozenset(unpack(plain["items"], arrays)),
    "dict": lambda plain, arrays: {unpack(k, arrays): unpack(v, arrays) for k, v in plain["items"]},
    "array": lambda plain, arrays: checked_flags(arrays[plain["name"]]),
    "strings": _unpack_strings,
    "sparse": _unpack_sparse,
    "RandomState": _unpack_generator,
    "Rule": _unpack_rule,
    "Expectation": _unpack_expectation,
}


TYPES: dict[str, Any] = {  # of fitted attributes that model files hold, checked at loading
    "classes_": np.ndarray | dict[str, np.ndarray] | list[Label],
    "tasks_": list[str],
    "labels_": list[str],
    "tokenizer_scores_": dict[str, float],
    "n_iter_": int,
    "converged_": bool,
    "stopped_because_": str,
    "tau_": float | None,
    "l1_": float,
    "l2_": float,
    "vetoed_": bool,
    "n_candidates_": int,
    "n_kept_": int,
    "n_features_in_": int,
    "theta_": np.ndarray,
    "_token_labels": list[Label],
    "_flat": bool,
    "feature_names_in_": np.ndarray,
}
LISTS = {
    "log_": "FitRecord",
    "expectations_": "ExpectationReport",
    "report_": "RuleReport",
    "gains_": "Gain",
    "rules_": "Rule",
}
"""Lists of records, by the name of their class."""


def check_attribute(name: str, value: Any, cls: type) -> None:
    """Refuse a fitted attribute of a model file that is not of its type (here, or in its class); labels are distinct."""
    if name in LISTS and not (isinstance(value, list) and all(type(item).__name__ == LISTS[name] for item in value)):
        raise ModelFileError(f"{name} of the model file must be a list of {LISTS[name]}; save the model again.")
    if name not in LISTS:
        check_typed(value, TYPES[name] if name in TYPES else _declared_type(cls, name), name)
    if name == "classes_":
        for own in value.values() if isinstance(value, dict) else [value]:
            labels = own.tolist() if isinstance(own, np.ndarray) and own.ndim == 1 else own
            check_typed(labels, list[Label], name)
            if not are_labels(labels):
                raise ModelFileError("the model file names no labels, or one twice, or NaN; save the model again.")


def _declared_type(cls: type, name: str) -> Any:
    return next(types[name] for types in map(get_annotations, cls.__mro__) if name in types)


# --- estimators -----------------------------------------------------------------------------------


class _Metadata(TypedDict):
    params: dict[str, Any]
    attributes: dict[str, Any]
    model: dict[str, Any]


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
    """Fitted attributes that are written as they are; the class or ``TYPES`` has their types."""
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
        owner = type(self)
        if "_kind" not in vars(owner):
            raise ModelFileError(
                f"a model file holds the library's own classes, and {owner.__name__} is a subclass; pickle it instead."
            )
        packer = Packer(owner.__name__)
        learned = Packer(owner.__name__, lenient="predictors" in self._given_to_load)
        arrays, model = self._state()
        values = self.get_params(deep=False) | self._params_to_save()
        metadata = {
            "params": {
                name: pack_or_name(packer, name, value) if name in self._given_to_load else packer.pack(value, name)
                for name, value in values.items()
            },
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
        arrays, params = FileArrays(arrays), metadata["params"]
        unknown = set(params) - set(cls._get_param_names())
        if unknown:
            raise ModelFileError(f"the file names a parameter {min(unknown)!r} that {cls.__name__} does not have.")
        model = cls(**{name: given_or(value, arrays, name, given) for name, value in params.items()})
        check_parameters(model)
        for name in cls._saved:
            if name in metadata["attributes"] or name not in _OPTIONAL:
                value = unpack(metadata["attributes"][name], arrays)
                check_attribute(name, value, cls)
                setattr(model, name, value)
        model._restore(arrays, metadata["model"], **given)
        arrays.check_nothing_else()
        return model


_LOADERS = {
    "chain": ("rulefield.estimators.chain.estimator", "ChainCRF"),
    "document": ("rulefield.estimators.documents.tagger", "DocumentTagger"),
    "gaussian classifier": ("rulefield.estimators.gaussian.classifier", "GaussianCRFClassifier"),
    "gaussian regressor": ("rulefield.estimators.gaussian.regressor", "GaussianCRFRegressor"),
    "GraphCRF": ("rulefield.estimators.graph.estimator", "GraphCRF"),
    "MultiLabelCRF": ("rulefield.estimators.multilabel.estimator", "MultiLabelCRF"),
    "joint": ("rulefield.estimators.joint.estimator", "JointCRF"),
    "ruled": ("rulefield.estimators.ruled.estimator", "RuledCRF"),
    "text": ("rulefield.estimators.text.parser", "TextParser"),
    "segments": ("rulefield.estimators.segments.estimator", "SegmentCRF"),
}


def load(source: str | Path | bytes, **options: Any) -> Any:
    """Return the model in a file that ``save`` wrote: a path, or the file's bytes. No code in the file is run."""
    kind, arrays, metadata = load_model(source)
    if kind not in _LOADERS:
        raise ModelFileError(f"this file holds a {kind!r} model, which this version of rulefield does not know.")
    module, name = _LOADERS[kind]
    return getattr(import_module(module), name)._from_state(arrays, metadata, **options)


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
