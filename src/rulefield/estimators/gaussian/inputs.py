"""What a Gaussian field learns from and reads: a table, instances with features at each node, or ready scores."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import _num_samples

from rulefield.encode.similarity import as_matrix
from rulefield.estimators.predictors.cross_fitting import CrossFitting, FittedScores, ScoreTask, cross_fit_scores
from rulefield.exceptions import InputError, LabelError

LARGEST_LOGIT = 30.0  # beyond it a probability is 0 or 1 in double precision, but for 1e-13
Graphs = Sequence[Sequence[Any]] | None
"""Graphs that instances bring: for each graph a list of one similarity matrix per instance."""


def is_ragged(X: Any) -> bool:
    """Whether X is a list of instances rather than an array."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and getattr(np.asarray(X[0]), "ndim", 0) >= 2


def node_counts(X: Any) -> np.ndarray | None:
    """Return the number of nodes of each instance of a list; None if X is an array, where all have the same."""
    return np.array([len(x) for x in X], dtype=np.int64) if is_ragged(X) else None


def padded(nodes: np.ndarray, sizes: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """Lay out the nodes of all instances, (n_all_nodes, ...), as (n_instances, largest size, ...)."""
    inside = _inside(sizes, int(sizes.max(initial=0)))
    out = np.full((*inside.shape, *nodes.shape[1:]), fill)
    out[inside] = nodes
    return out


def _inside(sizes: np.ndarray, n_nodes: int) -> np.ndarray:
    """Which places of a padded table are nodes."""
    return np.arange(n_nodes) < sizes[:, None]


def as_table(rows: Any) -> np.ndarray:
    """Return rows of numbers as one table, NaN behind the end of rows that are shorter than others."""
    if isinstance(rows, np.ndarray) or not len(rows):
        return np.asarray(rows, dtype=float)
    parts = [np.asarray(row, dtype=float).reshape(-1) for row in rows]
    return padded(np.concatenate(parts), np.array([len(part) for part in parts]), np.nan)


def check_count(X: Any, y: Any) -> None:
    """Refuse labels or values of a training set that are missing, or not one for each instance of X."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if _num_samples(X) != _num_samples(y):
        raise LabelError(
            f"Found input variables with inconsistent numbers of samples: {[_num_samples(X), _num_samples(y)]}."
        )
    for j, (nodes, labels) in enumerate(zip(X, y) if is_ragged(X) else ()):
        if np.size(labels) != len(nodes):
            raise LabelError(f"y[{j}] must hold {len(nodes)} labels, one for each node; got {np.size(labels)}.")


@dataclass(frozen=True)
class Instances:
    """Training instances: features (or scores) ``X``, labels, weights, and the graphs that they bring.

    ``labels`` is (n_instances, n_nodes), NaN where unknown. ``sizes`` are the numbers of nodes of instances that differ in
    size: what is behind them in labels and scores is padding.
    """

    X: Any
    labels: np.ndarray
    weight: np.ndarray | None
    graphs: Graphs
    sizes: np.ndarray | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_nodes(self) -> int | None:
        """Number of nodes, if all instances have the same number."""
        return self.labels.shape[1] if self.sizes is None else None

    def part(self, rows: np.ndarray) -> Self:
        """Take some of the instances, in the given order."""

        def some(values: Any) -> Any:
            if values is None or isinstance(values, np.ndarray):
                return values if values is None else values[rows]
            return [values[j] for j in rows]

        graphs = None if self.graphs is None else [some(stack) for stack in self.graphs]
        return type(self)(some(self.X), self.labels[rows], some(self.weight), graphs, some(self.sizes))

    def in_order(self, cv: Any) -> Self:
        """Sort the instances by their content, so that no part of the fit depends on the order in which they come.

        Folds, held-out parts and random predictors all work by place. Splits that are given by place, or by a
        splitter, keep the order.
        """
        if cv is not None and not isinstance(cv, int | float | np.integer):
            return self
        X = self.X
        if not isinstance(X, np.ndarray):
            X = [np.asarray(x, dtype=float) for x in X] if is_ragged(X) else np.asarray(X, dtype=float)
        for stack in self.graphs or ():
            if len(stack) != len(self):
                raise InputError(f"graphs has {len(stack)} matrices in one list for {len(self)} instances.")
        return replace(self, X=X).part(content_order(X, self.labels, self.weight, self.graphs))


def content_order(X: Any, labels: Any, weight: np.ndarray | None, graphs: Graphs) -> np.ndarray:
    """Return the instances sorted by a digest of their features; equal ones by labels, weight and graphs.

    Labels come second so that other units of the labels, or weights, do not change the order.
    """
    n = len(labels)
    rows = zip(X, labels, np.ones(n) if weight is None else weight, strict=True)
    keys = [(*map(_digest, row), *(_graph_digest(stack[j]) for stack in graphs or ())) for j, row in enumerate(rows)]
    return np.array(sorted(range(n), key=keys.__getitem__), dtype=np.int64)


def _graph_digest(graph: Any) -> bytes:
    matrix = as_matrix(graph)
    if not scipy.sparse.issparse(matrix):
        return _digest(matrix)
    csr = scipy.sparse.csr_array(matrix)
    csr.sort_indices()
    return b"".join(_digest(part) for part in (csr.indptr, csr.indices, csr.data))


def _digest(values: Any) -> bytes:
    array = np.ascontiguousarray(values, dtype=np.float64) + 0.0  # -0.0 is 0.0
    return blake2b(repr(array.shape).encode() + array.tobytes(), digest_size=16).digest()


# --- three layouts of X ---------------------------------------------------------------------------


@dataclass(frozen=True)
class TableLayout:
    """X (n_instances, n_features); each output has predictors of its own on the whole row."""

    fitted: FittedScores
    same_nodes: ClassVar[bool] = True

    @classmethod
    def fit(cls, instances: Instances, task: ScoreTask, how: CrossFitting) -> tuple[Self, Instances]:
        """Return the layout, and the instances with cross-fitted scores (width, n_outputs, n_scores) each as X."""
        scores, rows, fitted = cross_fit_scores(how, instances.X, instances.labels, task, instances.weight)
        return cls(fitted), replace(instances.part(rows), X=scores)

    def scores(self, X: Any) -> np.ndarray:
        """Scores of new rows."""
        return self.fitted(X)


@dataclass(frozen=True)
class NodesLayout:
    """X (n_instances, n_nodes, n_features), or a list of (n_nodes_j, n_features): predictors pool all nodes."""

    fitted: FittedScores
    same_nodes: ClassVar[bool] = False

    @classmethod
    def fit(cls, instances: Instances, task: ScoreTask, how: CrossFitting) -> tuple[Self, Instances]:
        """Return the layout and the instances with scores; where cv is a share, labels that predictors saw are hidden."""
        nodes, sizes = _stack(instances.X)
        inside = _inside(sizes, instances.labels.shape[1])
        labels = instances.labels.copy()
        cv = how.cv
        if isinstance(cv, (int, np.integer)) and len(sizes) >= cv >= 2:
            cv = _InstanceFolds(int(cv), np.repeat(np.arange(len(sizes)), sizes))
        weight = None if instances.weight is None else np.repeat(instances.weight, sizes)
        scores, rows, fitted = cross_fit_scores(replace(how, cv=cv), nodes, labels[inside][:, None], task, weight)
        if isinstance(cv, float):
            scores = fitted(nodes)
            labels[inside] = np.where(np.isin(np.arange(len(nodes)), rows), labels[inside], np.nan)
        return cls(fitted), replace(instances, X=_by_instance(scores, sizes), labels=labels)

    def scores(self, X: Any) -> np.ndarray:
        """Scores of new instances."""
        nodes, sizes = _stack(X)
        return _by_instance(self.fitted(nodes), sizes)


def _by_instance(scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(n_all_nodes, width, 1, k) -> (n_instances, width, n_nodes, k)."""
    return np.swapaxes(padded(scores[:, :, 0], sizes), 1, 2)


@dataclass(frozen=True)
class ScoresLayout:
    """X holds scores: (n_instances, n_nodes, n_scores), or a list; with classes a last axis, (n_classes,), more."""

    task: ScoreTask
    n_scores: int | None
    same_nodes: bool

    @classmethod
    def fit(cls, instances: Instances, task: ScoreTask, how: CrossFitting) -> tuple[Self, Instances]:
        """Return the layout and the instances with checked scores (n_classes or 1, n_nodes, n_scores) each."""
        layout = cls(task, None, instances.graphs is None and instances.sizes is None)
        scores = layout.scores(instances.X)
        nodes = np.swapaxes(scores, 1, 2)
        if instances.sizes is not None:
            nodes = nodes[_inside(instances.sizes, scores.shape[2])]
        _warn_constant(nodes.reshape(-1, scores.shape[-1]))
        return replace(layout, n_scores=scores.shape[-1]), replace(instances, X=scores)

    def scores(self, X: Any) -> np.ndarray:
        """Scores of new instances, checked."""
        if not is_ragged(X):
            return self._checked(np.asarray(X, dtype=float))
        parts = [self._checked(np.asarray(x, dtype=float)[None])[0] for x in X]
        return np.swapaxes(padded(np.concatenate(parts, axis=1).swapaxes(0, 1), np.array([len(x) for x in X])), 1, 2)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        classes = self.task.kind == "classes"
        if X.ndim != (4 if classes else 3):
            shape = "(n_instances, n_nodes, n_scores" + (", n_classes)" if classes else ")")
            raise InputError(f"precomputed scores must have shape {shape}; got {X.shape}.")
        if classes and X.shape[-1] != self.task.n_classes:
            raise InputError(f"scores are for {X.shape[-1]} classes, labels have {self.task.n_classes}.")
        if self.n_scores is not None and X.shape[2] != self.n_scores:
            raise InputError(f"the field was fitted with {self.n_scores} scores per node; got {X.shape[2]}.")
        if np.isnan(X).any():
            raise InputError("precomputed scores contain NaN; impute them, or drop the predictor.")
        if self.task.kind != "values" and np.any(np.abs(X) > LARGEST_LOGIT):
            if np.isinf(X).any():
                warnings.warn(f"infinite logits were clipped to ±{LARGEST_LOGIT:g}.", UserWarning, stacklevel=2)
            X = np.clip(X, -LARGEST_LOGIT, LARGEST_LOGIT)
        elif np.isinf(X).any():
            raise InputError("precomputed scores contain infinity; give finite values.")
        return np.moveaxis(X, -1, 1) if classes else X[:, None]


Layout = TableLayout | NodesLayout | ScoresLayout


def layout_of(predictors: Any, X: Any) -> type[Layout]:
    """Return which layout the parameter ``predictors`` and an X to learn from have."""
    if isinstance(predictors, str):
        return ScoresLayout
    return NodesLayout if is_ragged(X) or getattr(X, "ndim", 2) == 3 else TableLayout


class _InstanceFolds:
    """Folds that keep the nodes of an instance together."""

    def __init__(self, folds: int, groups: np.ndarray):
        self.folds, self.groups = folds, groups

    def split(self, X: Any) -> Any:
        """Pairs of row numbers."""
        return GroupKFold(self.folds).split(X, groups=self.groups)


def _stack(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """All nodes of all instances as one table, and the number of nodes of each instance."""
    parts = [np.asarray(x, dtype=float) for x in X]
    for j, part in enumerate(parts):
        if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
            raise InputError(f"instance {j} must have shape (n_nodes, {parts[0].shape[-1]}); got {part.shape}.")
        if not np.isfinite(part).all():
            raise InputError(f"Input X contains NaN or infinity in instance {j}; impute it first.")
    return np.concatenate(parts), np.array([len(part) for part in parts], dtype=np.int64)


def _warn_constant(scores: np.ndarray) -> None:
    """Warn of predictors whose scores, (n_all_nodes, n_scores), are the same everywhere."""
    constant = np.flatnonzero(np.ptp(scores, axis=0) == 0) if len(scores) > 1 else np.empty(0, int)
    if len(constant):
        warnings.warn(
            f"predictor {constant[0]} gives the same score to every node; it only adds to the bias.",
            UserWarning,
            stacklevel=4,
        )
