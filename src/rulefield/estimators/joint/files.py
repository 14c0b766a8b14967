"""A fitted JointCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.chain.files import model_arrays, model_from_arrays
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.joint.labels import TaskLabels
from rulefield.models.joint import JointModel
from rulefield.models.pairs import PairTable

if TYPE_CHECKING:
    from rulefield.estimators.joint.estimator import JointCRF


def joint_state(crf: "JointCRF") -> State:
    """Arrays and JSON-able metadata of a fitted model."""
    model = crf.model_
    arrays, encoder = crf._encoder.state()
    arrays |= {"theta": crf.theta_}
    for k, task in enumerate(model.tasks):
        arrays |= model_arrays(task, f"task{k}.")
    arrays |= {"joint_ptr": model.joint_pairs.ptr, "joint_label": model.joint_pairs.label}
    arrays |= {"move_from": model.move_from, "move_to": model.move_to, "allowed": model.allowed}
    return arrays, {"encoder": encoder, "cross": bool(model.cross)}


def restore_joint(
    crf: "JointCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Any = None
) -> None:
    """Undo :func:`joint_state`."""
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
    crf._encoder = InputEncoder.from_state(arrays, metadata["encoder"], crf.model_.tasks[0].n_features, features)
    crf._names = TaskLabels(crf.tasks_).set_classes(crf.classes_)
