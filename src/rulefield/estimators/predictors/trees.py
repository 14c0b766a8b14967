"""Fitted trees of scikit-learn as plain arrays: they predict as before and can be kept in a file without code."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from rulefield.exceptions import ModelFileError
from rulefield.forms import Form, flags, index, weights
from rulefield.kernels.decision_trees import sum_of_leaves

TREES = (DecisionTreeClassifier, ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier)
Nodes = Annotated[np.ndarray, index("nodes", below="nodes", dtype="int64")]


@dataclass(frozen=True, eq=False, repr=False)
class SavedTrees(ClassifierMixin, BaseEstimator):
    """A fitted classifier made of trees, as arrays; see :func:`rulefield.kernels.decision_trees.sum_of_leaves`.

    Parameters
    ----------
    link : {"mean", "softmax", "logistic"}
        How the values of leaves become probabilities: forests average them, boosting adds scores.
    narrow : bool
        Whether rows are rounded to single precision first, as scikit-learn's own trees do.
    n_features_in_ : int
    classes_ : ndarray
    base : ndarray of shape (width,)
        What boosting begins with.
    root, feature, threshold, left, right, missing_left, leaf, values : ndarray
    """

    link: Literal["mean", "softmax", "logistic"]
    narrow: bool
    n_features_in_: int
    classes_: Annotated[np.ndarray, Form(("int64", "int32"), ("classes",), least=0.0, ascending=True)]
    base: Annotated[np.ndarray, weights("width")]
    feature: Annotated[np.ndarray, index("nodes", below="n_features_in_", dtype="int64")]
    threshold: Annotated[np.ndarray, Form(("float64",), ("nodes",))]
    left: Nodes
    right: Nodes
    missing_left: Annotated[np.ndarray, flags("nodes")]
    values: Annotated[np.ndarray, weights("leaves", "width")]
    leaf: Annotated[np.ndarray, Form(("int64",), ("nodes",), least=-1.0)]
    root: Annotated[np.ndarray, index("trees", below="nodes", dtype="int64")]

    def __post_init__(self) -> None:
        """Refuse arrays that the kernel must not see: every row has to end in a leaf."""
        inner, numbers = self.leaf < 0, np.arange(len(self.leaf))
        good = len(self.root) > 0 and self.values.shape[1] == (1 if self.link == "logistic" else len(self.classes_))
        for child in (self.left, self.right):
            good = good and bool((child[inner] > numbers[inner]).all())
        if not (good and bool((self.leaf < len(self.values)).all())):
            raise ModelFileError(
                "the trees of a predictor in the model file do not fit together; save the model again."
            )

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
        return _laid_out("mean", tables, fitted, np.zeros(tables[0][-1].shape[1]))

    def fit(self, X: Any, y: Any) -> "SavedTrees":
        """Refuse: pipelines ask for the method, but trees of a file cannot be fitted again."""
        raise ModelFileError("trees of a model file cannot be fitted again; give the classifier itself.")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, (n, n_classes)."""
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise ValueError(f"X must have {self.n_features_in_} columns; got an array of shape {rows.shape}.")
        rows = np.ascontiguousarray(rows.astype(np.float32) if self.narrow else rows, dtype=np.float64)
        out = np.tile(self.base, (len(rows), 1))
        nodes = (self.feature, self.threshold, self.left, self.right, self.missing_left, self.leaf)
        sum_of_leaves(rows, self.root, *nodes, self.values, out)
        if self.link == "mean":
            return out / len(self.root)
        if self.link == "softmax":
            return softmax(out, axis=1)
        share = expit(out[:, 0])
        return np.stack([1.0 - share, share], axis=1)


def _from_boosting(fitted: Any) -> SavedTrees:
    width = fitted.n_trees_per_iteration_
    names = ("feature_idx", "num_threshold", "left", "right", "missing_go_to_left")
    tables: list[tuple[np.ndarray, ...]] = []
    for stage in fitted._predictors:
        for k, tree in enumerate(stage):
            nodes = tree.nodes
            if nodes["is_categorical"].any():
                raise ModelFileError("gradient boosting with categories cannot be kept in a model file.")
            values = np.zeros((len(nodes), width))
            values[:, k] = nodes["value"]
            tables.append((*(nodes[name] for name in names), nodes["is_leaf"] == 0, values))
    link: Any = "logistic" if width == 1 else "softmax"
    return _laid_out(link, tables, fitted, fitted._baseline_prediction.ravel())


def _laid_out(link: Any, tables: list[tuple[np.ndarray, ...]], fitted: Any, base: np.ndarray) -> SavedTrees:
    """Lay out trees one after the other: columns of nodes, which of them ask, and a row of values per node."""
    sizes = [len(table[0]) for table in tables]
    root = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    shift = np.repeat(root, sizes)
    feature, threshold, left, right, missing, inner, values = (np.concatenate(part) for part in zip(*tables))
    return SavedTrees(
        link=link,
        narrow=link == "mean",
        n_features_in_=int(fitted.n_features_in_),
        classes_=np.asarray(fitted.classes_),
        base=np.asarray(base, dtype=np.float64),
        feature=np.where(inner, feature, 0).astype(np.int64),
        threshold=np.where(inner, threshold, 0.0).astype(np.float64),
        left=np.where(inner, left + shift, 0).astype(np.int64),
        right=np.where(inner, right + shift, 0).astype(np.int64),
        missing_left=missing.astype(bool),
        values=np.ascontiguousarray(values[~inner], dtype=np.float64),
        leaf=np.where(inner, -1, np.cumsum(~inner) - 1).astype(np.int64),
        root=root,
    )
