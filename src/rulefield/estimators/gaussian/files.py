"""Gaussian fields to a model file and back: everything but the predictors, which are code of others."""

import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import scipy.sparse

from rulefield.estimators.base import State
from rulefield.estimators.gaussian.inputs import GraphEntry, OwnGraph, SharedGraph
from rulefield.estimators.gaussian.layouts import ScoresLayout
from rulefield.estimators.gaussian.scores import ScoreTask
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import Label, check_arrays, check_typed, sparse_matrix, weights
from rulefield.models.gaussian import GaussianModel

if TYPE_CHECKING:
    from rulefield.estimators.gaussian.base import GaussianCRFBase


MOST_OUTPUTS = 10_000_000
"""Largest number of outputs that a file may name."""


class LayoutMetadata(TypedDict):
    """How instances are given."""

    same_nodes: bool
    ragged: bool


class FieldMetadata(TypedDict):
    """What :func:`field_state` gives beside arrays."""

    model: dict[str, int | bool]
    graphs: list[dict[str, str | int]]
    task: dict[str, str | int]
    layout: LayoutMetadata


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


def refuse_predictors(estimator: "GaussianCRFBase") -> None:
    """Raise where a field holds fitted predictors, which a file that runs no code cannot hold."""
    if not isinstance(estimator.layout_, ScoresLayout):
        raise InputError(
            "This field holds fitted scikit-learn predictors, and a model file never holds code of others: pass "
            "without_predictors=True to save the field alone (it then reads the scores that predictor_scores gives), "
            "or pickle the whole where you trust the reader."
        )


def field_state(estimator: "GaussianCRFBase", task: ScoreTask) -> State:
    """Weights and graphs as arrays, the rest as JSON-able metadata."""
    arrays = {"theta": estimator.theta_}
    entries = []
    for number, entry in enumerate(estimator.graph_entries_):
        if isinstance(entry, OwnGraph):
            entries.append(asdict(entry))
        else:
            entries.append({"name": entry.name})
            arrays |= _graph_arrays(f"graph{number}", entry.matrix)
    return arrays, {
        "model": asdict(estimator.model_),
        "graphs": entries,
        "task": asdict(task),
        "layout": {"same_nodes": estimator.layout_.same_nodes, "ragged": estimator.layout_.ragged},
    }


def restore_field(estimator: "GaussianCRFBase", arrays: dict[str, np.ndarray], data: dict[str, Any]) -> None:
    """Undo :func:`field_state`; the field then reads precomputed scores."""
    check_typed({name: data[name] for name in FieldMetadata.__annotations__}, FieldMetadata, "the model")
    model = GaussianModel(**data["model"])
    _check_model(model, data["task"])
    _check_theta(model, arrays["theta"])
    layout = ScoresLayout(data["layout"]["same_nodes"])
    layout.ragged = data["layout"]["ragged"]
    layout.task, layout.n_scores = ScoreTask(**data["task"]), model.n_scores
    entries: list[GraphEntry] = []
    for number, entry in enumerate(data["graphs"]):
        own = "index" in entry
        entries.append(OwnGraph(**entry) if own else SharedGraph(entry["name"], _graph(f"graph{number}", arrays)))
    _check_graphs(model, entries)
    estimator.model_, estimator.theta_, estimator.layout_ = model, arrays["theta"], layout
    estimator.graph_entries_ = entries


def _graph_arrays(name: str, matrix: Any) -> dict[str, np.ndarray]:
    if not scipy.sparse.issparse(matrix):
        return {name: np.asarray(matrix)}
    csr = scipy.sparse.csr_array(matrix)
    return {f"{name}.data": csr.data, f"{name}.indices": csr.indices, f"{name}.indptr": csr.indptr}


def _graph(name: str, arrays: dict[str, np.ndarray]) -> Any:
    if name in arrays:
        check_arrays(arrays, {name: weights("nodes", "nodes")}, {})
        return arrays[name]
    parts = {part: arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")}
    n = len(parts["indptr"]) - 1
    check_arrays(parts, {"data": weights("entries")}, {})
    return sparse_matrix(parts, (n, n))


def _check_model(model: GaussianModel, task: dict[str, Any]) -> None:
    for field in fields(model):
        check_typed(getattr(model, field.name), field.type, field.name)
    check_typed(task, ScoreTaskMetadata, "the task")
    width = task["n_classes"] if task["kind"] == "classes" else 1
    if not (model.n_scores >= 1 and model.n_graphs >= 0 and model.n_nodes >= 0 and model.n_classes == width):
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
    """Whether a matrix is symmetric and no diagonal entry smaller than the sum of its row: then it is semidefinite."""
    diagonal = matrix.diagonal()
    rows = np.asarray(abs(matrix).sum(axis=1)).ravel()
    most = 1e-9 * max(1.0, float(rows.max(initial=0.0)))
    return bool(abs(matrix - matrix.T).max() <= most and (2 * diagonal >= rows - most).all()) if len(rows) else True


class ScoreTaskMetadata(TypedDict):
    """What the scores are for."""

    kind: Literal["binary", "classes", "values"]
    n_classes: int
