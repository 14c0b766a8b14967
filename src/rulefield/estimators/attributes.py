"""The types of fitted attributes that model files hold: one table for all estimators, checked at loading."""

from typing import Any

import numpy as np

from rulefield.exceptions import ModelFileError
from rulefield.forms import Label, are_labels, check_typed
from rulefield.learning.chain.stochastic import Stream

TYPES: dict[str, Any] = {
    "classes_": list[Label] | dict[str, list[Label]],
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
    "gap_": float | None,
    "objective_": float,
    "n_candidates_": int,
    "n_kept_": int,
    "n_features_in_": int,
    "edges_": np.ndarray,
    "algorithm_": str,
    "center_": np.ndarray,
    "scale_": np.ndarray,
    "_flat": bool,
    "_plain_labels": bool,
    "_stream": Stream,
    "_multilabel": bool,
    "_class_list": list[np.ndarray],
    "_center": np.ndarray | None,
    "_spread": np.ndarray | None,
}
LISTS = {
    "log_": "FitRecord",
    "expectations_": "ExpectationReport",
    "report_": "RuleReport",
    "gains_": "Gain",
    "rules_": "Rule",
}
"""Lists of records, by the name of their class: only :mod:`rulefield.estimators.packing` makes them from a file."""


def check_attribute(name: str, value: Any) -> None:
    """Refuse a fitted attribute of a model file that is not of its type; labels must be distinct."""
    if name in LISTS and not (isinstance(value, list) and all(type(item).__name__ == LISTS[name] for item in value)):
        raise ModelFileError(f"{name} of the model file must be a list of {LISTS[name]}; save the model again.")
    if name in TYPES:
        check_typed(value, TYPES[name], name)
    if name == "classes_":
        for labels in value.values() if isinstance(value, dict) else [value]:
            if not are_labels(labels):
                raise ModelFileError("the model file names no labels, or one twice, or NaN; save the model again.")
    if name == "_class_list" and not all(array.ndim == 1 and are_labels(array.tolist()) for array in value):
        raise ModelFileError("the model file names no classes, or one twice, or NaN; save the model again.")
