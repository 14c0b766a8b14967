"""What users hand to a GraphCRF, checked: graphs, labels, weights, and what its options mean for the model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.exceptions import InputError
from rulefield.models.graph import GraphSpec

Labels = Mapping[str, Sequence[Any] | np.ndarray | None] | Sequence[Any] | np.ndarray | None
"""Labels of one graph: by type, or a plain sequence where it has one type; None where nothing is known."""
Known = Sequence[Labels] | None
Kinds = str | Mapping[Pair, str]
"""``"full"`` or ``"potts"``, for all edges or by pair of types."""


def checked_graphs(X: Iterable[TypedGraph]) -> list[TypedGraph]:
    """Return the graphs as a list; raise where something else is among them."""
    if isinstance(X, TypedGraph):
        raise InputError("X must be a list of graphs; got one TypedGraph: write [graph].")
    if isinstance(X, str | Mapping) or not isinstance(X, Iterable):
        raise InputError(f"X must be a list of graphs; got {type(X).__name__}.")
    graphs = list(X)
    for i, graph in enumerate(graphs):
        if not isinstance(graph, TypedGraph):
            raise InputError(f"X must hold TypedGraph objects; item {i} is {type(graph).__name__}.")
    if not graphs:
        raise InputError("X holds no graph; give at least one.")
    return graphs


def checked_labels(y: Iterable[Labels], n_graphs: int, name: str = "y") -> list[Labels]:
    """Return one entry for each graph; raise where there are more or fewer, or something else was given."""
    if isinstance(y, str | Mapping) or not isinstance(y, Iterable):
        raise InputError(f"{name} must be a list with the labels of each graph; got {type(y).__name__}.")
    labels = list(y)
    if len(labels) != n_graphs:
        raise InputError(
            f"{name} must hold labels for every graph; got {n_graphs} graphs and {len(labels)} labelings."
        )
    for i, given in enumerate(labels):
        if isinstance(given, str | TypedGraph) or (given is not None and not isinstance(given, Iterable)):
            raise InputError(
                f"{name}[{i}] must be the labels of a graph, a list or a dict by type; got {type(given).__name__}."
            )
    return labels


def checked_weight(weight: Sequence[float] | np.ndarray | None, n: int) -> np.ndarray:
    """Return one weight for each graph, 1 where none are given."""
    if weight is None:
        return np.ones(n)
    try:
        array = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.full(0, np.nan)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"sample_weight must hold one finite number >= 0 for each of {n} graphs; got {_shown(weight)}."
        )
    return array


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:57]}..."


# --- what the options mean for the model ----------------------------------------------------------


def make_spec(edge_weights: Kinds, graphs: Sequence[TypedGraph], names: GraphLabels) -> GraphSpec:
    """Count features and read which edges have Potts weights."""
    features, edge_features = _feature_counts(graphs)
    pairs = sorted(edge_features)
    kinds = dict.fromkeys(pairs, edge_weights) if isinstance(edge_weights, str) else dict(edge_weights)
    for pair, kind in kinds.items():
        if pair not in edge_features or kind not in ("full", "potts"):
            raise InputError(
                f'edge_weights must be "full" or "potts" for edges among {pairs}; got {pair!r}: {kind!r}.'
            )
    potts = frozenset(pair for pair, kind in kinds.items() if kind == "potts")
    return GraphSpec(names.counts, features, edge_features, potts)


def _feature_counts(graphs: Sequence[TypedGraph]) -> tuple[dict[str, int], dict[Pair, int]]:
    features: dict[str, int] = {}
    edge_features: dict[Pair, int] = {}
    for g, graph in enumerate(graphs):
        for t, matrix in graph.nodes.items():
            if features.setdefault(t, matrix.shape[1]) != matrix.shape[1]:
                raise InputError(
                    f"nodes {t!r} have {features[t]} features in graph 0 and {matrix.shape[1]} in graph {g}."
                )
        for pair, (_, matrix) in graph.edges.items():
            width = 1 if matrix is None else matrix.shape[1]
            if edge_features.setdefault(pair, width) != width:
                raise InputError(
                    f"edges {pair} have {edge_features[pair]} features in one graph and {width} in graph {g}."
                )
    return features, edge_features


def node_costs(
    class_weight: Any, graphs: Sequence[TypedGraph], numbers: Sequence[np.ndarray], names: GraphLabels
) -> list[np.ndarray] | None:
    """Cost of a mistake at each node, from class weights; None where all cost the same."""
    if class_weight is None:
        return None
    types = sorted(names.classes)
    if class_weight == "balanced":
        class_weight = dict.fromkeys(types, "balanced")
    if len(types) == 1 and types[0] not in class_weight:
        class_weight = {types[0]: class_weight}
    parts = [names.by_type(graph, y, flat=False) for graph, y in zip(graphs, numbers)]
    tables = {t: _class_costs(t, class_weight.get(t), [p[t] for p in parts if t in p], names) for t in types}
    return [np.concatenate([tables[t][labels] for t, labels in part.items()]) for part in parts]


def _class_costs(t: str, weight: Any, numbers: Sequence[np.ndarray], names: GraphLabels) -> np.ndarray:
    """Cost of a mistake on each class of a type, and 1 at the end for unknown labels (-1)."""
    n = len(names.classes[t])
    table = np.ones(n + 1)
    if weight is None:
        return table
    if weight == "balanced":
        seen = np.concatenate([y[y != UNKNOWN] for y in numbers])
        count = np.bincount(seen, minlength=n)
        table[:n] = np.where(count > 0, len(seen) / (n * np.maximum(count, 1)), 1.0)
        return table
    for label, value in weight.items():
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"class_weight of {label!r} must be a finite number > 0; got {value!r}.")
        table[names.number(t, label)] = value
    return table
