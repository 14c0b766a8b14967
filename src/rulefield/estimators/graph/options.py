"""The options of GraphCRF, checked, and what they mean for its model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulefield.data.graphs import Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.exceptions import InputError
from rulefield.learning.graph.fit import ALGORITHMS
from rulefield.models.graph import GraphSpec
from rulefield.parallel import n_threads


@dataclass(frozen=True)
class GraphOptions:
    """What a fit of a GraphCRF is told, after checks."""

    algorithm: str
    l2: float
    max_iter: int
    tol: float
    latent_rounds: int
    n_jobs: int
    oracle_nodes: int
    edge_weights: Any
    symmetric: Any
    antisymmetric: Any
    share: tuple[tuple[Any, ...], ...]


def graph_options(estimator: Any) -> GraphOptions:
    """Read and check the parameters of a GraphCRF; raise a sentence that names the parameter and its range."""
    e = estimator
    if e.algorithm not in ALGORITHMS:
        raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)}; got {e.algorithm!r}.")
    if (
        not isinstance(e.l2, int | float | np.number)
        or not 0 <= e.l2 < np.inf
        or (e.algorithm == "ssvm" and e.l2 == 0)
    ):
        raise InputError(f"l2 must be a finite number >= 0 (for ssvm > 0); got {e.l2!r}.")
    for name in ("max_iter", "latent_rounds"):
        value = getattr(e, name)
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} must be a whole number >= 1; got {value!r}.")
    if not isinstance(e.oracle_nodes, int | np.integer) or e.oracle_nodes < 0:
        raise InputError(f"oracle_nodes must be a whole number >= 0; got {e.oracle_nodes!r}.")
    if not isinstance(e.tol, int | float | np.number) or not 0 <= e.tol < np.inf:
        raise InputError(f"tol must be a finite number >= 0; got {e.tol!r}.")
    if e.decoding not in ("map", "marginals"):
        raise InputError(f'decoding must be "map" or "marginals"; got {e.decoding!r}.')
    return GraphOptions(
        e.algorithm,
        float(e.l2),
        int(e.max_iter),
        float(e.tol),
        int(e.latent_rounds),
        n_threads(e.n_jobs),
        int(e.oracle_nodes),
        e.edge_weights,
        e.symmetric,
        e.antisymmetric,
        tuple(tuple(group) for group in e.share or ()),
    )


def make_spec(options: GraphOptions, graphs: Sequence[TypedGraph], names: GraphLabels) -> GraphSpec:
    """Count features and read which edge weights are tied."""
    features, edge_features = _feature_counts(graphs)
    pairs = sorted(edge_features)
    wanted = options.edge_weights
    kinds = dict.fromkeys(pairs, wanted) if isinstance(wanted, str) else dict(wanted)
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
        _feature_lists("symmetric", options.symmetric, edge_features),
        _feature_lists("antisymmetric", options.antisymmetric, edge_features),
        options.share,
    )


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


def _feature_lists(name: str, value: Any, edge_features: Mapping[Pair, int]) -> dict[Pair, tuple[int, ...]]:
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
    if not isinstance(class_weight, Mapping):
        raise InputError(f'class_weight must be None, "balanced" or a dict by type; got {class_weight!r}.')
    if len(types) == 1 and types[0] not in class_weight:
        class_weight = {types[0]: class_weight}
    kind = [_type_numbers(graph, types) for graph in graphs]
    tables = [_class_costs(t, class_weight.get(t), numbers, kind, k, names) for k, t in enumerate(types)]
    widest = max(len(table) for table in tables)
    stacked = np.ones((len(types), widest + 1))  # the last column serves unknown labels (-1)
    for k, table in enumerate(tables):
        stacked[k, : len(table)] = table
    return [stacked[k, y] for k, y in zip(kind, numbers)]


def _type_numbers(graph: TypedGraph, types: list[str]) -> np.ndarray:
    counts = [graph.nodes[t].shape[0] if t in graph.nodes else 0 for t in types]
    return np.repeat(np.arange(len(types)), counts)


def _class_costs(
    t: str, weight: Any, numbers: Sequence[np.ndarray], kind: Sequence[np.ndarray], k: int, names: GraphLabels
) -> np.ndarray:
    n = len(names.classes[t])
    if weight is None:
        return np.ones(n)
    if weight == "balanced":
        seen = np.concatenate([y[(kinds == k) & (y != UNKNOWN)] for y, kinds in zip(numbers, kind)])
        count = np.bincount(seen, minlength=n)
        return np.where(count > 0, len(seen) / (n * np.maximum(count, 1)), 1.0)
    table = np.ones(n)
    for label, value in weight.items():
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"class_weight of {label!r} must be a finite number > 0; got {value!r}.")
        table[names.number(t, label)] = value
    return table
