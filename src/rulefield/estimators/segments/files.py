"""A fitted SegmentCRF as one model file, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.base import State
from rulefield.estimators.chain.files import features_from, features_state, plain_label
from rulefield.estimators.inputs import InputEncoder
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
    return _arrays(crf), _metadata(crf)


def restore_segments(
    crf: "SegmentCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Any = None
) -> "SegmentCRF":
    """Undo :func:`segments_state`."""
    params = metadata["params"]
    params["features"] = features_from(params["features"], features)
    crf.set_params(**params)
    crf._coder = SegmentCoder(metadata["classes"], crf.scheme)
    crf.classes_ = crf._coder.types
    crf._lexicons = LexiconMatcher(crf.lexicons)
    crf.model_ = _model(arrays, len(crf.classes_), len(crf._lexicons))
    crf.theta_ = _theta(arrays["theta"], crf.model_)
    fitted = features_from(metadata["fitted_features"], features)
    crf._encoder = InputEncoder.from_arrays(arrays, fitted, metadata["n_columns"])
    crf.n_iter_, crf.converged_ = metadata["n_iter"], metadata["converged"]
    crf.log_, crf.stopped_because_ = [], "loaded from a file"
    return crf


def _arrays(crf: "SegmentCRF") -> dict[str, np.ndarray]:
    arrays = {name: getattr(crf.model_, name) for name in _ARRAYS} | {"theta": crf.theta_}
    for name in _TABLES:
        table = getattr(crf.model_, name)
        arrays |= {f"{name}_ptr": table.ptr, f"{name}_label": table.label}
    return arrays | crf._encoder.to_arrays()


def _metadata(crf: "SegmentCRF") -> dict[str, Any]:
    params = crf.get_params(deep=False)
    params["features"] = features_state(params["features"])
    if params["lexicons"] is not None:
        params["lexicons"] = {
            str(name): [entry if isinstance(entry, str) else list(entry) for entry in entries]
            for name, entries in params["lexicons"].items()
        }
    return {
        "params": params,
        "classes": [plain_label(c) for c in crf._coder.classes],
        "fitted_features": features_state(crf._encoder.features),
        "n_columns": crf._encoder.n_columns,
        "n_iter": crf.n_iter_,
        "converged": bool(crf.converged_),
    }


def _model(arrays: dict[str, np.ndarray], n_labels: int, n_span_features: int) -> SegmentModel:
    token, first, last = (PairTable(arrays[f"{name}_ptr"], arrays[f"{name}_label"], n_labels) for name in _TABLES)
    structure = {name: arrays[name] for name in _ARRAYS}
    return SegmentModel(n_labels, token.n_features, n_span_features, token, first, last, **structure)


def _theta(theta: np.ndarray, model: SegmentModel) -> np.ndarray:
    if theta.shape != (model.size,):
        raise ModelFileError(f"the file holds {theta.size} weights for a model of {model.size}; save it again.")
    return theta
