"""Arguments of predictions and scores from elsewhere: what cannot be used is refused in one sentence."""

import warnings

import numpy as np
import pytest

import rulefield as rf
from rulefield import rules as r
from rulefield.exceptions import InputError

X, Y = [["a", "b", "c"]] * 3, [["p", "q", "p"]] * 3


@pytest.fixture(scope="module", params=["chain", "ruled", "segments", "joint"])
def model(request):
    if request.param == "joint":
        return rf.JointCRF(max_iter=3).fit(X, [{"t": row, "u": row} for row in Y])
    if request.param == "ruled":
        return rf.RuledCRF(rules=[(r.count("q") <= 2).soft("learn")]).fit(X * 4, Y * 4)
    return {"chain": rf.ChainCRF, "segments": rf.SegmentCRF}[request.param](max_iter=3).fit(X, Y)


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        ("sample", "n_samples", -1),
        ("sample", "n_samples", 1.5),
        ("sample", "n_samples", 10**12),
        ("predict_kbest", "k", 10**9),
        ("predict_kbest", "k", 0),
        ("predict_kbest", "k", "3"),
        ("decode", "seconds", -1),
        ("decode", "seconds", float("nan")),
        ("decode", "seconds", "soon"),
        ("decode", "node_limit", -5),
        ("decode", "node_limit", 2.5),
    ],
)
def test_numbers_of_a_call_are_checked(model, call, name, value):
    with pytest.raises(InputError, match=f"{name} must be .*; got"):
        getattr(model, call)(X, **{name: value})


def test_limits_of_graphs_are_checked():
    table = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    model = rf.MultiLabelCRF().fit(table, table.astype(int))
    for name, value in [("seconds", -1), ("seconds", float("nan")), ("node_limit", -1)]:
        with pytest.raises(InputError, match=f"{name} must be"):
            model.decode(table, **{name: value})


@pytest.mark.parametrize(
    ("scores", "labels", "more", "told"),
    [
        (np.zeros((2, 0)), [], {}, "each column"),
        (np.zeros((2, 2)), ["p", "p"], {}, "each column"),
        (np.array([[1e308, -1e308]] * 3), ["p", "q"], {}, "sums overflow"),
        (np.zeros((2, 2)), ["p", "q"], {"transitions": np.full((2, 2), -1e200)}, "sums overflow"),
        (np.zeros((2, 2)), ["p", "q"], {"transitions": np.full((2, 2), np.nan)}, "NaN"),
        (np.zeros((2, 2)), ["p", "q"], {"k": 10**9}, "k must be"),
    ],
)
def test_scores_of_another_model_are_checked(scores, labels, more, told):
    with pytest.raises(InputError, match=told):
        rf.decode_scores([scores], labels, **more)


def test_the_largest_scores_are_summed():
    (found,) = rf.decode_scores([np.array([[1e100, -np.inf]] * 50)], ["p", "q"])
    assert found.labels == ["p"] * 50
    with pytest.raises(InputError, match="sums overflow"):
        rf.Scored(["a"], [[1e101, 0.0]], labels=["p", "q"])


@pytest.mark.parametrize("kind", [rf.ChainCRF, rf.SegmentCRF])
def test_features_that_are_too_large_to_learn_from_are_told(kind):
    def fitted(value):
        X = [[{"x": value, "b": 1.0}, {"b": 1.0}], [{"b": 1.0}, {"x": value, "b": 1.0}]] * 3
        return X, kind(max_iter=50).fit(X, [["p", "q"], ["q", "p"]] * 3)

    with pytest.warns(UserWarning, match="scale them"):
        fitted(1e12)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        X, model = fitted(1e6)
    assert list(model.predict(X)) == [["p", "q"], ["q", "p"]] * 3
