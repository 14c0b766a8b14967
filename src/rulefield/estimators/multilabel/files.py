"""A fitted MultiLabelCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.graph.estimator import GraphCRF
from rulefield.estimators.graph.predictors import restored_scores, scores_state
from rulefield.estimators.types import Transformer
from rulefield.exceptions import ModelFileError
from rulefield.forms import Form, check_arrays, check_typed, part_of, weights

if TYPE_CHECKING:
    from rulefield.estimators.multilabel.estimator import MultiLabelCRF


class MultiLabelMetadata(TypedDict):
    """What :func:`multilabel_state` gives beside arrays."""

    field: dict[str, Any]
    feature_names: list[str]
    predictors: Any


def multilabel_state(crf: "MultiLabelCRF") -> State:
    """Arrays and JSON-able metadata of a fitted model."""
    arrays, field = crf.crf_._whole_state()
    names = [str(name) for name in getattr(crf, "feature_names_in_", ())]
    mine = {f"field.{name}": array for name, array in arrays.items()}
    kept = None if crf._fitted_scores is None else scores_state(crf._fitted_scores, "predictor", mine)
    return mine, {"field": field, "feature_names": names, "predictors": kept}


def restore_multilabel(
    crf: "MultiLabelCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], predictors: Transformer | None
) -> None:
    """Undo :func:`multilabel_state`; ``predictors`` stand in for what the file cannot hold."""
    check_typed(metadata, MultiLabelMetadata, "the model")
    crf.crf_ = GraphCRF._from_state(part_of(arrays, "field."), metadata["field"])
    crf._fitted_scores = None
    if metadata["predictors"] is not None:
        fitted = restored_scores(
            metadata["predictors"],
            "predictor",
            arrays,
            crf._task,
            len(crf._class_list),
            predictors,
        )
        crf._fitted_scores, crf.predictors_ = fitted, fitted.members
        crf.predictors = "auto" if crf.predictors == "auto" else fitted.chosen
    _check_restored(crf)
    if len(metadata["feature_names"]) not in (0, crf.n_features_in_):
        raise ModelFileError("the model file does not name all of its features; save it again.")
    if metadata["feature_names"]:
        crf.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)


def _check_restored(crf: "MultiLabelCRF") -> None:
    """Refuse attributes of a file that do not fit each other or the field."""
    parts = {"edges": crf.edges_} | {f"classes{k}": c for k, c in enumerate(crf._class_list)}
    forms = {"edges": Form(("int64",), ("edges", "2"), below="labels")}
    if (crf._center is None) != (crf._spread is None):
        raise ModelFileError("the model file holds a center or a spread without the other; save it again.")
    if crf._center is not None and crf._spread is not None:
        parts |= {"center": crf._center, "spread": crf._spread}
        forms |= {"center": weights("features"), "spread": Form(("float64",), ("features",), least=1e-300)}
    check_arrays(parts, forms, {"labels": len(crf._class_list), "features": crf.n_features_in_})
    counts = {name: len(set(c.tolist())) for name, c in zip(crf._names, crf._class_list)}
    spec, scores = crf.crf_.model_.spec, crf._fitted_scores
    width = 1 + (crf.n_features_in_ if scores is None else scores.task.width * len(scores.members))
    wanted = set(map(tuple, np.array(crf._names)[crf.edges_].tolist()))
    if (
        not counts
        or spec.labels != counts
        or any(d != width for d in spec.features.values())
        or set(spec.edge_features) != wanted
        or any(d != (1 if scores is None else 3) for d in spec.edge_features.values())
        or any(c.ndim != 1 for c in crf._class_list)
        or crf._multilabel != (len(counts) > 1)
    ):
        raise ModelFileError("the labels of the model file do not fit its field; save the model again.")
