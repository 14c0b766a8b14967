"""MultiLabelCRF: a scikit-learn classifier whose labels know each other."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import rulefield as rf
from rulefield import rules as r
from rulefield.estimators.multilabel.estimator import MultiLabelCRF
from rulefield.exceptions import InputError, InterruptedFitWarning, LabelError
from rulefield.learning.fit_log import Ending


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
    # two weight vectors of size w/2 cost half of one of size w; our intercept is penalized, so it is a column here
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(np.hstack([scaled, np.ones((len(X), 1))]), Y[:, 0])
    assert_allclose(ours, peer.predict_proba(np.hstack([scaled, np.ones((len(X), 1))])), atol=1e-4)


@pytest.mark.parametrize("structure", ["none", "tree", "full", [[0, 1], [2, 3]]])
def test_prediction_is_the_best_joint_labeling(data, structure):
    X, Y = data
    crf = MultiLabelCRF(structure=structure, predictors=None).fit(X, Y)
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
    rule = r.implies(r.node("label", 0).is_(1), r.node("label", 1).is_(1))
    guess = MultiLabelCRF(rules=[rule]).fit(X, Y).predict(X)
    assert (guess[:, 0] <= guess[:, 1]).all()


def test_everything_is_that_of_the_joint_distribution_under_rules(data):
    X, Y = data
    rule = r.at_most(2, r.nodes("label").is_(1))
    soft = r.implies(r.node("label", 3).is_(1), r.node("label", 0).is_(1)).soft(1.0)
    crf = MultiLabelCRF(structure="full", rules=[rule, soft]).fit(X, Y)
    known = [[None, None, 1, None], None]
    every = np.array(list(itertools.product((0, 1), repeat=4)))
    tables = crf.predict_proba(X[:2], known=known)
    labelings = crf.decode(X[:2], known=known)
    guess = crf.predict(X[:2], known=np.array([[np.nan, np.nan, 1, np.nan], [np.nan] * 4]))
    for i in range(2):
        held = every[(every.sum(axis=1) <= 2) & ((every[:, 2] == 1) | (i == 1))]
        total = np.array([found.objective for found in crf.decode(X[[i]].repeat(len(held), axis=0), known=held)])
        weight = np.exp(total - total.max()) / np.exp(total - total.max()).sum()
        assert_allclose([table[i, 1] for table in tables], weight @ held, atol=1e-9)
        assert guess[i].tolist() == labelings[i].labels == held[weight.argmax()].tolist()
        assert labelings[i].status == "optimal"


def test_one_label_with_names(data):
    X, Y = data
    names = np.array(["ham", "spam"])[Y[:, 0]]
    crf = MultiLabelCRF().fit(X, names)
    assert crf.predict(X[:2], known=["spam", None])[0] == "spam"
    assert (crf.predict(X, rules=[r.node("label", 0).is_("ham")]) == "ham").all()
    again = MultiLabelCRF.load(crf.to_bytes())
    assert (again.predict(X) == crf.predict(X)).all()
    assert again.classes_.tolist() == ["ham", "spam"]


def test_a_label_that_never_occurs_is_unlikely(data):
    X, Y = data
    crf = MultiLabelCRF().fit(X, np.column_stack([Y, np.zeros(len(Y), int)]))
    assert crf.predict(X)[:, 4].max() == 0
    assert crf.predict_proba(X)[4][:, 1].max() < 0.2


def test_mistakes_are_explained(data):
    X, Y = data
    crf = MultiLabelCRF().fit(X, Y)
    with pytest.raises(InputError, match="known must hold one row of labels for each of 3"):
        crf.predict(X[:3], known=Y[:2])
    with pytest.raises(InputError, match=r"known\[0\] must hold 4 labels; got 2"):
        crf.predict(X[:1], known=[[0, 1]])
    with pytest.raises(LabelError, match=r"known\[0\] holds 7"):
        crf.predict(X[:1], known=[[0, 1, 7, None]])
    different = np.column_stack([Y[:, 0], Y[:, 1] + 2])
    with pytest.raises(InputError, match="the same classes"):
        MultiLabelCRF(rules=[r.node("label", 0).is_(1)]).fit(X, different).predict(X)


def test_wrong_structure_is_explained(data):
    with pytest.raises(InputError, match="structure"):
        MultiLabelCRF(structure=[[0, 9]]).fit(*data)
    with pytest.raises(InputError, match="structure"):
        MultiLabelCRF(structure="ring").fit(*data)


def test_the_defaults_join_few_labels_by_all_pairs_and_score_them_by_cross_fitted_classifiers(data, tmp_path):
    X, Y = data
    crf = MultiLabelCRF().fit(X, Y)
    assert len(crf.edges_) == Y.shape[1] * (Y.shape[1] - 1) // 2
    assert len(MultiLabelCRF(algorithm="ssvm").fit(X, Y).edges_) == Y.shape[1] - 1
    assert len(crf.predictors_[0]) == Y.shape[1]
    assert not hasattr(MultiLabelCRF().fit(X[:60], Y[:60]), "predictors_")
    crf.save(tmp_path / "labels.rf")
    again = rf.load(tmp_path / "labels.rf")
    assert again.predictors == "auto"
    assert (again.predict(X) == crf.predict(X)).all()


def test_auto_takes_the_penalty_under_which_held_out_labels_are_most_likely():
    """Little for labels that exclude each other, much for labels that are noise; otherwise what was given."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    exclusive = np.eye(4, dtype=int)[(X + 0.8 * rng.normal(size=X.shape)).argmax(axis=1)]
    noise = rng.integers(0, 2, size=(120, 4))
    field = MultiLabelCRF().fit(X, exclusive)
    assert field.l2_ < 1.0
    assert field.l2_ == field.crf_.l2 == rf.load(field.to_bytes()).l2_
    likelihood = {
        l2: MultiLabelCRF(l2=l2).fit(X, exclusive).predict_joint_log_proba(X, exclusive).mean() for l2 in (0.1, 3.0)
    }
    assert likelihood[0.1] > likelihood[3.0]
    assert MultiLabelCRF().fit(X[:120], noise).l2_ == 3.0
    assert MultiLabelCRF(l2=0.7).fit(X, exclusive).l2_ == 0.7
    assert MultiLabelCRF(predictors=None, max_iter=5).fit(X, exclusive).l2_ == 1.0


def test_an_interrupted_choice_of_the_penalty_keeps_the_last_model(monkeypatch):
    from rulefield.estimators.graph import estimator

    learn, calls = estimator.fit_graph_model, []

    def interrupted(*given):
        calls.append(0)
        result = learn(*given)
        return replace(result, ending=Ending.interrupted) if len(calls) == 2 else result

    monkeypatch.setattr(estimator, "fit_graph_model", interrupted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    with pytest.warns(InterruptedFitWarning):
        field = MultiLabelCRF().fit(X, (X > 0).astype(int))
    assert len(calls) == 2
    assert field.predict(X).shape == X.shape


def test_units_of_predictors_do_not_matter():
    """A predictor whose log-odds are a tenth of another's gives the same field: its own penalty is not paid for again."""

    class Faint(LogisticRegression):
        def predict_proba(self, X):
            share = expit(0.1 * self.decision_function(X))
            return np.stack([1.0 - share, share], axis=1)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    Y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(150, 3)) > 0).astype(int)
    plain, faint = (MultiLabelCRF(l2=3.0, predictors=[one(C=0.05)]).fit(X, Y) for one in (LogisticRegression, Faint))
    found = [field.predict_joint_log_proba(X, Y) for field in (plain, faint, rf.load(plain.to_bytes()))]
    assert_allclose(found[0], found[1], atol=2e-3)
    assert_allclose(found[0], found[2])
