"""choose_rules: the rules that held-out samples speak for."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import rulefield as rf
from rulefield import rules as r
from rulefield.exceptions import InputError

ONCE = r.count("x") <= 1


def data(times, n=60, seed=0):
    """'x' occurs so often per sequence; it looks like "X", or like "x", which 'o' may do as well."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = ["o"] * 6
        for k in rng.choice(6, size=times, replace=False):
            labels[k] = "x"
        looks = {"x": ["X", "x"], "o": ["o"] * 11 + ["x"]}
        X.append([[str(rng.choice(looks[one]))] for one in labels])
        y.append(labels)
    return X, y


CANDIDATES = {"none": [], "soft": [ONCE.soft(2.0)], "hard": [ONCE]}


def test_a_rule_that_holds_is_chosen_and_one_that_does_not_hold_is_not():
    assert rf.choose_rules(rf.ChainCRF(), *data(1), CANDIDATES).name in ("soft", "hard")
    found = rf.choose_rules(rf.ChainCRF(), *data(2), CANDIDATES)
    assert found.name == "none"
    assert found.rules == []
    assert set(found.scores) == set(CANDIDATES)


def test_scores_are_those_of_models_that_did_not_see_the_samples():
    X, y = data(1, n=24)
    train, held = np.arange(16), np.arange(16, 24)
    found = rf.choose_rules(rf.ChainCRF(), X, y, CANDIDATES, cv=[(train, held)])
    model = rf.ChainCRF().fit(X[:16], y[:16])
    for name, rules in CANDIDATES.items():
        each = [model.score([x], [labels], rules=rules) for x, labels in zip(X[16:], y[16:])]
        assert found.scores[name] == pytest.approx(np.mean(each))
    grouped = rf.choose_rules(rf.ChainCRF(), X, y, CANDIDATES, cv=[(train, held)], groups=[0] * 16 + [1] * 8)
    assert grouped.scores["hard"] == pytest.approx(model.score(X[16:], y[16:], rules=[ONCE]))


def test_one_strange_sample_does_not_decide():
    """A candidate that is better on one sample alone, by however much, does not beat the first; one better on all does."""

    class Told(BaseEstimator):
        def fit(self, X, y):
            return self

        def score(self, X, y, rules):
            if not rules:
                return 0.5
            if rules == [ONCE]:
                return 1.0 if 3 in X else 0.5
            return 0.51

    candidates = {"none": [], "lucky": [ONCE], "steady": [ONCE.soft(1.0)]}
    samples = list(range(12))
    found = rf.choose_rules(Told(), samples, samples, candidates)
    assert found.scores["lucky"] > found.scores["steady"] > found.scores["none"]
    assert found.name == "steady"
    assert rf.choose_rules(Told(), samples, samples, {"none": [], "lucky": [ONCE]}).name == "none"


def test_groups_are_never_split():
    seen = []

    class Watched(rf.ChainCRF):
        def fit(self, X, y, sample_weight=None):
            seen.append({str(x) for x in X})
            return super().fit(X, y, sample_weight)

    X, y = data(1, n=6)
    X = [[[f"{k // 2}"] for _ in row] for k, row in enumerate(X)]
    rf.choose_rules(Watched(), X, y, CANDIDATES, groups=[0, 0, 1, 1, 2, 2])
    assert [len(one) for one in seen] == [2, 2, 2]


def test_bad_input_gets_a_sentence():
    X, y = data(1, n=24)
    with pytest.raises(InputError, match="candidates must be a dict"):
        rf.choose_rules(rf.ChainCRF(), X, y, [])
    with pytest.raises(InputError, match="groups must hold one entry"):
        rf.choose_rules(rf.ChainCRF(), X, y, CANDIDATES, groups=[1])
