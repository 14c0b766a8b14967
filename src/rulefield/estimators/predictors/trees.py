"""Fitted trees of scikit-learn as plain arrays: they predict as before and can be kept in a file without code."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from rulefield.exceptions import ModelFileError
from rulefield.kernels.decision_trees import sum_of_leaves

TREES = (DecisionTreeClassifier, ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier)
NODES = ("feature", "threshold", "left", "right", "missing_left", "leaf")


class SavedTrees(ClassifierMixin, BaseEstimator):
    """A fitted classifier made of trees, as arrays.

    Parameters
    ----------
    link : {"mean", "softmax", "logistic"}
        How the values of leaves become probabilities: forests average them, boosting adds scores.
    narrow : bool
        Whether rows are rounded to single precision first, as scikit-learn's own trees do.

    Attributes
    ----------
    classes_ : ndarray
    root_, feature_, threshold_, left_, right_, missing_left_, leaf_, values_ : ndarray
        See :func:`rulefield.kernels.decision_trees.sum_of_leaves`.
    base_ : ndarray of shape (width,)
        What boosting begins with.
    n_features_in_ : int
    """

    def __init__(self, link: str = "mean", narrow: bool = True):
        self.link = link
        self.narrow = narrow

    @classmethod
    def of(cls, fitted: Any) -> "SavedTrees":
        """Return the trees of a fitted classifier; refuse those with several outputs or categories."""
        if isinstance(fitted, HistGradientBoostingClassifier):
            return _from_boosting(fitted)
        trees = (
            [fitted.tree_] if isinstance(fitted, DecisionTreeClassifier) else [e.tree_ for e in fitted.estimators_]
        )
        if fitted.n_outputs_ != 1:
            raise ModelFileError(f"{type(fitted).__name__} with several outputs cannot be kept in a model file.")
        tables: list[tuple[np.ndarray, ...]] = []
        for tree in trees:
            value = tree.value[:, 0]
            missing = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count)).astype(bool)
            inner = tree.children_left >= 0
            shares = value / value.sum(axis=1, keepdims=True)
            children = (tree.children_left, tree.children_right)
            tables.append((tree.feature, tree.threshold, *children, missing, inner, shares))
        return cls("mean", True)._filled(tables, fitted, np.zeros(tables[0][-1].shape[1]))

    def _filled(self, tables: list[tuple[np.ndarray, ...]], fitted: Any, base: np.ndarray) -> Self:
        """Lay out trees one after the other: columns of nodes, which of them ask, and a row of values per node."""
        sizes = [len(table[0]) for table in tables]
        self.root_ = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        shift = np.repeat(self.root_, sizes)
        feature, threshold, left, right, missing, inner, values = (np.concatenate(part) for part in zip(*tables))
        self.feature_ = np.where(inner, feature, 0).astype(np.int64)
        self.threshold_ = np.where(inner, threshold, 0.0).astype(np.float64)
        self.left_ = np.where(inner, left + shift, 0).astype(np.int64)
        self.right_ = np.where(inner, right + shift, 0).astype(np.int64)
        self.missing_left_ = missing.astype(bool)
        self.leaf_ = np.where(inner, -1, np.cumsum(~inner) - 1).astype(np.int64)
        self.values_ = np.ascontiguousarray(values[~inner], dtype=np.float64)
        self.base_ = np.asarray(base, dtype=np.float64)
        self.classes_, self.n_features_in_ = np.asarray(fitted.classes_), int(fitted.n_features_in_)
        return self

    def check(self) -> Self:
        """Refuse arrays of a file that a kernel must not see: every row has to end in a leaf."""
        n, width = len(self.feature_), self.values_.shape[1] if self.values_.ndim == 2 else -1
        inner, own = self.leaf_ < 0, np.arange(n)
        good = self.link in ("mean", "softmax", "logistic") and width == len(self.base_)
        good = good and width == (1 if self.link == "logistic" else len(self.classes_))
        good = good and all(getattr(self, f"{name}_").shape == (n,) for name in NODES) and self.root_.ndim == 1
        for name in ("root_", "feature_", "left_", "right_", "leaf_"):
            good = good and getattr(self, name).dtype == np.int64
        good = good and len(self.root_) > 0 and bool(((self.root_ >= 0) & (self.root_ < n)).all())
        good = good and bool(((self.feature_ >= 0) & (self.feature_ < max(self.n_features_in_, 1))).all())
        for child in (self.left_, self.right_):
            good = good and bool(((child[inner] > own[inner]) & (child[inner] < n)).all())
        good = good and bool((self.leaf_[~inner] < len(self.values_)).all())
        if not good:
            raise ModelFileError(
                "the trees of a predictor in the model file do not fit together; save the model again."
            )
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Refuse: they are fitted."""
        raise ModelFileError("trees of a model file cannot be fitted again; give the classifier itself.")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (n, n_classes)."""
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X must have {self.n_features_in_} columns; got an array of shape {rows.shape}.")
        rows = np.ascontiguousarray(rows.astype(np.float32) if self.narrow else rows, dtype=np.float64)
        out = np.tile(self.base_, (len(rows), 1))
        nodes = [getattr(self, f"{name}_") for name in NODES]
        sum_of_leaves(rows, self.root_, *nodes, self.values_, out)
        if self.link == "mean":
            return out / len(self.root_)
        if self.link == "softmax":
            return softmax(out, axis=1)
        share = expit(out[:, 0])
        return np.stack([1.0 - share, share], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable classes, (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _from_boosting(fitted: Any) -> SavedTrees:
    width = fitted.n_trees_per_iteration_
    tables: list[tuple[np.ndarray, ...]] = []
    for stage in fitted._predictors:
        for k, tree in enumerate(stage):
            nodes = tree.nodes
            if nodes["is_categorical"].any():
                raise ModelFileError("gradient boosting with categories cannot be kept in a model file.")
            values = np.zeros((len(nodes), width))
            values[:, k] = nodes["value"]
            columns = [
                nodes[name] for name in ("feature_idx", "num_threshold", "left", "right", "missing_go_to_left")
            ]
            tables.append((*columns, nodes["is_leaf"] == 0, values))
    made = SavedTrees("logistic" if width == 1 else "softmax", narrow=False)
    return made._filled(tables, fitted, fitted._baseline_prediction.ravel())
