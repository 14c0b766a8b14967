"""GraphCRF to a model file and back."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rulefield.encode.graph_labels import GraphLabels
from rulefield.estimators.base import State
from rulefield.models.graph import GraphModel, GraphSpec
from rulefield.rules.text import from_dicts, to_dicts

if TYPE_CHECKING:
    from rulefield.estimators.graph.estimator import GraphCRF

_PLAIN = (
    "algorithm",
    "l2",
    "rules_in_learning",
    "decoding",
    "max_iter",
    "tol",
    "latent_rounds",
    "oracle_nodes",
    "warm_start",
    "on_infeasible",
    "n_jobs",
)


def graph_state(estimator: "GraphCRF") -> State:
    """Return the weights as one array and everything else as JSON-able metadata."""
    spec = estimator.model_.spec
    return {"theta": estimator.theta_}, {
        "parameters": {name: getattr(estimator, name) for name in _PLAIN},
        "rules": to_dicts(estimator.rules or []),
        "classes": [[t, c.tolist()] for t, c in sorted(estimator.classes_.items())],
        "features": sorted(spec.features.items()),
        "edge_features": [[*pair, d] for pair, d in sorted(spec.edge_features.items())],
        "potts": sorted(spec.potts),
        "symmetric": [[*pair, list(f)] for pair, f in sorted(spec.symmetric.items())],
        "antisymmetric": [[*pair, list(f)] for pair, f in sorted(spec.antisymmetric.items())],
        "shared": [list(group) for group in spec.shared],
        "plain_labels": estimator.plain_labels_,
        "curve": list(estimator.objective_curve_),
        "converged": estimator.converged_,
        "gap": estimator.gap_ if np.isfinite(estimator.gap_) else None,
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
    estimator.set_params(
        **data["parameters"],
        rules=from_dicts(data["rules"]) or None,
        labels=dict(data["classes"]),
        edge_weights={pair: "potts" if pair in spec.potts else "full" for pair in spec.edge_features},
        symmetric=dict(spec.symmetric) or None,
        antisymmetric=dict(spec.antisymmetric) or None,
        share=spec.shared or None,
    )
    estimator.plain_labels_ = data["plain_labels"]
    estimator._set_model(GraphModel(spec), names, arrays["theta"])
    estimator.objective_curve_, estimator.n_iter_ = tuple(data["curve"]), len(data["curve"])
    estimator.converged_ = data["converged"]
    estimator.gap_ = float("nan") if data["gap"] is None else data["gap"]
