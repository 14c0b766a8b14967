"""A fitted Gaussian field as arrays and metadata, and back: graphs, labels, and predictors where they can be kept."""

import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import scipy.sparse

from rulefield.estimators.base import State
from rulefield.estimators.gaussian.inputs import GraphEntry, OwnGraph, SharedGraph
from rulefield.estimators.gaussian.layouts import Layout, NodesLayout, ScoresLayout, TableLayout
from rulefield.estimators.predictors.cross_fitting import FittedScores, ScoreTask
from rulefield.estimators.predictors.files import describe, fitted_state, refit, remake
from rulefield.exceptions import ModelFileError
from rulefield.forms import Label, check_arrays, check_typed, sparse_matrix, weights
from rulefield.models.gaussian import GaussianModel

if TYPE_CHECKING:
    from rulefield.estimators.gaussian.base import GaussianCRFBase

Arrays = dict[str, np.ndarray]
MOST_OUTPUTS = 10_000_000
"""Largest number of outputs, or of features, that a file may name."""


class TaskMetadata(TypedDict):
    """What the scores are for."""

    kind: Literal["binary", "classes", "values"]
    n_classes: int


class FieldMetadata(TypedDict):
    """What :func:`field_state` gives beside arrays."""

    model: dict[str, int | bool]
    graphs: list[dict[str, str | int]]
    layout: dict[str, Any]
    n_features_in: int | None
    feature_names: list[str]


class ScoresMetadata(TypedDict):
    """A field that reads scores."""

    kind: Literal["ScoresLayout"]
    ragged: bool
    same_nodes: bool
    task: TaskMetadata
    n_scores: int


class PredictorsMetadata(TypedDict):
    """A field with predictors."""

    kind: Literal["TableLayout", "NodesLayout"]
    ragged: bool
    task: TaskMetadata
    members: list[list[Any]]
    n_outputs: int
    chosen: list[Any]
    columns: list[list[int]] | None


class LabelsMetadata(TypedDict):
    """The classes of a classifier; ``type`` is numpy's name of their type."""

    values: list[Label]
    type: str
    flat: bool
    outputs: int


def class_values(labels: dict[str, Any]) -> np.ndarray:
    """Return the classes that :class:`LabelsMetadata` holds, ascending."""
    check_typed(labels, LabelsMetadata, "labels")
    if not re.fullmatch(r"[<|](b1|[iuf][1248]|U\d{1,4}|O8?)", labels["type"]):
        raise ModelFileError(f"the labels of the model file are of the type {labels['type']!r:.20}; save it again.")
    values = np.array(labels["values"], dtype=object if "O" in labels["type"] else labels["type"])
    if (values[1:] <= values[:-1]).any():
        raise ModelFileError("the labels of the model file are not in order; save the model again.")
    return values


def field_state(estimator: "GaussianCRFBase") -> State:
    """Weights, graphs and predictors as arrays, the rest as JSON-able metadata."""
    arrays: Arrays = {"theta": estimator.theta_}
    entries = []
    for number, entry in enumerate(estimator._graph_entries):
        if isinstance(entry, OwnGraph):
            entries.append(asdict(entry))
        else:
            entries.append({"name": entry.name})
            arrays |= _graph_arrays(f"graph{number}", entry.matrix)
    return arrays, {
        "model": asdict(estimator.model_),
        "graphs": entries,
        "layout": _layout_state(estimator._layout, arrays),
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
    }


def restore_field(estimator: "GaussianCRFBase", arrays: Arrays, data: dict[str, Any]) -> None:
    """Undo :func:`field_state`."""
    check_typed({name: data[name] for name in FieldMetadata.__annotations__}, FieldMetadata, "the model")
    model = GaussianModel(**data["model"])
    layout = _layout(data["layout"], arrays)
    _check_model(model, restored_task(layout))
    _check_theta(model, arrays["theta"])
    _check_scores(layout, model, data["n_features_in"], arrays)
    entries: list[GraphEntry] = []
    for number, entry in enumerate(data["graphs"]):
        own = "index" in entry
        entries.append(OwnGraph(**entry) if own else SharedGraph(entry["name"], _graph(f"graph{number}", arrays)))
    _check_graphs(model, entries)
    estimator.model_, estimator.theta_ = model, arrays["theta"]
    estimator._graph_entries, estimator._layout = entries, layout
    if data["n_features_in"] is not None:
        estimator.n_features_in_ = data["n_features_in"]
    if data["feature_names"]:
        estimator.feature_names_in_ = np.array(data["feature_names"], dtype=object)


def _layout_state(layout: Layout, arrays: Arrays) -> dict[str, Any]:
    kind = type(layout).__name__
    if isinstance(layout, ScoresLayout):
        scores = {"task": asdict(layout.task), "n_scores": layout.n_scores}
        return {"kind": kind, "ragged": layout.ragged, "same_nodes": layout.same_nodes, **scores}
    fitted = layout.fitted
    members = [
        [fitted_state(member, f"predictor{k}.{i}", arrays) for i, member in enumerate(family)]
        for k, family in enumerate(fitted.members)
    ]
    return {
        "kind": kind,
        "ragged": layout.ragged,
        "task": asdict(fitted.task),
        "members": members,
        "n_outputs": fitted.n_outputs,
        "chosen": [describe(predictor) for predictor in fitted.chosen],
        "columns": fitted.columns,
    }


def _layout(data: dict[str, Any], arrays: Arrays) -> Layout:
    scores = data.get("kind") == "ScoresLayout"
    check_typed(data, ScoresMetadata if scores else PredictorsMetadata, "the layout")
    task = ScoreTask(**data["task"])
    if scores:
        return ScoresLayout.of(task, data["n_scores"], data["same_nodes"], data["ragged"])
    layout: TableLayout | NodesLayout = TableLayout() if data["kind"] == "TableLayout" else NodesLayout()
    layout.ragged = data["ragged"]
    members = [
        [refit(member, f"predictor{k}.{i}", arrays, task) for i, member in enumerate(family)]
        for k, family in enumerate(data["members"])
    ]
    chosen = [remake(plain) for plain in data["chosen"]]
    layout.fitted = FittedScores(task, members, data["n_outputs"], chosen, data["columns"])
    return layout


def restored_task(layout: Layout) -> ScoreTask:
    """Return what a layout's scores are for."""
    return layout.task if isinstance(layout, ScoresLayout) else layout.fitted.task


def _graph_arrays(name: str, matrix: Any) -> Arrays:
    if not scipy.sparse.issparse(matrix):
        return {name: np.asarray(matrix)}
    csr = scipy.sparse.csr_array(matrix)
    return {f"{name}.data": csr.data, f"{name}.indices": csr.indices, f"{name}.indptr": csr.indptr}


def _graph(name: str, arrays: Arrays) -> Any:
    if name in arrays:
        check_arrays(arrays, {name: weights("nodes", "nodes")}, {})
        return arrays[name]
    parts = {part: arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")}
    n = len(parts["indptr"]) - 1
    check_arrays(parts, {"data": weights("entries")}, {})
    return sparse_matrix(parts, (n, n))


def _check_model(model: GaussianModel, task: ScoreTask) -> None:
    for field in fields(model):
        check_typed(getattr(model, field.name), field.type, field.name)
    if not (model.n_scores >= 1 and model.n_graphs >= 0 and model.n_nodes >= 0 and model.n_classes == task.width):
        raise ModelFileError("the sizes of the model file's field do not fit together; save the model again.")


def _check_theta(model: GaussianModel, theta: np.ndarray) -> None:
    """Hold the weights against their bounds: strengths of graphs are not negative, so that fields have a maximum."""
    check_arrays({"theta": theta}, {"theta": weights("weights")}, {"weights": model.size})
    bounds = np.array(model.bounds(), dtype=float).reshape(-1, 2)  # None becomes NaN, which nothing is beyond
    if (theta < bounds[:, 0]).any() or (theta > bounds[:, 1]).any():
        raise ModelFileError("a strength or a variance of the model file is out of range; save the model again.")


def _check_graphs(model: GaussianModel, entries: list[GraphEntry]) -> None:
    sizes = {entry.matrix.shape[0] for entry in entries if isinstance(entry, SharedGraph)}
    own = [entry for entry in entries if isinstance(entry, OwnGraph)]
    good = len(entries) == model.n_graphs and len(sizes | ({model.n_nodes} - {0})) <= 1
    if not good or not all(_is_laplacian(e.matrix) for e in entries if isinstance(e, SharedGraph)):
        raise ModelFileError("the graphs of the model file are no Laplacians of one size; save the model again.")
    for entry in own:
        check_typed(entry.index, int, "the number of a graph")
        if entry.sign not in (1, -1) or not 0 <= entry.index < len(entries):
            raise ModelFileError("a graph of the model file has no sign or no number; save the model again.")


def _is_laplacian(matrix: Any) -> bool:
    """Whether a matrix is symmetric, its mean degree at most 1, no diagonal entry smaller than the sum of its row.

    So it is semidefinite, and the field's own matrix can be inverted.
    """
    diagonal = matrix.diagonal()
    if not diagonal.sum() <= (1.0 + 1e-6) * len(diagonal):
        return False
    rows = np.asarray(abs(matrix).sum(axis=1)).ravel()
    most = 1e-9 * max(1.0, float(rows.max(initial=0.0)))
    return bool(abs(matrix - matrix.T).max() <= most and (2 * diagonal >= rows - most).all()) if len(rows) else True


def _check_scores(layout: Layout, model: GaussianModel, n_features: int | None, arrays: Arrays) -> None:
    """Refuse scores that are not what the field reads; predictors are tried on one row of zeros."""
    if isinstance(layout, ScoresLayout):
        good = layout.n_scores == model.n_scores
    else:
        widths = set() if n_features is None else {n_features}
        if layout.fitted.columns is None:
            widths |= {int(array.shape[-1]) for name, array in arrays.items() if name.endswith(".coef_")}
        good = len(widths) <= 1 and all(0 < w <= MOST_OUTPUTS for w in widths) and len(layout.fitted.members) > 0
        good = good and _are_columns(layout.fitted, n_features)
        good = good and (isinstance(layout, NodesLayout) or model.n_nodes in (0, layout.fitted.n_outputs))
        if good:
            row = np.zeros((1, next(iter(widths), 1)))
            found = layout.fitted(row)
            wanted = (1, layout.fitted.task.width, layout.fitted.n_outputs, model.n_scores)
            good = found.shape == wanted and bool(np.isfinite(found).all())
    if not good:
        raise ModelFileError("the predictors of the model file do not fit its field; save the model again.")


def _are_columns(fitted: FittedScores, n_features: int | None) -> bool:
    """Whether each output and its predictors have columns of their own that X has; or there are none."""
    if fitted.columns is None:
        return True
    good = n_features is not None and len(fitted.columns) == fitted.n_outputs
    good = good and all(len(family) == fitted.n_outputs for family in fitted.members)
    return good and all(0 <= column < (n_features or 0) for own in fitted.columns for column in own)
