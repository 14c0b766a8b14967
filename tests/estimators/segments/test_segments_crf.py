"""SegmentCRF: what it learns that a chain cannot, its coding of labels, what scikit-learn and users expect."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict

from oracles.segments import SCHEMES
from rulefield import rules as r
from rulefield.data.sequences import Labels, Sequences
from rulefield.encode.spans import convert, spans
from rulefield.estimators.saving import load
from rulefield.estimators.segments import estimator as module
from rulefield.estimators.segments.coding import LexiconMatcher, SegmentCoder
from rulefield.estimators.segments.estimator import Segment, SegmentCRF
from rulefield.exceptions import InputError, InterruptedFitWarning, LabelError, ModelFileError
from rulefield.models.segments import Segmentation

NAMES = ["Ada Lovelace", "Alan Turing", "Emmy Noether", "Kurt Gödel", "Alonzo Church"]


def citations(n=60, seed=0):
    """Author, title, year: tokens and BIO labels; outside words between them."""
    rng = np.random.default_rng(seed)
    words = ["on", "the", "theory", "of", "numbers", "machines", "groups", "logic", "sets", "and", "functions"]
    X, y = [], []
    for _ in range(n):
        name, title = rng.choice(NAMES).split(), list(rng.choice(words, rng.integers(2, 6)))
        tokens = [*name, ":", *title, ",", str(rng.integers(1900, 1960))]
        labels = ["B-author", "I-author", "O", "B-title", *["I-title"] * (len(title) - 1), "O", "B-year"]
        X.append(tokens)
        y.append(labels)
    return X, y


def runs(n=40, seed=0):
    """Tokens that are all alike, cut by commas: a run of three is "long", of one "short": only lengths tell."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tokens, labels = [], []
        for _ in range(rng.integers(1, 5)):
            size = rng.choice([1, 3])
            tokens += ["x"] * size + [","]
            labels += ["long" if size == 3 else "short"] * size + ["comma"]
        X.append([[token] for token in tokens])
        y.append(labels)
    return X, y


# --- labels to segments and back ----------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["BIO", "IOB1", "IOE1", "IOE2", "BIOES", "BILOU", None]))
def test_coding_round_trip(seed, scheme):
    rng = np.random.default_rng(seed)
    prefixes = SCHEMES[scheme] if scheme else ""
    classes = sorted({f"{p}-{kind}" for p in prefixes for kind in "ab"} | {"O"}) if scheme else ["O", "a", "b"]
    coder = SegmentCoder(classes, scheme)
    lengths, kinds = [], []
    for _ in range(rng.integers(1, 6)):
        kind = int(rng.integers(len(coder.types)))
        if scheme is None and kinds and kinds[-1] == kind:
            continue
        kinds.append(kind)
        lengths.append(1 if coder.types[kind] == "O" and scheme else int(rng.integers(1, 4)))
    opens = np.concatenate([[1, *[0] * (n - 1)] for n in lengths]).astype(np.uint8)
    made = Segmentation(opens, np.repeat(kinds, lengths))
    written = coder.named(coder.spelling.write(made.opens, made.labels))
    ids = np.array([classes.index(label) for label in written])
    back = coder.encode(Labels(ids, np.array([len(ids)]), len(classes)))
    assert np.array_equal(back.opens, made.opens)
    assert np.array_equal(back.labels, made.labels)
    found = [(s.start, s.stop, s.type) for s in spans(written, scheme)]
    starts = np.cumsum(lengths) - lengths
    mine = [(s, s + n, coder.types[k]) for s, n, k in zip(starts, lengths, kinds)]
    assert found == [m for m in mine if scheme is None or m[2] != "O"]


def test_lexicons_match_whole_phrases_in_any_case():
    matcher = LexiconMatcher({"names": ["Ada Lovelace", ("Kurt", "Gödel")], "first": ["ada"], "long": ["a b c d"]})
    found = matcher.find([["by", "ADA", "lovelace"], ["a", "b", "c"], ["Kurt", "Gödel"]])
    assert matcher.names == ["first", "long", "names"]
    assert list(zip(found.end, found.length, found.feature)) == [(1, 1, 0), (2, 2, 2), (7, 2, 2)]
    with pytest.raises(InputError, match="plain tokens"):
        matcher.find([[{"word": "ada"}]])


# --- explanations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", None])
def test_explanations_add_up_to_the_difference_of_two_segmentations(scheme):
    X, y = citations(20) if scheme else runs(10)
    y = [convert(row, "BIO", scheme) for row in y] if scheme == "IOB1" else y
    crf = SegmentCRF(scheme=scheme, l2=0.1, lexicons={"names": NAMES} if scheme else None).fit(X, y)
    for x in X[:3]:
        potentials = crf._answers([], "raise", 1).problem(crf._encode([x]), 0).potentials
        told = crf.explain(x, top=100)
        assert [token.label for token in told.tokens] == list(crf.predict([x])[0])
        segments = crf.predict_segments([x])[0]
        best = scored(potentials, crf, [(s.stop - s.start, s.type) for s in segments])
        for k, segment in enumerate(segments):
            size, own = segment.stop - segment.start, told.tokens[segment.start : segment.stop]
            (other,) = {token.runner_up for token in own}
            instead = [(1, other)] * size if scheme and other == "O" else [(size, other)]
            pieces = [(s.stop - s.start, s.type) for s in segments]
            worse = scored(potentials, crf, pieces[:k] + instead + pieces[k + 1 :])
            assert_allclose(sum(token.margin for token in own), best - worse)
            assert_allclose(sum(v for token in own for _, v in token.features + token.transitions), best - worse)
            chances = [token.probability for token in own]
            exact = [row[segment.type] for row in crf.predict_marginals([x])[0]][segment.start : segment.stop]
            assert_allclose(chances, exact, atol=1e-6)
    assert all(str(kind) in str(crf.explain()) for kind in crf.classes_)


def scored(potentials, crf, pieces):
    return potentials.score([size for size, _ in pieces], [crf.classes_.tolist().index(kind) for _, kind in pieces])


def test_explanations_name_whole_matches_and_rules_that_are_broken():
    X, y = citations(20)
    crf = SegmentCRF(scheme="BIO", l2=0.1, lexicons={"names": NAMES}).fit(X, y)
    assert any(name == "in names" for token in crf.explain(X[0], top=100).tokens for name, _ in token.features)
    told = crf.explain(X[0], rules=[r.absent("year").soft(0.01).named("no years")])
    assert [broken.rule for broken in told.broken] == ["no years"]
    assert crf.explain(X[0], known=["O", *[None] * (len(X[0]) - 1)]).tokens[0].label == "O"


# --- learning and predicting ----------------------------------------------------------------------------


def test_it_learns_what_only_lengths_tell():
    X, y = runs()
    crf = SegmentCRF(l2=0.01).fit(X, y)
    X_new, y_new = runs(seed=1)
    assert [list(row) for row in crf.predict(X_new)] == y_new


def test_it_learns_what_only_a_lexicon_tells():
    # which two of four equal-looking words are a name is known to the lexicon alone
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    names = [(words[i], words[i + 1]) for i in range(0, 40, 2)]

    def sentences(n):
        X, y = [], []
        for _ in range(n):
            first, last = names[rng.integers(len(names))]
            a, b = rng.choice(words, 2)
            while (a, first) in names or (last, b) in names or (a, b) in names:
                a, b = rng.choice(words, 2)
            X.append([str(a), first, last, str(b)] if rng.random() < 0.5 else [first, last, str(a), str(b)])
            y.append(["O", "B-n", "I-n", "O"] if X[-1][1] == first and X[-1][2] == last else ["B-n", "I-n", "O", "O"])
        return X, y

    class Nothing:
        def transform(self, X):
            return [[["bias"] for _ in x] for x in X]

    X, y = sentences(80)
    X_new, y_new = sentences(40)
    with_lexicon = SegmentCRF(scheme="BIO", features=Nothing(), lexicons={"n": names}, l2=0.01).fit(X, y)
    without = SegmentCRF(scheme="BIO", features=Nothing(), l2=0.01).fit(X, y)
    assert with_lexicon.score(X_new, y_new) > 0.9
    assert without.score(X_new, y_new) < 0.8


@pytest.fixture(scope="module")
def fitted():
    X, y = citations()
    return SegmentCRF(scheme="BIO").fit(X, y), X, y


def test_predictions_are_an_object_array_of_lists(fitted):
    crf, X, y = fitted
    got = crf.predict([*X[:2], []])
    assert got.shape == (3,)
    assert got.dtype == object
    assert got[2] == []
    assert crf.score(X, y) > 0.99
    same_length = crf.predict([X[0], X[0]])
    assert same_length.shape == (2,)


def test_segments_and_labels_agree(fitted):
    crf, X, _ = fitted
    for labels, segments in zip(crf.predict(X), crf.predict_segments(X)):
        inside = [Segment(s.start, s.stop, s.type) for s in segments if s.type != "O"]
        assert inside == [Segment(*span) for span in spans(labels, "BIO")]
        assert segments[0].start == 0
        assert segments[-1].stop == len(labels)


def test_marginals_are_probabilities_and_agree_with_samples_of_the_likelihood(fitted):
    crf, X, y = fitted
    rows = crf.predict_marginals(X[:3], output="array")
    for row, x in zip(rows, X):
        assert row.shape == (len(x), len(crf.classes_))
        np.testing.assert_allclose(row.sum(axis=1), 1.0)
    assert set(crf.predict_marginals(X[:1])[0][0]) == set(crf.classes_)
    assert np.all(crf.log_likelihood(X, y) < 0)
    with pytest.raises(InputError, match="output"):
        crf.predict_marginals(X, output="list")


def test_likelihoods_of_all_labelings_sum_to_one():
    X, y = [[["a"], ["b"], ["a"]], [["b"], ["b"]]], [["x", "y", "y"], ["y", "x"]]
    crf = SegmentCRF(max_length=3).fit(X, y)
    every = [[p, q, r] for p in "xy" for q in "xy" for r in "xy"]
    total = np.exp(crf.log_likelihood([X[0]] * 8, every)).sum()
    np.testing.assert_allclose(total, 1.0)


def test_threads_do_not_change_the_answer(fitted):
    crf, X, y = fitted
    two = clone(crf).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(two.theta_, crf.theta_)
    assert list(two.predict(X)) == list(crf.predict(X))


def test_sample_weights_count_as_copies():
    X, y = runs(10)
    weight = np.array([1, 2, 0, 1, 1, 3, 1, 1, 1, 1])
    again = [i for i, w in enumerate(weight) for _ in range(w)]
    options = {"all_states": True, "all_transitions": True, "max_length": 3, "tol": 1e-10}
    a = SegmentCRF(**options).fit(X, y, sample_weight=weight)
    b = SegmentCRF(**options).fit([X[i] for i in again], [y[i] for i in again])
    np.testing.assert_allclose(a.log_likelihood(X, y), b.log_likelihood(X, y), atol=1e-3)


def test_dense_matrices_are_read():
    X, y = runs()
    matrix = np.array([[token == [","], 1.0] for x in X for token in x], float)
    data = Sequences(matrix, np.array([len(x) for x in X]))
    crf = SegmentCRF(l2=0.01).fit(data, y)
    assert [list(row) for row in crf.predict(data)] == y


def test_l1_makes_weights_zero():
    X, y = citations(30)
    sparse = SegmentCRF(scheme="BIO", l1=1.0, l2=0.0).fit(X, y)
    assert (sparse.theta_ == 0).mean() > 0.5
    assert sparse.score(X, y) > 0.9


# --- scikit-learn, files, mistakes ------------------------------------------------------------------------


def test_scikit_learn_tools_work():
    X, y = citations(24)
    X, y = np.array(X, dtype=object), np.array(y, dtype=object)
    assert len(cross_val_predict(SegmentCRF(scheme="BIO", max_iter=10), X, y, cv=3)) == 24
    search = GridSearchCV(SegmentCRF(scheme="BIO", max_iter=5), {"l2": [0.1, 10.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0


@pytest.mark.parametrize("how", ["pickle", "bytes", "path"])
def test_models_survive_being_stored(how, tmp_path):
    X, y = citations(20)
    crf = SegmentCRF(scheme="BIO", lexicons={"names": NAMES, "pairs": [("a", "b")]}).fit(X, y)
    if how == "pickle":
        back = pickle.loads(pickle.dumps(crf))
    elif how == "bytes":
        back = SegmentCRF.load(crf.to_bytes())
    else:
        crf.save(tmp_path / "model")
        back = load(tmp_path / "model")
    assert list(back.predict(X)) == list(crf.predict(X))
    assert np.array_equal(back.theta_, crf.theta_)
    with pytest.raises(ModelFileError):
        SegmentCRF.load(crf.to_bytes()[:-10])


def test_ctrl_c_keeps_the_newest_weights(monkeypatch):
    X, y = citations(20)
    real, calls = module.SegmentLikelihood.value_and_gradient, []

    def interrupted(self, theta):
        calls.append(theta)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return real(self, theta)

    monkeypatch.setattr(module.SegmentLikelihood, "value_and_gradient", interrupted)
    with pytest.warns(InterruptedFitWarning, match="interrupted after"):
        crf = SegmentCRF(scheme="BIO").fit(X, y)
    assert not crf.converged_
    assert len(crf.predict(X)) == 20


def test_mistakes_get_a_sentence():
    X, y = citations(4)
    with pytest.raises(NotFittedError):
        SegmentCRF().predict(X)
    with pytest.raises(InputError, match="needs every label"):
        SegmentCRF(scheme="BIO").fit(X, [[None, *labels[1:]] for labels in y])
    with pytest.raises(InputError, match="hierarchy"):
        SegmentCRF(scheme="BIO").fit([["a"]], [["B-x/B-y"]])
    with pytest.raises(LabelError, match="cannot begin"):
        SegmentCRF(scheme="BIO").fit([["a"]], [["I-x"]])
    with pytest.raises(InputError, match="no token"):
        SegmentCRF().fit([[]], [[]])
    with pytest.raises(InputError, match="raise max_length"):
        SegmentCRF(scheme="BIO", max_length=1).fit(X, y)
    with pytest.raises(InputError, match="l2 must be"):
        SegmentCRF(l2=-1).fit(X, y)
    with pytest.raises(InputError, match="max_length must be"):
        SegmentCRF(max_length=0).fit(X, y)
    with pytest.raises(InputError, match="sample_weight"):
        SegmentCRF(scheme="BIO").fit(X, y, sample_weight=[1.0])
    with pytest.raises(InputError, match="no sample_weight"):
        SegmentCRF(scheme="BIO", max_iter=1).fit(X, y).score(X, y, sample_weight=[1.0] * 4)


def test_one_label_only():
    crf = SegmentCRF().fit([["a", "b"], ["c"]], [["x", "x"], ["x"]])
    assert list(crf.predict([["a", "b"], ["z", "z", "z", "z", "z"]])) == [["x", "x"], ["x"] * 5]
