"""ChainCRF as users of scikit-learn and CRFsuite expect it."""

import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import rulefield as rf
from rulefield import ChainCRF, TokenFeatures
from rulefield.exceptions import InfeasibleError, InputError, LabelError
from rulefield.formats import Sequences
from rulefield.metrics import span_f1


def toy(n=40, seed=0):
    """Sentences whose labels follow from words and neighbors: names, years, and the rest."""
    rng = np.random.default_rng(seed)
    first, last, other = ["Ada", "Alan", "Emmy", "Kurt"], ["Turing", "Noether", "Goedel"], ["in", "the", "of", "by"]
    X, y = [], []
    for _ in range(n):
        tokens, labels = [], []
        for _ in range(rng.integers(1, 4)):
            kind = rng.integers(3)
            if kind == 0:
                tokens += [str(rng.choice(first)), str(rng.choice(last))]
                labels += ["B-name", "I-name"]
            elif kind == 1:
                tokens.append(str(rng.integers(1800, 2000)))
                labels.append("B-year")
            else:
                tokens.append(str(rng.choice(other)))
                labels.append("O")
        X.append(tokens)
        y.append(labels)
    return X, y


def features(tokens):
    return [
        {"word": t, "upper": t[0].isupper(), "n": len(t) / 4, "near": [f"-1={p}", f"+1={q}"]}
        for p, t, q in zip(["^", *tokens[:-1]], tokens, [*tokens[1:], "$"])
    ]


@pytest.fixture(scope="module")
def data():
    X, y = toy()
    return [features(x) for x in X], y


@pytest.fixture(scope="module")
def fitted(data):
    return ChainCRF(scheme="BIO", l2=0.1).fit(*data)


# --- the estimator contract -----------------------------------------------------------------------


def test_predictions_never_break_the_scheme(data):
    crf = ChainCRF(scheme="BIO", l2=0.1, max_iter=60, random_state=0).fit(*data)
    assert crf.score(*data) > 0.9
    noise = [[{"word": w} for w in ["a", "b", "c", "d", "e"]]] * 3
    for labels in crf.predict(noise):
        for before, now in zip(["O", *labels], labels):
            assert not (now == "I-name" and before not in ("B-name", "I-name"))


def test_init_stores_arguments_and_clone_keeps_them():
    crf = ChainCRF(l2=3.0, scheme="BIO", n_jobs=2, max_iter=7)
    assert clone(crf).get_params() == crf.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(crf)


def test_predict_is_a_flat_object_array_even_for_equal_lengths(fitted):
    X = [features(["Ada", "Turing"])] * 3
    predicted = fitted.predict(X)
    assert predicted.shape == (3,)
    assert predicted.dtype == object
    assert all(isinstance(row, list) for row in predicted)


def test_grid_search_cross_val_predict_and_pipeline(data):
    X, y = data
    search = GridSearchCV(ChainCRF(scheme="BIO", max_iter=20), {"l2": [0.1, 10.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    predicted = cross_val_predict(ChainCRF(max_iter=20), X, y, cv=3)
    assert [len(p) for p in predicted] == [len(labels) for labels in y]
    tokens, labels = toy()
    pipe = Pipeline([("features", TokenFeatures()), ("crf", ChainCRF(max_iter=20))]).fit(tokens, labels)
    assert pipe.score(tokens, labels) > 0.9


def test_sequences_object_in_cross_validation():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 30)
    matrix = rng.normal(size=(lengths.sum(), 4))
    ids = (matrix[:, 0] > 0).astype(int)
    y = [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]
    predicted = cross_val_predict(ChainCRF(l2=0.1), Sequences(matrix, lengths), y, cv=3)
    assert np.mean(np.concatenate(list(predicted)) == ids) > 0.8


def test_pickle_and_files_and_bytes_predict_the_same(fitted, data, tmp_path):
    X, _ = data
    fitted.save(tmp_path / "model.rulefield")
    copies = [
        pickle.loads(pickle.dumps(fitted)),
        rf.load(tmp_path / "model.rulefield"),
        ChainCRF.load(fitted.to_bytes()),
    ]
    for copy in copies:
        assert list(copy.predict(X)) == list(fitted.predict(X))
        assert copy.get_params() == fitted.get_params()
        assert_array_equal(copy.theta_, fitted.theta_)


def test_token_features_are_saved(tmp_path):
    X, y = toy()
    crf = ChainCRF(features=TokenFeatures(window=1), max_iter=20).fit(X, y)
    crf.save(tmp_path / "m")
    assert list(rf.load(tmp_path / "m").predict(X)) == list(crf.predict(X))


def test_same_result_for_any_number_of_threads(data):
    weights = [ChainCRF(n_jobs=n, max_iter=8, random_state=3).fit(*data).theta_ for n in (1, 2, 3)]
    assert_array_equal(weights[0], weights[1])
    assert_array_equal(weights[0], weights[2])


def test_same_seed_same_model(data):
    a, b = (ChainCRF(max_iter=5, random_state=7).fit(*data).theta_ for _ in range(2))
    assert_array_equal(a, b)


# --- meaning --------------------------------------------------------------------------------------


def labelings(crf, n):
    return [list(p) for p in product(crf.classes_, repeat=n)]


def test_marginals_kbest_and_likelihood_agree_with_enumeration(fitted):
    x = features(["Kurt", "Turing", "1931"])
    every = labelings(fitted, 3)
    p = np.exp([fitted.log_likelihood([x], [y])[0] for y in every])
    assert_allclose(p.sum(), 1.0)
    marginals = fitted.predict_marginals([x])[0]
    for t, label in product(range(3), fitted.classes_):
        assert_allclose(marginals[t][label], sum(q for q, y in zip(p, every) if y[t] == label), atol=1e-12)
    best = fitted.predict_kbest([x], k=4)[0]
    assert_allclose([q for _, q in best], np.sort(p)[::-1][:4])
    assert best[0][0] == fitted.predict([x])[0]
    array = fitted.predict_marginals([x], output="array")[0]
    assert_allclose(array, [[row[c] for c in fitted.classes_] for row in marginals])


def test_known_labels_are_kept_and_condition_the_rest(fitted):
    x = features(["Kurt", "Turing", "1931"])
    known = [[None, {"O", "B-year"}, None]]
    labels = fitted.predict([x], known=known)[0]
    possible = [y for y in labelings(fitted, 3) if y[1] in ("O", "B-year")]
    scores = [fitted.log_likelihood([x], [y])[0] for y in possible]
    assert labels == possible[int(np.argmax(scores))]
    assert fitted.predict_marginals([x], known=known)[0][1]["B-name"] == 0


def test_log_likelihood_sums_over_unknown_labels(fitted):
    x = features(["Kurt", "Turing"])
    total = sum(np.exp(fitted.log_likelihood([x], [[a, "O"]])[0]) for a in ("O", "B-year"))
    assert_allclose(np.exp(fitted.log_likelihood([x], [[{"O", "B-year"}, "O"]])[0]), total)
    assert_allclose(fitted.log_likelihood([x], [[None, None]]), [0.0], atol=1e-12)


def test_samples_have_the_models_frequencies(fitted):
    x = features(["Kurt", "the"])
    drawn = fitted.sample([x], n_samples=4000, random_state=0)[0]
    share = np.mean([labels[0] == "B-name" for labels in drawn])
    p = fitted.predict_marginals([x])[0][0]["B-name"]
    assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / 4000) + 1e-9


def test_partial_labels_learn_from_what_is_known(data):
    X, y = data
    rng = np.random.default_rng(0)
    hidden = [[label if rng.random() < 0.6 else None for label in labels] for labels in y]
    crf = ChainCRF(scheme="BIO", l2=0.1).fit(X, hidden)
    assert span_f1(y, list(crf.predict(X)), scheme="BIO") > 0.9


def test_sample_weight_counts_as_repetition(data):
    X, y = data
    weighted = ChainCRF(tol=1e-9).fit(X, y, sample_weight=[2.0] * 5 + [1.0] * (len(X) - 5))
    repeated = ChainCRF(tol=1e-9).fit(X + X[:5], y + y[:5])
    assert_allclose(weighted.log_[-1].objective, repeated.log_[-1].objective, rtol=1e-5)


def test_warm_start_begins_where_the_last_fit_ended_also_with_new_features(data):
    X, y = data
    crf = ChainCRF(warm_start=True, l2=0.1).fit(X, y)
    end = crf.log_[-1].objective
    crf.fit(X, y)
    assert crf.log_[0].objective <= end * 1.001
    more = [[dict(token, extra=True) for token in x] for x in X]
    cold = ChainCRF(l2=0.1).fit(more, y)
    crf.fit(more, y)
    assert crf.log_[0].objective < cold.log_[0].objective


def test_explain_adds_up_to_the_margin(fitted):
    x = features(["Ada", "Turing", "1931"])
    explanation = fitted.explain(x, top=100)
    potentials = fitted.model_.potentials(fitted.theta_, fitted._encoder.transform([x]), 0)
    path = [fitted.classes_.tolist().index(token.label) for token in explanation.tokens]
    for t, token in enumerate(explanation.tokens):
        other = path.copy()
        other[t] = fitted.classes_.tolist().index(token.runner_up)
        difference = potentials.score(np.array(path)) - potentials.score(np.array(other))
        assert_allclose(token.margin, difference)
        assert_allclose(sum(v for _, v in token.features + token.transitions), difference)
    assert "word:Ada" in str(explanation)
    assert "B-name" in str(fitted.explain())


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([], [], "no token"),
        ([[]], [[]], "no token"),
        ([[["a"]], []], [["A"], []], "sequence 1 of X has no tokens"),
        ([[["a"]]], [["A", "B"]], "sequence 0 has 1 tokens in X but 2 labels in y"),
        ([[["a"]], [["b"]]], [["A"]], "X has 2 sequences but y has 1"),
        ([["A"]], [[{"w": "a"}]], "swapped"),
        ([[{"w": float("nan")}]], [["A"]], "token 0 of sequence 0"),
        ([[{"w": float("inf")}]], [["A"]], "finite"),
        ([[["a"]]], ["A"], "single label"),
        ([[["a"]]], [[None]], "no known label"),
    ],
)
def test_bad_training_data_gets_a_sentence(X, y, words):
    with pytest.raises(InputError, match=words):
        ChainCRF().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"l2": -1}, "l2 must be 'auto' or a finite number >= 0; got -1"),
        ({"l1": "x"}, "l1 must be"),
        ({"scheme": "BIX"}, "BIX"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"max_iter": 0}, "max_iter must be None or a whole number >= 1"),
    ],
)
def test_bad_parameters_get_a_sentence(data, parameters, words):
    with pytest.raises(InputError, match=words):
        ChainCRF(**parameters).fit(*data)


def test_impossible_gold_labels():
    with pytest.raises(LabelError, match="sequence 0, token 1.*I-b.*after.*B-a"):
        ChainCRF(scheme="BIO").fit([[["x"], ["y"], ["z"]]], [["B-a", "I-b", "B-b"]])


def test_unfitted_and_unknown_labels_and_other_forms(fitted):
    with pytest.raises(NotFittedError):
        ChainCRF().predict([[["a"]]])
    with pytest.raises(LabelError, match=r"B-nam.*did you mean 'B-name'"):
        fitted.predict([[{"w": "a"}]], known=[["B-nam"]])
    with pytest.raises(InfeasibleError, match="sequence 0 has no possible labeling"):
        fitted.predict([[{"w": "a"}]], known=[["I-name"]])
    with pytest.raises(InputError, match="trained on named features"):
        fitted.predict(Sequences(np.zeros((1, 2)), [1]))
    with pytest.raises(InputError, match="sample_weight"):
        ChainCRF().fit([[["a"]]], [["A"]], sample_weight=[-1.0])


def test_one_label_only_and_empty_prediction_and_unseen_words(fitted):
    crf = ChainCRF().fit([[["a"], ["b"]]], [["A", "A"]])
    assert list(crf.predict([[["zzz"]], []])) == [["A"], []]
    assert list(fitted.predict([])) == []
    assert fitted.predict_marginals([[]]) == [[]]


def test_long_sequence_and_huge_weights(fitted):
    x = features(["Ada", "Turing", "1931", "the"] * 2500)
    assert len(fitted.predict([x])[0]) == 10_000
    assert np.isfinite(fitted.log_likelihood([x], [["O"] * 10_000]))
    big = pickle.loads(pickle.dumps(fitted))
    big.theta_ = np.where(fitted.theta_ > 0, 1e4, -1e4)
    marginals = big.predict_marginals([x[:50]], output="array")[0]
    assert_allclose(marginals.sum(axis=1), 1.0)


def test_interrupted_fit_keeps_the_best_model(data, monkeypatch):
    from rulefield.estimators import fitting

    def interrupt(self, record, theta):
        if record.iteration >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(fitting.ProgressLine, "__call__", interrupt)
    with pytest.warns(rf.exceptions.InterruptedFitWarning, match="best model so far was kept"):
        crf = ChainCRF().fit(*data)
    assert crf.score(*data) > 0.3
    assert not crf.converged_


def test_sample_weights_are_numbers(data):
    X, y = data
    with pytest.raises(InputError, match="sample_weight must be one number per sequence; got a list"):
        ChainCRF().fit(X, y, X)


def test_labelings_have_their_probability_where_asked_for(fitted):
    x = features(["Ada", "Turing", "1912"])
    (best, p), *_ = fitted.predict_kbest([x], k=1)[0]
    (labeling,) = fitted.decode([x], probability=True)
    assert labeling.labels == best
    assert_allclose(labeling.probability, p)
    assert "probability" in str(labeling)
    assert fitted.decode([x])[0].probability is None


def test_samples_keep_known_labels(fitted):
    x = features(["Ada", "Turing", "1912"])
    drawn = fitted.sample([x], n_samples=30, known=[["O", None, {"O", "B-year"}]], random_state=0)[0]
    assert {labels[0] for labels in drawn} == {"O"}
    assert {labels[2] for labels in drawn} <= {"O", "B-year"}
