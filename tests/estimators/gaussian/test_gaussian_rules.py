"""Rules on the labels of a Gaussian field, against every label vector."""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.data.graphs import TypedGraph
from rulefield.estimators.gaussian.classifier import GaussianCRFClassifier
from rulefield.exceptions import InfeasibleError
from rulefield.rules.nodes import violation_on_graph


def label(i):
    return r.node("label", i).is_(1)


@pytest.fixture(scope="module")
def field():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    Y = (X @ rng.normal(size=(3, 5)) + rng.normal(size=(120, 5)) > 0).astype(float)
    return GaussianCRFClassifier().fit(X, Y), X


CASES = {
    "at most two": [r.at_most(2, r.nodes("label").is_(1))],
    "implication": [r.implies(label(0), label(1)), r.implies(label(2), r.not_(label(3)))],
    "soft": [r.at_most(1, r.nodes("label").is_(1)).soft(0.8), r.any_of(label(0), label(4)).soft(1.5)],
    "mixed": [r.exactly(2, r.nodes("label").is_(1)), r.implies(label(1), label(2)).soft(0.7)],
}


@pytest.mark.parametrize("rules", CASES.values(), ids=CASES)
def test_predictions_are_the_best_of_all_label_vectors(field, rules):
    clf, X = field
    p = clf.predict_proba(X[:25])
    graph = TypedGraph({"label": np.zeros((5, 1))})
    for found, q in zip(clf.decode(X[:25], rules=rules), p):
        best = -np.inf
        for y in product((0, 1), repeat=5):
            value = np.log(np.where(y, q, 1 - q)).sum()
            for rule in rules:
                amount = violation_on_graph(rule, graph, {"label": list(y)})
                value -= 0.0 if amount == 0 else (amount * rule.weight if rule.weight is not None else np.inf)
            best = max(best, value)
        assert found.objective == pytest.approx(best, abs=1e-9)
        assert found.status == "optimal"


def test_rules_of_the_constructor_and_known_labels(field):
    clf, X = field
    rules = [r.at_most(1, r.nodes("label").is_(1))]
    clf.set_params(rules=rules)
    try:
        assert clf.predict(X).sum(axis=1).max() <= 1
    finally:
        clf.set_params(rules=None)
    known = np.full((1, 5), np.nan)
    known[0, 3] = 1
    np.testing.assert_array_equal(clf.predict(X[:1], known=known, rules=rules), [[0, 0, 0, 1, 0]])
    known[0, 2] = 1
    with pytest.raises(InfeasibleError, match="no labeling satisfies"):
        clf.predict(X[:1], known=known, rules=rules)
    with pytest.raises(InfeasibleError, match="no labeling satisfies"):
        clf.predict_proba(X[:1], known=known, rules=rules)
    relaxed = deepcopy(clf).set_params(on_infeasible="relax")
    np.testing.assert_array_equal(relaxed.predict(X[:1], known=known, rules=rules)[0, 2:4], [1, 1])


@pytest.mark.parametrize("rules", CASES.values(), ids=CASES)
def test_probabilities_under_rules_are_sums_over_all_label_vectors(field, rules):
    clf, X = field
    graph = TypedGraph({"label": np.zeros((5, 1))})
    every = np.array(list(product((0, 1), repeat=5)))
    amounts = [[violation_on_graph(rule, graph, {"label": list(y)}) for y in every.tolist()] for rule in rules]
    costs = sum(
        np.where(np.array(a) > 0, np.array(a, float) * rule.weight, 0.0)
        if not rule.is_hard
        else np.where(np.array(a) > 0, np.inf, 0.0)
        for a, rule in zip(amounts, rules)
    )
    for found, q in zip(clf.predict_proba(X[:10], rules=rules), clf.predict_proba(X[:10], rules=[])):
        weight = np.prod(np.where(every, q, 1 - q), axis=1) * np.exp(-costs)
        np.testing.assert_allclose(found, weight @ every / weight.sum(), atol=1e-12)
    drawn = clf.sample(X[:4], rules=rules, n_samples=2000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), clf.predict_proba(X[:4], rules=rules), atol=0.05)
    broken = {tuple(y) for y, cost in zip(every.tolist(), costs) if np.isinf(cost)}
    assert not broken & {tuple(y) for y in drawn.reshape(-1, 5).tolist()}


def test_no_rules_is_plain_prediction(field):
    clf, X = field
    np.testing.assert_array_equal(clf.predict(X, rules=[]), clf.predict(X))
