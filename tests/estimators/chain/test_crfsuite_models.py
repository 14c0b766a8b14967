"""Models of CRFsuite: the same labels and marginals as its own tagger; damaged files are refused."""

from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_addresses
from rulefield.encode.crfsuite import MOST_LABELS, CrfsuiteChain, crfsuite_bytes, read_crfsuite
from rulefield.exceptions import ModelFileError


def features_of(tokens):
    return [
        {"word": token.lower(), "digit": token.isdigit(), "length": len(token) / 3, "ends": [token[-1], token[-2:]]}
        for token in tokens
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    X, y = make_addresses(60, seed=0)
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.1, "max_iterations": 40})
    for tokens, labels in zip(X, y):
        trainer.append(features_of(tokens), labels)
    path = str(tmp_path_factory.mktemp("crfsuite") / "model.crfsuite")
    trainer.train(path)
    return path


def test_labels_and_marginals_are_those_of_crfsuite(trained):
    X, _ = make_addresses(120, seed=1)
    crf = rf.load_crfsuite(trained, features=features_of)
    tagger = pycrfsuite.Tagger()
    tagger.open(trained)
    labels, marginals = crf.predict(X), crf.predict_marginals(X, output="array")
    for tokens, found, chances in zip(X, labels, marginals):
        assert found == tagger.tag(features_of(tokens))
        expected = [[tagger.marginal(label, t) for label in crf.classes_] for t in range(len(tokens))]
        np.testing.assert_allclose(chances, expected, atol=1e-9)


def test_rules_files_and_texts_on_top(trained, tmp_path):
    X, _ = make_addresses(5, seed=2)
    crf = rf.load_crfsuite(trained)
    features = [features_of(tokens) for tokens in X]
    assert crf.decode(features, rules=[r.count(crf.classes_[0]) <= 0])[0].status == "optimal"
    crf.save(tmp_path / "m.rf")
    assert list(rf.load(tmp_path / "m.rf").predict(features)) == list(crf.predict(features))
    parser = rf.load_crfsuite(trained, tokenizer=str.split, features=features_of)
    parse = parser.parse(" ".join(X[0]))
    assert parse.spans
    parser.save(tmp_path / "p.rf")
    again = rf.load(tmp_path / "p.rf", tokenizer=str.split, features=features_of)
    assert again.parse(" ".join(X[0])) == parse
    with pytest.raises(ModelFileError, match="your own features"):
        rf.load(tmp_path / "p.rf", tokenizer=str.split)
    assert parse.probability <= 1


def test_damaged_files_are_refused(trained):
    data = Path(trained).read_bytes()
    for bad in (b"", b"lCRF", data[:200], b"x" * 100):
        with pytest.raises(ModelFileError):
            read_crfsuite(bad)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        broken = bytearray(data)
        for place in rng.integers(0, min(len(broken), 2000), size=3):
            broken[place] = rng.integers(0, 256)
        try:
            read_crfsuite(bytes(broken))
        except ModelFileError:
            refused += 1
    assert refused > 100
    with pytest.raises(ModelFileError, match="there is no model file"):
        read_crfsuite("nowhere.crfsuite")


def test_a_file_that_names_thousands_of_labels_is_refused():
    n = MOST_LABELS + 1
    chain = CrfsuiteChain(
        [f"L{i}" for i in range(n)], ["a"], np.zeros(1, int), np.zeros(1, int), np.ones(1), np.zeros((n, 0))
    )
    with pytest.raises(ModelFileError, match="labels; 5000 are the most"):
        read_crfsuite(crfsuite_bytes(chain))
