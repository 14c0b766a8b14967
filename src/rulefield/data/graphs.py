"""Graphs whose nodes are of several types: features, edges between types, named relations for rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from rulefield.data.limits import WAY_OUT, usable
from rulefield.exceptions import InputError

Features: TypeAlias = Any  # ndarray or scipy CSR: (rows, n_features) of float64
Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """One input of a graph model: nodes of several types, edges between them, relations for rules.

    Parameters
    ----------
    nodes : dict of str to array-like or CSR matrix of shape (n_nodes, n_features), or to int
        Features of each type's nodes. A whole number says how many nodes there are where they have no features:
        they get the constant feature 1.
    edges : dict of (str, str) to tuple (pairs, features), or to an array or list of pairs alone
        For an ordered pair of types, ``pairs`` (n_edges, 2) numbers a node of the first and a node of the second
        type; ``features`` (n_edges, n_features) is dense, CSR or None (the constant feature 1). An edge is
        listed once; its weights are indexed [label of the first node, label of the second].
    relations : dict of str to (type, type, pairs)
        Named sets of node pairs that rules refer to, such as ``"blocks": ("page", "block", pairs)``; they carry
        no score.
    views : dict of str to array-like or CSR matrix of shape (n_nodes, n_columns), optional
        What predictors of a type see in place of its features: numbers as they are, where features were made for a
        linear model.

    Notes
    -----
    Arrays are kept as read-only views, without a copy where the type already fits. Two graphs are equal only
    if they are the same object.

    Examples
    --------
    >>> import numpy as np
    >>> g = TypedGraph(
    ...     nodes={"block": np.eye(3), "page": 1},
    ...     edges={("block", "page"): np.array([[0, 0], [1, 0], [2, 0]])},
    ...     relations={"blocks": ("page", "block", np.array([[0, 0], [0, 1], [0, 2]]))},
    ... )
    >>> g.n_nodes
    {'block': 3, 'page': 1}
    """

    nodes: Mapping[str, Any]
    edges: Mapping[Pair, Any] = field(default_factory=dict)
    relations: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InputError("nodes must name at least one type of node; got an empty mapping.")
        nodes = {name: _node_features(name, value) for name, value in self.nodes.items()}
        counts = {name: matrix.shape[0] for name, matrix in nodes.items()}
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "edges", {k: _edge_entry(k, v, counts) for k, v in self.edges.items()})
        object.__setattr__(self, "relations", {k: _relation(k, v, counts) for k, v in self.relations.items()})
        object.__setattr__(self, "views", {k: _view(k, v, counts) for k, v in self.views.items()})

    @property
    def n_nodes(self) -> dict[str, int]:
        """Number of nodes of each type."""
        return {name: matrix.shape[0] for name, matrix in self.nodes.items()}

    @property
    def n_edges(self) -> dict[Pair, int]:
        """Number of edges of each ordered pair of types."""
        return {key: len(pairs) for key, (pairs, _) in self.edges.items()}

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the types, sorted."""
        return tuple(sorted(self.nodes))

    def __repr__(self) -> str:
        nodes = ", ".join(f"{n} {name}" for name, n in self.n_nodes.items())
        edges = ", ".join(f"{n} {a}-{b}" for (a, b), n in self.n_edges.items()) or "none"
        return f"TypedGraph(nodes: {nodes}; edges: {edges})"


def _node_features(name: str, value: Any) -> Features:
    if isinstance(value, int | np.integer):
        return np.ones((int(value), 1))
    return as_features(value, f"features of the nodes {name!r}")


def _view(name: str, value: Any, counts: dict[str, int]) -> Features:
    matrix = as_features(value, f"views of the nodes {name!r}")
    if matrix.shape[0] != counts.get(name, -1):
        raise InputError(
            f"views of the nodes {name!r} must have one row for each of {counts.get(name, 0)} nodes; "
            f"got {matrix.shape[0]}."
        )
    return matrix


def as_features(value: Any, what: str) -> Features:
    """Return ``value`` as a float64 matrix: a read-only array, or CSR where it is sparse; finite or an error."""
    if sparse.issparse(value):
        matrix = sparse.csr_array(value, dtype=np.float64)
        stored = matrix.data
    else:
        matrix = np.ascontiguousarray(value, dtype=np.float64).view()
        if matrix.ndim != 2:
            raise InputError(f"{what} must be a matrix (rows, n_features); got an array of shape {matrix.shape}.")
        matrix.flags.writeable = False
        stored = matrix
    if not (good := usable(stored)).all():
        raise InputError(f"{what} {WAY_OUT}; they hold {stored[~good][0]}.")
    return matrix


def _edge_entry(key: Any, value: Any, counts: dict[str, int]) -> tuple[np.ndarray, Features | None]:
    if not (isinstance(key, tuple) and len(key) == 2):
        raise InputError(f"edges are keyed by a pair of types such as ('block', 'page'); got {key!r}.")
    what = f"edges {key}"
    pairs, features = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    pairs = _checked_pairs(pairs, key, counts, what)
    if features is None:
        return pairs, None
    matrix = as_features(features, f"features of the {what}")
    if matrix.shape[0] != len(pairs):
        raise InputError(
            f"features of the {what} must have one row for each of {len(pairs)} edges; got {matrix.shape[0]}."
        )
    return pairs, matrix


def _relation(name: str, value: Any, counts: dict[str, int]) -> tuple[str, str, np.ndarray]:
    if not (isinstance(value, Sequence) and len(value) == 3):
        raise InputError(f"relation {name!r} must be (type, type, pairs); got {type(value).__name__}.")
    source, target, pairs = value
    return source, target, _checked_pairs(pairs, (source, target), counts, f"relation {name!r}")


def _checked_pairs(pairs: Any, types: tuple[str, str], counts: dict[str, int], what: str) -> np.ndarray:
    for name in types:
        if name not in counts:
            raise InputError(f"{what} names the type {name!r}, but the nodes are of types {sorted(counts)}.")
    array = np.asarray(pairs)
    if array.size == 0:
        array = np.zeros((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InputError(
            f"{what}: pairs must be whole numbers of shape (n, 2); got {array.dtype} of shape {array.shape}."
        )
    array = np.ascontiguousarray(array, dtype=np.int64).view()
    limits = np.array([counts[types[0]], counts[types[1]]])
    bad = ((array < 0) | (array >= limits)).any(axis=1)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{what}: pair {at} is {tuple(array[at].tolist())}, outside the node counts {tuple(limits.tolist())}."
        )
    if types[0] == types[1] and what.startswith("edges") and (array[:, 0] == array[:, 1]).any():
        at = int(np.flatnonzero(array[:, 0] == array[:, 1])[0])
        raise InputError(f"{what}: pair {at} joins node {array[at, 0]} to itself; give that score as a node feature.")
    array.flags.writeable = False
    return array


def spanning_tree(matrix: Any) -> sparse.coo_array:
    """Return the minimum spanning tree of a sparse matrix (scipy 1.15 and 1.16 read 32-bit indices only)."""
    csr = sparse.csr_array(matrix)
    narrow = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
    from scipy.sparse.csgraph import minimum_spanning_tree  # brings scipy.linalg, which no chain needs

    return minimum_spanning_tree(sparse.csr_array(narrow, shape=csr.shape)).tocoo()


def is_forest(n_nodes: int, edges: np.ndarray) -> bool:
    """Whether a graph has no loop; two edges between the same nodes make one."""
    from scipy.sparse.csgraph import connected_components

    links = sparse.coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes))
    return bool(connected_components(links, directed=False)[0] == n_nodes - len(edges))
