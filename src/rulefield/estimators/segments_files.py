"""A fitted SegmentCRF as one model file, and back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.estimators.chain_files import _plain, features_from, features_state
from rulefield.estimators.inputs import InputEncoder
from rulefield.estimators.segments_coding import LexiconMatcher, SegmentCoder
from rulefield.exceptions import ModelFileError
from rulefield.models.pairs import PairTable
from rulefield.models.segments import SegmentModel
from rulefield.persistence import load_model, model_to_bytes, save_model

if TYPE_CHECKING:
    from rulefield.estimators.segments import SegmentCRF

KIND = "segments"
_TABLES = ("token_pairs", "first_pairs", "last_pairs")
_ARRAYS = ("longest", "transition_from", "transition_to", "start_label", "end_label", "allowed")


def segments_to_file(crf: "SegmentCRF", path: str | Path | None) -> bytes | None:
    """Write a fitted model to ``path``, or give its bytes where ``path`` is None."""
    arrays, metadata = _arrays(crf), _metadata(crf)
    if path is None:
        return model_to_bytes(KIND, arrays, metadata)
    save_model(path, KIND, arrays, metadata)
    return None


def segments_from_file(crf: "SegmentCRF", source: str | Path | bytes, features: Any = None) -> "SegmentCRF":
    """Fill ``crf`` with the model in a file (a path or bytes)."""
    kind, arrays, metadata = load_model(source)
    if kind != KIND:
        raise ModelFileError(f"this file holds a {kind!r} model, not segments; open it with rulefield.load().")
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
        "classes": [_plain(c) for c in crf._coder.classes],
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
