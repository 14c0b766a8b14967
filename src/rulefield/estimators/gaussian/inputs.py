"""What users hand to a Gaussian field, sorted into batches of instances of one size."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from rulefield.encode.similarity import as_matrix, check_similarity, laplacian, split_signs
from rulefield.estimators.gaussian.order import taken
from rulefield.exceptions import InputError
from rulefield.models.gaussian import FieldBatch

DENSE_UP_TO = 400  # nodes up to which a sparse graph is handled as a dense matrix
OPPOSED = " (opposed)"


@dataclass(frozen=True)
class SharedGraph:
    """One Laplacian for all instances."""

    name: str
    matrix: Any


@dataclass(frozen=True)
class OwnGraph:
    """A graph that each instance brings: which of the user's list, and which sign of it (+1, -1)."""

    name: str
    index: int
    sign: int


GraphEntry = SharedGraph | OwnGraph


def shared_graphs(similarity: Any, name: str, signed: bool, n_nodes: int | None) -> list[SharedGraph]:
    """Laplacians of one shared similarity, positive and negative part apart."""
    matrix = as_matrix(similarity)
    off = check_similarity(matrix, f"graph {name}", signed)
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


def own_graphs(graphs: Sequence[Any], signed: bool) -> list[OwnGraph]:
    """Entries for graphs that come with the instances, a second one for each that has negative similarities."""
    out = []
    for index, stack in enumerate(graphs):
        matrices = [check_similarity(as_matrix(g), f"graph {index} ({j})", signed) for j, g in enumerate(stack)]
        out.append(OwnGraph(f"graph {index}", index, 1))
        if any(m.min() < 0 for m in matrices if min(m.shape)):
            out.append(OwnGraph(f"graph {index}{OPPOSED}", index, -1))
    return out


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

    def join(self, parts: Sequence[np.ndarray], ragged: bool) -> Any:
        """Answers of the batches in the instances' order: an array, or a list where sizes differ."""
        if not ragged:
            out = np.empty((self.n_instances, *parts[0].shape[1:]), dtype=parts[0].dtype)
            for rows, part in zip(self.rows, parts):
                out[rows] = part
            return out
        found: list[Any] = [None] * self.n_instances
        for rows, part in zip(self.rows, parts):
            for j, answer in zip(rows, part):
                found[j] = answer
        return found


@dataclass(frozen=True)
class GaussianTraining:
    """What the field learns from: scores, labels, graphs and weights of the instances; nodes where they share them.

    ``own`` is the number of nodes that get weights of their own. It is decided once, for all instances: what is learned from
    :meth:`part` of them is a start for the whole, and must be as long.
    """

    scores: Any
    labels: np.ndarray | list[np.ndarray]
    graphs: Any
    weight: np.ndarray | None
    n_nodes: int | None
    own: int

    def part(self, rows: np.ndarray) -> "GaussianTraining":
        """Take some of the instances."""
        graphs = None if self.graphs is None else [taken(stack, rows) for stack in self.graphs]
        weight = None if self.weight is None else self.weight[rows]
        return replace(
            self, scores=taken(self.scores, rows), labels=taken(self.labels, rows), graphs=graphs, weight=weight
        )


def make_batches(scores: Any, entries: Sequence[GraphEntry], own: Any, weight: np.ndarray | None = None) -> Batched:
    """Group instances by size; each instance's scores are (n_classes, n_nodes, n_scores).

    Shared graphs stay one matrix; graphs of instances are stacked where small, else each instance is a batch.
    """
    if any(isinstance(e, OwnGraph) for e in entries) and own is None:
        raise InputError("graphs must be given here, too: the field was fitted with graphs of the instances.")
    n = len(scores)
    sizes = np.array([s.shape[1] for s in scores])
    for entry in entries:
        if isinstance(entry, SharedGraph) and np.any(sizes != entry.matrix.shape[0]):
            raise InputError(
                f"graph {entry.name} has {entry.matrix.shape[0]} nodes, but an instance has "
                f"{sizes[sizes != entry.matrix.shape[0]][0]}; pass a graph for each instance to fit and predict."
            )
    get = _own_laplacians(entries, own, sizes)
    groups: list[np.ndarray] = []
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        alone = get is not None and size > DENSE_UP_TO
        groups += [members[i : i + 1] for i in range(len(members))] if alone else [members]
    batches = []
    for members in groups:
        stacked = scores[members] if isinstance(scores, np.ndarray) else np.stack([scores[j] for j in members])
        graphs = [e.matrix if isinstance(e, SharedGraph) else get(e, members) for e in entries]  # type: ignore[misc]
        if any(scipy.sparse.issparse(g) for g in graphs):
            graphs = [scipy.sparse.csr_array(g) for g in graphs]
        share = None if weight is None else weight[members]
        batches.append(FieldBatch(np.ascontiguousarray(stacked), tuple(graphs), share))
    return Batched(batches, groups, n)


def _own_laplacians(
    entries: Sequence[GraphEntry], own: Any, sizes: np.ndarray
) -> Callable[[OwnGraph, np.ndarray], Any] | None:
    """Return a function that gives the Laplacians of an entry for some instances, all of one size."""
    if not any(isinstance(e, OwnGraph) for e in entries):
        return None
    for stack in own:
        if len(stack) != len(sizes):
            raise InputError(f"graphs has {len(stack)} matrices in one list for {len(sizes)} instances.")

    def get(entry: OwnGraph, members: np.ndarray) -> Any:
        found = []
        for j in members:
            off = check_similarity(as_matrix(own[entry.index][j]), f"{entry.name} of instance {j}")
            if off.shape[0] != sizes[j]:
                raise InputError(
                    f"{entry.name} of instance {j} has {off.shape[0]} nodes; the instance has {sizes[j]}."
                )
            part = (
                (off.maximum(0) if entry.sign > 0 else off.minimum(0))
                if scipy.sparse.issparse(off)
                else (np.maximum(off, 0.0) if entry.sign > 0 else np.minimum(off, 0.0))
            )
            matrix = laplacian(part)
            if len(members) == 1 and sizes[j] > DENSE_UP_TO:
                return scipy.sparse.csr_array(matrix)
            found.append(matrix.toarray() if scipy.sparse.issparse(matrix) else matrix)
        return np.stack(found)

    return get
