"""Gaussian fields to a model file and back: everything but the predictors, which are code of others."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from rulefield.estimators.base import State
from rulefield.estimators.gaussian.inputs import GraphEntry, OwnGraph, SharedGraph
from rulefield.estimators.gaussian.layouts import ScoresLayout
from rulefield.estimators.gaussian.scores import ScoreTask
from rulefield.exceptions import InputError
from rulefield.models.gaussian import GaussianModel

if TYPE_CHECKING:
    from rulefield.estimators.gaussian.base import GaussianCRFBase


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
    model = GaussianModel(**data["model"])
    layout = ScoresLayout(data["layout"]["same_nodes"])
    layout.ragged = data["layout"]["ragged"]
    layout.task, layout.n_scores = ScoreTask(**data["task"]), model.n_scores
    entries: list[GraphEntry] = []
    for number, entry in enumerate(data["graphs"]):
        own = "index" in entry
        entries.append(OwnGraph(**entry) if own else SharedGraph(entry["name"], _graph(f"graph{number}", arrays)))
    estimator.model_, estimator.theta_, estimator.layout_ = model, arrays["theta"], layout
    estimator.graph_entries_ = entries


def _graph_arrays(name: str, matrix: Any) -> dict[str, np.ndarray]:
    if not scipy.sparse.issparse(matrix):
        return {name: np.asarray(matrix)}
    csr = scipy.sparse.csr_array(matrix)
    return {f"{name}.data": csr.data, f"{name}.indices": csr.indices, f"{name}.indptr": csr.indptr}


def _graph(name: str, arrays: dict[str, np.ndarray]) -> Any:
    if name in arrays:
        return arrays[name]
    pointer = arrays[f"{name}.indptr"]
    n = len(pointer) - 1
    return scipy.sparse.csr_array((arrays[f"{name}.data"], arrays[f"{name}.indices"], pointer), shape=(n, n))
