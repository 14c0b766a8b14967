"""Characters to tokens and back: nothing lost, cuts told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulefield.data.documents import Document, TextSpan
from rulefield.encode.alignment import align, spans_of
from rulefield.encode.tokenizers import Whitespace, Words
from rulefield.exceptions import InputError


@st.composite
def documents(draw):
    text = draw(st.text("ab1 .,-", min_size=1, max_size=25))
    edges = draw(st.lists(st.integers(0, len(text)), max_size=6, unique=True).map(sorted))
    spans = [TextSpan(a, b, draw(st.sampled_from("xy"))) for a, b in zip(edges[::2], edges[1::2])]
    return Document(text, tuple(s for s in spans if text[s.start : s.end].strip()))


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOB1", "IOE2"])
@settings(max_examples=150, deadline=None)
@given(document=documents())
def test_split_keeps_every_span_but_its_white_space(scheme, document):
    made = align(document, Words(), scheme)
    back = spans_of(made.labels, made.places, scheme)
    assert [(document.text[s.start : s.end], s.label) for s in back] == [
        (document.text[s.start : s.end].strip(), s.label) for s in document.spans
    ]


@settings(max_examples=150, deadline=None)
@given(document=documents())
def test_cuts_are_told_exactly_where_a_span_cuts_a_token(document):
    places = Whitespace()(document.text)
    expected = sum(a < edge < b for s in document.spans for edge in (s.start, s.end) for a, b in places)
    assert len(align(document, Whitespace()).cuts) == expected
    if expected:
        with pytest.raises(InputError, match=r"cuts the token '.*on_cut='split'"):
            align(document, Whitespace(), on_cut="raise")


def test_snap_widens_a_span_to_its_token():
    document = Document("take 5mg now", (TextSpan(6, 8, "unit"),))
    assert align(document, Whitespace(), on_cut="snap").labels == ["O", "B-unit", "O"]
    split = align(document, Whitespace())
    assert [document.text[a:b] for a, b in split.places] == ["take", "5", "mg", "now"]
    assert str(split.cuts[0]) == "'unit' (6 to 8) cuts the token '5mg' at 5"


def test_nested_spans_are_paths():
    document = Document("Ada B x", (TextSpan(0, 5, "authors"), TextSpan(0, 3, "first"), TextSpan(4, 5, "last")))
    made = align(document, Words())
    assert made.labels == ["B-authors/B-first", "I-authors/B-last", "O"]
    assert set(spans_of(made.labels, made.places)) == set(document.spans)


def test_what_cannot_be_aligned_is_told():
    with pytest.raises(InputError, match="cross; spans may nest"):
        align(Document("abc", (TextSpan(0, 2, "x"), TextSpan(1, 3, "y"))), Words())
    with pytest.raises(InputError, match="'a/b' holds '/'"):
        align(Document("abc", (TextSpan(0, 2, "a/b"),)), Words())
    with pytest.raises(InputError, match="on_cut must be one of"):
        align(Document("abc", ()), Words(), on_cut="drop")
    with pytest.raises(InputError, match="does not lie in a text of 3"):
        Document("abc", (TextSpan(2, 4, "x"),))
