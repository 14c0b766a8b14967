"""Other ways in which labeled texts might have been typed: what changes, what stays, and what it is good for."""

import warnings

import numpy as np

import rulefield as rf
from rulefield.datasets import make_addresses
from rulefield.estimators.text.variants import Labeled, with_variants


def labeled(rows):
    tokens = [[token for token, _ in row] for row in rows]
    return Labeled(tokens, [[label for _, label in row] for row in rows], np.ones(len(rows)))


MIXED = [("Oak", "B-street"), (",", "O"), ("Bath", "B-city")]
UPPER = [("ELM", "B-street"), (",", "O"), ("TROY", "B-city")]
LOWER = [("elm", "B-street"), ("troy", "B-city")]


def test_texts_that_show_one_way_only_have_no_variants():
    texts = labeled([MIXED] * 4)
    assert with_variants(texts).tokens == texts.tokens


def test_each_text_is_given_in_the_ways_that_others_show_as_often_as_they_do():
    texts = labeled([MIXED, MIXED, UPPER, UPPER, LOWER, LOWER])
    made = with_variants(texts)
    found = {}
    for tokens, labels, weight in zip(*made):
        assert [label for label in labels if label != "O"] == ["B-street", "B-city"]
        key = " ".join(tokens)
        found[key] = found.get(key, 0.0) + float(weight)
    third = 1 / 3  # of the texts are in capitals, in small letters; of the gaps between fields have no comma
    assert np.isclose(found["Oak , Bath"], 2)
    assert np.isclose(found["Oak Bath"], 2 * third)
    assert np.isclose(found["OAK , BATH"], 2 * third)
    assert np.isclose(found["oak bath"], 2 * third * third)
    assert np.isclose(found["elm troy"], 2 + 2 * third * third)  # itself, and those in capitals without the comma


def test_punctuation_inside_of_a_field_stays():
    row = [("St", "B-street"), (".", "I-street"), (",", "O"), ("Bath", "B-city")]
    made = with_variants(labeled([row, row, LOWER, LOWER]))
    assert ["St", ".", "Bath"] in made.tokens
    assert ["St", "Bath"] not in made.tokens


def test_states_are_written_in_the_other_way_as_often_as_texts_show_it():
    code = [("Bath", "B-city"), (",", "O"), ("NC", "B-state")]
    name = [("Troy", "B-city"), (",", "O"), ("Ohio", "B-state")]
    made = with_variants(labeled([code, code, code, name, name]))
    found = {tuple(tokens): (labels, weight) for tokens, labels, weight in zip(*made)}
    labels, weight = found["Bath", ",", "North", "Carolina"]
    assert labels == ["B-city", "O", "B-state", "I-state"]
    assert np.isclose(weight, 0.4)  # two of five texts spell the state
    labels, weight = found["Troy", ",", "OH"]
    assert labels == ["B-city", "O", "B-state"]
    assert np.isclose(weight, 0.6)


def test_the_case_of_a_state_is_that_of_its_text():
    rows = [[("bath", "B-city"), ("nc", "B-state")], [("TROY", "B-city"), ("NEW", "B-state"), ("YORK", "I-state")]]
    made = with_variants(labeled(rows * 2))
    assert ["bath", "north", "carolina"] in made.tokens
    assert ["TROY", "NY"] in made.tokens


def test_words_that_are_states_only_now_and_then_stay():
    names = ("Virginia", "Ohio", "CO", "IN", "Acme", "Apex", "Zenith", "Orion", "Vega")
    firms = [[("Firm", "O"), (name, "B-firm")] for name in names]
    assert with_variants(labeled(firms)).tokens == labeled(firms).tokens
    codes = [[("Bath", "B-city"), (code, "B-state")] for code in ("NC", "NY", "OH")]
    assert with_variants(labeled(codes)).tokens == labeled(codes).tokens


def test_parsers_of_few_texts_find_more_and_keep_their_parameters():
    gains = []
    for seed in range(4):
        texts, spans = make_addresses(60, seed, messy=True)
        new, gold = make_addresses(200, 1000 + seed, messy=True)
        parser = rf.TextParser().fit(texts, spans)
        model = parser.model_
        assert (model.l1, model.l2, model.tol) == ("auto", "auto", None)
        tokens, labels = parser.labeled_tokens(texts, spans)
        plain = rf.ChainCRF(scheme="BIO", l1=model.l1_, l2=model.l2_, tol=1e-3).fit(tokens, labels)
        gains.append(parser.score(new, gold) - rf.TextParser.of(plain).score(new, gold))
    assert np.mean(gains) > 0.015


def test_the_fit_is_the_same_again_and_weights_count():
    texts, spans = make_addresses(30, 2, messy=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, again = (rf.TextParser().fit(texts, spans).model_.theta_ for _ in range(2))
        weighted = rf.TextParser().fit(texts, spans, sample_weight=np.full(30, 2.0)).model_.theta_
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, weighted)
