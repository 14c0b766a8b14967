"""A fitted SegmentCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.packing import Packer
from rulefield.estimators.segments.coding import LexiconMatcher, SegmentCoder
from rulefield.exceptions import ModelFileError
from rulefield.models.pairs import PairTable
from rulefield.models.segments import SegmentModel

if TYPE_CHECKING:
    from rulefield.estimators.segments.estimator import SegmentCRF

_TABLES = ("token_pairs", "first_pairs", "last_pairs")
_ARRAYS = ("longest", "transition_from", "transition_to", "start_label", "end_label", "allowed")


def segments_state(crf: "SegmentCRF") -> State:
    """Arrays and JSON-able metadata of a fitted model."""
    arrays, encoder = crf._encoder.state()
    labels = Packer("SegmentCRF").pack(list(crf._coder.classes), "labels")
    return arrays | _arrays(crf), {"encoder": encoder, "labels": labels}


def restore_segments(
    crf: "SegmentCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Any = None
) -> None:
    """Undo :func:`segments_state`."""
    crf._coder = SegmentCoder(metadata["labels"], crf.scheme)
    crf.classes_ = crf._coder.types
    crf._lexicons = LexiconMatcher(crf.lexicons)
    crf.model_ = _model(arrays, len(crf.classes_), len(crf._lexicons))
    crf.theta_ = _theta(arrays["theta"], crf.model_)
    crf._encoder = InputEncoder.from_state(arrays, metadata["encoder"], crf.model_.n_features, features)


def _arrays(crf: "SegmentCRF") -> dict[str, np.ndarray]:
    arrays = {name: getattr(crf.model_, name) for name in _ARRAYS} | {"theta": crf.theta_}
    for name in _TABLES:
        table = getattr(crf.model_, name)
        arrays |= {f"{name}_ptr": table.ptr, f"{name}_label": table.label}
    return arrays


def _model(arrays: dict[str, np.ndarray], n_labels: int, n_span_features: int) -> SegmentModel:
    token, first, last = (PairTable(arrays[f"{name}_ptr"], arrays[f"{name}_label"], n_labels) for name in _TABLES)
    structure = {name: arrays[name] for name in _ARRAYS}
    return SegmentModel(n_labels, token.n_features, n_span_features, token, first, last, **structure)


def _theta(theta: np.ndarray, model: SegmentModel) -> np.ndarray:
    if theta.shape != (model.size,):
        raise ModelFileError(f"the file holds {theta.size} weights for a model of {model.size}; save it again.")
    return theta
