"""Features of plain tokens: each kind present where it should be, window and ends, lexicons, errors."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from rulefield.encode.patterns import TokenClasses, shape, short_shape
from rulefield.encode.tokens import TokenFeatures
from rulefield.exceptions import InputError

BARE = {"shapes": False, "affixes": 0, "window": 0, "bigrams": False, "position": False, "classes": False}


def of(tokens, **options):
    return TokenFeatures(**options).transform([tokens])[0]


def test_defaults_describe_the_token_and_its_neighbors():
    first, second, third = map(set, of(["Ada", "Lovelace,", "1843"]))
    assert {"bias", "0:w=Ada", "0:l=ada", "0:S=Xxx", "0:s=Xx", "0:p=ad", "0:x=da", "0:capitalized"} <= first
    assert {"-1:outside", "-2:outside", "1:l=lovelace", "1:ends-comma", "2:year", "from-start=0"} <= first
    assert {"0:w=Lovelace,", "0:l=lovelace", "0:x=lace"} <= second
    assert {"-1|0:s=Xx|Xx,", "0|1:s=Xx,|9", "-1|0|1:s=Xx|Xx,|9"} <= second
    assert {"-1|0:s=<|Xx", "0|1:s=Xx|Xx,"} <= first
    assert not any("=ada|" in feature for feature in second)
    assert {"0:year", "0:number", "from-end=0", "third=2", "1:outside"} <= third


def test_pairs_of_words_are_asked_for():
    first, second = map(set, of(["Ada", "Lovelace,"], bigrams=True))
    assert {"-1|0=<|ada", "0|1=ada|lovelace"} <= first
    assert {"-1|0=ada|lovelace", "0|1=lovelace|>"} <= second


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=6), max_size=6), st.integers(0, 3))
def test_a_neighbor_says_what_it_says_about_itself(words, window):
    """The words named at offset d are those d places away, and beyond the ends stands a marker."""
    made = of(words, **{**BARE, "window": window, "lower": True, "word": False})
    alone = [of([w], **{**BARE, "word": False})[0][1] for w in words]
    for t, features in enumerate(made):
        for d in range(-window, window + 1):
            inside = 0 <= t + d < len(words)
            assert (f"{d}:outside" in features) is not inside
            if inside:
                assert f"{d}:" + alone[t + d].removeprefix("0:") in features


def test_each_part_can_be_switched_off():
    assert of(["Ada"], **BARE) == [["bias", "0:w=Ada", "0:l=ada"]]
    assert of(["Ada"], **{**BARE, "word": False, "lower": False}) == [["bias"]]
    assert of(["Ada"], **{**BARE, "affixes": 2})[0][3:] == ["0:p=a", "0:p=ad", "0:x=a", "0:x=da"]
    assert of([], window=2) == []


def test_columns_of_tuples():
    first, second = of([("the", "DT"), ("cat", "NN")], **{**BARE, "window": 1})
    assert "0:c1=DT" in first
    assert {"-1:c1=DT", "0:w=cat", "0:c1=NN"} <= set(second)


def test_lexicons_match_whole_phrases():
    lexicons = {"city": ["New York", "new york city", "York"], "name": {"smith"}}
    made = of(["Smith,", "New", "York,", "York", "new"], **BARE, lexicons=lexicons)
    found = [[f for f in features if "lex" in f] for features in made]
    assert found == [["0:lex=name"], ["0:lex=city"], ["0:lex=city+"], ["0:lex=city"], []]
    longest = of(["New", "York", "City"], **BARE, lexicons=lexicons)
    assert [features[-1] for features in longest] == ["0:lex=city", "0:lex=city+", "0:lex=city+"]


@pytest.mark.parametrize(
    ("token", "classes"),
    [
        ("1999.", {"number", "year", "digits"}),
        ("J.", {"initial", "letters"}),
        ("J.-P.", {"initials"}),
        ("12-34,", {"range", "digits", "hyphenated"}),
        ("Oct.", {"month", "capitalized", "letters"}),
        ("90210", {"zip", "number", "digits"}),
        ("ada@example.org", {"email"}),
        ("https://example.org/a", {"url"}),
        ("10.1000/182", {"doi", "digits"}),
        ("CA", {"two-capitals", "all-capitals", "letters", "state"}),
        ("Blvd.,", {"street", "capitalized", "letters", "no-vowels"}),
        ("southwest", {"direction", "letters", "lower"}),
        ("N.", {"direction", "initial", "letters"}),
        ("Apt.", {"unit", "capitalized", "letters"}),
        ("P.O.", {"box", "initials"}),
        ("llc", {"legal-form", "letters", "lower", "no-vowels"}),
        ("streets", {"letters", "lower"}),
        ("#", {"punctuation", "unit"}),
        ("3rd", {"ordinal", "digits"}),
        ("$3.50", {"money", "digits"}),
    ],
)
def test_classes(token, classes):
    found = set(TokenClasses()(token)) - {"ends-comma", "ends-stop"}
    assert found == classes


def test_own_classes():
    assert "0:isbn" in of(["978-3-16"], **{**BARE, "classes": {"isbn": r"978[-\d]+"}})[0]


def test_shapes():
    assert (shape("McDonald's-42é"), short_shape("McDonald's-42é")) == ("XxXxxxxx'x-99x", "XxXx'x-9x")
    assert (shape("Ünal"), short_shape("IEEE")) == ("Xxxx", "X")


@pytest.mark.parametrize(
    ("options", "X", "match"),
    [
        ({"window": -1}, [["a"]], "window must be a whole number >= 0; got -1"),
        ({"affixes": True}, [["a"]], "affixes must be"),
        ({"word": [1.0, 2.0]}, [["a"]], r"word must be True or False; got \[1.0, 2.0\]"),
        ({"classes": {"bad": "("}}, [["a"]], "bad regular expression"),
        ({"lexicons": {"city": "Boston"}}, [["a"]], "lexicon 'city' must be a collection"),
        ({}, [["a"], ["b", 3]], "token 1 of sequence 1 must be a string"),
        ({}, [[("a", 1)]], "token 0 of sequence 0"),
    ],
)
def test_bad_input(options, X, match):
    with pytest.raises(InputError, match=match):
        TokenFeatures(**options).transform(X)


def test_it_is_a_good_transformer():
    features = TokenFeatures(window=1, lexicons={"name": {"ada", "alan"}})
    made = features.fit([["Ada"]]).transform([["Ada", "b"]])
    assert clone(features).transform([["Ada", "b"]]) == made
    assert pickle.loads(pickle.dumps(features)).transform([["Ada", "b"]]) == made
    features.set_params(window=0)
    assert features.transform([["Ada", "b"]]) != made


def test_classes_of_numbers_are_those_of_the_patterns():
    """Numbers take a shorter way; every year and every length goes through both."""
    classes = TokenClasses()
    for token in [*map(str, range(10_000)), "00", "0999", "90210", "902101", "٣٤", "12345678901"]:
        assert classes(token) == classes._of(token), token


def test_states_of_two_words_are_states():
    new, york, west, point = of("New york West Point".split())
    assert {"0:state", "0|1:state"} <= set(new)
    assert "-1|0:state" in york
    assert not {"0:state", "0|1:state"} & set(west)
    assert "-1|0:state" not in point
    assert "0:state" not in of(["New", "York"], window=0)[0]
