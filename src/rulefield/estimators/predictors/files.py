"""scikit-learn predictors as plain numbers and back: linear ones and pipelines of them; no code is kept, none is run.

A predictor is its class (of the few listed here), its constructor's parameters and the arrays that it learned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from rulefield.estimators.predictors.cross_fitting import Prior
from rulefield.exceptions import ModelFileError

LEARNED: dict[type, tuple[str, ...]] = {
    LinearRegression: ("coef_", "intercept_", "n_features_in_"),
    LogisticRegression: ("classes_", "coef_", "intercept_", "n_features_in_", "n_iter_"),
    Prior: ("classes_", "shares"),
    Ridge: ("coef_", "intercept_", "n_features_in_"),
    StandardScaler: ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"),
}
"""What each predictor has learned when it is fitted."""
_CLASSES = {cls.__name__: cls for cls in (*LEARNED, Pipeline)}
Arrays = dict[str, np.ndarray]


def describe(predictor: Any) -> Any:
    """Return an unfitted predictor, or lists of them, as JSON can hold it; ``"precomputed"`` and None stay."""
    if predictor is None or isinstance(predictor, str):
        return predictor
    if isinstance(predictor, list | tuple):
        return {"list": [describe(one) for one in predictor], "tuple": isinstance(predictor, tuple)}
    _refuse_strangers(predictor)
    if isinstance(predictor, Pipeline):
        return {"class": "Pipeline", "steps": [[name, describe(step)] for name, step in predictor.steps]}
    params = {} if isinstance(predictor, Prior) else predictor.get_params(deep=False)
    strange = [name for name, value in params.items() if not _is_plain(value)]
    if strange:
        raise ModelFileError(
            f"{strange[0]} of the predictor {predictor!r} is a {type(params[strange[0]]).__name__}, which a model file "
            "cannot hold; save with without_predictors=True, or pickle the model where you trust the reader."
        )
    return {"class": type(predictor).__name__, "params": params}


def remake(plain: Any) -> Any:
    """Undo :func:`describe`."""
    if plain is None or isinstance(plain, str):
        return plain
    if "list" in plain:
        made = [remake(one) for one in plain["list"]]
        return tuple(made) if plain["tuple"] else made
    cls = _CLASSES.get(plain["class"])
    if cls is None:
        raise ModelFileError(f"the file holds a predictor {plain['class']!r}, which this version does not know.")
    if cls is Pipeline:
        return Pipeline([(name, remake(step)) for name, step in plain["steps"]])
    return cls.__new__(cls) if cls is Prior else cls(**plain["params"])


def fitted_state(predictor: Any, name: str, arrays: Arrays) -> Any:
    """Return a fitted predictor as :func:`describe` does; what it has learned goes to ``arrays`` under ``name``."""
    described = describe(predictor)
    for part, step in _steps(predictor, name):
        for learned in LEARNED[type(step)]:
            if hasattr(step, learned):
                arrays[f"{part}.{learned}"] = np.asarray(getattr(step, learned))
    return described


def refit(plain: Any, name: str, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo :func:`fitted_state`."""
    predictor = remake(plain)
    for part, step in _steps(predictor, name):
        for learned in LEARNED[type(step)]:
            value = arrays.get(f"{part}.{learned}")
            if value is not None:
                setattr(step, learned, value.item() if value.ndim == 0 else value)
    return predictor


def _steps(predictor: Any, name: str) -> Sequence[tuple[str, Any]]:
    if isinstance(predictor, Pipeline):
        steps = [_steps(step, f"{name}.{k}") for k, (_, step) in enumerate(predictor.steps)]
        return [found for several in steps for found in several]
    return [(name, predictor)]


def _refuse_strangers(predictor: Any) -> None:
    if type(predictor) in LEARNED or (type(predictor) is Pipeline and predictor.memory is None):
        return
    kind = type(predictor).__name__ if isinstance(predictor, BaseEstimator) else f"{predictor!r}"
    known = ", ".join(sorted(cls.__name__ for cls in LEARNED if cls is not Prior))
    raise ModelFileError(
        f"the predictor {kind} cannot be kept in a model file, which holds no code (only {known} and pipelines of them "
        "can): pass without_predictors=True to save the field alone (it then reads the scores that predictor_scores "
        "gives), or pickle the whole where you trust the reader."
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str)
