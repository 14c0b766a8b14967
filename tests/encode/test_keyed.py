"""Features by keys against their definition, token by token in Python: names, order, numbers, all of it."""

import re
from itertools import chain, product
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rulefield.datasets import make_addresses
from rulefield.encode.features import FeatureEncoder
from rulefield.encode.patterns import (
    LISTED_WORDS,
    PUNCTUATION,
    TOKEN_CLASSES,
    TokenClasses,
    shape,
    without_edges,
)
from rulefield.encode.tokens import TokenFeatures, bare
from rulefield.estimators import inputs
from rulefield.estimators.inputs import InputEncoder

OPTIONS = [
    {},
    {"bigrams": True},
    {"window": 0},
    {"window": 1, "shapes": False, "position": False, "classes": False},
    {"window": 3, "affixes": 0, "word": False, "lower": False, "bigrams": True},
    {"window": 20},  # more slots than six bits count: such windows raised an IndexError
    {"window": 40, "position": False},  # more than keys have
    {"classes": {"has-x": ".*x.*"}},
]


@pytest.fixture(autouse=True)
def always_by_keys(monkeypatch):
    monkeypatch.setattr(inputs, "LEAST_TOKENS", 1)
    monkeypatch.setattr(inputs, "PORTION", 7)


def by_definition(options, X, new):
    encoder, features = FeatureEncoder(), TokenFeatures(**options)
    return encoder, encoder.fit_transform(features.transform(X)), encoder.transform(features.transform(new))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("columns", [False, True])
def test_keys_give_the_features_of_the_definition(options, columns):
    X, _ = make_addresses(60, seed=0, noise=0.4)
    X = [*X[:20], ["Ünï", "x_y", "1-2", "ſt"], ["a"], "New Jersey new , Rhode ISLAND P. O Box".split(), *X[20:]]
    if columns:
        X = [[(w, w[:1]) for w in x] for x in X]
    old, new = X[:40], X[30:]
    encoder = InputEncoder(TokenFeatures(**options))
    oracle, first, then = by_definition(options, old, new)
    for made, expected in ((encoder.fit_transform(old), first), (encoder.transform(new), then)):
        assert_array_equal(made.matrix.indptr, expected.matrix.indptr)
        assert_array_equal(made.matrix.indices, expected.matrix.indices)
        assert_array_equal(made.lengths, expected.lengths)
    assert encoder.names == oracle.names


@pytest.mark.parametrize("most", [60, 5])
def test_many_distinct_tokens_begin_anew(monkeypatch, most):
    """With 5, one portion has more than there is room for: it is described without keys."""
    monkeypatch.setattr("rulefield.encode.keyed.tokens.MOST_TYPES", most)
    monkeypatch.setattr("rulefield.encode.keyed.tokens.MOST_GROUPS", 200)
    X, _ = make_addresses(40, seed=2)
    oracle, first, _ = by_definition({}, X, X[:1])
    encoder = InputEncoder(TokenFeatures())
    assert_array_equal(encoder.fit_transform(X).matrix.indices, first.matrix.indices)
    assert encoder.names == oracle.names


def test_changed_options_are_seen():
    features = TokenFeatures()
    encoder = InputEncoder(features)
    X, _ = make_addresses(10, seed=0)
    encoder.fit_transform(X)
    features.window = 1
    narrow = encoder.transform(X)
    expected = encoder.encoder.transform(TokenFeatures(window=1).transform(X))
    assert_array_equal(narrow.matrix.indices, expected.matrix.indices)


@pytest.mark.parametrize("bad", [("d", 3), ["d", "e"]])
def test_bad_tokens_are_placed(bad):
    with pytest.raises(ValueError, match="token 1 of sequence 2"):
        InputEncoder(TokenFeatures()).fit_transform([[("a",)], [], [("c",), bad]])


def naive_classes(token):
    from rulefield.encode.patterns import _BEFORE, _BEHIND

    core = without_edges(token, _BEFORE, _BEHIND) or token
    found = [name for name, pattern in TOKEN_CLASSES.items() if re.fullmatch(pattern, core)]
    return found + [name for name, pattern in PUNCTUATION.items() if re.fullmatch(pattern, token)]


WORDS = st.one_of(
    st.text(max_size=8),
    st.from_regex("|".join(f"({p})" for p in TOKEN_CLASSES.values() if "?i" not in p), fullmatch=True),
    st.sampled_from(
        "Ave av P.O LLC l.l.c. NorthEast south-west Sept September MAINE ſouth ſt. x, (y) 'z' K 10.1234/x".split()
    ),
)


@given(WORDS)
@settings(max_examples=300, deadline=None)
def test_classes_are_those_of_the_patterns(token):
    assert TokenClasses()(token) == naive_classes(token)
    assert len(shape(token)) == len(token)


@given(st.one_of(st.text(max_size=5), st.text("AZIVxyeéßſKİΣσς9-_.\n\ud800", max_size=9)))
@settings(max_examples=300, deadline=None)
def test_bare_words_have_no_punctuation_around_them(word):
    assert bare(word) == (re.sub(r"^\W+|\W+$", "", word).lower() or word.lower())


def test_words_that_share_a_stand_in_are_in_the_classes_of_the_definition():
    words = ["".join(letters) for n in (1, 2, 3, 4) for letters in product("AVbeéſ", repeat=n)]
    words += [str(number) for number in range(3000)] + [
        "Paul7",
        "May",
        "Mayor",
        "Maine",
        "AVe",
        "x-y",
        "(b)",
        "",
        "9",
    ]
    classes = TokenClasses()
    assert [classes(word) for word in words] == [naive_classes(word) for word in words]


def test_all_words_that_classes_list_are_known():
    listed = ("street", "direction", "state", "unit", "box", "legal-form")
    tables = [re.compile(TOKEN_CLASSES[name]) for name in listed]
    short = ("".join(letters) for n in (1, 2, 3) for letters in product(ascii_lowercase, repeat=n))
    longer = {word for table in tables for word in re.findall("[a-z]{4,}", table.pattern)}
    compounds = (a + b for a in ("north", "south") for b in ("east", "west"))
    for word in chain(short, longer, compounds):
        assert word in LISTED_WORDS or not any(table.fullmatch(word) for table in tables)


def test_shapes_of_ascii_are_those_of_the_definition():
    text = "".join(map(chr, range(32, 127)))
    expected = "".join("X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in text)
    assert shape(text) == expected
    assert np.all([shape(c + "é")[0] == shape(c) for c in text])
