"""Hashed features: the same as named ones but for the numbers; nothing of them grows."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rulefield as rf
from rulefield.datasets import make_addresses
from rulefield.encode.tokens import TokenFeatures
from rulefield.encode.vocabulary import Buckets
from rulefield.estimators import inputs
from rulefield.exceptions import InputError

X, Y = make_addresses(40, seed=0)
LISTS = TokenFeatures(window=1).transform(X)


def test_hashes_do_not_change():
    """Model files and corpora hold buckets: another hash would make them lie."""
    names = ["", "a", "0:w=Smith", "0:w=Straße", "0|1=new|york", "b" * 8, "b" * 9]
    expected = [188701888, 49032246, 147956681, 156364962, 230642657, 122816444, 200366318]
    assert Buckets(28).find(names).tolist() == expected


@pytest.mark.parametrize("least", [1, 10**9])
def test_matrices_are_those_of_names_with_columns_put_together(monkeypatch, least):
    """By keys, and one by one."""
    monkeypatch.setattr(inputs, "LEAST_TOKENS", least)
    named, hashed = (inputs.InputEncoder(f) for f in (TokenFeatures(), rf.HashedFeatures(hash_bits=8)))
    exact, made = named.fit_transform(X), hashed.fit_transform(X)
    bucket = Buckets(8).find(named.names)
    assert_array_equal(made.entries.indices, bucket[exact.entries.indices])
    assert_array_equal(made.entries.indptr, exact.entries.indptr)
    assert made.n_features == hashed.n_features == 256
    fresh = [["never", "seen"]]
    assert_array_equal(
        hashed.transform(fresh).entries.indices,
        Buckets(8).find([f for token in TokenFeatures().transform(fresh)[0] for f in token]),
    )


@pytest.mark.parametrize(("given", "features"), [(X, None), (X, TokenFeatures(window=1)), (LISTS, None)])
def test_models_are_saved_and_explained(given, features):
    crf = rf.ChainCRF(features=rf.HashedFeatures(features, hash_bits=14), max_iter=20).fit(given, Y)
    assert crf.n_features_in_ == 1 << 14
    again = rf.load(crf.to_bytes())
    assert again.predict(given).tolist() == crf.predict(given).tolist()
    assert crf.score(given, Y) > 0.9
    told = str(crf.explain(given[0]))
    assert re.search(rf"bucket \d+ \(.*\b0:l={X[0][0]}\b", told)
    assert re.search(r"bucket \d+", str(crf.explain()))
    assert "0:l=" not in str(crf.explain())


def test_two_names_of_a_bucket_are_both_told():
    crf = rf.ChainCRF(features=rf.HashedFeatures(hash_bits=1), max_iter=5).fit(
        [[["a"], ["b"], ["c"]]], [["x", "y", "x"]]
    )
    told = str(crf.explain([["a", "b", "c"]]))
    assert " or " in told


def test_every_sequence_estimator_takes_them():
    features = rf.HashedFeatures(hash_bits=12)
    segments = rf.SegmentCRF(features=features, max_iter=5).fit(X[:15], Y[:15])
    joint = rf.JointCRF(tasks=["a"], features=features, max_iter=5, joint_features=None)
    joint.fit(X[:15], [{"a": y} for y in Y[:15]])
    assert segments.n_features_in_ == joint.n_features_in_ == 1 << 12
    assert "bucket" in str(segments.explain(X[0]))
    assert "bucket" in str(joint.explain(X[0]))


@pytest.mark.parametrize("bits", [0, 29, 2.0, True])
def test_bad_numbers_of_bits_are_refused(bits):
    with pytest.raises(InputError, match="hash_bits must be a whole number from 1 to 28"):
        rf.ChainCRF(features=rf.HashedFeatures(hash_bits=bits)).fit(X, Y)


def test_matrices_have_no_names_to_hash():
    with pytest.raises(InputError, match="matrices have none"):
        rf.ChainCRF(features=rf.HashedFeatures()).fit([np.ones((2, 3))], [["a", "b"]])
