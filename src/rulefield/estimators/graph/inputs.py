"""What users hand to a GraphCRF, checked: graphs, labels, weights, and what its options mean for the model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import GraphLabels
from rulefield.exceptions import InputError
from rulefield.models.graph import GraphSpec

Labels = Mapping[str, Sequence[Any] | np.ndarray | None] | Sequence[Any] | np.ndarray | None
"""Labels of one graph: by type, or a plain sequence where it has one type; None where nothing is known."""
Known = Sequence[Labels] | None


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


def make_spec(graphs: Sequence[TypedGraph], names: GraphLabels) -> GraphSpec:
    """Count the features of nodes and edges, which must be equally many in all graphs."""
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
    return GraphSpec(names.counts, features, edge_features)
