"""Scores of predictors, cross-fitted for training and refitted for new data: what structured models learn from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from rulefield.estimators.parameters import RANDOM_STATE, check_value
from rulefield.estimators.saving import Missing
from rulefield.estimators.types import Predictor, RandomState
from rulefield.exceptions import InputError, ModelFileError
from rulefield.forms import Form
from rulefield.parallel import in_threads

Columns = list[list[int]] | None
_Job = tuple[int, int, int | None, np.ndarray, np.ndarray | None]
"""Predictor and alternative to fit, output (None: all at once), rows to learn from and to score."""
SMALLEST = 1e-3  # probabilities are kept this far from 0 and 1: logits within 6.9
MOST_FEATURES = 10_000_000
"""Columns that a model file may say a predictor reads."""


def generator_seed(random_state: RandomState) -> int | None:
    """Return a seed for numpy's generators; a RandomState gives a new one each time."""
    check_value("random_state", random_state, RANDOM_STATE)
    return int(random_state.randint(2**31)) if isinstance(random_state, np.random.RandomState) else random_state


@dataclass(frozen=True)
class CrossFitting:
    """How predictors are fitted: the predictors, folds or share held out, seed, jobs, one model for all outputs.

    A predictor that is itself a list holds alternatives: the one with the least cross-fitted loss is used. ``columns``
    are those of X that the predictors of each output see; None: all.
    """

    predictors: Sequence[Any]
    cv: Any
    random_state: RandomState
    n_jobs: int | None
    joint: bool = False
    columns: Columns = None

    @property
    def families(self) -> list[list[Any]]:
        """The alternatives of each predictor."""
        return [list(p) if isinstance(p, (list, tuple)) else [p] for p in self.predictors]


@dataclass(frozen=True)
class Prior:
    """Stands in for a classifier if only one class was seen: always the same, smoothed shares."""

    shares: Annotated[np.ndarray, Form(("float64",), ("classes",), least=0.0)]

    @classmethod
    def of(cls, labels: np.ndarray, weight: np.ndarray | None, n_classes: int) -> Self:
        """Count known labels (n,), by their weights."""
        counts = np.bincount(labels.astype(int), weight, minlength=n_classes) + 0.5
        return cls(counts / counts.sum())

    @property
    def classes_(self) -> np.ndarray:
        """Numbers of all classes."""
        return np.arange(len(self.shares))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the same shares for each row."""
        return np.tile(self.shares, (X.shape[0], 1))


@dataclass(frozen=True)
class ScoreTask:
    """What the predictors are for: ``kind`` "binary", "classes" or "values", and the number of classes."""

    kind: Literal["binary", "classes", "values"]
    n_classes: int

    @property
    def width(self) -> int:
        """Scores of one node from one predictor."""
        return self.n_classes if self.kind == "classes" else 1

    def fit(self, predictor: Predictor, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> Any:
        """Fit a copy on the known labels (n,), as whole numbers 0, 1, ... or values."""
        used = ~np.isnan(y) if weight is None else ~np.isnan(y) & (weight > 0)
        known = np.flatnonzero(used)
        target = y[known] if self.kind == "values" else y[known].astype(int)
        share = None if weight is None else weight[known]
        if self.kind != "values" and len(np.unique(target)) < 2:
            return Prior.of(target, share, self.n_classes)
        return _fit_copy(predictor, X[known], target, share)

    def score(self, fitted: Predictor, X: np.ndarray) -> np.ndarray:
        """Scores (n, width): log-odds, centered log-probabilities, or values."""
        if self.kind == "values":
            return np.asarray(fitted.predict(X), dtype=float).reshape(X.shape[0], 1)
        if hasattr(fitted, "predict_proba"):
            return self._logs(np.asarray(fitted.predict_proba(X), dtype=float), fitted.classes_)
        if self.kind == "binary" and hasattr(fitted, "decision_function"):
            return np.asarray(fitted.decision_function(X), dtype=float).reshape(-1, 1)
        raise InputError(f"the predictor {fitted!r} has no predict_proba; wrap it in CalibratedClassifierCV.")

    def _logs(self, proba: np.ndarray, classes: np.ndarray | Sequence[int]) -> np.ndarray:
        shares = np.zeros((len(proba), self.n_classes))
        shares[:, np.asarray(classes, dtype=int)] = proba
        logs = np.log(np.clip(shares, SMALLEST, 1 - SMALLEST))
        if self.kind == "binary":
            return logs[:, 1:] - np.log1p(-np.exp(logs[:, 1:]))
        return logs - logs.mean(axis=1, keepdims=True)

    def fit_joint(self, predictor: Predictor, X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None = None) -> Any:
        """Fit one copy on all outputs (n, n_outputs) at once; none is unknown."""
        used = slice(None) if weight is None else weight > 0
        target = Y if self.kind == "values" else Y.astype(int)
        return _fit_copy(predictor, X[used], target[used], None if weight is None else weight[used])

    def score_joint(self, fitted: Predictor, X: np.ndarray) -> np.ndarray:
        """Scores (n, width, n_outputs) of a predictor of all outputs."""
        if self.kind == "values":
            return np.asarray(fitted.predict(X), dtype=float)[:, None, :]
        proba = fitted.predict_proba(X)
        if isinstance(proba, list):  # one table an output
            return np.stack([self._logs(p, c) for p, c in zip(proba, fitted.classes_)], axis=-1)
        pair = np.stack([1.0 - proba, proba], axis=-1)  # (n, n_outputs) of the second class
        return np.stack([self._logs(pair[:, i], (0, 1)) for i in range(pair.shape[1])], axis=-1)

    def loss(self, scores: np.ndarray, Y: np.ndarray, weight: np.ndarray | None) -> float:
        """Mean loss over the known labels: log-loss of scores (n, width, n_outputs), or squares by each variance."""
        known = ~np.isnan(Y)
        if self.kind == "values":
            spread = np.nanvar(Y, axis=0)
            each = np.where(known, (scores[:, 0] - Y) ** 2 / np.where(spread > 0, spread, 1.0), 0.0)
        elif self.kind == "binary":
            each = np.where(known, np.logaddexp(0.0, np.where(Y == 1, -1.0, 1.0) * scores[:, 0]), 0.0)
        else:
            codes = np.where(known, Y, 0).astype(int)
            each = np.where(known, -np.take_along_axis(log_softmax(scores, axis=1), codes[:, None], 1)[:, 0], 0.0)
        return float(np.average(each.sum(axis=1), weights=weight))


def _fit_copy(predictor: Predictor, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
    model = clone(predictor)
    return model.fit(X, y) if weight is None else model.fit(X, y, **_weights_for(model, weight))


def _weights_for(model: Predictor, weight: np.ndarray) -> dict[str, np.ndarray]:
    """Arguments that hand sample weights to a predictor, or to every step of a pipeline that takes them."""
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    if not has_fit_parameter(steps[-1][1], "sample_weight"):
        raise InputError(f"the predictor {model!r} takes no sample_weight; choose one that does, or leave it out.")
    takes = [name for name, step in steps if has_fit_parameter(step, "sample_weight")]
    return {f"{name}__sample_weight" if name else "sample_weight": weight for name in takes}


@dataclass(frozen=True)
class FittedScores:
    """Predictors fitted on all data.

    ``members[k]`` serves all outputs where it has one element and ``n_outputs`` is not one; else ``members[k][i]``
    serves output i, on its own ``columns`` of X if there are such. ``chosen`` are the predictors that were used, unfitted.
    """

    task: ScoreTask
    members: list[list[Any]]
    n_outputs: int
    chosen: list[Any]
    columns: Columns = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Scores (n, width, n_outputs, n_predictors)."""
        for i, predictor in ((i, one) for members in self.members for i, one in enumerate(members)):
            width = X.shape[1] if self.columns is None else len(self.columns[i])
            wanted = getattr(predictor, "n_features_in_", width)
            if wanted != width:
                raise InputError(f"the predictors were fitted on {wanted} features; got {width}.")
        return np.stack([self._of(members, X) for members in self.members], axis=-1)

    def check(self, n_features: int | None = None) -> None:
        """Refuse predictors of a file that do not give a row of ``n_features`` the scores that the task asks for."""
        if any(column < 0 for own in self.columns or () for column in own):
            raise ModelFileError("a predictor of the model file reads a column that X does not have; save it again.")
        if n_features is None:
            sizes = [getattr(one, "n_features_in_", 1) for family in self.members for one in family]
            n_features = max(sizes, default=1)
        if not 0 < n_features <= MOST_FEATURES:
            raise ModelFileError(f"the predictors of the model file read {n_features} columns; save the model again.")
        scores = self(np.zeros((1, n_features)))
        wanted = (1, self.task.width, self.n_outputs, len(self.members))
        if scores.shape != wanted or not np.isfinite(scores).all():
            raise ModelFileError("the predictors of the model file do not fit their task; save the model again.")

    def filled(self, fitted: Any) -> "FittedScores":
        """Put ``fitted`` predictors (a list for each predictor) in the place of those that a file could not hold."""
        members, chosen = list(self.members), list(self.chosen)
        for k, family in enumerate(members):
            missing = [one.type for one in family if isinstance(one, Missing)]
            if missing:
                members[k] = _taken_from(fitted, k, missing[0])
            if isinstance(chosen[k], Missing):
                chosen[k] = members[k][0]
        return replace(self, members=members, chosen=chosen)

    def _of(self, members: list[Any], X: np.ndarray) -> np.ndarray:
        if len(members) < self.n_outputs:
            return self.task.score_joint(members[0], X)
        return np.stack([self.task.score(m, columns_of(X, self.columns, i)) for i, m in enumerate(members)], axis=-1)


def _taken_from(fitted: Any, k: int, name: str) -> list[Any]:
    try:
        return list(fitted[k])
    except (KeyError, IndexError, TypeError):
        raise ModelFileError(
            f"the model was trained with a {name}, which a file cannot hold; give it back fitted, as predictors_ has it: "
            "load(path, predictors=...)."
        ) from None


def columns_of(X: np.ndarray, columns: Columns, output: int | None) -> np.ndarray:
    """Return the columns of X that the predictors of an output see."""
    return X if columns is None or output is None else X[:, np.asarray(columns[output], dtype=np.int64)]


def cross_fit_scores(
    how: CrossFitting, X: np.ndarray, Y: np.ndarray, task: ScoreTask, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, FittedScores]:
    """Score each row by predictors that did not see it.

    Returns scores (n_rows, width, n_outputs, n_predictors), the rows of X that they belong to (those of some test part), and
    the predictors for new data. Labels Y (n, n_outputs) are NaN where unknown. If ``how.cv`` is a share, predictors see the
    rest, only that share is scored, and nothing is refitted.
    """
    folds = make_splits(how.cv, X, Y, task, how.random_state)
    whole = not isinstance(how.cv, float)
    families = how.families
    jobs: list[_Job] = [
        (k, a, i, train, test)
        for k, family in enumerate(families)
        for a, predictor in enumerate(family)
        for i in _outputs(how, predictor, Y)
        for train, test in folds
    ]

    def run(job: _Job) -> tuple[Any, Any]:
        """Fit one predictor; return it where it is kept, and its scores of the test rows."""
        k, a, i, train, test = job
        columns, share = columns_of(X, how.columns, i), None if weight is None else weight[train]
        fit, score = (task.fit_joint, task.score_joint) if i is None else (task.fit, task.score)
        fitted = fit(families[k][a], columns[train], Y[train] if i is None else Y[train, i], share)
        kept = fitted if test is None or not whole else None
        return kept, None if test is None else score(fitted, columns[test])

    done = in_threads(run, jobs, how.n_jobs)
    scores = [np.zeros((len(family), len(Y), task.width, Y.shape[1])) for family in families]
    for (k, a, i, _, test), (_, fold_scores) in zip(jobs, done):
        scores[k][a, test, :, slice(None) if i is None else i] = fold_scores
    rows = np.unique(np.concatenate([test for _, test in folds]))
    share = None if weight is None else weight[rows]
    best = [
        int(np.argmin([task.loss(s[rows], Y[rows], share) for s in each])) if len(each) > 1 else 0 for each in scores
    ]
    if whole:
        every = np.arange(len(Y))
        jobs = [(k, a, i, every, None) for k, a in enumerate(best) for i in _outputs(how, families[k][a], Y)]
        done = in_threads(run, jobs, how.n_jobs)
    members: list[list[Any]] = [[] for _ in families]
    for (k, a, *_), (fitted, _) in zip(jobs, done):
        if a == best[k]:
            members[k].append(fitted)
    chosen = [clone(family[a]) for family, a in zip(families, best)]
    kept = np.stack([each[a][rows] for each, a in zip(scores, best)], axis=-1)
    return kept, rows, FittedScores(task, members, Y.shape[1], chosen, how.columns)


def _outputs(how: CrossFitting, predictor: Predictor, Y: np.ndarray) -> Sequence[int | None]:
    """Each output; or [None], all of them at once, if that is wanted, possible and no label is unknown."""
    able = (
        how.joint
        and how.columns is None
        and Y.shape[1] > 1
        and get_tags(predictor).target_tags.multi_output
        and not np.isnan(Y).any()
    )
    return [None] if able else range(Y.shape[1])


def make_splits(cv: Any, X: np.ndarray, Y: np.ndarray, task: ScoreTask, random_state: RandomState) -> list[Any]:
    """Pairs (train rows, test rows); stratified where there is one output with enough of each class."""
    if hasattr(cv, "split"):
        return list(cv.split(X))
    if isinstance(cv, (list, tuple)) and len(cv):
        return list(cv)
    if isinstance(cv, float):
        return list(ShuffleSplit(1, test_size=cv, random_state=random_state).split(X))
    folds = min(int(cv), len(Y))
    if folds < 2:
        raise InputError(f"X must hold at least 2 samples for cross-fitting; got n_samples={len(Y)}.")
    if Y.shape[1] == 1 and task.kind != "values" and not np.isnan(Y).any():
        smallest = np.unique(Y, return_counts=True)[1].min()
        if smallest >= folds:
            return list(StratifiedKFold(folds, shuffle=True, random_state=random_state).split(X, Y[:, 0].astype(int)))
    return list(KFold(folds, shuffle=True, random_state=random_state).split(X))
