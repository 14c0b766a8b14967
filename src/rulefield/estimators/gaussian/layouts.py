"""Three ways to give a Gaussian field its inputs: a table, instances with features at each node, or ready scores."""

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold

from rulefield.estimators.predictors.cross_fitting import CrossFitting, FittedScores, ScoreTask, cross_fit_scores
from rulefield.exceptions import InputError

LARGEST = 30.0  # a logit beyond this is as good as infinite
Labels = np.ndarray | list[np.ndarray]


def is_ragged(X: Any) -> bool:
    """Whether X is a list of instances rather than an array."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and getattr(np.asarray(X[0]), "ndim", 0) >= 2


class TableLayout:
    """X (n_instances, n_features); each output has predictors of its own on the whole row."""

    same_nodes = True

    def __init__(self) -> None:
        self.ragged = False

    def fit(
        self, X: Any, Y: Labels, task: ScoreTask, how: CrossFitting, weight: np.ndarray | None = None
    ) -> tuple[Any, Labels, np.ndarray | None]:
        """Return cross-fitted scores (n, width, n_outputs, n_scores), the labels and weights that go with them."""
        Y = np.asarray(Y)
        scores, rows, self.fitted = cross_fit_scores(how, X, Y, task, weight)
        return scores, Y[rows], None if weight is None else weight[rows]

    def scores(self, X: Any) -> np.ndarray:
        """Scores of new rows."""
        return self.fitted(X)

    fitted: FittedScores


class NodesLayout:
    """X (n_instances, n_nodes, n_features), or a list of (n_nodes_j, n_features): predictors pool all nodes."""

    same_nodes = False

    def fit(
        self, X: Any, Y: Labels, task: ScoreTask, how: CrossFitting, weight: np.ndarray | None = None
    ) -> tuple[Any, Labels, np.ndarray | None]:
        """Return cross-fitted scores, labels and weights; where cv is a share, labels that predictors saw are hidden."""
        self.ragged = is_ragged(X)
        flat, ends = _stack(X)
        labels = np.concatenate([np.asarray(y, dtype=float) for y in Y])
        cv = how.cv
        if isinstance(cv, (int, np.integer)) and len(X) >= cv >= 2:
            cv = _InstanceFolds(int(cv), np.repeat(np.arange(len(X)), np.diff(ends)))
        nodes = None if weight is None else np.repeat(weight, np.diff(ends))
        scores, rows, self.fitted = cross_fit_scores(replace(how, cv=cv), flat, labels[:, None], task, nodes)
        if isinstance(cv, float):
            scores = self.fitted(flat)
            hidden = np.ones(len(labels), dtype=bool)
            hidden[rows] = False
            labels = np.where(hidden, np.nan, labels)
        return self._by_instance(scores, ends), _unstack(labels, ends, self.ragged), weight

    def scores(self, X: Any) -> Any:
        """Scores of new instances."""
        flat, ends = _stack(X)
        return self._by_instance(self.fitted(flat), ends)

    def _by_instance(self, scores: np.ndarray, ends: np.ndarray) -> Any:
        """(n_all_nodes, width, 1, k) -> instances of (width, n_nodes, k)."""
        parts = [np.swapaxes(scores[a:b, :, 0], 0, 1) for a, b in pairwise(ends)]
        return parts if self.ragged else np.stack(parts)

    fitted: FittedScores
    ragged: bool


class ScoresLayout:
    """X holds scores: (n_instances, n_nodes, n_scores), or a list; with classes a last axis, (n_classes,), more."""

    def __init__(self, same_nodes: bool):
        self.same_nodes = same_nodes

    @classmethod
    def of(cls, task: ScoreTask, n_scores: int | None, same_nodes: bool, ragged: bool) -> "ScoresLayout":
        """Return the layout of a field that is fitted already."""
        made = cls(same_nodes)
        made.task, made.n_scores, made.ragged = task, n_scores, ragged
        return made

    def fit(
        self, X: Any, Y: Labels, task: ScoreTask, how: CrossFitting, weight: np.ndarray | None = None
    ) -> tuple[Any, Labels, np.ndarray | None]:
        """Return the scores as (n_classes or 1, n_nodes, n_scores) each, checked."""
        self.task = task
        self.n_scores = None
        self.ragged = is_ragged(X)
        scores = self.scores(X)
        self.n_scores = scores[0].shape[-1]
        _warn_constant(scores)
        return scores, Y, weight

    def scores(self, X: Any) -> Any:
        """Scores of new instances, checked."""
        if self.ragged or is_ragged(X):
            return [self._one(np.asarray(x, dtype=float)[None])[0] for x in X]
        return self._one(np.asarray(X, dtype=float))

    def _one(self, X: np.ndarray) -> np.ndarray:
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
        if self.task.kind != "values" and np.any(np.abs(X) > LARGEST):
            if np.isinf(X).any():
                warnings.warn(f"infinite logits were clipped to ±{LARGEST:g}.", UserWarning, stacklevel=2)
            X = np.clip(X, -LARGEST, LARGEST)
        elif np.isinf(X).any():
            raise InputError("precomputed scores contain infinity; give finite values.")
        return np.moveaxis(X, -1, 1) if classes else X[:, None]

    ragged: bool
    task: ScoreTask
    n_scores: int | None


Layout = TableLayout | NodesLayout | ScoresLayout


class _InstanceFolds:
    """Folds that keep the nodes of an instance together."""

    def __init__(self, folds: int, groups: np.ndarray):
        self.folds, self.groups = folds, groups

    def split(self, X: Any) -> Any:
        """Pairs of row numbers."""
        return GroupKFold(self.folds).split(X, groups=self.groups)


def _stack(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """All nodes of all instances as one table, and where each instance begins."""
    parts = [np.asarray(x, dtype=float) for x in X]
    for j, part in enumerate(parts):
        if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
            raise InputError(f"instance {j} must have shape (n_nodes, {parts[0].shape[-1]}); got {part.shape}.")
        if not np.isfinite(part).all():
            raise InputError(f"Input X contains NaN or infinity in instance {j}; impute it first.")
    return np.concatenate(parts), np.concatenate([[0], np.cumsum([len(p) for p in parts])])


def _unstack(flat: np.ndarray, ends: np.ndarray, ragged: bool) -> Labels:
    parts = [flat[a:b] for a, b in pairwise(ends)]
    return parts if ragged else np.stack(parts)


def _warn_constant(scores: Any) -> None:
    stacked = np.concatenate([s.reshape(-1, s.shape[-1]) for s in scores]) if isinstance(scores, list) else scores
    flat = stacked.reshape(-1, stacked.shape[-1])
    constant = np.flatnonzero(np.ptp(flat, axis=0) == 0) if len(flat) > 1 else np.empty(0, int)
    if len(constant):
        warnings.warn(
            f"predictor {constant[0]} gives the same score to every node; it only adds to the bias.",
            UserWarning,
            stacklevel=4,
        )
