"""Gaussian fields to a file and back."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rulefield
from rulefield import rules as r
from rulefield.encode.similarity import grid
from rulefield.estimators.gaussian.classifier import GaussianCRFClassifier
from rulefield.estimators.gaussian.regressor import GaussianCRFRegressor
from rulefield.exceptions import InputError, ModelFileError
from rulefield.persistence import load_model, model_to_bytes


def scored(seed=0, m=80, n=4):
    rng = np.random.default_rng(seed)
    scores = 2 * rng.normal(size=(m, n, 2))
    cause = 2 * rng.normal(size=(m, 1))
    Y = (scores.sum(axis=-1) + cause + rng.normal(size=(m, n)) > 0).astype(float)
    return scores, Y


@pytest.mark.parametrize("method", ["auto", "vb", "jj", "map"])
def test_a_classifier_comes_back_the_same(tmp_path, method):
    scores, Y = scored()
    rule = r.at_most(2, r.nodes("label").is_(1))
    field = GaussianCRFClassifier(
        predictors="precomputed", graphs=["residual_correlation", "chi2"], algorithm=method, rules=[rule]
    )
    field.fit(scores, Y)
    field.save(tmp_path / "field.rf")
    again = rulefield.load(tmp_path / "field.rf")
    known = np.where(np.arange(4) < 2, Y, np.nan)
    assert isinstance(again, GaussianCRFClassifier)
    np.testing.assert_array_equal(again.predict_proba(scores, known=known), field.predict_proba(scores, known=known))
    np.testing.assert_array_equal(again.predict(scores), field.predict(scores))
    assert again.graph_weights_ == field.graph_weights_
    assert again.algorithm_ == field.algorithm_
    assert again.to_bytes() == field.to_bytes()
    with pytest.raises(InputError, match="fitted with 2 scores per node; got 1"):
        again.predict(scores[..., :1])


def test_a_graph_that_no_field_can_carry_is_refused():
    """Laplacians are scaled to a mean degree of 1; next to 1e20 the field's own matrix has no digits left."""
    scores, Y = scored()
    kind, arrays, metadata = load_model(
        GaussianCRFRegressor(predictors="precomputed", graphs=[np.ones((4, 4)) - np.eye(4)]).fit(scores, Y).to_bytes()
    )
    name = next(name for name in arrays if name.endswith("graphs.0.matrix"))
    with pytest.raises(ModelFileError, match="no Laplacians"):
        rulefield.load(model_to_bytes(kind, arrays | {name: 1e20 * arrays[name]}, metadata))


def test_graphs_of_instances_and_sizes_that_differ():
    rng = np.random.default_rng(1)
    sizes = rng.integers(3, 6, size=40)
    scores = [rng.normal(size=(n, 1)) for n in sizes]
    Y = [(s[:, 0] > 0).astype(float) for s in scores]
    graphs = [[np.ones((n, n)) - np.eye(n) for n in sizes]]
    field = GaussianCRFClassifier(predictors="precomputed").fit(scores, Y, graphs=graphs)
    again = GaussianCRFClassifier.load(field.to_bytes())
    for a, b in zip(field.predict_proba(scores, graphs=graphs), again.predict_proba(scores, graphs=graphs)):
        np.testing.assert_array_equal(a, b)


def test_sparse_graphs_and_regression(tmp_path):
    rng = np.random.default_rng(2)
    graph = grid(25, 20)
    scores = rng.normal(size=(1, 500, 1))
    values = scores[..., 0] + 0.1 * rng.normal(size=(1, 500))
    field = GaussianCRFRegressor(predictors="precomputed", graphs=[graph]).fit(scores, values)
    assert scipy.sparse.issparse(field._field.graphs[0].matrix)
    field.save(tmp_path / "field.rf")
    again = rulefield.load(tmp_path / "field.rf")
    for a, b in zip(field.predict(scores, return_std=True), again.predict(scores, return_std=True)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], ["a", "b", "c"]])
@pytest.mark.parametrize("predictors", [None, [[LogisticRegression(), LogisticRegression(C=0.1)]]])
def test_linear_predictors_are_kept(labels, predictors):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 3))
    y = np.array(labels)[np.clip(X[:, 0] + 1.5, 0, len(labels) - 1).astype(int)]
    field = GaussianCRFClassifier(predictors=predictors).fit(X, y)
    again = rulefield.load(field.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(X), field.predict_proba(X))
    np.testing.assert_array_equal(again.classes_, field.classes_)
    assert repr(again.predictors) == repr(field.predictors)
    assert repr(again._field.layout.fitted.chosen) == repr(field._field.layout.fitted.chosen)
    assert again.fit(X, y).objective_ == field.objective_


def test_a_label_that_was_never_seen_and_nodes_with_features():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3, 2))
    Y = (X[..., 0] > 0).astype(float)
    field = GaussianCRFClassifier(predictors=[make_pipeline(StandardScaler(), LogisticRegression())]).fit(X, Y)
    again = rulefield.load(field.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(X), field.predict_proba(X))
    table, constant = X[:, 0], np.column_stack([Y[:, 0], np.zeros(40)])
    field = GaussianCRFClassifier().fit(table, constant)  # the second label has no classifier, only its share
    np.testing.assert_array_equal(rulefield.load(field.to_bytes()).predict_proba(table), field.predict_proba(table))


def test_other_predictors_are_given_back(tmp_path):
    """A file names predictors that it cannot hold; ``load`` is given them, fitted."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    Y = (X + rng.normal(size=(60, 3)) > 0).astype(int)
    cached = make_pipeline(LogisticRegression(), memory=str(tmp_path))
    for predictors in ([KNeighborsClassifier(3), LogisticRegression()], [cached]):
        field = GaussianCRFClassifier(predictors=predictors).fit(X, Y)
        data = field.to_bytes()
        with pytest.raises(ModelFileError, match=r"your own predictors.*load\(path, predictors="):
            rulefield.load(data)
        with pytest.raises(ModelFileError, match="model file"):
            rulefield.load(data, predictors=[[], []])
        again = rulefield.load(data, predictors=field.predictors_)
        np.testing.assert_array_equal(again.predict_proba(X), field.predict_proba(X))
        assert [type(one) for one in again.predictors] == [type(one) for one in predictors]
    seeded = LogisticRegression(random_state=np.random.RandomState(0))
    again = rulefield.load(GaussianCRFClassifier(predictors=[seeded]).fit(X, Y).to_bytes())
    assert isinstance(again.predictors[0].random_state, np.random.RandomState)


def test_predictors_of_values():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([X[:, 0], 5 + 3 * X[:, 1]]) + 0.1 * rng.normal(size=(60, 2))
    field = GaussianCRFRegressor(predictors=[Ridge()]).fit(X, Y)
    np.testing.assert_array_equal(rulefield.load(field.to_bytes()).predict(X), field.predict(X))
