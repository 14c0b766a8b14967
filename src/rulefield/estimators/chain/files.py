"""A fitted ChainCRF as one model file, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.encode.labels import LabelEncoder
from rulefield.encode.templates import Template
from rulefield.encode.tokens import TokenFeatures
from rulefield.estimators.base import State
from rulefield.estimators.expectation_training import ExpectationReport
from rulefield.estimators.inputs import InputEncoder
from rulefield.exceptions import ModelFileError
from rulefield.models.chain import ChainModel
from rulefield.models.pairs import PairTable
from rulefield.rules import expectation_text
from rulefield.rules import text as rules_text

if TYPE_CHECKING:
    from rulefield.estimators.chain.estimator import ChainCRF

_TRANSFORMERS = {"TokenFeatures": TokenFeatures, "Template": Template}
_MODEL_ARRAYS = (
    "transition_from",
    "transition_to",
    "start_label",
    "end_label",
    "allowed",
    "allowed_start",
    "allowed_end",
)


def chain_state(crf: "ChainCRF") -> State:
    """Arrays and JSON-able metadata of a fitted model."""
    arrays = model_arrays(crf.model_) | {"theta": crf.theta_} | crf._encoder.to_arrays()
    params = crf.get_params(deep=False)
    params["features"] = features_state(params["features"])
    params["rules"] = None if params["rules"] is None else rules_text.to_dicts(params["rules"])
    params["expectations"] = (
        None if params["expectations"] is None else expectation_text.dumps(params["expectations"])
    )
    params["presume"] = None if params["presume"] is None else plain_label(params["presume"])
    params["random_state"] = params["random_state"] if isinstance(params["random_state"], int) else None
    return arrays, {
        "params": params,
        "classes": [plain_label(c) for c in crf.classes_],
        "fitted_features": features_state(crf._encoder.features),
        "n_columns": crf._encoder.n_columns,
        "n_iter": crf.n_iter_,
        "converged": bool(crf.converged_),
        "expectations": [vars(report) for report in crf.expectations_],
    }


def restore_chain(
    crf: "ChainCRF", arrays: dict[str, np.ndarray], metadata: dict[str, Any], features: Any = None
) -> "ChainCRF":
    """Undo :func:`chain_state`."""
    params = metadata["params"]
    params["features"] = features_from(params["features"], features)
    params["rules"] = None if params["rules"] is None else rules_text.from_dicts(params["rules"])
    if params.get("expectations") is not None:
        params["expectations"] = expectation_text.loads(params["expectations"])
    crf.set_params(**params)
    fitted = features_from(metadata["fitted_features"], features)
    crf.model_ = model_from_arrays(arrays, len(metadata["classes"]))
    crf.theta_ = crf.model_.check_theta(arrays["theta"])
    crf._encoder = InputEncoder.from_arrays(arrays, fitted, metadata["n_columns"])
    crf._labels_encoder = LabelEncoder().set_classes(metadata["classes"])
    crf.classes_ = crf._labels_encoder.classes_
    crf.n_iter_, crf.converged_ = metadata["n_iter"], metadata["converged"]
    crf.expectations_ = [ExpectationReport(**row) for row in metadata.get("expectations", [])]
    crf.log_, crf.stopped_because_ = [], "loaded from a file"
    return crf


def model_arrays(model: ChainModel, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the structure of a chain model as named arrays."""
    arrays = {name: getattr(model, name) for name in _MODEL_ARRAYS}
    arrays |= {"pair_ptr": model.pairs.ptr, "pair_label": model.pairs.label}
    arrays |= {"step_ptr": model.step_pairs.ptr, "step_label": model.step_pairs.label}
    return {prefix + name: array for name, array in arrays.items()}


def model_from_arrays(arrays: dict[str, np.ndarray], n_labels: int, prefix: str = "") -> ChainModel:
    """Undo :func:`model_arrays`."""
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return ChainModel(
        n_labels,
        len(own["pair_ptr"]) - 1,
        PairTable(own["pair_ptr"], own["pair_label"], n_labels),
        step_pairs=PairTable(own["step_ptr"], own["step_label"], n_labels**2),
        **{name: own[name] for name in _MODEL_ARRAYS},
    )


def features_state(features: Any) -> dict[str, Any] | None:
    """Describe a feature transformer so that JSON can hold it; one of the user's own is named only."""
    if features is None:
        return None
    name = type(features).__name__
    if isinstance(features, (TokenFeatures, Template)):
        return {"type": name, "config": features.to_config()}
    return {"type": name}


def features_from(state: dict[str, Any] | None, given: Any) -> Any:
    """Undo :func:`features_state`; ``given`` stands in for a transformer that a file cannot hold."""
    if state is None:
        return None
    if state["type"] in _TRANSFORMERS and "config" in state:
        return _TRANSFORMERS[state["type"]].from_config(state["config"])  # type: ignore[attr-defined]
    if given is None:
        raise ModelFileError(
            f"the model was trained with your own feature transformer ({state['type']}), which a file cannot hold; "
            "give it again: load(path, features=...)."
        )
    return given


def plain_label(label: Any) -> Any:
    """Return a label as JSON can hold it."""
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, (str, int, float)):
        raise ModelFileError(f"labels must be strings or numbers to be saved; got {label!r}.")
    return label
