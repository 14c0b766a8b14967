"""What the options of a GraphCRF mean for its model: which weights there are and which are tied, what mistakes cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.exceptions import InputError
from rulefield.models.graph import GraphSpec

Kinds = str | Mapping[Pair, str]
"""``"full"`` or ``"potts"``, for all edges or by pair of types."""
Columns = Sequence[int] | Mapping[Pair, Sequence[int]] | None
"""Columns of edge features, of the only pair of types or by pair."""


def make_spec(
    edge_weights: Kinds,
    symmetric: Columns,
    antisymmetric: Columns,
    share: Sequence[Sequence[str | Pair]] | None,
    graphs: Sequence[TypedGraph],
    names: GraphLabels,
) -> GraphSpec:
    """Count features and read which edge weights are tied."""
    features, edge_features = _feature_counts(graphs)
    pairs = sorted(edge_features)
    kinds = dict.fromkeys(pairs, edge_weights) if isinstance(edge_weights, str) else dict(edge_weights)
    for pair, kind in kinds.items():
        if pair not in edge_features or kind not in ("full", "potts"):
            raise InputError(
                f'edge_weights must be "full" or "potts" for edges among {pairs}; got {pair!r}: {kind!r}.'
            )
    return GraphSpec(
        names.counts,
        features,
        edge_features,
        frozenset(pair for pair, kind in kinds.items() if kind == "potts"),
        _feature_lists("symmetric", symmetric, edge_features),
        _feature_lists("antisymmetric", antisymmetric, edge_features),
        _groups(share),
    )


def _groups(share: Sequence[Sequence[str | Pair]] | None) -> tuple[tuple[str | Pair, ...], ...]:
    return tuple(tuple(tuple(key) if isinstance(key, list) else key for key in group) for group in share or ())


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


def _feature_lists(name: str, value: Columns, edge_features: Mapping[Pair, int]) -> dict[Pair, tuple[int, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        if len(edge_features) != 1:
            raise InputError(f"{name} must be a dict by pair of types where there are {len(edge_features)} pairs.")
        value = {next(iter(edge_features)): value}
    out = {}
    for pair, columns in value.items():
        if pair not in edge_features:
            raise InputError(f"{name} names the edges {pair!r}; the graphs have {sorted(edge_features)}.")
        chosen = tuple(int(c) for c in columns)
        if any(not 0 <= c < edge_features[pair] for c in chosen):
            raise InputError(f"{name}[{pair!r}] must be columns 0 to {edge_features[pair] - 1}; got {list(columns)}.")
        out[pair] = chosen
    return out


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
