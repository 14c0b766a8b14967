"""MultiLabelCRF: a scikit-learn classifier whose labels know each other."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from rulefield import rules as r
from rulefield.estimators.graph.multilabel import MultiLabelCRF
from rulefield.exceptions import InputError


def test_scikit_learn_accepts_it():
    results = check_estimator(MultiLabelCRF(max_iter=15), on_skip=None, on_fail=None)
    assert [(c["check_name"], c["exception"]) for c in results if c["status"] == "failed"] == []
    assert sum(c["status"] == "passed" for c in results) > 40


@pytest.fixture(scope="module")
def data():
    return make_multilabel_classification(120, 8, n_classes=4, random_state=0)


def test_one_label_is_logistic_regression(data):
    X, Y = data
    ours = MultiLabelCRF(l2=2.0, tol=1e-12, max_iter=500).fit(X, Y[:, 0]).predict_proba(X)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    # two weight vectors of size w/2 cost half of one of size w; our intercept is penalised, so it is a column here
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(np.hstack([scaled, np.ones((len(X), 1))]), Y[:, 0])
    assert_allclose(ours, peer.predict_proba(np.hstack([scaled, np.ones((len(X), 1))])), atol=1e-4)


@pytest.mark.parametrize("structure", ["none", "tree", "full", [[0, 1], [2, 3]]])
def test_prediction_is_the_best_joint_labelling(data, structure):
    X, Y = data
    crf = MultiLabelCRF(structure=structure).fit(X, Y)
    scaled = np.hstack([(X[:3] - X.mean(axis=0)) / X.std(axis=0), np.ones((3, 1))])
    for x, guess in zip(scaled, crf.predict(X[:3])):

        def score(y, x=x):
            total = sum(crf.crf_.coef_[f"label{k}"][v] @ x for k, v in enumerate(y))
            return total + sum(crf.crf_.edge_coef_[f"label{a}", f"label{b}"][y[a], y[b], 0] for a, b in crf.edges_)

        assert_allclose(score(guess), max(score(y) for y in itertools.product((0, 1), repeat=4)))


def test_edges_help_labels_that_exclude_each_other():
    rng = np.random.default_rng(0)
    side = rng.integers(2, size=300)
    X = np.stack([side + 1.0 * rng.normal(size=300), rng.normal(size=300)], axis=1)
    Y = np.stack([side, 1 - side], axis=1)
    joint = MultiLabelCRF(structure="tree").fit(X[:150], Y[:150]).predict(X[150:])
    assert (joint.sum(axis=1) == 1).mean() > 0.98


def test_rules_hold(data):
    X, Y = data
    rule = r.implies(r.node("label0", 0).is_(1), r.node("label1", 0).is_(1))
    guess = MultiLabelCRF(rules=[rule]).fit(X, Y).predict(X)
    assert (guess[:, 0] <= guess[:, 1]).all()


def test_wrong_structure_is_explained(data):
    with pytest.raises(InputError, match="structure"):
        MultiLabelCRF(structure=[[0, 9]]).fit(*data)
    with pytest.raises(InputError, match="structure"):
        MultiLabelCRF(structure="ring").fit(*data)
