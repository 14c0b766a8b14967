"""The structure of a chain model as named arrays, and back."""

from collections.abc import Mapping

import numpy as np

from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable

_MODEL_ARRAYS = (
    "transition_from",
    "transition_to",
    "start_label",
    "end_label",
    "allowed",
    "allowed_start",
    "allowed_end",
)
_TABLES = ("pair_ptr", "pair_label", "step_ptr", "step_label")


def model_arrays(model: ChainModel, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the structure of a chain model as named arrays."""
    arrays = {name: getattr(model, name) for name in _MODEL_ARRAYS}
    arrays |= {"pair_ptr": model.pairs.ptr, "pair_label": model.pairs.label}
    arrays |= {"step_ptr": model.step_pairs.ptr, "step_label": model.step_pairs.label}
    return {prefix + name: array for name, array in arrays.items()}


def model_from_arrays(arrays: Mapping[str, np.ndarray], n_labels: int, prefix: str = "") -> ChainModel:
    """Undo :func:`model_arrays`, for arrays that were checked."""
    own = {name: arrays[prefix + name] for name in (*_MODEL_ARRAYS, *_TABLES)}
    return ChainModel(
        n_labels,
        len(own["pair_ptr"]) - 1,
        PairTable(own["pair_ptr"], own["pair_label"], n_labels),
        step_pairs=PairTable(own["step_ptr"], own["step_label"], n_labels**2),
        **{name: own[name] for name in _MODEL_ARRAYS},
    )
