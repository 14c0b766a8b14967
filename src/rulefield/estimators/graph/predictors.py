"""Classifiers inside a graph model: cross-fitted by graph, their log-probabilities are features of nodes and edges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupKFold

from rulefield.data.graphs import Features, Pair, TypedGraph
from rulefield.encode.graph_labels import UNKNOWN, GraphLabels
from rulefield.estimators.predictors.cross_fitting import CrossFitting, FittedScores, ScoreTask, cross_fit_scores
from rulefield.estimators.types import RandomState
from rulefield.exceptions import InputError
from rulefield.models.graph_batch import stack_features

Key = str | Pair
N_FOLDS = 5
"""Folds of graphs (or of groups) for cross-fitting."""


Predictors = Sequence[Any] | Mapping[Key, Sequence[Any]]
"""Classifiers of the only type, or of each type and pair of types; a list inside holds alternatives."""


def _by_key(predictors: Predictors, types: Sequence[str]) -> dict[Key, list[Any]]:
    """Return the predictors of each type and pair of types."""
    if isinstance(predictors, Mapping):
        return {key: list(value) for key, value in predictors.items()}
    if not predictors:
        raise InputError(f"predictors must be a list of classifiers, or a dict of lists; got {predictors!r:.60}.")
    if len(types) != 1:
        raise InputError(f"predictors must be a dict by type where there are several: {list(types)}.")
    return {types[0]: list(predictors)}


@dataclass(frozen=True)
class FittedPredictors:
    """Fitted classifiers of all types and pairs, ``plain`` if given as a plain list: they add features to graphs."""

    fitted: dict[Key, FittedScores]
    plain: bool

    @property
    def members(self) -> dict[Key, list[Any]]:
        """The fitted classifiers."""
        return {key: [one[0] for one in scores.members] for key, scores in self.fitted.items()}

    @property
    def chosen(self) -> Any:
        """The unfitted classifiers in the form in which they were given, without alternatives that were not chosen."""
        by_key = {key: scores.chosen for key, scores in self.fitted.items()}
        return next(iter(by_key.values())) if self.plain else by_key

    def filled(self, given: Any) -> Self:
        """Put ``given`` classifiers, as :attr:`members` has them, in the place of those that a file could not hold."""
        fitted = {}
        for key, scores in self.fitted.items():
            own = given.get(key) if isinstance(given, Mapping) else given
            fitted[key] = scores.filled(None if own is None else [[one] for one in own])
        return replace(self, fitted=fitted)

    def __call__(self, graphs: Sequence[TypedGraph]) -> list[TypedGraph]:
        """Add the log-probabilities of classifiers that saw all training graphs."""
        found = {}
        for key, fitted in self.fitted.items():
            rows = [_rows(graph, key) for graph in graphs]
            flat = stack_features([row for row in rows if row.shape[1]], f"predictors of {key!r}")
            width = fitted.task.width * len(fitted.members)
            scores = _flat(fitted(flat)) if flat.shape[0] else np.zeros((0, width))
            found[key] = np.split(scores, np.cumsum([row.shape[0] for row in rows])[:-1])
        return _with_scores(graphs, found)


def fit_predictors(
    predictors: Predictors,
    graphs: Sequence[TypedGraph],
    numbers: Sequence[np.ndarray],
    names: GraphLabels,
    groups: Sequence[Any] | np.ndarray | None,
    random_state: RandomState,
    n_jobs: int | None,
) -> tuple[list[TypedGraph], FittedPredictors]:
    """Fit all classifiers; return the training graphs with cross-fitted scores, and the classifiers for new graphs.

    ``numbers`` are the label numbers of each graph's nodes, types sorted by name; -1 where unknown. Graphs of one of the
    ``groups`` are never split between folds.
    """
    own = np.arange(len(graphs)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(own) != len(graphs):
        raise InputError(f"groups must hold one entry for each of {len(graphs)} graphs; got {len(own)}.")
    n_folds = min(N_FOLDS, len(np.unique(own)))
    if n_folds < 2:
        raise InputError("predictors need two graphs (or groups) at least, to be cross-fitted; got one.")
    fitted: dict[Key, FittedScores] = {}
    found: dict[Key, list[np.ndarray]] = {}
    for key, members in _by_key(predictors, sorted(names.classes)).items():
        _check_key(key, names, graphs)
        rows = [_rows(graph, key) for graph in graphs]
        sizes = [row.shape[0] for row in rows]
        labels = np.concatenate([_targets(graph, y, key, names) for graph, y in zip(graphs, numbers)])
        folds = list(GroupKFold(n_folds).split(np.zeros(len(labels)), groups=np.repeat(own, sizes)))
        task = ScoreTask("classes", _n_classes(key, names))
        how = CrossFitting(members, folds, random_state, n_jobs)
        seen = stack_features([row for row in rows if row.shape[1]], f"predictors of {key!r}")
        scores, _, fitted[key] = cross_fit_scores(how, seen, labels[:, None], task)
        found[key] = np.split(_flat(scores), np.cumsum(sizes)[:-1])
    return _with_scores(graphs, found), FittedPredictors(fitted, not isinstance(predictors, Mapping))


def _check_key(key: Key, names: GraphLabels, graphs: Sequence[TypedGraph]) -> None:
    types = (key,) if isinstance(key, str) else key
    if any(t not in names.classes for t in types):
        raise InputError(f"predictors name {key!r}; the graphs have nodes of types {sorted(names.classes)}.")
    if not isinstance(key, str) and not any(key in graph.edges for graph in graphs):
        raise InputError(f"predictors name the edges {key!r}, which no graph has.")


def _n_classes(key: Key, names: GraphLabels) -> int:
    return int(np.prod([names.counts[t] for t in ((key,) if isinstance(key, str) else key)]))


def _targets(graph: TypedGraph, numbers: np.ndarray, key: Key, names: GraphLabels) -> np.ndarray:
    """Label of each node, or number of the pair of labels of each edge; NaN where unknown."""
    by_type = names.by_type(graph, numbers, flat=False)
    if isinstance(key, str):
        own = by_type.get(key, np.zeros(0, np.int64))
        return np.where(own == UNKNOWN, np.nan, own)
    if key not in graph.edges:
        return np.zeros(0)
    pairs = graph.edges[key][0]
    a, b = by_type[key[0]][pairs[:, 0]], by_type[key[1]][pairs[:, 1]]
    return np.where((a == UNKNOWN) | (b == UNKNOWN), np.nan, a * names.counts[key[1]] + b)


def _rows(graph: TypedGraph, key: Key) -> Features:
    """Return what predictors of a type (or pair of types) see in one graph."""
    if isinstance(key, str):
        return _seen(graph, key) if key in graph.nodes else np.zeros((0, 0))
    if key not in graph.edges:
        return np.zeros((0, 0))
    pairs, features = graph.edges[key]
    ends = [_seen(graph, t)[pairs[:, side]] for side, t in enumerate(key)]
    return _joined([np.ones((len(pairs), 1)) if features is None else features, *ends])


def _seen(graph: TypedGraph, kind: str) -> Features:
    return graph.views.get(kind, graph.nodes[kind])


def _joined(parts: Sequence[Features]) -> Features:
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.hstack(parts))
    return np.hstack(parts)


def _flat(scores: np.ndarray) -> np.ndarray:
    """(n, width, 1, k) -> (n, width * k)."""
    return scores.reshape(len(scores), -1)


def _with_scores(graphs: Sequence[TypedGraph], scores: Mapping[Key, Sequence[np.ndarray]]) -> list[TypedGraph]:
    """Return the graphs with scores, by key and graph, as more features of their nodes and edges."""
    return [_with(graph, {key: parts[g] for key, parts in scores.items()}) for g, graph in enumerate(graphs)]


def _with(graph: TypedGraph, scores: Mapping[Key, np.ndarray]) -> TypedGraph:
    nodes: dict[str, Any] = dict(graph.nodes)
    edges: dict[Pair, Any] = dict(graph.edges)
    for key, more in scores.items():
        if isinstance(key, str) and key in nodes:
            nodes[key] = _joined([nodes[key], more])
        elif not isinstance(key, str) and key in edges:
            pairs, features = edges[key]
            edges[key] = (pairs, _joined([np.ones((len(pairs), 1)) if features is None else features, more]))
    return TypedGraph(nodes, edges, graph.relations, graph.views)
