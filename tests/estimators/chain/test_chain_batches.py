"""Data that come in pieces: iterators; and what is refused because it says something else than it seems to."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rulefield as rf
from rulefield import ChainCRF
from rulefield.data.sequences import pointers32
from rulefield.datasets import make_addresses
from rulefield.encode.features import FeatureEncoder
from rulefield.estimators.chain.estimator import LEAST_APART
from rulefield.exceptions import InputError, LabelError


@pytest.fixture(scope="module")
def addresses():
    return make_addresses(60, seed=1)


def test_pointers_count_beyond_32_bits_in_words_not_in_silence():
    encoder = FeatureEncoder(["a"])
    with pytest.raises(InputError, match="2147483647 features of tokens; got 2147483650.*write_corpus"):
        encoder._assemble(np.zeros(0, np.int32), None, np.array([2**31 - 3, 5]), np.array([2]))
    assert_array_equal(pointers32(np.array([2, 5])), [0, 2, 5])


def test_tuples_of_columns_need_a_reader_of_columns(addresses):
    X, y = addresses
    columns = [[(token, token[:1]) for token in tokens] for tokens in X]
    with pytest.raises(InputError, match=r"tuple of 2 strings.*features=rf\.TokenFeatures\(\)"):
        ChainCRF().fit(columns, y)
    ChainCRF(features=rf.TokenFeatures(), max_iter=2).fit(columns, y)
    uneven = [[("bias", token) if t else ("bias",) for t, token in enumerate(tokens)] for tokens in X]
    ChainCRF(max_iter=2).fit(uneven, y)  # features, without doubt


@pytest.mark.parametrize("form", ["tokens", "dicts"])
def test_an_iterator_teaches_what_a_list_teaches(addresses, form, monkeypatch):
    monkeypatch.setattr("rulefield.estimators.inputs.PORTION", 7)
    X, y = addresses
    if form == "dicts":
        X = [[{"w": token, "n": len(token) / 8} for token in tokens] for tokens in X]
    whole = ChainCRF(max_iter=5).fit(X, y)
    for streamed in (ChainCRF(max_iter=5).fit(iter(X), y), ChainCRF(max_iter=5).fit(zip(X, y))):
        assert_array_equal(streamed.feature_names_in_, whole.feature_names_in_)
        assert_array_equal(streamed.theta_, whole.theta_)


def test_an_iterator_is_read_as_it_comes(addresses, monkeypatch):
    """Features of a portion are gone before the next but one is asked for."""
    monkeypatch.setattr("rulefield.estimators.inputs.PORTION", 5)
    alive = []

    class Token(dict):
        def __init__(self, word):
            super().__init__(w=word)
            alive.append(self)

        def __del__(self):
            counts[0] -= 1

    counts, most = [0], 0

    def stream():
        nonlocal most
        for tokens, labels in zip(*addresses):
            made = [Token(token) for token in tokens]
            counts[0] += len(made)
            alive.clear()
            most = max(most, counts[0])
            yield made, labels

    ChainCRF(max_iter=1).fit(stream())
    longest = max(map(len, addresses[0]))
    assert most <= 2 * 6 * longest < sum(map(len, addresses[0]))


def test_without_labels_pairs_are_asked_for(addresses):
    with pytest.raises(LabelError, match="no pair"):
        ChainCRF().fit([tokens[:1] for tokens in addresses[0]])
    with pytest.raises(LabelError, match="y is missing"):
        ChainCRF().fit(rf.formats.Sequences(np.ones((2, 2)), [2]))


def test_threads_may_share_a_model():
    """What prediction remembers of tokens belongs to all threads; unguarded, two of them changed each other's answers."""
    X, y = make_addresses(460, seed=0)
    crf = ChainCRF(scheme="BIO", max_iter=10).fit(X[:60], y[:60])
    batches = [X[i : i + 20] for i in range(60, 460, 20)]
    alone = pickle.loads(pickle.dumps(crf))
    want = [list(alone.predict(batch)) for batch in batches]
    listed = [[[[f"w={word}"] for word in x] for x in batch] for batch in batches]
    plain = ChainCRF(scheme="BIO", max_iter=10).fit([[[f"w={word}"] for word in x] for x in X[:60]], y[:60])
    want_plain = [list(plain.predict(batch)) for batch in listed]

    def work(k):
        order = [(k * 7 + j) % len(batches) for j in range(len(batches))]
        return all(
            list(crf.predict(batches[b])) == want[b] and list(plain.predict(listed[b])) == want_plain[b]
            for b in order
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_threads_share_the_way_from_tokens_to_labels_and_places_are_told_as_without(addresses):
    X, y = addresses
    crf, many = ChainCRF(max_iter=3).fit(X, y), X * 4
    labels = crf.predict(many).tolist()
    assert len(many) >= LEAST_APART
    crf.set_params(n_jobs=2)
    assert [list(row) for row in crf._labels_without_rules(many)] == labels
    assert crf.predict(many).tolist() == labels
    many[230] = ["a", 7]
    with pytest.raises(InputError, match="token 1 of sequence 230"):
        crf.predict(many)
