"""Multi-label classification as a small graph of labels, one for each sample."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from rulefield.data.graphs import Features
from rulefield.encode.graph_builders import multilabel_edges
from rulefield.estimators.base import State
from rulefield.estimators.fitting import report_fit
from rulefield.estimators.graph.estimator import ALGORITHMS, GraphCRF
from rulefield.estimators.graph.fitted import Rules
from rulefield.estimators.multilabel.files import multilabel_state, restore_multilabel
from rulefield.estimators.multilabel.fitted import FittedMultiLabel, by_label
from rulefield.estimators.parameters import (
    FLAG,
    N_JOBS,
    ON_INFEASIBLE,
    RULES,
    check_parameters,
    either,
    instance_of,
    number,
    one_of,
    optional,
    whole,
)
from rulefield.estimators.predictors.cross_fitting import CrossFitting, cross_fit_scores
from rulefield.estimators.tables import usable_features
from rulefield.estimators.types import ArrayLike, Transformer
from rulefield.exceptions import InputError, LabelError
from rulefield.interrupts import interruptible

FOLDS = 5
"""Parts of the samples for cross-fitting predictors."""
EXACT_LABELS = 14
"""Labels up to which sums over all label vectors are exact and quick."""
SCORED_SAMPLES = 100
"""Samples from which on ``predictors="auto"`` scores labels by cross-fitted classifiers; with fewer, features are used."""
PENALTIES = (0.001, 0.01, 0.1, 1.0)
"""Values of ``C`` among which ``predictors="auto"`` chooses by cross-fitted loss."""


DEFAULT_TOL = 1e-6


class MultiLabelCRF(FittedMultiLabel):
    """Multi-label classifier: one binary node for each label, edges between labels that depend on each other.

    Each label is a linear classifier of the features; each edge adds a score for every pair of values of two labels,
    so that labels which go together are predicted together. A single label (binary or multi-class ``y``) is a graph
    with one node: plain logistic regression, or a linear SVM.

    Parameters
    ----------
    structure : {"auto", "tree", "full", "none"} or array-like of shape (n_edges, 2), default "auto"
        Which labels are joined: the tree of highest mutual information (Chow and Liu), all pairs, no pair. ``auto``: all
        pairs of up to 14 labels if the algorithm is ``likelihood`` (its sums are exact then), else the tree.
    algorithm : {"likelihood", "ssvm"}, default "likelihood"
        See :class:`rulefield.GraphCRF`. On a tree the likelihood is exact.
    l2 : float, default 1
        Weight of the squared weights beside the sum of losses.
    predictors : "auto", list of classifiers or None, default "auto"
        scikit-learn classifiers, one copy per label: their cross-fitted log-odds stand in the place of the features, and
        change the scores of pairs; refitted on all samples for prediction. A list inside the list holds alternatives.
        ``auto``: logistic regression, its penalty chosen by cross-fitted loss, if several labels have 100 samples or
        more; else None, which uses the features themselves.
    scale : bool, default True
        Bring features to mean 0 and variance 1 first (dense features only).
    rules : list of rules, optional
        Every prediction obeys the hard ones and pays for breaking soft ones. They are about the nodes
        ``node("label", 0)``, ``node("label", 1)``, ..., whose values are those of ``y``.
    on_infeasible : {"raise", "relax"}, default "raise"
        What to do where hard rules contradict each other: raise, naming them, or break them as little as possible.
    max_iter : int, optional
        Most iterations (passes for ``ssvm``). None: 1000, for ``ssvm`` 200.
    tol : float, optional
        Relative decrease of the objective (for ``ssvm``: relative duality gap) at which learning stops. None: 1e-6.
    n_jobs : int, optional
        Threads (-1: one per core). The result is the same for any number.

    Attributes
    ----------
    classes_ : ndarray, or list of ndarray for a multi-label target
    edges_ : ndarray of int64, shape (n_edges, 2)
    crf_ : GraphCRF
        The fitted field.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.
    n_iter_ : int
    converged_ : bool
    log_ : list of FitRecord
        One record per iteration.
    stopped_because_ : str
        How the fit ended, in words.
    predictors_ : list of lists
        Fitted classifiers by predictor and label, where there are any.

    Examples
    --------
    >>> import numpy as np
    >>> import rulefield as rf
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Y = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    >>> rf.MultiLabelCRF(l2=0.1).fit(X, Y).predict(X).tolist()
    [[0, 1], [0, 1], [1, 0], [1, 0]]
    """

    _kind = "MultiLabelCRF"
    _given_to_load = ("predictors",)
    _saved = (
        "edges_",
        "n_features_in_",
        "log_",
        "n_iter_",
        "converged_",
        "stopped_because_",
        "_multilabel",
        "_class_list",
        "_center",
        "_spread",
    )
    _parameters: ClassVar = {
        "structure": either(
            one_of("auto", "tree", "full", "none"), instance_of("pairs of labels", list, tuple, np.ndarray)
        ),
        "algorithm": one_of(*(name for name in ALGORITHMS if name != "composite")),
        "l2": number(),
        "predictors": optional(either(one_of("auto"), instance_of("a list of classifiers", list, tuple))),
        "scale": FLAG,
        "rules": RULES,
        "on_infeasible": ON_INFEASIBLE,
        "max_iter": optional(whole(1)),
        "tol": optional(number()),
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        *,
        structure: str | Sequence[Sequence[int]] | np.ndarray = "auto",
        algorithm: str = "likelihood",
        l2: float = 1.0,
        predictors: Sequence[Any] | str | None = "auto",
        scale: bool = True,
        rules: Rules = None,
        on_infeasible: str = "raise",
        max_iter: int | None = None,
        tol: float | None = None,
        n_jobs: int | None = None,
    ):
        self.structure = structure
        self.algorithm = algorithm
        self.l2 = l2
        self.predictors = predictors
        self.scale = scale
        self.rules = rules
        self.on_infeasible = on_infeasible
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    # --- learning ---------------------------------------------------------------------------------

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from a feature matrix and an indicator matrix (or a column of classes).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) with entries 0 and 1, or (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
        """
        check_parameters(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, dtype=np.float64)
        usable_features(X)
        check_classification_targets(y)
        targets = np.asarray(y)
        self._multilabel = targets.ndim == 2 and targets.shape[1] > 1
        self._class_list, numbers = _encoded(targets.reshape(len(targets), -1))
        if not self._multilabel and len(self._class_list[0]) < 2:
            raise LabelError(
                f"y must hold two classes at least; the data has one class: {self._class_list[0].tolist()}."
            )
        self._center, self._spread = self._scaling(X, sample_weight)
        self.edges_ = self._choose_edges(numbers)
        self.crf_ = GraphCRF(
            algorithm=self.algorithm,
            l2=self.l2,
            labels={name: len(c) for name, c in zip(self._names, self._class_list)},
            max_iter=self.max_iter,
            tol=DEFAULT_TOL if self.tol is None else self.tol,
            n_jobs=self.n_jobs,
        )
        labels = [{name: [int(k)] for name, k in zip(self._names, row)} for row in numbers]
        scores = self._cross_fitted(X, numbers, sample_weight)
        report_fit(self, self.crf_._learn(self._graphs(X, scores), labels, sample_weight))
        self.n_iter_ = max(self.crf_.n_iter_, 1)
        return self

    def _scaling(self, X: Features, sample_weight: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        if not self.scale or sparse.issparse(X):
            return None, None
        scaler = StandardScaler().fit(X, sample_weight=sample_weight)
        return scaler.mean_, scaler.scale_

    def _choose_edges(self, numbers: np.ndarray) -> np.ndarray:
        n_labels = numbers.shape[1]
        if isinstance(self.structure, str):
            exact = self.algorithm == "likelihood" and n_labels <= EXACT_LABELS
            chosen = ("full" if exact else "tree") if self.structure == "auto" else self.structure
            return multilabel_edges(numbers > 0, chosen)
        edges = np.asarray(self.structure, dtype=np.int64).reshape(-1, 2)
        if ((edges < 0) | (edges >= n_labels)).any() or (edges[:, 0] == edges[:, 1]).any():
            raise InputError(f"structure must join different labels 0 to {n_labels - 1}; got {edges.tolist()}.")
        return edges

    def _cross_fitted(self, X: Features, numbers: np.ndarray, weight: ArrayLike | None) -> np.ndarray | None:
        """Scores (n_samples, n_labels, width) of predictors that did not see the sample; None without predictors."""
        self._fitted_scores = None
        predictors = self._chosen_predictors(X, numbers)
        if predictors is None:
            return None
        how = CrossFitting(predictors, FOLDS, 0, self.n_jobs)
        share = None if weight is None else np.asarray(weight, dtype=np.float64)
        scores, _, self._fitted_scores = cross_fit_scores(how, X, numbers.astype(float), self._task, share)
        self.predictors_ = self._fitted_scores.members
        return by_label(scores)

    def _chosen_predictors(self, X: Features, numbers: np.ndarray) -> Sequence[Any] | None:
        """Return the predictors that were given, or those of ``auto``."""
        if not isinstance(self.predictors, str):
            return self.predictors
        if numbers.shape[1] < 2 or len(numbers) < SCORED_SAMPLES:
            return None
        centered = not sparse.issparse(X)
        alternatives = [
            make_pipeline(StandardScaler(with_mean=centered), LogisticRegression(C=penalty, max_iter=500))
            for penalty in PENALTIES
        ]
        return [alternatives]

    # --- scikit-learn and files -------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = True
        return tags

    def _params_to_save(self) -> dict[str, Any]:
        return {"predictors": "auto" if self.predictors == "auto" else None}  # others come back with the fitted ones

    def _state(self) -> State:
        return multilabel_state(self)

    def _restore(self, arrays: dict[str, np.ndarray], metadata: dict[str, Any], **given: Transformer) -> None:
        restore_multilabel(self, arrays, metadata, given.get("predictors"))


def _encoded(columns: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Classes of each column, and numbers (n_samples, n_labels); indicators have the classes 0 and 1 throughout."""
    if columns.shape[1] > 1 and columns.dtype.kind in "iubf" and np.isin(columns, (0, 1)).all():
        return [np.array([0, 1])] * columns.shape[1], columns.astype(np.int64)
    classes, numbers = zip(*(np.unique(column, return_inverse=True) for column in columns.T))
    return list(classes), np.stack(numbers, axis=1).astype(np.int64)
