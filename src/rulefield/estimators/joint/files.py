"""A fitted JointCRF as one model file, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.chain.files import features_from, features_state, model_arrays, model_from_arrays
from rulefield.estimators.expectation_training import ExpectationReport
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.joint.labels import JointLabels
from rulefield.models.joint import JointModel
from rulefield.models.pairs import PairTable

if TYPE_CHECKING:
    from rulefield.estimators.joint.estimator import JointCRF


def joint_state(crf: "JointCRF") -> State:
    """Arrays and JSON-able metadata of a fitted model."""
    model = crf.model_
    arrays = {"theta": crf.theta_} | crf._encoder.to_arrays()
    for k, task in enumerate(model.tasks):
        arrays |= model_arrays(task, f"task{k}.")
    arrays |= {"joint_ptr": model.joint_pairs.ptr, "joint_label": model.joint_pairs.label}
    arrays |= {"move_from": model.move_from, "move_to": model.move_to, "allowed": model.allowed}
    params = crf.get_params(deep=False)
    params["features"] = features_state(params["features"])
    params["expectations"] = None  # they act while training; a fitted model reports them
    return arrays, {
        "params": params,
        "tasks": crf.tasks_,
        "classes": {task: list(labels) for task, labels in crf.classes_.items()},
        "cross": bool(model.cross),
        "fitted_features": features_state(crf._encoder.features),
        "n_columns": crf._encoder.n_columns,
        "n_iter": crf.n_iter_,
        "converged": bool(crf.converged_),
        "expectations": [vars(report) for report in crf.expectations_],
    }


def restore_joint(
    crf: "JointCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Any = None
) -> "JointCRF":
    """Undo :func:`joint_state`."""
    params = metadata["params"]
    params["features"] = features_from(params["features"], features)
    crf.set_params(**params)
    crf.tasks_, crf.classes_ = metadata["tasks"], metadata["classes"]
    sizes = [len(crf.classes_[task]) for task in crf.tasks_]
    tasks = tuple(model_from_arrays(arrays, m, f"task{k}.") for k, m in enumerate(sizes))
    crf.model_ = JointModel.of(
        tasks,
        cross=metadata["cross"],
        joint_pairs=PairTable(arrays["joint_ptr"], arrays["joint_label"], int(np.prod(sizes))),
        moves=(arrays["move_from"], arrays["move_to"]),
        allowed=arrays["allowed"],
    )
    crf.theta_ = arrays["theta"]
    fitted = features_from(metadata["fitted_features"], features)
    crf._encoder = InputEncoder.from_arrays(arrays, fitted, metadata["n_columns"])
    crf._names = JointLabels(crf.tasks_).set_classes(crf.classes_)
    crf.n_iter_, crf.converged_, crf.log_ = metadata["n_iter"], metadata["converged"], []
    crf.expectations_ = [ExpectationReport(**row) for row in metadata["expectations"]]
    return crf
