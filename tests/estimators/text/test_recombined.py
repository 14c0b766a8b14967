"""Texts made of the parts of others: every field, order and separator is one that the texts show."""

import numpy as np
import pytest

import rulefield as rf
from rulefield.datasets import make_addresses
from rulefield.estimators.text.recombined import MADE_SHARE, N_MADE, STRAY_TEXTS, recombine, with_stray_marks
from rulefield.estimators.text.variants import Labeled

FIRST = ([("1", "B-number"), ("Oak", "B-street"), ("St", "I-street"), (",", "O"), ("Bath", "B-city")],)
SECOND = ([("Elm", "B-street"), ("Rd", "I-street"), ("-", "O"), ("Troy", "B-city")],)


def labeled(rows):
    tokens = [[token for token, _ in row] for row in rows]
    return Labeled(tokens, [[label for _, label in row] for row in rows], np.ones(len(rows)))


def test_new_texts_are_made_of_the_fields_orders_and_separators_of_the_old():
    texts = labeled(FIRST + SECOND)
    made = recombine(texts)
    found = {" ".join(tokens) for tokens in made.tokens}
    streets, separators, cities = ("1 Oak St", "1 Elm Rd", "Oak St", "Elm Rd"), (",", "-"), ("Bath", "Troy")
    assert found == {f"{a} {b} {c}" for a in streets for b in separators for c in cities}
    known = {(label, token) for row in FIRST + SECOND for token, label in row}
    assert {pair for tokens, labels in zip(*made[:2]) for pair in zip(labels, tokens)} == known
    assert len(made.tokens) == N_MADE
    assert made.weight.sum() == pytest.approx(2 * MADE_SHARE)
    again = recombine(texts)
    assert made.tokens == again.tokens


def test_a_new_text_is_in_one_case():
    upper = [(token.upper(), label) for token, label in SECOND[0]]
    made = recombine(labeled([*FIRST, upper]))
    for tokens in made.tokens:
        text = " ".join(tokens)
        assert text.isupper() or text.istitle()
    assert any("ELM" in tokens for tokens in made.tokens)
    assert any("OAK" in tokens for tokens in made.tokens)


def test_texts_without_fields_have_parts_too():
    made = recombine(labeled([[("so", "O")], [("what", "O")]]))
    assert {tuple(tokens) for tokens in made.tokens} == {("so",), ("what",)}


def test_marks_stand_behind_the_last_field_unless_fields_hold_them():
    made = with_stray_marks(labeled(FIRST + SECOND))
    assert [labels[-1] for labels in made.labels] == ["O", "O"]
    assert [tokens[-1] for tokens in made.tokens] == [".", ";"]
    assert made.weight.sum() == pytest.approx(STRAY_TEXTS)
    named = [("Co", "B-firm"), (".", "I-firm"), (",", "O"), ("Bath", "B-city"), (",", "O"), ("Ohio", "B-state")]
    assert "." not in {tokens[-1] for tokens in with_stray_marks(labeled([named, named])).tokens}
    assert not with_stray_marks(labeled([[("Co", "B-firm")], [("Bath", "B-city")]])).tokens  # marks are unknown here


def test_sixty_messy_addresses_are_enough():
    scores = []
    for seed in range(4):
        texts, spans = make_addresses(360, seed=seed, noise=0, messy=True)
        parser = rf.TextParser().fit(texts[:60], spans[:60])
        scores.append(parser.score(texts[60:], spans[60:]))
    assert np.mean(scores) >= 0.985
