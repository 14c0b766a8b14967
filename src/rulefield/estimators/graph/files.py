"""A fitted GraphCRF as arrays and metadata, and back."""

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from rulefield.encode.graph_labels import GraphLabels
from rulefield.estimators.base import State
from rulefield.estimators.graph.predictors import predictors_state, restore_predictors
from rulefield.exceptions import ModelFileError
from rulefield.forms import Label, are_labels, check_arrays, check_typed, weights
from rulefield.models.graph import GraphModel, GraphSpec

if TYPE_CHECKING:
    from rulefield.estimators.graph.estimator import GraphCRF


Pair = tuple[str, str]


class ClassifiersEntry(TypedDict):
    """Classifiers of a type, or of a pair of types: each fitted and unfitted."""

    key: str | list[str]
    members: list[list[Any]]


class ClassifiersMetadata(TypedDict):
    """What :func:`predictors_state` gives beside arrays."""

    plain: bool
    neighbors: list[str]
    beside: bool
    cv: int
    entries: list[ClassifiersEntry]


class GraphMetadata(TypedDict):
    """What :func:`graph_state` gives beside the weights."""

    classes: list[tuple[str, list[Label]]]
    features: list[tuple[str, int]]
    edge_features: list[tuple[str, str, int]]
    potts: list[Pair]
    symmetric: list[tuple[str, str, list[int]]]
    antisymmetric: list[tuple[str, str, list[int]]]
    shared: list[list[str | Pair]]
    predictors: ClassifiersMetadata | None


def _check(data: dict[str, Any], n_weights: int) -> None:
    """Refuse metadata that would ask for more weights than there are, or names what is not there."""
    check_typed(data, GraphMetadata, "the model")
    types = {name for name, _ in data["classes"]}
    width = {(a, b): d for a, b, d in data["edge_features"]}
    columns = [(a, b, c) for kind in ("symmetric", "antisymmetric") for a, b, of in data[kind] for c in of]
    named = {t for t, _ in data["features"]}, {t for pair in [*width, *data["potts"]] for t in pair}
    good = (
        len(types) == len(data["classes"])
        and all(are_labels(labels) for _, labels in data["classes"])
        and named[0] == types
        and named[1] <= types
        and all(0 <= d <= n_weights for d in [*dict(data["features"]).values(), *width.values()])
        and all(0 <= c < width.get((a, b), 0) for a, b, c in columns)
        and {tuple(pair) for pair in data["potts"]} <= set(width)
    )
    if not good:
        raise ModelFileError("the types, features and weights of the model file do not fit together; save it again.")


def graph_state(estimator: "GraphCRF") -> State:
    """Return the weights as one array and everything else as JSON-able metadata."""
    spec, predictors = estimator.model_.spec, estimator._predictors
    more, kept = ({}, None) if predictors is None else predictors_state(predictors)
    return {"theta": estimator.theta_} | more, {
        "classes": [[t, c.tolist()] for t, c in sorted(estimator.classes_.items())],
        "features": sorted(spec.features.items()),
        "edge_features": [[*pair, d] for pair, d in sorted(spec.edge_features.items())],
        "potts": sorted(spec.potts),
        "symmetric": [[*pair, list(f)] for pair, f in sorted(spec.symmetric.items())],
        "antisymmetric": [[*pair, list(f)] for pair, f in sorted(spec.antisymmetric.items())],
        "shared": [list(group) for group in spec.shared],
        "predictors": kept,
    }


def restore_graph(
    estimator: "GraphCRF", arrays: dict[str, np.ndarray], data: dict[str, Any], given: object = None
) -> None:
    """Undo :func:`graph_state`; ``given`` are fitted predictors that the file could not hold."""
    _check(data, len(arrays["theta"]))
    if estimator._plain_labels and len(data["classes"]) != 1:
        raise ModelFileError("the model file has plain labels for several types of nodes; save the model again.")
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
    model = GraphModel(spec)
    check_arrays(arrays, {"theta": weights("weights")}, {"weights": model.n_parameters})
    predictors = None
    if data["predictors"] is not None:
        predictors = restore_predictors(data["predictors"], arrays, names, given)
        kept = predictors.spec
        estimator.predictors = kept if kept.neighbors or not kept.beside or kept.cv != 5 else kept.predictors
    estimator._set_model(model, names, arrays["theta"], predictors)
