"""Tokenizers: every token is a piece of the text, in order, and nothing but white space lies outside."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulefield.encode.keyed.cutting import cut
from rulefield.encode.tokenizers import Given, Matches, Whitespace, Words, as_tokenizer, from_config
from rulefield.exceptions import InputError
from rulefield.kernels.jit import Kernel

ANY_TEXT = st.text(max_size=60) | st.text(alphabet="aB1 .,-'/#\n\t(é’", max_size=40)
KINDS = [Words(), Words(lower_split=True), Whitespace(), Matches(r"\d+|[a-z]+"), Matches(r"a|\s*")]


@pytest.mark.parametrize("tokenizer", KINDS, ids=lambda t: str(t.to_config()))
@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_tokens_are_pieces_and_all_that_is_not_white(tokenizer, text):
    at = 0
    for start, end in tokenizer(text):
        assert at <= start < end
        assert not text[at:start].strip()
        assert text[start:end].strip() == text[start:end]
        at = end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("59 ST JAMES PLACE, NEW YORK NY 10038", ["59", "ST", "JAMES", "PLACE", ",", "NEW", "YORK", "NY", "10038"]),
        ("J. Smith, pp. 12-15.", ["J.", "Smith", ",", "pp.", "12-15", "."]),
        ("It cost $1,000.50!", ["It", "cost", "$", "1,000.50", "!"]),
        ("O'Brien (U.S.) at 12:30", ["O'Brien", "(", "U.S.", ")", "at", "12:30"]),
        ("the end.", ["the", "end", "."]),
        ("Fl 11,san francisco", ["Fl", "11", ",", "san", "francisco"]),
        ("Rd,Apt22,Boston", ["Rd", ",", "Apt22", ",", "Boston"]),
        ("and/or a:b 1/2 3,x", ["and", "/", "or", "a", ":", "b", "1/2", "3", ",", "x"]),
        ("oak st. 91615\u20137033", ["oak", "st.", "91615\u20137033"]),
        ("pp. 471,2019 5,123-145", ["pp.", "471", ",", "2019", "5", ",", "123-145"]),
        ("1,000,000 12,3456 1,000", ["1,000,000", "12", ",", "3456", "1,000"]),
        ("EDS. VOL. 3, Proc. Ave. B", ["EDS.", "VOL.", "3", ",", "Proc.", "Ave.", "B"]),
        ("St. Mary's #4-B", ["St.", "Mary's", "#", "4-B"]),
    ],
)
def test_words_as_a_reader_cuts_them(text, tokens):
    assert [text[a:b] for a, b in Words()(text)] == tokens


def test_doses_and_camels_are_cut_on_request():
    text = "take 5mg ofMain"
    assert [text[a:b] for a, b in Words(lower_split=True)(text)] == ["take", "5", "mg", "of", "Main"]


def test_functions_of_the_users_own():
    assert Given(str.split)("a bb  a") == [(0, 1), (2, 4), (6, 7)]
    assert Given(lambda text: [(0, 2)])("abc") == [(0, 2)]
    with pytest.raises(InputError, match=r"token 1 \('x'\) does not stand in the text"):
        Given(lambda text: ["a", "x"])("a b")
    with pytest.raises(InputError, match="overlaps the one before it"):
        Given(lambda text: [(0, 2), (1, 3)])("abc")


@pytest.mark.parametrize("tokenizer", [*KINDS, as_tokenizer("whitespace"), as_tokenizer(None)])
def test_settings_round_trip(tokenizer):
    again = from_config(tokenizer.to_config())
    text = "Ada 5mg, St. x"
    assert again(text) == tokenizer(text)


def test_a_function_has_to_be_given_back():
    config = as_tokenizer(str.split).to_config()
    with pytest.raises(InputError, match="str.split.*open it with"):
        from_config(config)
    assert from_config(config, str.split)("a b") == [(0, 1), (2, 3)]
    with pytest.raises(InputError, match="bad regular expression"):
        as_tokenizer("(")
    with pytest.raises(InputError, match="tokenizer must be"):
        as_tokenizer(3)


SIGNS = "aAbZsStTvVeERdpkwyK\u017f\u212aéÉ\u0300\u0301_09\u0661²Ⅳßİı \t\n\x1c\u2003.,:;/-'’`&@+–—(中😀\ud800"
SHORT = [
    "St.",
    "st",
    "STE.",
    "\u017ft.",
    "p\u212awy.",
    "pp.",
    "PP.",
    "Vol.",
    "vol.",
    "U.S.A.",
    "J.",
    "Abcd.",
    "Abcde.",
    "1,2",
    "1,234",
    "1,234-",
    "12,3456",
    "é.",
]
ODD_TEXT = st.text(alphabet=SIGNS, max_size=25) | st.lists(st.sampled_from([*SHORT, " ", "", "a/b"]), max_size=6).map(
    "".join
)


@pytest.mark.parametrize("tokenizer", KINDS, ids=lambda t: str(t.to_config()))
@pytest.mark.parametrize("compiled", [True, False])
@settings(max_examples=250, deadline=None)
@given(texts=st.lists(ODD_TEXT | ANY_TEXT, max_size=6))
def test_texts_are_cut_together_as_one_by_one(tokenizer, compiled, texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "any_loaded", compiled)
        patch.setattr("rulefield.kernels.light._spent", 0.0)
        made = cut(tokenizer, texts)
    for i, text in enumerate(texts):
        places = tokenizer(text)
        assert made.places(i) == places
        assert made[i] == [text[a:b] for a, b in places]
    pieces = [made.utf8[a:b].tobytes().decode("utf-8", "surrogatepass") for a, b in zip(made.begin, made.end)]
    assert pieces == [token for tokens in made for token in tokens]
    assert [made[1:][i] for i in range(len(texts) - 1)] == [made[i] for i in range(1, len(texts))]
