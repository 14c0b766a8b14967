"""Multi-label classification with a CRF over the labels, as an ordinary scikit-learn classifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from rulefield.data.graphs import TypedGraph
from rulefield.encode.graph_builders import multilabel_edges
from rulefield.estimators.graph.estimator import GraphCRF
from rulefield.exceptions import InputError


class MultiLabelCRF(ClassifierMixin, BaseEstimator):
    """Multi-label classifier: one binary node for each label, edges between labels that depend on each other.

    Each label is a linear classifier of the features; each edge adds a score for every pair of values of two labels,
    so that labels which go together are predicted together. A single label (binary or multi-class ``y``) is a graph
    with one node: plain logistic regression, or a linear SVM.

    Parameters
    ----------
    structure : {"tree", "full", "none"} or array-like of shape (n_edges, 2)
        Which labels are joined: the tree of highest mutual information (Chow and Liu), all pairs, no pair.
    algorithm : {"likelihood", "pseudolikelihood", "ssvm", "perceptron"}
        See :class:`rulefield.estimators.graph.estimator.GraphCRF`. On a tree the likelihood is exact.
    l2 : float
        Weight of the squared weights beside the sum of losses.
    scale : bool
        Bring features to mean 0 and variance 1 first (dense features only).
    rules : list of rules
        Rules about the nodes ``node("label0", 0)``, ``node("label1", 0)``, ... with labels 0 and 1; hard or soft.
    max_iter, tol : int, float
        Limits of the learner.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : ndarray, or list of ndarray for a multi-label target
    edges_ : ndarray of int64, shape (n_edges, 2)
    crf_ : GraphCRF
        The fitted field.
    n_features_in_ : int
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from rulefield.estimators.graph.multilabel import MultiLabelCRF
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Y = np.array([[0, 1], [0, 1], [1, 0], [1, 0]])
    >>> MultiLabelCRF(l2=0.1).fit(X, Y).predict(X).tolist()
    [[0, 1], [0, 1], [1, 0], [1, 0]]
    """

    def __init__(
        self,
        *,
        structure: Any = "tree",
        algorithm: str = "likelihood",
        l2: float = 1.0,
        scale: bool = True,
        rules: Sequence[Any] | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ):
        self.structure = structure
        self.algorithm = algorithm
        self.l2 = l2
        self.scale = scale
        self.rules = rules
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MultiLabelCRF":
        """Learn from a feature matrix and an indicator matrix (or a column of classes).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) with entries 0 and 1, or (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, dtype=np.float64)
        check_classification_targets(y)
        targets = np.asarray(y)
        self.multilabel_ = targets.ndim == 2 and targets.shape[1] > 1
        columns = targets.reshape(len(targets), -1)
        classes, numbers = zip(*(np.unique(column, return_inverse=True) for column in columns.T))
        self._check_classes(classes)
        self.classes_ = list(classes) if self.multilabel_ else classes[0]
        self._class_list = list(classes)
        self.scaler_ = StandardScaler().fit(X, sample_weight=sample_weight) if self._scales(X) else None
        self.edges_ = self._choose_edges(np.stack(numbers, axis=1))
        self.crf_ = GraphCRF(
            algorithm=self.algorithm,
            l2=self.l2,
            labels={_name(k): len(c) for k, c in enumerate(classes)},
            max_iter=self.max_iter,
            tol=self.tol,
            n_jobs=self.n_jobs,
        )
        labels = [{_name(k): [int(c[i])] for k, c in enumerate(numbers)} for i in range(len(columns))]
        self.crf_.fit(self._graphs(X), labels, sample_weight)
        self.n_iter_ = max(self.crf_.n_iter_, 1)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the best joint labelling of each sample: (n_samples, n_labels), or (n_samples,) for one label."""
        X = self._checked(X)
        found = self.crf_.predict(self._graphs(X), rules=self.rules)
        columns = [
            classes[np.array([labels[_name(k)][0] for labels in found], dtype=np.int64)]
            for k, classes in enumerate(self._class_list)
        ]
        return np.stack(columns, axis=1) if self.multilabel_ else columns[0]

    def predict_proba(self, X: Any) -> Any:
        """Marginal probabilities: a list of (n_samples, n_classes), one for each label; one array for one label.

        Exact on trees; tree-reweighted on graphs with loops.
        """
        X = self._checked(X)
        found = self.crf_.predict_marginals(self._graphs(X))
        tables = [np.concatenate([m[_name(k)] for m in found]) for k in range(len(self._class_list))]
        return tables if self.multilabel_ else tables[0]

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self, "crf_")
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _check_classes(self, classes: Sequence[np.ndarray]) -> None:
        if not self.multilabel_ and len(classes[0]) < 2:
            raise ValueError(f"the classifier needs two classes at least; the data has one class: {classes[0]!r}.")

    def _scales(self, X: Any) -> bool:
        return bool(self.scale) and not sparse.issparse(X)

    def _choose_edges(self, numbers: np.ndarray) -> np.ndarray:
        n_labels = numbers.shape[1]
        if isinstance(self.structure, str):
            return multilabel_edges(numbers > 0, self.structure)
        edges = np.asarray(self.structure, dtype=np.int64).reshape(-1, 2)
        if ((edges < 0) | (edges >= n_labels)).any() or (edges[:, 0] == edges[:, 1]).any():
            raise InputError(f"structure must join different labels 0 to {n_labels - 1}; got {edges.tolist()}.")
        return edges

    def _graphs(self, X: Any) -> list[TypedGraph]:
        """One graph for each sample; all labels share its row of features and a constant."""
        rows = X if self.scaler_ is None else self.scaler_.transform(X)
        if sparse.issparse(rows):
            rows = sparse.csr_array(sparse.hstack([rows, np.ones((rows.shape[0], 1))]))
            parts = [rows[[i]] for i in range(rows.shape[0])]
        else:
            parts = list(np.hstack([rows, np.ones((len(rows), 1))])[:, None, :])
        pair = np.zeros((1, 2), dtype=np.int64)
        edges = {(_name(a), _name(b)): pair for a, b in self.edges_.tolist()}
        names = [_name(k) for k in range(len(self._class_list))]
        return [TypedGraph(dict.fromkeys(names, part), edges) for part in parts]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = True
        return tags


def _name(label: int) -> str:
    return f"label{label}"
