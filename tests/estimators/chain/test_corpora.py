"""A chain from a corpus on disk: the model that the same data in memory give, in the memory of one part."""

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rulefield as rf
from rulefield import ChainCRF
from rulefield import rules as r
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


def test_batches_over_a_corpus_teach_most_of_it(corpus):
    once = ChainCRF(l2=4.0).partial_fit(corpus)
    assert once._stream.seen == len(X)
    assert once.score(X, Y) > 0.85
    labels = [*corpus.classes, "zz"]
    more = ChainCRF(l2=4.0).partial_fit(X[:10], Y[:10], classes=labels).partial_fit(corpus)
    assert more.score(X, Y) > 0.85
    with pytest.raises(LabelError, match="name all labels"):
        ChainCRF().partial_fit([["a"]], [["b"]]).partial_fit(corpus)


def test_predictions_over_a_corpus_are_those_of_its_tokens(corpus):
    crf = ChainCRF(scheme="BIO", l2=0.1).fit(X[:50], Y[:50])  # a vocabulary of its own
    assert crf.predict(corpus).tolist() == crf.predict(X).tolist()
    rule = [r.absent(crf.classes_[0][2:])]
    assert crf.predict(corpus, rules=rule).tolist() == crf.predict(X, rules=rule).tolist()
    ours, theirs = crf.decode(corpus), crf.decode(X)
    assert [a.labels for a in ours] == [a.labels for a in theirs]
    assert_allclose([a.score for a in ours], [a.score for a in theirs])


def test_a_fitted_model_reads_tokens_and_is_saved(corpus, tmp_path):
    crf = ChainCRF().fit(corpus)
    crf.save(tmp_path / "m.rf")
    assert rf.load(tmp_path / "m.rf").predict(X).tolist() == crf.predict(X).tolist()
    assert crf.score(X, Y) > 0.95


# --- writing ----------------------------------------------------------------------------------


def test_writing_goes_on_where_it_was_interrupted(tmp_path, corpus):
    class StopError(Exception):
        pass

    def broken():
        for i, pair in enumerate(zip(X, Y)):
            if i == 70:
                raise StopError
            yield pair

    with pytest.raises(StopError):
        rf.write_corpus(broken(), tmp_path / "c", part_tokens=150)
    done = sorted(p.name for p in (tmp_path / "c").glob("part-*"))
    stamps = [(tmp_path / "c" / name).stat().st_mtime_ns for name in done]
    assert done
    with pytest.raises(InputError, match="not complete"):
        rf.open_corpus(tmp_path / "c")
    whole = rf.write_corpus(zip(X, Y), tmp_path / "c", part_tokens=150)
    assert [(tmp_path / "c" / name).stat().st_mtime_ns for name in done] == stamps
    assert [p["digest"] for p in whole.parts] == [p["digest"] for p in corpus.parts]
    assert rf.write_corpus(zip(X, Y), tmp_path / "c", part_tokens=150).n_tokens == whole.n_tokens  # nothing to do


def test_another_source_or_other_settings_are_told(tmp_path, corpus):
    with pytest.raises(InputError, match="made from other data"):
        rf.write_corpus(zip(X[1:], Y[1:]), corpus.folder, part_tokens=150)
    with pytest.raises(InputError, match="gives 1 parts, but"):
        rf.write_corpus(list(zip(X, Y))[: corpus.parts[0]["sequences"]], corpus.folder, part_tokens=150)
    with pytest.raises(InputError, match="other settings"):
        rf.write_corpus(zip(X, Y), corpus.folder, part_tokens=151)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        rf.write_corpus(zip(X, Y), tmp_path / "other")
    with pytest.raises(InputError, match="other features"):
        ChainCRF(features=rf.TokenFeatures(window=0)).fit(corpus)


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
    with pytest.raises(InputError, match="no corpus"):
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


def test_files_by_pattern(tmp_path):
    for i in range(3):
        rows = ["".join(f"{w} {label}\n" for w, label in zip(x, y)) for x, y in zip(X[i::3], Y[i::3])]
        (tmp_path / f"f{i}.conll").write_text("\n".join(rows))
    (tmp_path / "g.jsonl").write_text(json.dumps({"tokens": X[0], "labels": Y[0]}))
    corpus = rf.write_corpus(f"{tmp_path}/f*.conll", tmp_path / "c")
    order = [x for i in range(3) for x in X[i::3]], [y for i in range(3) for y in Y[i::3]]
    assert_array_equal(
        ChainCRF(max_iter=3).fit(corpus).feature_names_in_, ChainCRF(max_iter=1).fit(*order).feature_names_in_
    )
    assert len(rf.write_corpus(tmp_path / "g.jsonl", tmp_path / "d")) == 1
    with pytest.raises(InputError, match="no file matches"):
        rf.write_corpus(f"{tmp_path}/h*", tmp_path / "e")


def test_what_needs_the_data_in_memory_is_refused(corpus):
    for options, match in [
        ({"initial_label": "O"}, "initial_label"),
        ({"transition_features": "all"}, "transition_features"),
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
from rulefield.encode.corpora.corpus import open_corpus
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


def test_segments_learn_from_a_corpus_what_they_learn_from_lists(tmp_path):
    X, y = make_addresses(30, seed=3)
    corpus = rf.write_corpus(zip(X, y), tmp_path / "c", part_tokens=60)
    assert len(corpus.parts) > 1
    expected = rf.SegmentCRF(scheme="BIO", max_iter=15).fit(X, y)
    crf = rf.SegmentCRF(scheme="BIO", max_iter=15).fit(corpus)
    assert_array_equal(crf.theta_, expected.theta_)
    assert crf.predict(X).tolist() == expected.predict(X).tolist()
    assert_array_equal(rf.SegmentCRF(scheme="BIO", max_iter=15).fit(zip(X, y)).theta_, expected.theta_)
    with pytest.raises(InputError, match="lexicons look at tokens"):
        rf.SegmentCRF(lexicons={"a": ["b"]}).fit(corpus)
    with pytest.raises(LabelError, match="holds its own labels"):
        rf.SegmentCRF().fit(corpus, y)


def test_estimators_that_take_no_corpus_say_what_to_do(tmp_path):
    X, y = make_addresses(12, seed=3)
    corpus = rf.write_corpus(zip(X, y), tmp_path / "c")
    with pytest.raises(InputError, match='RuledCRF\\(chain, cv="prefit"\\) lists'):
        rf.RuledCRF(rf.ChainCRF()).fit(corpus, y)
    with pytest.raises(InputError, match="and JointCRF learns several; give lists"):
        rf.JointCRF(tasks=["a"]).fit(corpus, [{"a": row} for row in y])
    with pytest.raises(InputError, match="to fit of SegmentCRF; give lists here"):
        rf.SegmentCRF(max_iter=2).fit(X, y).predict(corpus)


def test_rules_are_mined_and_checked_in_the_labels_of_a_corpus(tmp_path):
    X, y = make_addresses(30, seed=3)
    corpus = rf.write_corpus(zip(X, y), tmp_path / "c", part_tokens=60)
    assert list(corpus.labels()) == y
    assert [str(rule) for rule in r.mine(None, corpus.labels())] == [str(rule) for rule in r.mine(None, y)]
    for X_given, y_given in ((corpus, y), (None, corpus)):
        with pytest.raises(InputError, match="keeps labels and no tokens: give None as X"):
            r.mine(X_given, y_given)
        with pytest.raises(InputError, match="keeps labels and no tokens: give None as X"):
            r.check([r.segments("number") <= 1], X_given, y_given)
