"""A fitted JointCRF as arrays and metadata, and back."""

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.chain.files import CHAIN_FORMS
from rulefield.estimators.inputs import InputEncoder, SequenceMetadata
from rulefield.estimators.joint.labels import TaskLabels
from rulefield.estimators.types import Transformer
from rulefield.forms import check_arrays, check_typed, flags, index, pair_table, weights
from rulefield.models.chain_arrays import model_arrays, model_from_arrays
from rulefield.models.joint import JointModel
from rulefield.models.pairs import PairTable

if TYPE_CHECKING:
    from rulefield.estimators.joint.estimator import JointCRF


JOINT_FORMS = {
    **pair_table("joint", "joints", "states"),
    "move_from": index("moves", below="states", dtype="int64"),
    "move_to": index("moves", below="states", dtype="int64"),
    "allowed": flags("states"),
}


class JointMetadata(SequenceMetadata):
    """What :func:`joint_state` gives beside arrays."""

    cross: bool


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
    crf: "JointCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Transformer | None = None
) -> None:
    """Undo :func:`joint_state`."""
    check_typed(metadata, JointMetadata, "the model")
    sizes = [len(crf.classes_[task]) for task in crf.tasks_]
    found = check_arrays(arrays, JOINT_FORMS, {"states": prod(sizes)})
    for k, m in enumerate(sizes):
        forms = {f"task{k}.{name}": form.within(f"task{k}.") for name, form in CHAIN_FORMS.items()}
        check_arrays(arrays, forms, {"labels": m, "features": found["features"]})
    tasks = tuple(model_from_arrays(arrays, m, f"task{k}.") for k, m in enumerate(sizes))
    crf.model_ = JointModel.of(
        tasks,
        cross=metadata["cross"],
        joint_pairs=PairTable(arrays["joint_ptr"], arrays["joint_label"], prod(sizes)),
        moves=(arrays["move_from"], arrays["move_to"]),
        allowed=arrays["allowed"],
    )
    check_arrays(arrays, {"theta": weights("weights")}, {"weights": crf.model_.size})
    crf.theta_ = arrays["theta"]
    crf._encoder = InputEncoder.from_state(arrays, metadata["encoder"], found["features"], features)
    crf._names = TaskLabels(crf.tasks_).set_classes(crf.classes_)
