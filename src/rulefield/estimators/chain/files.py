"""A fitted ChainCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.encode.labels import LabelEncoder
from rulefield.estimators.base import State
from rulefield.estimators.inputs import InputEncoder, SequenceMetadata
from rulefield.estimators.types import Transformer
from rulefield.forms import check_arrays, check_typed, flags, index, pair_table, weights
from rulefield.models.chain_arrays import model_arrays, model_from_arrays

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

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
