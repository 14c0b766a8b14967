"""Classifiers inside GraphCRF: cross-fitted by graph, kept in files or asked for, better where scores are not linear."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import rulefield as rf
from rulefield.encode.graph_builders import chain
from rulefield.estimators.graph.predictors import fit_predictors
from rulefield.exceptions import InputError, ModelFileError
from rulefield.persistence import load_model, model_to_bytes


def sizes(n=30, seed=0):
    """Chains whose labels say how large a number is, whatever its sign: no linear function of the features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.repeat(rng.integers(2, size=2), 6)
        sign = rng.choice([-1, 1], size=12)
        noise = rng.random(12) < 0.15
        features = np.stack([sign * np.where(labels ^ noise, 2.0, 0.5), rng.normal(size=12), np.ones(12)], axis=1)
        X.append(chain(features + 0.1 * rng.normal(size=features.shape)))
        y.append(np.array(["small", "large"])[labels])
    return X, y


class Watcher(ClassifierMixin, BaseEstimator):
    """Remembers what it saw: no graph may be scored by one that saw it."""

    def fit(self, X, y):
        self.seen_ = {round(float(row[0]), 12) for row in X}
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        known = np.array([round(float(row[0]), 12) in self.seen_ for row in X])
        return np.where(known[:, None], [[0.9, 0.1]], [[0.5, 0.5]])


def test_a_tree_inside_learns_what_is_not_linear():
    (X, y), (new, gold) = sizes(), sizes(seed=1)
    plain = rf.GraphCRF().fit(X, y).score(new, gold)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    joined = rf.GraphCRF(predictors=[tree]).fit(X, y)
    alone = tree.fit(np.concatenate([g.nodes["token"] for g in X]), np.concatenate(y))
    by_itself = np.mean(alone.predict(np.concatenate([g.nodes["token"] for g in new])) == np.concatenate(gold))
    assert joined.score(new, gold) > max(plain, by_itself) + 0.02
    assert joined.coef_["token"].shape == (2, 3 + 2)
    edges = rf.GraphCRF(predictors={("token", "token"): [tree]}).fit(X, y)
    assert edges.score(new, gold) > plain + 0.1
    assert edges.edge_coef_["token", "token"].shape == (2, 2, 1 + 4)


def test_no_graph_is_scored_by_a_predictor_that_saw_its_group():
    X, y = sizes(12)
    groups = np.repeat(np.arange(4), 3)
    crf = rf.GraphCRF(predictors=[Watcher()], max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(X, y, groups=groups)
    names = crf._names
    numbers = [names.encode(graph, labels) for graph, labels in zip(X, y)]
    made, fitted = fit_predictors([Watcher()], X, numbers, names, groups, None, None)
    assert all(np.allclose(graph.nodes["token"][:, -2:], 0.0) for graph in made)  # half and half: never seen
    assert not np.allclose(fitted(X)[0].nodes["token"][:, -2:], 0.0)  # refitted on everything


def test_files_hold_linear_predictors_and_ask_for_others(tmp_path):
    X, y = sizes(10)
    linear = rf.GraphCRF(predictors={"token": [LogisticRegression(C=0.5)]}).fit(X, y)
    linear.save(tmp_path / "linear.rf")
    again = rf.load(tmp_path / "linear.rf")
    assert again.predictors["token"][0].C == 0.5
    np.testing.assert_array_equal(np.stack(again.predict(X)), np.stack(linear.predict(X)))
    assert again.to_bytes() == linear.to_bytes()
    near = rf.GraphCRF(predictors=[KNeighborsClassifier(3)]).fit(X, y)
    near.save(tmp_path / "near.rf")
    with pytest.raises(ModelFileError, match="KNeighborsClassifier.*predictors="):
        rf.load(tmp_path / "near.rf")
    again = rf.load(tmp_path / "near.rf", predictors=near.predictors_)
    np.testing.assert_array_equal(np.stack(again.predict(X)), np.stack(near.predict(X)))


@pytest.mark.parametrize("penalty", [[["l2"]], "no such", 3])
def test_parameters_of_saved_predictors_are_checked(penalty):
    X, y = sizes(10)
    kind, arrays, metadata = load_model(
        rf.GraphCRF(predictors={"token": [LogisticRegression()]}).fit(X, y).to_bytes()
    )
    text = json.dumps(metadata)
    assert '"fit_intercept": true' in text
    metadata = json.loads(text.replace('"fit_intercept": true', f'"fit_intercept": {json.dumps(penalty)}'))
    with pytest.raises(ModelFileError, match="wrong parameters"):
        rf.load(model_to_bytes(kind, arrays, metadata))


@pytest.mark.parametrize(
    ("predictors", "told"),
    [
        ({"word": [LogisticRegression()]}, "'word'"),
        ({("token", "page"): [LogisticRegression()]}, "page"),
        ([], "predictors must be a list"),
    ],
)
def test_bad_predictors_get_a_sentence(predictors, told):
    X, y = sizes(4)
    with pytest.raises(InputError, match=told):
        rf.GraphCRF(predictors=predictors).fit(X, y)


def test_one_graph_cannot_be_cross_fitted():
    X, y = sizes(2)
    with pytest.raises(InputError, match="two graphs"):
        rf.GraphCRF(predictors=[LogisticRegression()]).fit(X[:1], y[:1])
    with pytest.raises(InputError, match="groups must hold"):
        rf.GraphCRF(predictors=[LogisticRegression()]).fit(X, y, groups=[1])


def labels_together(seed=0, n=120):
    """Three labels of one row; the third says whether the first two differ, which no linear function of the row does."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    first, second = np.abs(X[:, 0]) > 0.7, X[:, 1] > 0
    return X, np.stack([first, second, first ^ second], axis=1).astype(int)


def test_predictors_inside_a_multilabel_model(tmp_path):
    X, Y = labels_together(n=300)
    new, gold = labels_together(1)
    plain = rf.MultiLabelCRF(structure="full").fit(X, Y)
    tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
    joined = rf.MultiLabelCRF(structure="full", predictors=[tree]).fit(X, Y)
    assert joined.score(new, gold) > plain.score(new, gold) + 0.2
    assert joined.crf_.n_features_in_ == {"label0": 2, "label1": 2, "label2": 2}
    again = rf.load(joined.to_bytes(), predictors=joined.predictors_)
    np.testing.assert_array_equal(again.predict(new), joined.predict(new))
    near = rf.MultiLabelCRF(structure="full", predictors=[KNeighborsClassifier(3)]).fit(X, Y)
    near.save(tmp_path / "near.rf")
    with pytest.raises(ModelFileError, match="KNeighborsClassifier"):
        rf.load(tmp_path / "near.rf")
    again = rf.load(tmp_path / "near.rf", predictors=near.predictors_)
    np.testing.assert_array_equal(again.predict(new), near.predict(new))
    linear = rf.MultiLabelCRF(predictors=[LogisticRegression()]).fit(X, Y)
    kept = rf.MultiLabelCRF.load(linear.to_bytes())
    np.testing.assert_array_equal(kept.predict(new), linear.predict(new))
    assert kept.to_bytes() == linear.to_bytes()


def test_joint_probabilities_sum_to_one_and_to_marginals():
    import itertools

    X, Y = labels_together()
    model = rf.MultiLabelCRF(structure="full").fit(X, Y)
    every = np.array(list(itertools.product((0, 1), repeat=3)))
    chances = np.exp([model.predict_joint_log_proba(X[:4], np.tile(row, (4, 1))) for row in every])
    np.testing.assert_allclose(chances.sum(axis=0), 1.0)
    for k, table in enumerate(model.predict_proba(X[:4])):
        np.testing.assert_allclose(table[:, 1], chances[every[:, k] == 1].sum(axis=0))
    known = np.array([[1.0, np.nan, np.nan]] * 4)
    given = chances[every[:, 0] == 1]
    both = chances[(every[:, 0] == 1) & (every[:, 2] == 1)].sum(axis=0) / given.sum(axis=0)
    np.testing.assert_allclose(model.predict_proba(X[:4], known=known)[2][:, 1], both)


def test_joint_probabilities_of_many_labels_are_those_of_few(monkeypatch):
    X, Y = labels_together()
    model = rf.MultiLabelCRF(structure="full").fit(X, Y)
    known = np.where(np.arange(3) == 1, np.nan, Y[:4].astype(float))
    few = [model.predict_joint_log_proba(X[:4], rows) for rows in (Y[:4], known)]
    monkeypatch.setattr("rulefield.inference.graph.fields.MOST_SMALL_NODES", 2)
    many = [model.predict_joint_log_proba(X[:4], rows) for rows in (Y[:4], known)]
    np.testing.assert_allclose(many, few)
    monkeypatch.setattr("rulefield.inference.graph.exact.sums.MOST_ENTRIES", 3)
    with pytest.raises(InputError, match='3 labels joined so densely; use structure="tree"'):
        model.predict_joint_log_proba(X[:4], Y[:4])
