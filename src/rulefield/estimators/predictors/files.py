"""scikit-learn predictors as plain numbers and back: linear ones, trees and pipelines of them; no code is kept, none is run.

A predictor is its class (of the few listed here), its constructor's parameters and the arrays that it learned; fitted
trees come back as :class:`SavedTrees`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from rulefield.estimators.predictors.cross_fitting import Prior, ScoreTask
from rulefield.estimators.predictors.trees import NODES, TREES, SavedTrees
from rulefield.exceptions import ModelFileError
from rulefield.forms import LARGEST_WEIGHT, Form, check_arrays

LEARNED: dict[type, tuple[str, ...]] = {
    LinearRegression: ("coef_", "intercept_", "n_features_in_"),
    LogisticRegression: ("classes_", "coef_", "intercept_", "n_features_in_", "n_iter_"),
    Prior: ("classes_", "shares"),
    Ridge: ("coef_", "intercept_", "n_features_in_"),
    SavedTrees: (*(f"{name}_" for name in NODES), "root_", "values_", "base_", "classes_", "n_features_in_"),
    StandardScaler: ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"),
}
"""What each predictor has learned when it is fitted."""
CLASSIFIERS, REGRESSORS = (LogisticRegression, Prior, SavedTrees), (LinearRegression, Ridge)
_CLASSES = {cls.__name__: cls for cls in (*LEARNED, *TREES, Pipeline)}
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
    return cls.__new__(cls) if cls is Prior else _checked(cls(**plain["params"]))


def _checked(predictor: Any) -> Any:
    """Return a predictor whose parameters are such as scikit-learn takes."""
    if hasattr(predictor, "_parameter_constraints"):
        try:
            predictor._validate_params()
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"the model file holds a predictor with wrong parameters ({error}).") from None
    return predictor


def fitted_state(predictor: Any, name: str, arrays: Arrays) -> Any:
    """Return a fitted predictor as :func:`describe` does; what it has learned goes to ``arrays`` under ``name``."""
    predictor = _as_arrays(predictor)
    described = describe(predictor)
    for part, step in _steps(predictor, name):
        for learned in LEARNED[type(step)]:
            if getattr(step, learned, None) is not None:
                arrays[f"{part}.{learned}"] = np.asarray(getattr(step, learned))
    return described


def refit(plain: Any, name: str, arrays: Mapping[str, np.ndarray], task: ScoreTask) -> Any:
    """Undo :func:`fitted_state`; ``task`` is what the predictor is for."""
    predictor = remake(plain)
    steps = _steps(predictor, name)
    places = [(step, learned, f"{part}.{learned}") for part, step in steps for learned in LEARNED[type(step)]]
    kept = {place: np.atleast_1d(arrays[place]) for _, _, place in places if place in arrays}
    _check_learned(steps, kept, task)
    for step, learned, place in places:
        if place in kept:
            single = (learned in _SINGLE and kept[place].size == 1) or (
                learned == "intercept_" and np.ndim(getattr(step, "coef_", 0)) == 1
            )
            setattr(step, learned, kept[place].item() if single else kept[place])
    if isinstance(steps[-1][1], SavedTrees):
        steps[-1][1].check()
    return predictor


def _as_arrays(predictor: Any) -> Any:
    """Return a fitted predictor with its trees as arrays."""
    if type(predictor) is Pipeline:
        return Pipeline([(name, _as_arrays(step)) for name, step in predictor.steps], memory=predictor.memory)
    return SavedTrees.of(predictor) if type(predictor) in TREES else predictor


def _check_learned(steps: Sequence[tuple[str, Any]], arrays: Mapping[str, np.ndarray], task: ScoreTask) -> None:
    """Refuse what is no predictor for its task, and arrays of which one does not fit the others."""
    able = REGRESSORS if task.kind == "values" else CLASSIFIERS
    if not isinstance(steps[-1][1], able) or not all(isinstance(step, StandardScaler) for _, step in steps[:-1]):
        raise ModelFileError(f"the model file holds a predictor that cannot tell {task.kind}; save the model again.")
    sizes = {"task": 2 if task.kind == "binary" else task.n_classes}
    for part, step in steps:
        forms = {f"{part}.{learned}": form for learned, form in _forms(step, part, arrays).items()}
        sizes = check_arrays(arrays, forms, sizes)
        width = arrays.get(f"{part}.n_features_in_")
        if width is not None and int(width[0]) != sizes.get("features", width[0]):
            raise ModelFileError(f"the array '{part}.n_features_in_' of the model file does not fit; save it again.")


def _forms(step: Any, part: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Form]:
    """Return what a fitted step has to hold."""
    if isinstance(step, Prior):
        return {"classes_": _CLASS_NUMBERS, "shares": _numbers("classes", least=0.0)}
    if isinstance(step, StandardScaler):
        own = {"mean_": _numbers("features"), "var_": _numbers("features", least=0.0)}
        own["scale_"] = _numbers("features", least=1.0 / LARGEST_WEIGHT)
        own = {name: form for name, form in own.items() if f"{part}.{name}" in arrays}
        by_column = len(arrays.get(f"{part}.n_samples_seen_", ())) > 1  # where numbers were missing
        seen = replace(_SEEN, shape=("features",)) if by_column else _SEEN
        return {**own, "n_samples_seen_": seen, "n_features_in_": _COUNT}
    if isinstance(step, LogisticRegression):
        rows = "1" if len(arrays.get(f"{part}.classes_", ())) <= 2 else "classes"
        return {
            "classes_": replace(_CLASS_NUMBERS, shape=("2" if rows == "1" else "classes",)),
            "coef_": _numbers(rows, "features"),
            "intercept_": _numbers(rows),
            "n_iter_": Form(("int32", "int64"), ("runs",)),
            "n_features_in_": _COUNT,
        }
    if isinstance(step, SavedTrees):
        return _TREE_FORMS
    several = np.ndim(arrays.get(f"{part}.coef_", ())) == 2
    each = "targets" if several and len(arrays.get(f"{part}.intercept_", ())) > 1 else "1"
    return {
        "coef_": _numbers("targets", "features") if several else _numbers("features"),
        "intercept_": _numbers(each),
        "n_features_in_": _COUNT,
    }


def _numbers(*shape: str, least: float = -LARGEST_WEIGHT) -> Form:
    return Form(("float64", "float32"), shape, least=least)


_COUNT = Form(("int64", "int32"), ("1",), least=0.0)
_SEEN = replace(_COUNT, dtypes=("int64", "int32", "float64"))
_SINGLE = ("n_features_in_", "n_samples_seen_")
_CLASS_NUMBERS = Form(("int64", "int32"), ("classes",), below="task", ascending=True)
_NODE = Form(("int64",), ("nodes",), least=0.0)
_TREE_FORMS = {
    **dict.fromkeys(("feature_", "left_", "right_"), _NODE),
    "leaf_": replace(_NODE, least=-1.0),
    "threshold_": Form(("float64",), ("nodes",)),
    "missing_left_": Form(("bool",), ("nodes",)),
    "root_": Form(("int64",), ("trees",), below="nodes"),
    "values_": _numbers("leaves", "width"),
    "base_": _numbers("width"),
    "classes_": _CLASS_NUMBERS,
    "n_features_in_": _COUNT,
}


def _steps(predictor: Any, name: str) -> Sequence[tuple[str, Any]]:
    if isinstance(predictor, Pipeline):
        steps = [_steps(step, f"{name}.{k}") for k, (_, step) in enumerate(predictor.steps)]
        return [found for several in steps for found in several]
    return [(name, predictor)]


def _refuse_strangers(predictor: Any) -> None:
    if type(predictor) in (*LEARNED, *TREES) or (type(predictor) is Pipeline and predictor.memory is None):
        return
    kind = type(predictor).__name__ if isinstance(predictor, BaseEstimator) else f"{predictor!r}"
    known = ", ".join(sorted(cls.__name__ for cls in (*LEARNED, *TREES) if cls not in (Prior, SavedTrees)))
    raise ModelFileError(
        f"the predictor {kind} cannot be kept in a model file, which holds no code (only {known} and pipelines of them "
        "can): pass without_predictors=True to save the field alone (it then reads the scores that predictor_scores "
        "gives), or pickle the whole where you trust the reader."
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str)
