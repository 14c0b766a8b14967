"""Fitted trees as plain arrays: probabilities as scikit-learn gives them, through a file; damaged arrays are refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import rulefield as rf
from rulefield.estimators.predictors.trees import SavedTrees
from rulefield.estimators.saving import Packer, unpack
from rulefield.exceptions import ModelFileError

MAKERS = [
    lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    lambda: RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0),
    lambda: ExtraTreesClassifier(n_estimators=5, max_depth=4, random_state=0),
    lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    lambda: make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=4, random_state=0)),
]


def sample(n_classes, missing, n=200):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, 4))
    y = np.clip((X[:, 0] + X[:, 1] ** 2).astype(int), 0, n_classes - 1)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_arrays_say_what_the_classifier_says(make, n_classes, missing):
    X, y = sample(n_classes, missing)
    fitted, packer = make().fit(X, y), Packer("test")
    again = unpack(packer.pack(fitted, "p"), packer.arrays)
    assert_allclose(again.predict_proba(X), fitted.predict_proba(X), atol=1e-12)
    assert again.classes_.tolist() == fitted.classes_.tolist()


def test_a_model_with_trees_inside_is_one_file(tmp_path):
    rng = np.random.default_rng(0)
    graphs = [rf.graphs.TypedGraph({"node": rng.normal(size=(6, 3))}) for _ in range(8)]
    labels = [(graph.nodes["node"][:, 0] > 0).astype(int) for graph in graphs]
    trees = [HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2, random_state=0)]
    crf = rf.GraphCRF(predictors=trees).fit(graphs, labels)
    crf.save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert_allclose(again.theta_, crf.theta_)
    for a, b in zip(again.predict_marginals(graphs), crf.predict_marginals(graphs)):
        assert_allclose(a["node"], b["node"], atol=1e-9)
    assert isinstance(again.predictors[0], HistGradientBoostingClassifier)
    again.save(tmp_path / "again.rf")
    assert rf.load(tmp_path / "again.rf").predict(graphs)[0].tolist() == crf.predict(graphs)[0].tolist()


@pytest.mark.parametrize(
    ("name", "value"), [("left", 0), ("right", 10**6), ("feature", 99), ("leaf", 10**6), ("root", -1)]
)
def test_arrays_that_a_kernel_must_not_see_are_refused(name, value):
    X, y = sample(2, False)
    trees = SavedTrees.of(DecisionTreeClassifier(random_state=0).fit(X, y))
    damaged = getattr(trees, name).copy()
    damaged[0 if name != "leaf" else -1] = value
    packer = Packer("test")
    plain = {"$": "SavedTrees", "values": packer.pack(vars(trees) | {name: damaged}, "p")}
    with pytest.raises(ModelFileError):
        unpack(plain, packer.arrays)
