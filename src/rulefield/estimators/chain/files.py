"""A fitted ChainCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.base import State
from rulefield.estimators.inputs import InputEncoder, SequenceMetadata
from rulefield.estimators.types import Transformer
from rulefield.forms import check_arrays, check_typed, flags, index, pair_table, weights
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

_MODEL_ARRAYS = (
    "transition_from",
    "transition_to",
    "start_label",
    "end_label",
    "allowed",
    "allowed_start",
    "allowed_end",
)


CHAIN_FORMS = {
    **pair_table("pair", "pairs", "labels"),
    **pair_table("step", "steps", "labels*labels"),
    "transition_from": index("transitions", below="labels"),
    "transition_to": index("transitions", below="labels"),
    "start_label": index("starts", below="labels", ascending=True),
    "end_label": index("ends", below="labels", ascending=True),
    "allowed": flags("labels", "labels"),
    "allowed_start": flags("labels"),
    "allowed_end": flags("labels"),
}
"""Arrays of a :class:`ChainModel`."""
THETA_FORM = {"theta": weights("pairs+transitions+starts+ends+steps")}


def chain_state(crf: "ChainCRF") -> State:
    """Weights, structure and vocabulary of a fitted model."""
    arrays, encoder = crf._encoder.state()
    return arrays | model_arrays(crf.model_) | {"theta": crf.theta_}, {"encoder": encoder}


def restore_chain(
    crf: "ChainCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Transformer | None = None
) -> None:
    """Undo :func:`chain_state`."""
    check_typed(metadata, SequenceMetadata, "the model")
    sizes = check_arrays(arrays, CHAIN_FORMS | THETA_FORM, {"labels": len(crf.classes_)})
    crf.model_ = model_from_arrays(arrays, len(crf.classes_))
    crf.theta_ = arrays["theta"]
    crf._encoder = InputEncoder.from_state(arrays, metadata["encoder"], sizes["features"], features)
    crf._encoder.labels = crf.classes_
    crf._labels_encoder = LabelEncoder().set_classes(crf.classes_)


def model_arrays(model: ChainModel, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the structure of a chain model as named arrays."""
    arrays = {name: getattr(model, name) for name in _MODEL_ARRAYS}
    arrays |= {"pair_ptr": model.pairs.ptr, "pair_label": model.pairs.label}
    arrays |= {"step_ptr": model.step_pairs.ptr, "step_label": model.step_pairs.label}
    return {prefix + name: array for name, array in arrays.items()}


def model_from_arrays(arrays: dict[str, np.ndarray], n_labels: int, prefix: str = "") -> ChainModel:
    """Undo :func:`model_arrays`, for arrays that were held against :data:`CHAIN_FORMS`."""
    own = {name: arrays[prefix + name] for name in CHAIN_FORMS}
    return ChainModel(
        n_labels,
        len(own["pair_ptr"]) - 1,
        PairTable(own["pair_ptr"], own["pair_label"], n_labels),
        step_pairs=PairTable(own["step_ptr"], own["step_label"], n_labels**2),
        **{name: own[name] for name in _MODEL_ARRAYS},
    )
