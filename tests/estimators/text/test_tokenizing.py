"""The tokenizer fits the labeled texts: what training sees, prediction sees."""

import warnings

import numpy as np
import pytest

import rulefield as rf
from rulefield.datasets import make_addresses
from rulefield.estimators.text.tokenizing import count_cuts, name_of


def doses(n, seed):
    """Texts whose fields meet inside words: 250mg."""
    rng = np.random.default_rng(seed)
    texts, spans = [], []
    for _ in range(n):
        drug, unit = rng.choice(["aspirin", "insulin", "codeine"]), rng.choice(["mg", "ml", "g"])
        amount = str(rng.integers(1, 900))
        start = len(drug) + 1
        texts.append(f"{drug} {amount}{unit} daily")
        spans.append([(0, len(drug), "drug"), (start, start + len(amount), "amount")])
        spans[-1].append((start + len(amount), start + len(amount) + len(unit), "unit"))
    return texts, spans


def test_messy_addresses_are_parsed_by_default():
    scores = []
    for seed in range(3):
        learned = make_addresses(60, seed=seed, noise=0, messy=True, plain=True)
        parser = rf.TextParser().fit(*learned)
        scores.append(parser.score(*make_addresses(300, seed=100 + seed, noise=0, messy=True, plain=True)))
    assert min(scores) >= 0.99


def test_a_tokenizer_that_the_spans_do_not_cut_is_taken():
    texts, spans = doses(30, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parser = rf.TextParser().fit(texts, spans)
    assert parser.cuts_ == []
    assert name_of(parser._tokenizer) in parser.tokenizer_scores_
    assert max(parser.tokenizer_scores_.values()) == parser.tokenizer_scores_[name_of(parser._tokenizer)]
    assert parser.score(*doses(30, 1)) > 0.95
    again = rf.load(parser.to_bytes())
    assert again.predict(texts).tolist() == parser.predict(texts).tolist()
    assert again.tokenizer_scores_ == parser.tokenizer_scores_


def test_a_tokenizer_that_was_asked_for_stays_and_the_better_one_is_named():
    texts, spans = doses(30, 0)
    with pytest.warns(UserWarning, match=r"whole tokens; tokenizer='fine' has a span F1 of (1|0.9)"):
        parser = rf.TextParser(tokenizer="words").fit(texts, spans)
    assert name_of(parser._tokenizer) == "words"
    assert parser.score(texts, spans) < 0.7


def test_texts_that_are_not_cut_are_not_compared():
    parser = rf.TextParser().fit(["Ada 1843", "Alan 1936"], [[(0, 3, "name")], [(0, 4, "name")]])
    assert parser.tokenizer_scores_ == {}
    assert count_cuts(parser._tokenizer, []) == 0


def test_one_text_can_be_compared_too():
    parser = rf.TextParser().fit(["5mg"], [[(0, 1, "dose"), (1, 3, "unit")]])
    assert parser.parse("5mg").fields == {"dose": "5", "unit": "mg"}
