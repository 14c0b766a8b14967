"""A chain from a corpus on disk: the model that the same data in memory give, in the memory of one part."""

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rulefield as rf
from rulefield import ChainCRF
from rulefield.datasets import make_addresses
from rulefield.encode.labels import LabelEncoder
from rulefield.exceptions import InputError, LabelError
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.chain.parts import CorpusLikelihood, scratch_folder
from rulefield.models.chain import ChainModel
from rulefield.parallel import Threads

X, Y = make_addresses(120, seed=3, noise=0.3)


@pytest.fixture
def corpus(tmp_path):
    return rf.write_corpus(zip(X, Y), tmp_path / "corpus", part_tokens=150)


def partial(labels):
    return [
        [None if t % 5 == 2 else {label, "O"} if t % 5 == 3 else label for t, label in enumerate(row)]
        for row in labels
    ]


FORMS = {
    "tokens": (X, Y),
    "dicts": ([[{"w": w, "n": len(w) / 7, "bias": True} for w in x] for x in X], Y),
    "lists": ([[["bias", w, w[:1]] for w in x] for x in X], Y),
    "partial": (X, partial(Y)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options", [{}, {"min_count": 2, "start_end": False}, {"l1": 0.2, "all_transitions": True}], ids=str
)
def test_a_corpus_teaches_what_its_data_in_memory_teach(tmp_path, form, options):
    tokens, labels = FORMS[form]
    tokens, labels = tokens[:60], labels[:60]
    corpus = rf.write_corpus(zip(tokens, labels), tmp_path / "c", part_tokens=100)
    assert len(corpus.parts) > 3
    whole = ChainCRF(tol=1e-11, **options).fit(tokens, labels)
    parts = ChainCRF(tol=1e-11, **options).fit(corpus)
    assert_array_equal(parts.feature_names_in_, whole.feature_names_in_)
    assert parts.classes_.tolist() == whole.classes_.tolist()
    assert_array_equal(parts.model_.pairs.ptr, whole.model_.pairs.ptr)
    assert_array_equal(parts.model_.pairs.label, whole.model_.pairs.label)
    assert_allclose(parts.log_[-1].objective, whole.log_[-1].objective, rtol=1e-9)
    assert parts.predict(tokens).tolist() == whole.predict(tokens).tolist()
    assert not list((tmp_path / "c").glob(".fit-*"))


def test_value_and_gradient_are_those_of_all_data_at_once(corpus):
    names = LabelEncoder()
    encoder = rf.estimators.inputs.InputEncoder()
    data = encoder.fit_transform(X)
    labels = names.fit_encode(Y)
    weight = np.random.default_rng(0).uniform(0, 2, len(X))
    weight[4] = 0.0
    model = ChainModel.build(data, labels)
    whole = ChainLikelihood(model, data, labels, l2=0.7, sample_weight=weight)
    with scratch_folder(corpus.folder) as scratch, Threads(1) as one, Threads(3) as three:
        likelihoods = [
            CorpusLikelihood(corpus, model, scratch, executor, l2=0.7, sample_weight=weight)
            for executor in (one, three)
        ]
        rng = np.random.default_rng(1)
        for scale in (0.1, 1.0, 40.0):  # the last one needs log space here and there
            theta = scale * rng.normal(size=model.size)
            value, gradient = whole.value_and_gradient(theta)
            (v_1, g_1), (v_3, g_3) = (f.value_and_gradient(theta) for f in likelihoods)
            assert_allclose(v_1, value, rtol=1e-12)
            assert_allclose(g_1, gradient, rtol=1e-9, atol=1e-10 * max(1.0, scale))
            assert v_1 == v_3
            assert_array_equal(g_1, g_3)


def test_a_copy_of_a_part_elsewhere_gives_the_same_answer(corpus):
    """Evaluations are pure: nothing but the task goes in, and asking twice changes nothing."""
    import pickle

    from rulefield.learning.chain.parts import EvaluateTask, evaluate_part

    model = ChainCRF(max_iter=1).fit(corpus).model_
    with scratch_folder(corpus.folder) as scratch, Threads(1) as threads:
        f = CorpusLikelihood(corpus, model, scratch, threads)
        theta = np.random.default_rng(0).normal(size=model.size)
        task = EvaluateTask(scratch, 1, theta[f.index(1)])
        first = evaluate_part(task)
        function, again = pickle.loads(pickle.dumps((evaluate_part, task)))
        second = function(again)
    assert first[0] == second[0]
    assert_array_equal(first[1], second[1])


def test_stochastic_steps_come_first_and_the_end_is_the_same(corpus, monkeypatch):
    plain = ChainCRF(tol=1e-10).fit(corpus)
    monkeypatch.setattr("rulefield.learning.chain.likelihood.LEAST_SCORES", 0)
    near = ChainCRF(tol=1e-10, n_jobs=2).fit(corpus)
    assert_allclose(near.log_[-1].objective, plain.log_[-1].objective, rtol=1e-8)
    assert near.log_[0].objective < 0.5 * plain.log_[0].objective


def test_a_fitted_model_reads_tokens_and_is_saved(corpus, tmp_path):
    crf = ChainCRF().fit(corpus)
    crf.save(tmp_path / "m.rf")
    assert rf.load(tmp_path / "m.rf").predict(X).tolist() == crf.predict(X).tolist()
    assert crf.score(X, Y) > 0.95


# --- writing ----------------------------------------------------------------------------------


def test_an_interrupted_writer_leaves_nothing_and_a_folder_is_never_written_over(tmp_path, corpus):
    class StopError(Exception):
        pass

    def broken():
        for i, pair in enumerate(zip(X, Y)):
            if i == 70:
                raise StopError
            yield pair

    with pytest.raises(StopError):
        rf.write_corpus(broken(), tmp_path / "c", part_tokens=150)
    assert not list((tmp_path / "c").iterdir())
    whole = rf.write_corpus(zip(X, Y), tmp_path / "c", part_tokens=150)
    assert [p["digest"] for p in whole.parts] == [p["digest"] for p in corpus.parts]
    with pytest.raises(InputError, match="not empty"):
        rf.write_corpus(zip(X, Y), corpus.folder)
    (corpus.folder / "corpus.json").unlink()
    with pytest.raises(InputError, match="no complete corpus"):
        rf.open_corpus(corpus.folder)


def test_other_features_than_those_of_the_corpus_are_refused(tmp_path, corpus):
    with pytest.raises(InputError, match="other features"):
        ChainCRF(features=rf.TokenFeatures(window=0)).fit(corpus)
    own = rf.write_corpus(zip(X, Y), tmp_path / "own", features=OwnFeatures())
    with pytest.raises(InputError, match="your own features"):
        ChainCRF().fit(own)
    crf = ChainCRF(features=OwnFeatures(), max_iter=20).fit(own)
    assert (
        crf.predict(X[:5]).tolist() == ChainCRF(features=OwnFeatures(), max_iter=20).fit(X, Y).predict(X[:5]).tolist()
    )


class OwnFeatures:
    """A user's transformer."""

    def transform(self, X):
        return [[["bias", word, word[-1:]] for word in tokens] for tokens in X]


def test_a_damaged_or_missing_part_is_named(corpus):
    path = corpus.folder / corpus.parts[1]["file"]
    content = path.read_bytes()
    path.write_bytes(content[:-5] + b"abcde")
    with pytest.raises(InputError, match=f"{path.name}.*digest differs"):
        ChainCRF().fit(corpus)
    path.write_bytes(content[:1000])
    with pytest.raises(InputError, match=path.name):
        ChainCRF().fit(corpus)
    path.unlink()
    with pytest.raises(InputError, match=f"lacks its part '{path.name}'"):
        rf.open_corpus(corpus.folder)
    with pytest.raises(InputError, match="no complete corpus"):
        rf.open_corpus(corpus.folder.parent)


def test_corpus_json_is_checked(corpus):
    path = corpus.folder / "corpus.json"
    described = json.loads(path.read_text())
    for change, match in [({"format": 99}, "format 99"), ({"parts": 3}, "damaged"), ({"classes": [None]}, "damaged")]:
        path.write_text(json.dumps({**described, **change}))
        with pytest.raises(InputError, match=match):
            rf.open_corpus(corpus.folder)


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ([], "gives no sequence"),
        ([(["a"], ["x"]), (["a", "b"], ["x"])], "sequence 1 of the source has 2 tokens and 1 labels"),
        ([(["a"], ["x"]), ([], [])], "leave empty sequences out"),
        ([["a"]], "item 0 of the source is no pair"),
        ([([("a", "b")], ["x"])], "tuple of 2 strings"),
        ([(["a"], [None])], "no known label"),
        ([([("a"), {"w": 1}], ["x", "y"])], "one form"),
    ],
)
def test_bad_sources_are_named(tmp_path, source, match):
    with pytest.raises((InputError, LabelError), match=match):
        rf.write_corpus(source, tmp_path / "c")


def test_what_needs_the_data_in_memory_is_refused(corpus):
    for options, match in [
        ({"initial_label": "O"}, "initial_label"),
        ({"warm_start": True}, "warm_start"),
        ({"l2": "auto"}, "give numbers"),
    ]:
        with pytest.raises(InputError, match=match):
            ChainCRF(**options).fit(corpus)
    with pytest.raises(LabelError, match="its own labels"):
        ChainCRF().fit(corpus, Y)
    with pytest.raises(InputError, match="client= works on a corpus"):
        ChainCRF().fit(X, Y, client=object())


def test_labels_that_the_scheme_forbids_are_placed(tmp_path):
    corpus = rf.write_corpus([(["a", "b"], ["O", "B-x"]), (["a", "b"], ["O", "I-x"])], tmp_path / "c", part_tokens=1)
    with pytest.raises(LabelError, match="part-00001.safetensors, sequence 0, token 1"):
        ChainCRF(scheme="BIO").fit(corpus)


LIMITED = """
import resource, sys
import rulefield as rf
import rulefield.exceptions
from rulefield.learning.chain.corpus import open_corpus
import scipy.sparse  # before the limit: the comparison below needs it
X = [[["bias", "w=%d" % (k % 97), "v=%d" % (k % 89)] for k in range(20)]] * 50
y = [[str(k % 3) for k in range(20)]] * 50
rf.ChainCRF(max_iter=2).fit(X, y)
before = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = before + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
corpus = open_corpus(sys.argv[1])
print(rf.ChainCRF(max_iter=2, l2=1.0).fit(corpus).log_[-1].objective)
try:
    rows = [part.sequences.matrix for part in corpus]
except (MemoryError, rf.exceptions.InputError):  # a map that finds no room
    print("all of it does not fit")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_memory_is_that_of_a_part(tmp_path):
    """Under a real limit of address space, less than what the encoded data alone take, a fit goes through."""
    rng = np.random.default_rng(0)
    names = np.array([[f"{j}={v}" for v in range(50)] for j in range(100)], dtype=object)

    def source():
        for _ in range(600):
            yield names[np.arange(100), rng.integers(0, 50, (50, 100))].tolist(), ["a", "b"] * 25

    corpus = rf.write_corpus(source(), tmp_path / "c", part_tokens=1000)
    need = sum((corpus.folder / p["file"]).stat().st_size for p in corpus.parts)
    how = [sys.executable, "-c", LIMITED, str(corpus.folder), str(3 * need // 4)]
    fit = subprocess.run(how, capture_output=True, text=True)
    assert fit.returncode == 0, fit.stderr[-2000:]
    assert fit.stdout.split("\n")[1] == "all of it does not fit"


def test_only_the_fit_of_chains_takes_a_corpus(corpus):
    crf = ChainCRF(max_iter=2).fit(X, Y)
    for ask in (
        lambda: crf.predict(corpus),
        lambda: rf.SegmentCRF().fit(corpus, Y),
        lambda: rf.RuledCRF(ChainCRF()).fit(corpus, Y),
        lambda: rf.JointCRF(tasks=["a"]).fit(corpus, [{"a": row} for row in Y]),
    ):
        with pytest.raises(InputError, match="a corpus on disk goes to ChainCRF.fit"):
            ask()
