"""Graphs of a Gaussian field: what users hand over as Laplacians, together with the scores of the instances."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from rulefield.encode.similarity import (
    LABEL_BUILDERS,
    as_matrix,
    check_similarity,
    correlation,
    laplacian,
    overfit_correlation,
    split_signs,
)
from rulefield.estimators.gaussian.inputs import Graphs, Instances
from rulefield.estimators.predictors.cross_fitting import generator_seed
from rulefield.estimators.types import RandomState
from rulefield.exceptions import InputError
from rulefield.models.gaussian import FieldBatch

DENSE_UP_TO = 400  # nodes up to which a sparse graph is handled as a dense matrix
MOST_ENTRIES = 2**28  # of the matrices of all instances: two gigabytes
BUILDERS = (*LABEL_BUILDERS, "residual_correlation", "overfit_correlation")
GraphSpecs = Sequence[str | ArrayLike | Callable[[np.ndarray], ArrayLike]] | str | None


@dataclass(frozen=True)
class SharedGraph:
    """One Laplacian (dense or sparse) for all instances."""

    name: str
    matrix: Any


@dataclass(frozen=True)
class OwnGraph:
    """A graph that each instance brings: which of the user's list, and which sign of it (+1, -1)."""

    name: str
    index: int
    sign: int


GraphEntry = SharedGraph | OwnGraph


@dataclass(frozen=True)
class GraphSources:
    """What builders compare outputs by: the instances, and what predictors leave unexplained, with its weights."""

    instances: Instances
    residual: Any
    residual_weight: np.ndarray | None
    random_state: RandomState

    def build(self, name: str) -> np.ndarray:
        """Return the similarity that a builder makes."""
        if name not in BUILDERS:
            raise InputError(
                f"graphs names no builder {name!r}; choose from {', '.join(BUILDERS)}, or pass a matrix."
            )
        X, labels, weight = self.instances.X, self.instances.labels, self.instances.weight
        if self.instances.sizes is not None:
            raise InputError(
                f"graph builder {name!r} compares outputs, but instances differ in size; pass graphs to fit."
            )
        if name == "residual_correlation":
            return correlation(self.residual, self.residual_weight)
        if name == "overfit_correlation":
            if getattr(X, "ndim", 0) != 2:
                raise InputError('"overfit_correlation" trains a network on the rows of X; it needs a table.')
            return overfit_correlation(X, labels, generator_seed(self.random_state), weight)
        return LABEL_BUILDERS[name](labels, weight)


def resolve_graphs(specs: Any, sources: GraphSources, n_nodes: int | None) -> list[GraphEntry]:
    """Laplacians of shared graphs, and entries for graphs that instances bring."""
    specs = [] if specs is None or n_nodes == 1 else specs  # one node has nothing to join
    if isinstance(specs, str) or not isinstance(specs, (list, tuple)):
        specs = [specs]
    entries: list[GraphEntry] = []
    for k, spec in enumerate(specs):
        name, similarity = f"graph {k}", spec
        if isinstance(spec, str):
            name, similarity = spec, sources.build(spec)
            if not np.any(similarity):
                continue  # the builder found no relation
        elif callable(spec):
            name, similarity = getattr(spec, "__name__", name), spec(sources.instances.labels)
        entries += _shared_graphs(similarity, name, n_nodes)
    for index, stack in enumerate(sources.instances.graphs or ()):
        entries += _own_graphs(index, stack)
    return entries


def _shared_graphs(similarity: Any, name: str, n_nodes: int | None) -> list[SharedGraph]:
    """Laplacians of one shared similarity, positive and negative part apart."""
    matrix = as_matrix(similarity)
    off = check_similarity(matrix, f"graph {name}")
    if n_nodes is not None and off.shape[0] != n_nodes:
        raise InputError(f"graph {name} has {off.shape[0]} nodes but there are {n_nodes} outputs.")
    if off.shape[0] > 1:
        _warn_isolated(off, name)
    if scipy.sparse.issparse(off) and off.shape[0] <= DENSE_UP_TO:
        off = off.toarray()
    return [SharedGraph(name + suffix, laplacian(part)) for suffix, part in split_signs(off)]


def _warn_isolated(similarity: Any, name: str) -> None:
    alone = int((np.asarray(abs(similarity).sum(axis=1)) == 0).sum())
    if alone == similarity.shape[0]:
        raise InputError(f"graph {name} joins no two nodes; leave it out.")
    if alone:
        warnings.warn(
            f"graph {name} leaves {alone} of {similarity.shape[0]} nodes alone; it says nothing of them.",
            UserWarning,
            stacklevel=3,
        )


def _own_graphs(index: int, stack: Sequence[Any]) -> list[OwnGraph]:
    """Return the entry of one graph of the instances, and a second one if it has negative similarities."""
    matrices = [check_similarity(as_matrix(graph), f"graph {index} ({j})") for j, graph in enumerate(stack)]
    entries = [OwnGraph(f"graph {index}", index, 1)]
    if any(m.min() < 0 for m in matrices if min(m.shape)):
        entries.append(OwnGraph(f"graph {index} (opposed)", index, -1))
    return entries


def make_batch(
    scores: np.ndarray,
    sizes: np.ndarray | None,
    entries: Sequence[GraphEntry],
    own_graphs: Graphs,
    weight: np.ndarray | None = None,
) -> FieldBatch:
    """Put scores (n_instances, n_classes, n_nodes, n_scores) and graphs together.

    Graphs of instances are stacked, with nodes that are joined to nothing where an instance is smaller than others; one large
    instance keeps a sparse one.
    """
    n, n_nodes = len(scores), scores.shape[2]
    counts = np.full(n, n_nodes) if sizes is None else sizes
    graphs = [_shared(e, counts) if isinstance(e, SharedGraph) else _stacked(e, own_graphs, counts) for e in entries]
    stacked, sparse = any(g.ndim == 3 for g in graphs), any(map(scipy.sparse.issparse, graphs))
    if stacked and sparse:
        graphs = [g.toarray() if scipy.sparse.issparse(g) else g for g in graphs]
    elif sparse:
        graphs = [scipy.sparse.csr_array(g) for g in graphs]
    return FieldBatch(np.ascontiguousarray(scores), tuple(graphs), weight)


def _shared(entry: SharedGraph, sizes: np.ndarray) -> Any:
    """Laplacian of a shared graph, which instances of another size do not have."""
    n = entry.matrix.shape[0]
    if (sizes != n).any():
        raise InputError(
            f"graph {entry.name} has {n} nodes, but an instance has {sizes[sizes != n][0]}; pass a graph for each "
            "instance to fit and predict."
        )
    return entry.matrix


def _stacked(entry: OwnGraph, graphs: Graphs, sizes: np.ndarray) -> Any:
    """Laplacians of one graph of the instances, (n_instances, n_nodes, n_nodes); a matrix where there is one instance."""
    if graphs is None:
        raise InputError("graphs must be given here, too: the field was fitted with graphs of the instances.")
    stack = graphs[entry.index]
    if len(stack) != len(sizes):
        raise InputError(f"graphs has {len(stack)} matrices in one list for {len(sizes)} instances.")
    largest = int(sizes.max(initial=0))
    if len(sizes) > 1 and len(sizes) * largest**2 > MOST_ENTRIES:
        raise InputError(
            f"graphs of {len(sizes)} instances of up to {largest} nodes are too large; make them one instance, with one "
            "sparse graph whose blocks they are."
        )
    laplacians = [_own_laplacian(entry, stack[j], j, size) for j, size in enumerate(sizes.tolist())]
    if len(sizes) == 1:
        return laplacians[0]
    out = np.zeros((len(sizes), largest, largest))
    for block, matrix in zip(out, laplacians):
        block[: len(matrix), : len(matrix)] = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
    return out


def _own_laplacian(entry: OwnGraph, graph: Any, j: int, size: int) -> Any:
    """Laplacian of one sign of the similarities of one instance."""
    off = check_similarity(as_matrix(graph), f"{entry.name} of instance {j}")
    if off.shape[0] != size:
        raise InputError(f"{entry.name} of instance {j} has {off.shape[0]} nodes; the instance has {size}.")
    if scipy.sparse.issparse(off) and size <= DENSE_UP_TO:
        off = off.toarray()
    return laplacian((abs(off) + entry.sign * off) * (0.5 * entry.sign))
