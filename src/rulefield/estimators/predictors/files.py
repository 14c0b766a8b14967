"""scikit-learn predictors in model files: linear ones and pipelines of them; no code is kept, none is run.

A predictor is its class (of the few listed here), its constructor's parameters and the arrays that it learned. Formats that
restore any class of scikit-learn (skops) do not check what compiled code reads, so that a file of untrusted origin could
crash the process.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from rulefield.estimators.saving import GIVEN, TAG, Packer, unpack
from rulefield.exceptions import ModelFileError
from rulefield.forms import LARGEST_WEIGHT, Form, check_arrays

FLOATS, WHOLE = ("float64", "float32"), ("int64", "int32")


def _numbers(*shape: str, least: float = -LARGEST_WEIGHT) -> Form:
    return Form(FLOATS, shape, least=least)


Choice = Mapping[str, tuple[Form, ...]]
_LINEAR: Choice = {
    "coef_": (_numbers("features"), _numbers("targets", "features")),
    "intercept_": (_numbers(), _numbers("targets")),
}
LEARNED: dict[type, Choice] = {
    LinearRegression: _LINEAR,
    LogisticRegression: {
        "classes_": (Form(WHOLE, ("classes",), least=0.0, ascending=True),),
        "coef_": (_numbers("rows", "features"),),
        "intercept_": (_numbers("rows"),),
    },
    Ridge: _LINEAR,
    StandardScaler: {
        "mean_": (_numbers("features"),),
        "scale_": (_numbers("features", least=1.0 / LARGEST_WEIGHT),),
    },
}
"""What each predictor reads when it predicts, in the forms that it may have, beside ``n_features_in_``."""
KEPT = {cls.__name__: cls for cls in (*LEARNED, Pipeline)}


def pack_predictor(predictor: Any, packer: Packer, where: str) -> Any:
    """Return a predictor as JSON can hold it; what it has learned goes to the packer's arrays."""
    strict = Packer(packer.owner)
    try:
        plain = _packed(predictor, strict, where)
    except ModelFileError:
        if not packer.lenient:
            raise
        return {TAG: GIVEN, "type": type(predictor).__name__}
    packer.arrays |= strict.arrays
    return plain


def _packed(predictor: Any, packer: Packer, where: str) -> Any:
    fitted = hasattr(predictor, "n_features_in_")
    if type(predictor) not in KEPT.values() or getattr(predictor, "memory", None) is not None:
        known = ", ".join(sorted(KEPT))
        raise ModelFileError(
            f"the predictor {type(predictor).__name__} cannot be kept in a model file, which holds no code (only {known} "
            "can); pickle the model where you trust the reader."
        )
    names = [*LEARNED.get(type(predictor), ()), "n_features_in_"] if fitted and type(predictor) in LEARNED else []
    learned = {name: getattr(predictor, name) for name in names}
    return {
        TAG: "predictor",
        "class": type(predictor).__name__,
        "params": packer.pack(predictor.get_params(deep=False), where),
        "learned": packer.pack({name: value for name, value in learned.items() if value is not None}, where),
    }


def unpack_predictor(plain: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo :func:`pack_predictor`."""
    cls = KEPT.get(plain["class"])
    if cls is None:
        raise ModelFileError(f"the file holds a predictor {plain['class']!r}, which this version does not know.")
    predictor = cls(**unpack(plain["params"], arrays))
    try:
        predictor._validate_params()
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the model file holds a predictor with wrong parameters ({error}).") from None
    if getattr(predictor, "memory", None) is not None:
        raise ModelFileError("the model file holds a pipeline with a cache on disk; leave memory out.")
    learned = unpack(plain["learned"], arrays)
    if learned:
        _check_learned(LEARNED[cls], learned)
    for name, value in learned.items():
        setattr(predictor, name, value)
    return predictor


def _check_learned(forms: Choice, learned: Mapping[str, Any]) -> None:
    """Refuse what a predictor cannot have learned; numbers count as arrays without axes."""
    every: Choice = {**forms, "n_features_in_": (Form(WHOLE, (), least=0.0),)}
    values = {name: np.asarray(value) for name, value in learned.items()}
    wanted = {
        name: next((form for form in choice if len(form.shape) == values[name].ndim), choice[0])
        for name, choice in every.items()
        if name in values
    }
    if set(wanted) != set(values) or "n_features_in_" not in values:
        raise ModelFileError("a predictor of the model file holds other arrays than its own; save the model again.")
    features = {"features": learned["n_features_in_"]}
    check_arrays(values, wanted, features)
