"""What punctuation says: how neighbors end, quotations, brackets; cue words of citations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rulefield as rf
from rulefield.encode.cues import citation_cues
from rulefield.encode.tokens import TokenFeatures

BARE = {"shapes": False, "affixes": 0, "window": 0, "bigrams": False, "position": False, "classes": False}


def quotes(text):
    made = TokenFeatures(**BARE, marks=True).transform([text.split()])[0]
    return [next(f for f in features if f.startswith("quote=")).removeprefix("quote=") for features in made]


def brackets(text):
    made = TokenFeatures(**BARE, marks=True).transform([text.split()])[0]
    return [t for t, features in enumerate(made) if "bracket" in features]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('Ada, "On engines," 1843', ["before", "in", "in", "after"]),
        ("Ada, ``On engines,'' 1843", ["before", "in", "in", "after"]),
        ('Ada, "Engines" and "looms"', ["before", "in", "after", "in"]),
        ("Ada, On engines", ["none"] * 3),
        ('"never closed', ["in", "in"]),
    ],
)
def test_quotations(text, places):
    assert quotes(text) == places


def test_brackets():
    assert brackets("Ada (in press) 1843 (1) x") == [1, 2, 4]
    assert brackets("a) b (c (d e) f) g") == [2, 3, 4, 5]


def test_ends_of_the_token_and_the_two_before():
    made = TokenFeatures(**BARE, marks=True).transform([["Ada,", "A.", "1843"]])[0]
    assert {"end=<|<|w,", "end-1|0=<|ada", "-1|end=<|w,", "end-1|s=<|Xx,"} <= set(made[0])
    assert {"end=w,|w.|w", "end-1|0=w.|1843", "-1|end=a|w", "end-1|s=w.|9"} <= set(made[2])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="aB1.,()\"'", min_size=1, max_size=4), max_size=8))
def test_marks_are_added_to_the_other_features(words):
    """Whatever the tokens, the other features stay as they were, and each token gets its five or six."""
    plain = TokenFeatures().transform([words])[0]
    marked = TokenFeatures(marks=True).transform([words])[0]
    for without, features in zip(plain, marked):
        assert features[: len(without)] == without
        assert len(features) - len(without) in (5, 6)


def test_marks_and_lexicons_survive_a_file(tmp_path):
    features = TokenFeatures(marks=True, lexicons={"name": {"ada", "alan"}})
    rf.ChainCRF(features=features, max_iter=2).fit([["Ada", "b."]], [["x", "y"]]).save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf").features
    assert again.transform([["a.", "Alan"]]) == features.transform([["a.", "Alan"]])


def test_cues_are_words_that_a_lexicon_takes():
    cues = citation_cues()
    assert {"month", "publisher", "journal", "institution", "editor"} <= set(cues)
    assert "neural computation" in cues["journal name"]
    assert all(entry == " ".join(entry.split()) and entry for entries in cues.values() for entry in entries)
    made = TokenFeatures(**BARE, lexicons=cues).transform([["Neural", "Computation,", "May"]])[0]
    assert "0:lex=journal name" in made[0]
    assert "0:lex=journal name+" in made[1]
    assert "0:lex=month" in made[2]
