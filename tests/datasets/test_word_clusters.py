"""Groups of words from texts without labels."""

import numpy as np
import pytest

import rulefield as rf
from rulefield.datasets import word_clusters
from rulefield.exceptions import InputError

COLORS, ANIMALS = ["red", "blue", "green", "black"], ["cats", "dogs", "birds", "mice"]


def texts(n=200):
    """Colors stand between "a" and "car", animals between "two" and "run"."""
    rng = np.random.default_rng(0)
    return [
        ["a", str(rng.choice(COLORS)), "car"] if i % 2 else ["two", str(rng.choice(ANIMALS)), "run"] for i in range(n)
    ]


def test_words_between_the_same_neighbors_share_a_group():
    groups = list(word_clusters(texts(), [6]).values())
    assert sorted(COLORS) in [sorted(group) for group in groups]
    assert sorted(ANIMALS) in [sorted(group) for group in groups]


def test_every_size_groups_every_frequent_word_once_and_always_in_the_same_way():
    lexicons = word_clusters([*texts(), ["rare"]], [2, 5])
    for size in (2, 5):
        words = [word for name, group in lexicons.items() if name.startswith(f"{size} ") for word in group]
        assert sorted(words) == sorted([*COLORS, *ANIMALS, "a", "car", "two", "run"])
    assert lexicons == word_clusters([*texts(), ["rare"]], [2, 5])


def test_a_chain_knows_words_that_no_label_showed_it():
    lexicons = word_clusters(texts(), [6])
    X, y = [["a", "red", "car"], ["two", "cats", "run"]] * 5, [["O", "color", "O"], ["O", "animal", "O"]] * 5
    features = rf.TokenFeatures(
        word=False, lower=False, affixes=0, shapes=False, window=0, position=False, lexicons=lexicons
    )
    crf = rf.ChainCRF(features=features).fit(X, y)
    predicted = crf.predict([["a", "black", "car"], ["two", "mice", "run"]])
    assert [list(row) for row in predicted] == y[:2]


def test_too_few_words_are_refused():
    with pytest.raises(InputError, match="two words that occur 5 times or more"):
        word_clusters([["once"]])
