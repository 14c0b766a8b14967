"""Feature dicts and lists to matrices, as python-crfsuite reads them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulefield.encode.features import FeatureEncoder, InputForm, input_form
from rulefield.estimators.inputs import InputEncoder
from rulefield.exceptions import InputError


def rows(X, names):
    """What each token holds, as {name: value} without zeros."""
    return [{names[j]: v for j, v in enumerate(row) if v} for row in X.matrix.toarray()]


def encoded(tokens):
    encoder = FeatureEncoder()
    return rows(encoder.fit_transform([tokens]), encoder.names)


# What pycrfsuite.ItemSequence([token]).items() gives (version 0.9.12), zeros left out.
CRFSUITE = [
    ({"a": "x"}, {"a:x": 1}),
    ({"a": True, "b": False}, {"a": 1}),
    ({"a": 2, "b": 1.5, "c": np.float32(2), "d": 0.0}, {"a": 2, "b": 1.5, "c": 2}),
    ({"a": np.True_, "b": np.False_}, {"a": 1}),
    ({"a": ["x", "y"]}, {"a:x": 1, "a:y": 1}),
    ({"a": {"x", "y"}}, {"a:x": 1, "a:y": 1}),
    (
        {"a": {"b": "c", "d": 2, "e": {"f": True, "g": ["h"], "z": False}}},
        {"a:b:c": 1, "a:d": 2, "a:e:f": 1, "a:e:g:h": 1},
    ),
    ({"a": b"x"}, {"a:x": 1}),
    ({"a": ""}, {"a:": 1}),
    ({"a": {}}, {}),
    ({}, {}),
    ({"a:b": "c"}, {"a:b:c": 1}),
    ({"a": {"x": {"y", "z"}}}, {"a:x:y": 1, "a:x:z": 1}),
    (["a", "b"], {"a": 1, "b": 1}),
    ({"a", "b"}, {"a": 1, "b": 1}),
    (("a", "b"), {"a": 1, "b": 1}),
    ([], {}),
    ({"w=the": 1.0, "score": -0.25}, {"w=the": 1, "score": -0.25}),
]


@pytest.mark.parametrize(("token", "expected"), CRFSUITE)
def test_a_token_is_read_as_crfsuite_reads_it(token, expected):
    assert encoded([token]) == [expected]
    other = {"k": "v"} if isinstance(token, dict) else ["k"]
    assert encoded([other, token, other])[1] == expected


def test_zeros_are_no_features():
    encoder = FeatureEncoder()
    made = encoder.fit_transform([[{"a": 0, "b": False, "c": 0.0, "d": {"e": np.False_}, "f": 1}]])
    assert encoder.names == ["f"]
    assert made.matrix.nnz == 1


def test_duplicates_add_up():
    assert encoded([["a", "b", "a"]]) == [{"a": 2, "b": 1}]
    assert encoded([{"a": "x", "a:x": 2}]) == [{"a:x": 3}]


def test_tuples_and_frozensets_are_lists_too():
    assert encoded([{"a": ("x",), "b": frozenset(["y"])}]) == [{"a:x": 1, "b:y": 1}]


values = st.recursive(
    st.one_of(
        st.sampled_from(["x", "y", "z:w", ""]), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, -1.5, 1.0])
    ),
    lambda inner: st.dictionaries(st.sampled_from("klm"), inner, max_size=2),
    max_leaves=4,
) | st.lists(st.sampled_from(["p", "q"]), max_size=2)
tokens = st.dictionaries(st.sampled_from(["a", "b", "c:d"]), values, max_size=3)


def naive(token, prefix=""):
    """Read one token, one value after the other."""
    found = {}
    for key, value in token.items():
        name = prefix + key
        if isinstance(value, dict):
            items = naive(value, name + ":").items()
        elif isinstance(value, list):
            items = [(f"{name}:{item}", 1.0) for item in value]
        elif isinstance(value, str):
            items = [(f"{name}:{value}", 1.0)]
        else:
            items = [(name, float(value))]
        for item, number in items:
            found[item] = found.get(item, 0) + number
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(tokens, max_size=4), min_size=1, max_size=4), st.lists(tokens, max_size=3))
def test_dicts_against_a_naive_reading(X, new):
    encoder = FeatureEncoder()
    made = encoder.fit_transform(X)
    names = encoder.names
    expected = [{k: v for k, v in naive(token).items() if v} for seq in X for token in seq]
    assert rows(made, names) == expected
    known = [{k: v for k, v in naive(token).items() if v and k in names} for token in new]
    assert rows(encoder.transform([new]), names) == known


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.lists(st.text(max_size=2), max_size=4), max_size=4), min_size=1, max_size=4))
def test_strings_against_a_naive_reading(X):
    encoder = FeatureEncoder()
    made = encoder.fit_transform(X)
    flat = [token for seq in X for token in seq]
    names = list(dict.fromkeys(name for token in flat for name in token))
    assert encoder.names == names
    expected = [{name: token.count(name) for name in token} for token in flat]
    assert rows(made, names) == expected
    assert rows(encoder.transform(X), names) == expected
    assert made.lengths.tolist() == [len(seq) for seq in X]


def test_unknown_features_are_left_out_and_new_ones_add_columns():
    encoder = FeatureEncoder(["a", "b"])
    assert rows(encoder.transform([[["a", "z"], ["z"]]]), encoder.names) == [{"a": 1}, {}]
    made = encoder.fit_transform([[["c", "a"]]])
    assert encoder.names == ["a", "b", "c"]
    assert rows(made, encoder.names) == [{"c": 1, "a": 1}]


def test_empty_sequences():
    encoder = FeatureEncoder()
    assert encoder.fit_transform([[["a"]], []]).lengths.tolist() == [1, 0]
    assert encoder.transform([[], []]).matrix.shape == (0, 1)
    assert len(encoder.transform([])) == 0
    assert encoder.transform(iter([[["a"]]])).n_tokens == 1


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ("abc", "got str"),
        (3, "got int"),
        (np.zeros((3, 2)), r"rf.formats.Sequences\(matrix, lengths\)"),
        (["a", "b"], r"X\[0\] is a str: for one sequence write \[X\]"),
        ([{"a": 1}], r"X\[0\] is a dict: for one sequence"),
        ([[["a"]], None], r"X\[1\] is a NoneType"),
        ([[["a"], {"a": 1}]], "all tokens must have one form, but token"),
        ([[1.5]], "token 0 of sequence 0 is a float"),
        ([["tok"], [["a"]]], "all tokens must have one form"),
        ([["plain", "tokens"]], "got plain tokens"),
        ([[["a"]], [["a"], ["b", 7]]], "token 1 of sequence 1: a feature in a list must be a string; got 7"),
        ([[{"a": "x"}], [{"b": None}]], "token 0 of sequence 1: feature 'b' has the value None"),
        ([[{"a": ["x", 3]}]], "feature 'a' lists 3, which is not a string"),
        ([[{3: "x"}]], "feature names must be strings; got 3"),
        ([[{"a": np.ones(2)}]], "feature 'a' is an array"),
        ([[{"a": 1}, {"v": float("nan")}]], "token 1 of sequence 0: feature 'v' is nan"),
        ([[], [{"a": {"v": float("inf")}}]], "token 0 of sequence 1: feature 'a:v' is inf"),
    ],
)
def test_bad_input_is_named(X, match):
    with pytest.raises(InputError, match=match):
        FeatureEncoder().fit_transform(X)


@pytest.mark.parametrize("bad", [{"a": 1}, "tok", 1.5])
def test_prediction_looks_at_the_types_of_all_tokens_too(bad):
    encoder = InputEncoder()
    encoder.fit_transform([[["a"]], [["b"], ["c"]]])
    with pytest.raises(InputError, match="one form|token 1 of sequence 1 is a float"):
        encoder.transform([[["a"]], [["b"], bad]])


def test_forms():
    assert input_form([[{"a": 1}]]) is InputForm.dicts
    assert input_form([["a"], []]) is InputForm.tokens
    assert input_form([[("a", "b")]]) is InputForm.strings
    assert input_form([[], []]) is InputForm.empty
    assert input_form([np.zeros((2, 3)), np.zeros((1, 3))]) is InputForm.matrices
