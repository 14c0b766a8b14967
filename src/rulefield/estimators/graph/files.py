"""A fitted GraphCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.encode.graph_labels import GraphLabels
from rulefield.estimators.base import State
from rulefield.models.graph import GraphModel, GraphSpec

if TYPE_CHECKING:
    from rulefield.estimators.graph.estimator import GraphCRF


def graph_state(estimator: "GraphCRF") -> State:
    """Return the weights as one array and everything else as JSON-able metadata."""
    spec = estimator.model_.spec
    return {"theta": estimator.theta_}, {
        "classes": [[t, c.tolist()] for t, c in sorted(estimator.classes_.items())],
        "features": sorted(spec.features.items()),
        "edge_features": [[*pair, d] for pair, d in sorted(spec.edge_features.items())],
        "potts": sorted(spec.potts),
        "symmetric": [[*pair, list(f)] for pair, f in sorted(spec.symmetric.items())],
        "antisymmetric": [[*pair, list(f)] for pair, f in sorted(spec.antisymmetric.items())],
        "shared": [list(group) for group in spec.shared],
    }


def restore_graph(estimator: "GraphCRF", arrays: dict[str, np.ndarray], data: dict[str, Any]) -> None:
    """Undo :func:`graph_state`."""
    names = GraphLabels({t: np.asarray(labels) for t, labels in data["classes"]})
    spec = GraphSpec(
        names.counts,
        dict(data["features"]),
        {(a, b): d for a, b, d in data["edge_features"]},
        frozenset((a, b) for a, b in data["potts"]),
        {(a, b): tuple(f) for a, b, f in data["symmetric"]},
        {(a, b): tuple(f) for a, b, f in data["antisymmetric"]},
        tuple(tuple(tuple(key) if isinstance(key, list) else key for key in group) for group in data["shared"]),
    )
    estimator._set_model(GraphModel(spec), names, arrays["theta"])
