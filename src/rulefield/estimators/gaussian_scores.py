"""Scores of unstructured predictors for a Gaussian field: cross-fitted for training, refitted for new data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from rulefield.exceptions import InputError

SMALLEST = 1e-3  # probabilities are kept this far from 0 and 1: logits within 6.9


class Prior:
    """Stands in for a classifier where only one class was seen: always the same, smoothed shares."""

    def __init__(self, labels: np.ndarray, n_classes: int):
        counts = np.bincount(labels.astype(int), minlength=n_classes) + 0.5
        self.shares = counts / counts.sum()
        self.classes_ = np.arange(n_classes)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the same shares for each row."""
        return np.tile(self.shares, (X.shape[0], 1))


@dataclass(frozen=True)
class ScoreTask:
    """What the predictors are for: ``kind`` "binary", "classes" or "values", and the number of classes."""

    kind: str
    n_classes: int

    @property
    def width(self) -> int:
        """Scores of one node from one predictor."""
        return self.n_classes if self.kind == "classes" else 1

    def fit(self, predictor: Any, X: Any, y: np.ndarray) -> Any:
        """Fit a copy on the known labels (n,), as whole numbers 0, 1, ... or values."""
        known = np.flatnonzero(~np.isnan(y))
        target = y[known] if self.kind == "values" else y[known].astype(int)
        if self.kind != "values" and len(np.unique(target)) < 2:
            return Prior(target, self.n_classes)
        return clone(predictor).fit(X[known], target)

    def score(self, fitted: Any, X: Any) -> np.ndarray:
        """Scores (n, width): log-odds, centred log-probabilities, or values."""
        if self.kind == "values":
            return np.asarray(fitted.predict(X), dtype=float).reshape(X.shape[0], 1)
        if hasattr(fitted, "predict_proba"):
            found = np.asarray(fitted.predict_proba(X), dtype=float)
            shares = np.zeros((X.shape[0], self.n_classes))
            shares[:, np.asarray(fitted.classes_, dtype=int)] = found
            logs = np.log(np.clip(shares, SMALLEST, 1 - SMALLEST))
            if self.kind == "binary":
                return logs[:, 1:] - np.log1p(-np.exp(logs[:, 1:]))
            return logs - logs.mean(axis=1, keepdims=True)
        if self.kind == "binary" and hasattr(fitted, "decision_function"):
            return np.asarray(fitted.decision_function(X), dtype=float).reshape(-1, 1)
        raise InputError(f"The predictor {fitted!r} has no predict_proba; wrap it in CalibratedClassifierCV.")


@dataclass(frozen=True)
class FittedScores:
    """Predictors fitted on all data: ``members[k][i]`` serves output i."""

    task: ScoreTask
    members: list[list[Any]]

    def __call__(self, X: Any) -> np.ndarray:
        """Scores (n, width, n_outputs, n_predictors)."""
        rows = [[self.task.score(m, X) for m in outputs] for outputs in self.members]
        return np.transpose(np.array(rows), (2, 3, 1, 0))


def cross_fit(
    predictors: Sequence[Any],
    X: Any,
    Y: np.ndarray,
    task: ScoreTask,
    cv: Any,
    random_state: int | None,
    n_jobs: int | None,
) -> tuple[np.ndarray, np.ndarray, FittedScores]:
    """Score each row by predictors that did not see it.

    Parameters
    ----------
    X : array of shape (n, n_features)
    Y : ndarray, shape (n, n_outputs)
        NaN is unknown; each output has its own copy of each predictor.
    cv : int, float or splitter
        Folds; a share (0 < cv < 1): predictors see the rest, the field that share, and nobody is refitted.

    Returns
    -------
    scores : ndarray, shape (n_rows, width, n_outputs, n_predictors)
    rows : ndarray
        Rows of X that the scores belong to (all of them, unless ``cv`` is a share).
    fitted : FittedScores
        For new data.
    """
    splits = make_splits(cv, X, Y, task, random_state)
    whole = not isinstance(cv, float)
    parts = [(train, test) for train, test in splits] + ([(np.arange(len(Y)), None)] if whole else [])
    jobs = [(k, i, p) for k in range(len(predictors)) for i in range(Y.shape[1]) for p in range(len(parts))]
    done = Parallel(n_jobs=n_jobs)(delayed(_job)(task, predictors[k], X, Y[:, i], *parts[p]) for k, i, p in jobs)
    scores = np.zeros((len(Y), task.width, Y.shape[1], len(predictors)))
    members: list[list[Any]] = [[None] * Y.shape[1] for _ in predictors]
    for (k, i, p), (fitted, found) in zip(jobs, done):
        test = parts[p][1]
        if test is not None:
            scores[test, :, i, k] = found
        if test is None or not whole:
            members[k][i] = fitted
    rows = np.arange(len(Y)) if whole else np.sort(parts[0][1])
    return scores[rows], rows, FittedScores(task, members)


def _job(task: ScoreTask, predictor: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray | None) -> Any:
    fitted = task.fit(predictor, X[train], y[train])
    return fitted, None if test is None else task.score(fitted, X[test])


def make_splits(cv: Any, X: Any, Y: np.ndarray, task: ScoreTask, random_state: int | None) -> list[Any]:
    """Pairs (train rows, test rows); stratified where there is one output with enough of each class."""
    if hasattr(cv, "split"):
        return list(cv.split(X))
    if isinstance(cv, float):
        if not 0 < cv < 1:
            raise InputError(f"cv as a share must lie between 0 and 1; got {cv}.")
        return list(ShuffleSplit(1, test_size=cv, random_state=random_state).split(X))
    if not isinstance(cv, (int, np.integer)) or cv < 2:
        raise InputError(f"cv must be a number of folds >= 2, a share, or a splitter; got {cv!r}.")
    folds = min(int(cv), len(Y))
    if folds < 2:
        raise InputError(f"Cross-fitting needs at least 2 samples; got n_samples={len(Y)}.")
    if Y.shape[1] == 1 and task.kind != "values" and not np.isnan(Y).any():
        smallest = np.unique(Y, return_counts=True)[1].min()
        if smallest >= folds:
            return list(StratifiedKFold(folds, shuffle=True, random_state=random_state).split(X, Y[:, 0].astype(int)))
    return list(KFold(folds, shuffle=True, random_state=random_state).split(X))
