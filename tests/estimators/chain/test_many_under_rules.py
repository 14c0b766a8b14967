"""Many sequences under rules at once: the labels are those of each sequence decoded by itself, whatever the threads."""

import numpy as np
import pytest

from rulefield import ChainCRF
from rulefield import rules as r
from rulefield.data.sequences import Sequences
from rulefield.datasets import make_citations
from rulefield.estimators.chain import answers, decoding
from rulefield.exceptions import InfeasibleError

RULES = {
    "lengths alone": [
        r.segments("title") == 1,
        (r.segments("author") <= 1).soft(0.7),
        (r.count("B-date") <= 1).soft(0.6, per="once"),
        r.before("author", "title").soft(0.4),
        r.last("date").soft(0.5),
    ],
    "tokens": [
        r.segments("author") <= 2,
        r.at(r.token_equals(","), prev="author", next="title", require=True).soft(0.3),
    ],
    "some impossible": [(r.count("B-title") >= 4).named("many titles"), r.before("author", "title").soft(0.4)],
}


@pytest.fixture(scope="module")
def data():
    X, y = make_citations(120, seed=2, noise=0.6)
    X, y = [list(x) for x in X], [list(labels) for labels in y]
    for i, n in enumerate((0, 1, 2, 3)):  # an empty sequence, and too few tokens for many titles
        X[7 * i], y[7 * i] = X[7 * i][:n], y[7 * i][:n]
    return X, y


@pytest.fixture(scope="module")
def crf(data):
    X, y = data
    return ChainCRF(scheme="BIO", max_iter=6).fit(X[30:50], y[30:50])


@pytest.fixture
def small_chunks(monkeypatch, crf):
    """Make many chunks, of which threads take turns."""
    per_token = len(crf.classes_)
    monkeypatch.setattr(answers, "CHUNK_SCORES", 400 * per_token)
    monkeypatch.setattr(decoding, "LEAST_SCORES", per_token)


def alone(crf, X, monkeypatch, **asked):
    """Answers of one sequence after the other, each from an engine of its own."""
    with monkeypatch.context() as patch:
        patch.setattr(answers.ChainAnswers, "_quick", lambda _, batch, *others: [None] * len(batch))
        return [labeling.labels for labeling in crf.decode(X, **asked)]


def known_labels(crf, y):
    """Labels of a few tokens; of some sequences nothing is known."""
    told = np.random.default_rng(0).random(60) < 0.2
    return [
        None
        if len(row) % 3 == 0
        else [label if tell and label in crf.classes_ else None for label, tell in zip(row, told)]
        for row in y
    ]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", ["lengths alone", "tokens"])
def test_labels_are_those_of_each_sequence_alone(crf, data, name, known, monkeypatch):
    X, y = data
    crf.set_params(on_infeasible="relax")  # no title fits into no tokens
    asked = {"rules": RULES[name], "known": known_labels(crf, y) if known else None}
    expected = alone(crf, X, monkeypatch, **asked)
    for n_jobs in (1, 2):
        crf.set_params(n_jobs=n_jobs)
        assert crf.predict(X, **asked).tolist() == expected
        assert [labeling.labels for labeling in crf.decode(X, **asked)] == expected


@pytest.mark.usefixtures("small_chunks")
def test_what_cannot_be_obeyed_is_refused_or_broken_least(crf, data, monkeypatch):
    X, _ = data
    rules = RULES["some impossible"]
    crf.set_params(on_infeasible="relax")
    expected = alone(crf, X, monkeypatch, rules=rules)
    for n_jobs in (1, 2):
        crf.set_params(n_jobs=n_jobs, on_infeasible="relax")
        assert crf.predict(X, rules=rules).tolist() == expected
        assert [labeling.labels for labeling in crf.decode(X, rules=rules)] == expected
        crf.set_params(on_infeasible="raise")
        with pytest.raises(InfeasibleError, match=r"sequence 0 \(0 tokens\).*many titles"):
            crf.predict(X, rules=rules)


@pytest.mark.usefixtures("small_chunks")
def test_most_are_settled_together(crf, data, monkeypatch):
    X, _ = data
    engines: list[int] = []
    one = answers.ChainAnswers.decode
    monkeypatch.setattr(answers.ChainAnswers, "decode", lambda *given: engines.append(1) or one(*given))
    crf.set_params(n_jobs=1).predict(X, rules=RULES["tokens"])
    assert len(engines) < len(X) // 2


def test_chunks_are_of_one_size_and_as_many_for_each_thread():
    lengths = np.random.default_rng(0).integers(0, 30, 5_000)
    data = Sequences(np.zeros((int(lengths.sum()), 0)), lengths)
    for jobs in (1, 2, 3):
        chunks = decoding._chunks(data, 10, 100_000, jobs)
        assert [first for first, _ in chunks] == [0, *(last for _, last in chunks[:-1])]
        assert chunks[-1][1] == len(data)
        assert len(chunks) % jobs == 0
        sizes = [int(lengths[first:last].sum()) for first, last in chunks]
        assert max(sizes) <= 10_000 + 30
        assert max(sizes) - min(sizes) <= 60
    assert decoding._chunks(data[:3], 10, 100_000, 4) == [(0, 3)]
    assert decoding._chunks(data[:0], 10, 100_000, 4) == []
