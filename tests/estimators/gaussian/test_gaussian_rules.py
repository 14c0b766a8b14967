"""Rules on the labels of a Gaussian field, against every label vector."""

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
    np.testing.assert_array_equal(clf.predict(X[:1], known, rules=rules), [[0, 0, 0, 1, 0]])
    known[0, 2] = 1
    with pytest.raises(InfeasibleError, match="no label vector satisfies"):
        clf.predict(X[:1], known, rules=rules)
    np.testing.assert_array_equal(clf.predict(X[:1], known, rules=rules, on_infeasible="relax")[0, 2:4], [1, 1])


def test_no_rules_is_plain_prediction(field):
    clf, X = field
    np.testing.assert_array_equal(clf.predict(X, rules=[]), clf.predict(X))
