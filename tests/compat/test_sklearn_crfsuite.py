"""sklearn-crfsuite's names: weights and files are those of python-crfsuite, and every attribute and method is there."""

import pickle
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV

from rulefield import rules as r
from rulefield.compat import sklearn_crfsuite
from rulefield.compat.sklearn_crfsuite import CRF, metrics, scorers
from rulefield.encode.crfsuite import hash_little
from rulefield.exceptions import InputError


def drawn(seed, n=8, labels=3):
    rng = np.random.default_rng(seed)
    items = [
        {"w": str(rng.integers(6)), "s": float(rng.random()), "bias": True, "odd": bool(rng.random() < 0.3)}
        for _ in range(n)
    ]
    items[0]["next"] = {"zero": 0}
    items[1]["next"] = {"zero": 1}
    return items, [f"L{v}" for v in rng.integers(0, labels, n)]


@pytest.fixture(scope="module")
def data():
    pairs = [drawn(seed, n=4 + seed % 5) for seed in range(12)]
    return [items for items, _ in pairs], [labels for _, labels in pairs]


@pytest.fixture(scope="module")
def fitted(data):
    return CRF(c1=0.01, c2=0.1).fit(*data)


def theirs(items, labels, path, algorithm, **params):
    trainer = pycrfsuite.Trainer(algorithm, params, verbose=False)
    trainer.append(items, labels)
    trainer.train(str(path))
    return CRF(model_filename=path)


@pytest.mark.parametrize(
    ("ours", "params"),
    [
        ({}, {}),
        ({"min_freq": 1.5}, {"feature.minfreq": 1.5}),
        ({"c1": 0.3, "c2": 0.1, "all_possible_states": True, "all_possible_transitions": True},
         {"c1": 0.3, "c2": 0.1, "feature.possible_states": True, "feature.possible_transitions": True}),
    ],
)  # fmt: skip
def test_penalties_mean_the_same(tmp_path, ours, params):
    items, labels = drawn(3)
    expected = theirs(items, labels, tmp_path / "m", "lbfgs", epsilon=1e-8, delta=1e-12, **params)
    crf = CRF(epsilon=1e-8, delta=1e-12, **ours).fit([items], [labels])
    assert crf.state_features_ == pytest.approx(expected.state_features_, abs=1e-5)
    assert crf.transition_features_ == pytest.approx(expected.transition_features_, abs=1e-5)


def test_files_are_read_by_crfsuite(fitted, data, tmp_path):
    tagger = pycrfsuite.Tagger()
    tagger.open(fitted.modelfile.name)
    assert tagger.labels() == fitted.classes_ == fitted.tagger_.labels()
    assert Path(fitted.modelfile.name).stat().st_size == fitted.size_
    for items, labels in zip(*data):
        assert tagger.tag(items) == fitted.predict_single(items) == fitted.tagger_.tag(items)
        for t, row in enumerate(fitted.predict_marginals_single(items)):
            assert row == pytest.approx({label: tagger.marginal(label, t) for label in tagger.labels()}, abs=1e-9)
        assert np.exp(fitted.crf_.log_likelihood([items], [labels])[0]) == pytest.approx(
            tagger.probability(labels), abs=1e-9
        )
    info = tagger.info()
    assert set(info.attributes) == set(fitted.attributes_)
    assert fitted.transition_features_ == pytest.approx(info.transitions, abs=1e-6)  # printed with six digits
    assert fitted.state_features_ == pytest.approx(info.state_features, abs=1e-6)


def test_the_hash_is_that_of_lookup3():
    # The values that the author's own driver prints (and those of keys of 12, 13 and 25 bytes, by the definition).
    text = b"Four score and seven years ago"
    assert hash_little([text])[0] == 0x17770551
    together = hash_little([text[:n] for n in range(1, 31)])
    assert [hash_little([text[:n]])[0] for n in range(1, 31)] == together.tolist()


def test_model_filename_is_written_and_read(data, tmp_path):
    path = str(tmp_path / "m.crfsuite")
    crf = CRF(model_filename=path, max_iterations=5).fit(*data)
    again = CRF(model_filename=path)
    assert again.score(*data) == crf.score(*data) == pickle.loads(pickle.dumps(crf)).score(*data)
    assert again.state_features_ == crf.state_features_
    assert crf.modelfile.name == path


def test_temporary_files_go_with_the_model(data):
    crf = CRF(max_iterations=2).fit(*data)
    path = Path(crf.modelfile.name)
    assert path.exists()
    del crf
    assert not path.exists()


def test_predictions_have_the_shapes_of_sklearn_crfsuite(fitted, data):
    X, y = data
    same_length = [X[0], X[0]]
    assert fitted.predict(same_length).shape == (2, len(X[0]))  # what numpy makes of lists of one length
    assert fitted.predict(X).shape == (len(X),)
    assert [list(row) for row in fitted.predict(X)] == [fitted.predict_single(x) for x in X]
    assert fitted.predict_marginals(X)[3] == fitted.predict_marginals_single(X[3])
    flat = [a == b for gold, x in zip(y, X) for a, b in zip(gold, fitted.predict_single(x))]
    assert fitted.score(X, y) == pytest.approx(np.mean(flat))
    assert fitted.predict_single(pycrfsuite.ItemSequence(X[0])) == fitted.predict_single(X[0])


def test_before_fit_attributes_are_none_and_predicting_raises(data):
    crf = CRF()
    names = ("tagger_", "size_", "classes_", "num_attributes_", "attributes_", "state_features_", "training_log_")
    assert all(getattr(crf, name) is None for name in (*names, "transition_features_"))
    assert crf.modelfile.name is None
    with pytest.raises(NotFittedError):
        crf.predict(data[0])


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd"])
def test_the_log_tells_each_iteration(data, algorithm, capsys):
    crf = CRF(algorithm, max_iterations=3, verbose=True).fit(*data, X_dev=data[0], y_dev=data[1])
    last = crf.training_log_.last_iteration
    assert (last["num"], len(crf.training_log_.iterations)) == (3, 3)
    assert last["item_accuracy_float"] == pytest.approx(crf.score(*data))
    assert capsys.readouterr().out.count("Iter ") == 3


def test_scikit_learn_searches_and_pickles_it(data):
    X, y = data
    scorer = make_scorer(metrics.flat_f1_score, average="weighted")
    search = GridSearchCV(CRF(max_iterations=2), {"c2": [0.1, 1.0]}, cv=2, scoring=scorer).fit(X, y)
    assert search.best_params_["c2"] in (0.1, 1.0)
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()
    best, kept = search.best_estimator_, pickle.loads(pickle.dumps(scorers.flat_accuracy))
    assert kept(best, X, y) == best.score(X, y)


def test_rules_on_top(fitted, data):
    labels = fitted.crf_.predict(data[0], rules=[r.count("L0") <= 0])
    assert all("L0" not in row for row in labels)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"algorithm": "sgd"}, "algorithm must be one of 'lbfgs', 'l2sgd'"),
        ({"algorithm": "pa"}, "algorithm must be one of 'lbfgs', 'l2sgd'"),
        ({"c1": -1.0}, "c1 must be"),
        ({"trainer_cls": dict}, "trainer_cls is a class of python-crfsuite"),
    ],
)
def test_wrong_parameters_are_named(data, parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        CRF(**parameters).fit(*data)


def test_both_algorithms_of_crfsuite_have_one_optimum(data):
    exact = {"c2": 0.1, "epsilon": 1e-8, "delta": 1e-12}
    weights = [CRF(algorithm, **exact).fit(*data).state_features_ for algorithm in ("lbfgs", "l2sgd")]
    assert weights[0] == pytest.approx(weights[1])


def test_half_of_the_held_out_data_is_an_error(data):
    with pytest.raises(ValueError, match="X_dev and y_dev together"):
        CRF().fit(*data, data[0])


def test_flat_metrics():
    gold, found = [["x", "z", "y"], ["x", "x"]], [["y", "z", "y"], ["x", "y"]]
    assert metrics.flat_accuracy_score(gold, found) == 3 / 5
    assert metrics.flat_precision_score(gold, found, average="micro") == 3 / 5
    assert metrics.flat_recall_score(gold, found, average="micro") == 3 / 5
    assert metrics.flat_f1_score(gold, found, average="macro") == 2 / 3
    assert metrics.flat_fbeta_score(gold, found, beta=1, average="macro") == 2 / 3
    assert "precision" in metrics.flat_classification_report(gold, found, labels=["x", "y"], digits=3)
    assert metrics.sequence_accuracy_score([[1, 2], [3, 4]], [[1, 2], [4, 4]]) == 0.5
    assert metrics.sequence_accuracy_score([], []) == 0
    assert sklearn_crfsuite.utils.flatten([[1], [2, 3]]) == [1, 2, 3]
