"""Many typed graphs laid out as one: what the graph model multiplies by its weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from rulefield.data.graphs import Features, Pair, TypedGraph
from rulefield.exceptions import InputError
from rulefield.problem.graph import GraphPotentials, GraphUnion


@dataclass(frozen=True, eq=False)
class GraphBatch(GraphUnion):
    """Graphs one after the other with their features; within a graph its types, sorted by name, one after the other.

    Kernels run over all graphs at once, engines over views of single ones. ``rows`` and ``edge_rows`` are the numbers in the
    union of each type's nodes and of each pair's edges, in the order of the features.
    """

    features: dict[str, Features]
    rows: dict[str, np.ndarray]
    edge_features: dict[Pair, Features]
    edge_rows: dict[Pair, np.ndarray]

    @cached_property
    def stored(self) -> dict[str | Pair, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each type and pair: row, column and value of the features that are not 0."""
        parts: list[tuple[str | Pair, Features]] = [*self.features.items(), *self.edge_features.items()]
        coordinates = {key: sparse.coo_array(matrix) for key, matrix in parts}
        return {key: (m.row.astype(np.int64), m.col.astype(np.int64), m.data) for key, m in coordinates.items()}

    def potentials_of(self, union: GraphPotentials, graph: int) -> GraphPotentials:
        """Return one graph's potentials as views of the union's."""
        v0, v1 = self.node_pointer[graph : graph + 2]
        e0, e1 = self.edge_pointer[graph : graph + 2]
        u, p = self.unary_offset, self.pairwise_offset
        return GraphPotentials(
            self.n_labels[v0:v1], union.unary[u[v0] : u[v1]], self.edges[e0:e1] - v0, union.pairwise[p[e0] : p[e1]]
        )


def make_batch(graphs: Sequence[TypedGraph], label_counts: Mapping[str, int]) -> GraphBatch:
    """Lay out ``graphs`` one after the other; ``label_counts`` gives the number of labels of each type."""
    types = sorted(label_counts)
    counts = np.array([[g.nodes[t].shape[0] if t in g.nodes else 0 for t in types] for g in graphs], dtype=np.int64)
    counts = counts.reshape(len(graphs), len(types))
    begin = np.concatenate([[0], np.cumsum(counts.ravel())])
    first = begin[:-1].reshape(counts.shape)
    label_number = np.array([label_counts[t] for t in types], dtype=np.int64)
    n_labels = np.repeat(np.tile(label_number, len(graphs)), counts.ravel())
    features = {t: stack_features([g.nodes[t] for g in graphs if t in g.nodes], f"nodes {t!r}") for t in types}
    rows = {t: _consecutive(first[:, k], counts[:, k]) for k, t in enumerate(types)}
    edges, edge_pointer, edge_features, edge_rows = _lay_out_edges(
        graphs, {t: first[:, k] for k, t in enumerate(types)}
    )
    node_pointer = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int64)
    return GraphBatch(n_labels, edges, node_pointer, edge_pointer, features, rows, edge_features, edge_rows)


def _lay_out_edges(
    graphs: Sequence[TypedGraph], first: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, dict[Pair, Features], dict[Pair, np.ndarray]]:
    keys = sorted({key for g in graphs for key in g.edges})
    counts = np.array([[len(g.edges[k][0]) if k in g.edges else 0 for k in keys] for g in graphs], dtype=np.int64)
    counts = counts.reshape(len(graphs), len(keys))
    begin = np.concatenate([[0], np.cumsum(counts.ravel())])
    edges = np.zeros((begin[-1], 2), dtype=np.int64)
    edge_features: dict[Pair, Features] = {}
    edge_rows: dict[Pair, np.ndarray] = {}
    for k, key in enumerate(keys):
        rows = _consecutive(begin[:-1].reshape(counts.shape)[:, k], counts[:, k])
        pairs = np.concatenate([g.edges[key][0] for g in graphs if key in g.edges])
        for side in (0, 1):
            edges[rows, side] = pairs[:, side] + np.repeat(first[key[side]], counts[:, k])
        parts = [_edge_matrix(*g.edges[key]) for g in graphs if key in g.edges]
        edge_features[key] = stack_features(parts, f"edges {key}")
        edge_rows[key] = rows
    pointer = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int64)
    return edges, pointer, edge_features, edge_rows


def _consecutive(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Concatenate the ranges first[i] : first[i] + count[i]."""
    before = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
    return (before + np.arange(count.sum())).astype(np.int64)


def _edge_matrix(pairs: np.ndarray, features: Features | None) -> Features:
    return np.ones((len(pairs), 1)) if features is None else features


def stack_features(parts: Sequence[Features], what: str) -> Features:
    """Stack feature matrices of several graphs: CSR where any of them is sparse."""
    widths = {part.shape[1] for part in parts}
    if len(widths) > 1:
        raise InputError(f"features of the {what} must be equally many in all graphs; got {sorted(widths)}.")
    if not parts:
        return np.zeros((0, 0))
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts], format="csr"))
    return np.concatenate(parts)
