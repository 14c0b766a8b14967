"""Values of parameters and fitted attributes as JSON and arrays, and back; what cannot be kept is refused.

Plain values stay as JSON has them. Everything else is a dict with the key ``"$"`` that says what it is. Classes are
named, never pickled: only those listed here are ever made again, so that opening a file runs no foreign code.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, get_type_hints

import numpy as np

from rulefield.data.sparse_rows import is_sparse
from rulefield.estimators.parameters import check_parameters
from rulefield.estimators.types import as_transformer
from rulefield.exceptions import ModelFileError
from rulefield.forms import Label, are_labels, check_typed, checked_flags, sparse_matrix
from rulefield.learning.chain.stochastic import Stream
from rulefield.models.arrays import check_model

State = tuple[dict[str, np.ndarray], dict[str, Any]]
"""The arrays and the JSON-able metadata of a fitted model."""
TAG = "$"
GIVEN = "given"
RECORDS = {
    "BoxScales": "rulefield.encode.documents.graphs",
    "ExpectationReport": "rulefield.estimators.expectation_training",
    "FittedField": "rulefield.estimators.gaussian.field",
    "FitRecord": "rulefield.learning.fit_log",
    "FittedPredictors": "rulefield.estimators.graph.predictors",
    "FittedScores": "rulefield.estimators.predictors.cross_fitting",
    "Gain": "rulefield.estimators.ruled.gains",
    "GaussianModel": "rulefield.models.gaussian",
    "GraphLabels": "rulefield.encode.graph_labels",
    "GraphSpec": "rulefield.models.graph",
    "LabelCodes": "rulefield.estimators.gaussian.labels",
    "NodesLayout": "rulefield.estimators.gaussian.inputs",
    "OwnGraph": "rulefield.estimators.gaussian.graphs",
    "Prior": "rulefield.estimators.predictors.cross_fitting",
    "QuantileScale": "rulefield.encode.documents.scaling",
    "RuleReport": "rulefield.estimators.ruled.reports",
    "SavedTrees": "rulefield.estimators.predictors.trees",
    "ScoreTask": "rulefield.estimators.predictors.cross_fitting",
    "ScoresLayout": "rulefield.estimators.gaussian.inputs",
    "SharedGraph": "rulefield.estimators.gaussian.graphs",
    "Stream": "rulefield.learning.chain.stochastic",
    "TableLayout": "rulefield.estimators.gaussian.inputs",
    "Units": "rulefield.estimators.gaussian.field",
}
"""Dataclasses that logs, reports and fitted models are made of, by the module that holds them: a file holds their fields,
which are checked against their types when it is opened, and against the forms of arrays declared there."""
UNSAVED = ("seconds",)
"""Their fields that a file leaves out, so that the same fit writes the same bytes."""
ESTIMATORS = {
    "GeneralizedExpectation": "rulefield.estimators.expectations",
    "HashedFeatures": "rulefield.encode.keyed.hashed",
    "PosteriorRegularization": "rulefield.estimators.expectations",
    "Template": "rulefield.encode.templates",
    "TokenFeatures": "rulefield.encode.tokens",
    "WapitiPatterns": "rulefield.encode.foreign.wapiti_patterns",
}
"""Objects that their constructor's parameters make again, by the module that holds them."""


@dataclass(frozen=True)
class Missing:
    """Stands for a fitted predictor that a file cannot hold, so that ``load`` must be given it."""

    type: str


class Packer:
    """Turns values into JSON; arrays go to ``arrays``.

    Parameters
    ----------
    owner : str
        Who is saved, for errors.
    lenient : bool
        Whether predictors that a file cannot hold are named (:class:`Missing` comes back) instead of refused.
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


def arrays_named(plain: object) -> Iterator[str]:
    """Names of the arrays that a packed value stands on."""
    if isinstance(plain, dict):
        if plain.get(TAG) == "array":
            yield plain["name"]
        for item in plain.values():
            yield from arrays_named(item)
    elif isinstance(plain, list):
        for item in plain:
            yield from arrays_named(item)


def _is_known(value: object, table: Mapping[str, str]) -> bool:
    return table.get(type(value).__name__) == type(value).__module__


def _made(kind: str, plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    module = RECORDS.get(kind) or ESTIMATORS.get(kind)
    if module is None:
        raise ModelFileError(f"the file holds a {kind!r}, which this version of rulefield does not know.")
    values = {k: unpack(v, arrays) for k, v in plain["values" if kind in RECORDS else "params"].items()}
    cls = getattr(import_module(module), kind)
    if kind in RECORDS:
        check_fields(cls, values)
        return cls(**values)
    made = cls(**values)
    if hasattr(made, "_parameters"):
        check_parameters(made)
        return made
    return made.fit([])  # a transformer: checks its parameters


def check_fields(cls: type, values: dict[str, Any]) -> None:
    """Hold values against the types of a dataclass's fields; its whole numbers are sizes of its declared arrays."""
    hints = get_type_hints(cls)
    for name, value in values.items():
        check_typed(value, hints.get(name, Any), f"{name} of a {cls.__name__}")
    check_model(cls, values, {name: value for name, value in values.items() if type(value) is int})


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
    "_flat": bool,
    "feature_names_in_": np.ndarray,
    "_stream": Stream,
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
        check_typed(value, TYPES[name] if name in TYPES else get_type_hints(cls)[name], name)
    if name == "classes_":
        for own in value.values() if isinstance(value, dict) else [value]:
            labels = own.tolist() if isinstance(own, np.ndarray) and own.ndim == 1 else own
            check_typed(labels, list[Label], name)
            if not are_labels(labels):
                raise ModelFileError("the model file names no labels, or one twice, or NaN; save the model again.")
