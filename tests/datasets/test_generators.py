"""Made-up citations and addresses: seeded, possible, varied, and the same text with flat and deep labels."""

import unicodedata

import numpy as np
import pytest

from rulefield.data.documents import Document, TextSpan
from rulefield.datasets.addresses import make_addresses
from rulefield.datasets.citations import make_citations
from rulefield.datasets.draw import Draw, add_noise, typo
from rulefield.datasets.messy import make_messy
from rulefield.datasets.texts import make_invoices, make_log_lines, make_notes
from rulefield.datasets.words import word_lists
from rulefield.encode.labels import LabelEncoder, check_possible
from rulefield.encode.schemes import allowed_transitions
from rulefield.encode.spans import spans
from rulefield.encode.tokenizers import Words
from rulefield.estimators.text.tokenizing import count_cuts
from rulefield.exceptions import InputError

CITATION_FIELDS = {
    "author",
    "title",
    "booktitle",
    "journal",
    "editor",
    "volume",
    "number",
    "pages",
    "date",
    "publisher",
}
CITATION_FIELDS |= {"location", "institution", "tech", "note"}
AMOUNTS = {"net", "tax", "total"}
ADDRESS_FIELDS = {"number", "street", "unit", "box", "building", "city", "state", "zip"}


def types(labels):
    return [span.type for span in spans(labels, "BIO")]


@pytest.mark.parametrize(
    ("make", "options", "fields"),
    [
        (make_citations, {}, CITATION_FIELDS),
        (make_citations, {"noise": 0.0}, CITATION_FIELDS),
        (make_citations, {"noise": 1.0}, CITATION_FIELDS),
        (make_citations, {"hierarchical": True}, None),
        (make_addresses, {}, ADDRESS_FIELDS),
        (make_addresses, {"noise": 1.0}, ADDRESS_FIELDS),
    ],
)
def test_generated_data_are_sound(make, options, fields):
    tokens, labels = make(400, seed=5, **options)
    assert (tokens, labels) == make(400, seed=5, **options)
    assert tokens != make(400, seed=6, **options)[0]
    assert [len(t) for t in tokens] == [len(y) for y in labels]
    assert all(token and "<" not in token and " " not in token for t in tokens for token in t)
    encoder = LabelEncoder()
    made = encoder.fit_encode(labels)
    check_possible(made, encoder.classes_, "BIO", allowed_transitions(encoder.classes_, "BIO"))
    if fields:
        assert {kind for y in labels for kind in types(y)} == fields
    assert make(0) == ([], [])


def test_citations_have_one_title_and_a_field_sometimes_twice():
    _, labels = make_citations(2000, seed=1)
    found = [types(y) for y in labels]
    assert all(kinds.count("title") <= 1 for kinds in found)
    assert np.mean([kinds.count("title") for kinds in found]) > 0.95
    repeated = np.mean([len(kinds) > len(set(kinds)) for kinds in found])
    assert 0.005 < repeated < 0.04


def flat(label):
    """Field that a deep label stands for, with the prefix of its own level."""
    parts = [part for part in label.split("/") if part[2:] != "venue"]
    name = {"authors": "author", "editors": "editor"}.get(parts[0][2:], parts[0][2:])
    return f"{parts[0][:1]}-{name}"


def test_deep_labels_are_the_flat_ones_with_more_detail():
    tokens, labels = make_citations(200, seed=2)
    same, deep = make_citations(200, seed=2, hierarchical=True)
    assert same == tokens
    assert [[flat(label) for label in y] for y in deep] == labels
    paths = {span.type for y in deep for span in spans(y, "BIO", level=None)}
    assert {"authors/person/last", "authors/person/middle", "venue/journal", "date/year", "editors/person"} <= paths


def test_noise_takes_punctuation_away():
    clean, _ = make_citations(300, seed=3, noise=0.0)
    noisy, _ = make_citations(300, seed=3, noise=0.8)
    share = [np.mean([token[-1] in ".,:" for t in tokens for token in t]) for tokens in (clean, noisy)]
    assert share[1] < 0.8 * share[0]


def test_noise_keeps_every_token():
    draw = Draw(np.random.default_rng(0))
    tokens = ["Smith,", "-", "(1999)", "theory"] * 50
    made, labels = add_noise(tokens, ["O"] * 200, 1.0, draw)
    assert len(made) == len(labels) == 200
    assert all(made)
    assert typo("abc", draw) == "abc"
    assert all(typo("theory", draw) != "theory" for _ in range(20))


def test_word_lists_are_clean():
    for name, words in word_lists().items():
        assert len(words) == len(set(words)), name
        assert all(word == word.strip() and "  " not in word for word in words)


@pytest.mark.parametrize("make", [make_citations, make_addresses])
def test_bad_parameters(make):
    for options in ({"n": -1}, {"noise": 2}):
        with pytest.raises(InputError, match="noise between 0 and 1"):
            make(**options)


@pytest.mark.parametrize("make", [make_invoices, make_log_lines, make_notes])
def test_made_texts_have_spans_that_lie_apart_and_cover_words(make):
    texts, spans = make(200, seed=3)
    assert (texts, spans) == make(200, seed=3)
    assert texts != make(200, seed=4)[0]
    for text, found in zip(texts, spans):
        assert found == sorted(found)
        assert all(first[1] < second[0] for first, second in zip(found, found[1:]))
        assert all(text[a:b] == text[a:b].strip() != "" for a, b, _ in found)
    assert make(0) == ([], [])
    with pytest.raises(InputError, match="n must be >= 0"):
        make(-1)


def test_net_and_tax_make_the_total():
    for text, found in zip(*make_invoices(100, seed=0)):
        fields = {
            label: int(text[a:b].replace(",", "").replace(".", "")) for a, b, label in found if label in AMOUNTS
        }
        if "tax" in fields:
            assert fields["net"] + fields["tax"] == fields["total"]


@pytest.mark.parametrize("make", [make_addresses, make_citations, make_invoices, make_log_lines, make_notes])
def test_messy_texts_are_untidy_and_their_spans_hold_the_fields(make):
    texts, spans = make(400, seed=3, messy=True)
    assert (texts, spans) == make(400, seed=3, messy=True)
    for text, found in zip(texts, spans):
        assert found == sorted(found)
        assert all(0 <= a < b <= len(text) and text[a:b] == text[a:b].strip() for a, b, _ in found)
    together = "\n".join(texts)
    assert any(text.isupper() for text in texts)
    assert any(text == text.lower() for text in texts)
    assert "\u00a0" in together
    assert any(ord(character) > 0x7F and character.isalpha() for character in together)
    if make in (make_addresses, make_citations):
        assert sum(text[i] == "," and text[i + 1].isalnum() for text in texts for i in range(len(text) - 1)) > 100


def test_messy_spans_are_those_of_the_tidy_text():
    draw = Draw(np.random.default_rng(0))
    text, spans = "12 Oak St., Troy, NY", [(0, 2, "number"), (3, 10, "street"), (12, 16, "city"), (18, 20, "state")]
    plain = {label: text[a:b].lower() for a, b, label in spans}
    for _ in range(200):
        made, moved = make_messy(text, spans, draw)
        for a, b, label in moved:
            folded = unicodedata.normalize("NFKD", " ".join(made[a:b].lower().split()))
            assert "".join(c for c in folded if not unicodedata.combining(c)) == plain[label]


def test_plain_addresses_have_a_number_and_a_street():
    _, spans = make_addresses(200, seed=0, noise=0, messy=True, plain=True)
    assert {label for row in spans for *_, label in row} == {"number", "street", "unit", "city", "state", "zip"}
    assert all([label for *_, label in row][:2] == ["number", "street"] for row in spans)


@pytest.mark.parametrize("make", [make_addresses, make_citations, make_invoices, make_log_lines, make_notes])
def test_spans_of_messy_texts_end_where_tokens_do(make):
    texts, spans = make(300, seed=5, messy=True)
    documents = [Document(text, tuple(TextSpan(*span) for span in row)) for text, row in zip(texts, spans)]
    assert count_cuts(Words(), documents) == 0
