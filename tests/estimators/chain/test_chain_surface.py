"""What users of ChainCRF reach for: searches over default features, weights as a table, one rule by itself."""

import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV

import rulefield as rf
from rulefield import rules as r

X, Y = rf.datasets.make_citations(12, seed=0)


def test_a_search_reaches_the_default_features():
    search = GridSearchCV(rf.ChainCRF(max_iter=3), {"features__window": [0, 1]}, cv=2).fit(X, Y)
    assert search.best_estimator_.features.window in (0, 1)
    sizes = [rf.ChainCRF(max_iter=1).set_params(features__window=w).fit(X, Y).n_features_in_ for w in (0, 1)]
    assert sizes[0] < sizes[1]


def test_weights_add_up_to_the_score():
    """The table's rows that a labeling uses sum up to the model's score of it."""
    x = [[["a", "b"], ["b"]], [["a"], ["c"]]]
    crf = rf.ChainCRF().fit(x, [["x", "y"], ["y", "y"]])
    table = pd.DataFrame(crf.weights())
    assert list(table.columns) == ["feature", "previous", "label", "weight"]
    path = [("a", None, "x"), ("b", None, "x"), ("b", None, "y"), (None, "(start)", "x"), (None, "x", "y")]
    path.append((None, "y", "(end)"))
    weight = {(row.feature, row.previous, row.label): row.weight for row in crf.weights()}
    known = [["x", "y"]]
    np.testing.assert_allclose(
        sum(weight.get(part, 0.0) for part in path), crf.decode(x[:1], known=known)[0].score, atol=1e-9
    )


def test_one_rule_by_itself_is_a_list_of_one():
    rule = r.segments("title") <= 0
    crf = rf.ChainCRF(scheme="BIO", max_iter=5).fit(X, Y)
    want = list(crf.predict(X, rules=[rule]))
    assert list(crf.predict(X, rules=rule)) == want
    assert list(crf.set_params(rules=rule).predict(X)) == want
    assert [b.labels for b in crf.decode(X, rules=rule)] == want
    assert rf.decode_scores([np.zeros((2, 2))], ["x", "y"], rules=r.count("x") <= 0)[0].labels == ["y", "y"]
    assert list(rf.load(crf.to_bytes()).predict(X)) == want
