"""Graphs of a Gaussian field: what users hand over as Laplacians, and instances in batches of one size."""

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
        if not isinstance(labels, np.ndarray):
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


@dataclass(frozen=True)
class Batched:
    """Batches and, for each, the numbers of its instances."""

    batches: list[FieldBatch]
    rows: list[np.ndarray]
    n_instances: int

    @property
    def sizes(self) -> np.ndarray:
        """Number of nodes of each instance."""
        out = np.zeros(self.n_instances, dtype=np.int64)
        for rows, batch in zip(self.rows, self.batches):
            out[rows] = batch.scores.shape[2]
        return out

    def split(self, labels: Sequence[np.ndarray] | np.ndarray) -> list[np.ndarray]:
        """Labels of each batch, (n_instances, n_nodes)."""
        if isinstance(labels, np.ndarray) and len(self.rows) == 1 and len(self.rows[0]) == len(labels):
            return [labels]
        return [np.stack([labels[j] for j in rows]) for rows in self.rows]

    def join(self, parts: Sequence[Any], ragged: bool = False) -> Any:
        """Answers of the batches in the instances' order: an array, or a list where sizes differ."""
        if not ragged:
            out = np.empty((self.n_instances, *parts[0].shape[1:]), dtype=parts[0].dtype)
            for rows, part in zip(self.rows, parts):
                out[rows] = part
            return out
        answers: list[Any] = [None] * self.n_instances
        for rows, part in zip(self.rows, parts):
            for j, answer in zip(rows, part):
                answers[j] = answer
        return answers


def make_batches(
    scores: Any, entries: Sequence[GraphEntry], own_graphs: Graphs, weight: np.ndarray | None = None
) -> Batched:
    """Group instances by size; each instance's scores are (n_classes, n_nodes, n_scores).

    Shared graphs stay one matrix; graphs of instances are stacked where small, else each instance is a batch.
    """
    sizes = np.array([s.shape[1] for s in scores])
    bring = any(isinstance(e, OwnGraph) for e in entries)
    if bring and own_graphs is None:
        raise InputError("graphs must be given here, too: the field was fitted with graphs of the instances.")
    for stack in own_graphs or () if bring else ():
        if len(stack) != len(sizes):
            raise InputError(f"graphs has {len(stack)} matrices in one list for {len(sizes)} instances.")
    for entry in entries:
        if isinstance(entry, SharedGraph) and np.any(sizes != entry.matrix.shape[0]):
            raise InputError(
                f"graph {entry.name} has {entry.matrix.shape[0]} nodes, but an instance has "
                f"{sizes[sizes != entry.matrix.shape[0]][0]}; pass a graph for each instance to fit and predict."
            )
    groups: list[np.ndarray] = []
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        groups += np.split(members, len(members)) if bring and size > DENSE_UP_TO else [members]
    batches = []
    for members in groups:
        stacked = scores[members] if isinstance(scores, np.ndarray) else np.stack([scores[j] for j in members])
        size = int(sizes[members[0]])
        graphs = [
            e.matrix if isinstance(e, SharedGraph) else _own_laplacians(e, own_graphs, members, size) for e in entries
        ]
        if any(scipy.sparse.issparse(g) for g in graphs):
            graphs = [scipy.sparse.csr_array(g) for g in graphs]
        share = None if weight is None else weight[members]
        batches.append(FieldBatch(np.ascontiguousarray(stacked), tuple(graphs), share))
    return Batched(batches, groups, len(sizes))


def _own_laplacians(entry: OwnGraph, graphs: Any, members: np.ndarray, size: int) -> Any:
    """Laplacians of an entry for some instances, all of one size: stacked, or the sparse one of a large instance."""
    laplacians = []
    for j in members:
        off = check_similarity(as_matrix(graphs[entry.index][j]), f"{entry.name} of instance {j}")
        if off.shape[0] != size:
            raise InputError(f"{entry.name} of instance {j} has {off.shape[0]} nodes; the instance has {size}.")
        matrix = laplacian((abs(off) + entry.sign * off) * (0.5 * entry.sign))  # one sign of the similarities
        if size > DENSE_UP_TO:
            return scipy.sparse.csr_array(matrix)
        laplacians.append(matrix.toarray() if scipy.sparse.issparse(matrix) else matrix)
    return np.stack(laplacians)
