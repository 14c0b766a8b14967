"""ChainCRF with expectations: positives-only labels, reports, files, and mistakes."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import rulefield as rf
from rulefield import ChainCRF
from rulefield.exceptions import InputError, MissedExpectationWarning, RuleError
from rulefield.metrics import span_f1
from rulefield.rules import expected, segments, share, token_matches

WORDS = ["the", "dog", "sees", "runs", "and", "old"]
FEATURES = rf.TokenFeatures(affixes=0, window=0, bigrams=False)


def corpus(n=60, seed=0):
    """Sentences in which capitalized words are names, of one or two words."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        x, labels = [], []
        for _ in range(rng.integers(2, 6)):
            if rng.random() < 0.25:
                name = [f"N{rng.integers(200)}" for _ in range(rng.integers(1, 3))]
                x += name
                labels += ["B-PER", "I-PER"][: len(name)]
            x.append(str(rng.choice(WORDS)))
            labels.append("O")
        X.append(x)
        y.append(labels)
    return X, y


def positives(y, keep=0.4, seed=1):
    """Keep the labels of some names, forget everything else."""
    rng, out = np.random.default_rng(seed), []
    for row in y:
        kept, on = [None] * len(row), False
        for t, label in enumerate(row):
            on = rng.random() < keep if label == "B-PER" else on
            kept[t] = label if label != "O" and on else None
        out.append(kept)
    return out


X, Y = corpus()
X_NEW, Y_NEW = corpus(40, seed=5)
SEEN = positives(Y)
TRUTH = float(np.mean([label != "O" for row in Y for label in row]))
WANTED = [share(["B-PER", "I-PER"]).between(0.97 * TRUTH, 1.03 * TRUTH).named("names")]


def chain(**how):
    return ChainCRF(**{"scheme": "BIO", "features": FEATURES, "initial_label": "O", "max_iter": 8, "l2": 0.5} | how)


@pytest.fixture(scope="module")
def fitted():
    return chain(expectations=WANTED).fit(X, SEEN)


def test_one_share_repairs_positives_only_labels(fitted):
    everything = chain(initial_label=None).fit(
        X, [[label or {"O", "B-PER", "I-PER"} for label in row] for row in SEEN]
    )
    full = chain(initial_label=None).fit(X, Y)
    bad, good, best = (span_f1(Y_NEW, m.predict(X_NEW), scheme="BIO") for m in (everything, fitted, full))
    assert good - bad > 0.8 * (best - bad)
    assert fitted.classes_.tolist() == ["B-PER", "I-PER", "O"]


def test_the_report_tells_q_and_model_and_what_binds(fitted):
    (report,) = fitted.expectations_
    assert report.expectation == "names"
    assert report.low - 1e-6 <= report.under_q <= report.high + 1e-6
    node = np.concatenate(fitted.predict_marginals(X, output="array"))
    assert_allclose(report.under_model, 1 - node[:, fitted.classes_.tolist().index("O")].mean(), atol=1e-9)
    assert_allclose(report.predicted, np.mean([label != "O" for row in fitted.predict(X) for label in row]))
    assert report.binds == (report.multiplier != 0)
    objective = [record.objective for record in fitted.log_]
    assert (np.diff(objective) < 1e-6 * np.abs(objective[1:])).all(), "what is minimized never rises"
    free = chain(expectations=[share("O").between(0, 1)]).fit(X, SEEN).expectations_[0]
    assert not free.binds


def test_generalized_expectation_is_another_way_to_the_same_end(fitted):
    other = chain(expectations=rf.GeneralizedExpectation(WANTED, strength=100.0)).fit(X, SEEN)
    assert abs(other.expectations_[0].under_model - TRUTH) < 0.05
    a, b = (span_f1(Y_NEW, m.predict(X_NEW), scheme="BIO") for m in (other, fitted))
    assert abs(a - b) < 0.1


def test_without_expectations_presumed_labels_are_only_a_start():
    """The objective is the plain marginal likelihood, whatever was presumed."""
    crf = chain(max_iter=200).fit(X, SEEN)
    known = crf.log_likelihood(X, SEEN).sum()
    assert_allclose(crf.log_[-1].objective, 0.25 * crf.theta_ @ crf.theta_ - known, rtol=1e-6)


def test_conditions_steps_and_numbers_as_expectations():
    wanted = [
        share(["B-PER", "I-PER"], given=token_matches("^[a-z]")).at_most(0.01),
        share("I-PER", after="B-PER").at_least(0.03),
        expected(segments("PER")).between(0.8, 1.2),
    ]
    crf = chain(expectations=rf.PosteriorRegularization(wanted, slack=0.001)).fit(X, SEEN)
    for report in crf.expectations_:
        assert report.low - 2e-3 <= report.under_q <= report.high + 2e-3
    found = crf.predict(X)
    steps = [pair for row in found for pair in zip(row[:-1], row[1:])]
    assert_allclose(crf.expectations_[1].predicted, steps.count(("B-PER", "I-PER")) / len(steps))
    assert_allclose(crf.expectations_[2].predicted, np.mean([row.count("B-PER") for row in found]))


def test_a_share_of_at_most_zero_forbids_the_label():
    seen = [[label if label == "B-PER" else None for label in row] for row in SEEN]
    seen[-1][1] = {"I-PER", "O"}  # the only mention of I-PER
    crf = chain(expectations=[*WANTED, share("I-PER").at_most(0)]).fit(X, seen)
    assert "I-PER" in crf.classes_
    assert not any("I-PER" in row for row in crf.predict(X))
    assert len(crf.expectations_) == 1


def test_a_weight_of_two_is_the_same_as_twice_the_sequence():
    n = 20
    weight = np.where(np.arange(n) < 5, 2.0, 1.0)
    how = {"expectations": [share("O").between(0.5, 0.6)], "max_iter": 3}
    weighted = chain(**how).fit(X[:n], SEEN[:n], sample_weight=weight)
    doubled = chain(**how).fit(X[:n] + X[:5], SEEN[:n] + SEEN[:5])
    assert_allclose(weighted.expectations_[0].under_q, doubled.expectations_[0].under_q, atol=1e-5)
    assert_allclose(weighted.log_[-1].objective, doubled.log_[-1].objective, rtol=1e-4)


def test_files_clone_and_threads(fitted, tmp_path):
    fitted.save(tmp_path / "names.rf")
    again = rf.load(tmp_path / "names.rf")
    assert list(again.predict(X_NEW)) == list(fitted.predict(X_NEW))
    assert again.expectations_ == fitted.expectations_
    assert again.expectations == WANTED
    assert again.initial_label == "O"
    params = clone(fitted).get_params()
    assert all(params[name] == fitted.get_params()[name] for name in ("expectations", "initial_label"))
    twin = clone(fitted).set_params(n_jobs=2, max_iter=2).fit(X, SEEN)
    assert (twin.theta_ == clone(fitted).set_params(max_iter=2).fit(X, SEEN).theta_).all()


@pytest.mark.parametrize(
    ("expectations", "words"),
    [
        ([share("B-PRE").at_least(0.1)], "B-PRE.*did you mean"),
        ([share(ner="B-PER").at_least(0.1)], "the task 'ner' is unknown"),
        ([share("O").at_most(0.2), share("O").at_least(0.5)], "contradict each other"),
        ([share("O").at_least(1.2)], "between 0 and 1"),
        ([share(["B-PER", "I-PER"]).at_most(0.001)], "contradicts the labels"),
        ([share("B-PER").at_most(0)], "forbids the label 'B-PER'"),
        ([share("O", given=token_matches("^xyz$")).at_least(0.1)], "refers to nothing"),
    ],
)
def test_expectations_that_cannot_be(expectations, words):
    with pytest.raises(RuleError, match=words):
        chain(expectations=expectations).fit(X, SEEN)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"l1": 1.0}, "l1=1.0"),
        ({"expectations": rf.PosteriorRegularization(WANTED, slack=-1)}, "slack must be a finite number"),
        ({"expectations": ["share('O')"]}, "expectations must be a list of expectations"),
        ({"initial_label": ["O"]}, "initial_label must be None or one label"),
    ],
)
def test_what_does_not_go_with_expectations(how, words):
    with pytest.raises(InputError, match=words):
        chain(**{"expectations": WANTED, **how}).fit(X, SEEN)


def test_expectations_that_contradict_each_other_in_the_end_are_told():
    wanted = [share("O").at_most(0.5), share(["B-PER", "I-PER"]).at_most(0.4)]
    with pytest.warns(MissedExpectationWarning, match="could not be met"):
        chain(expectations=wanted, max_iter=2).fit(X, SEEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissedExpectationWarning)
        chain(expectations=WANTED, max_iter=2).fit(X, SEEN)


def test_grid_search_reaches_into_the_method():
    search = GridSearchCV(
        chain(expectations=rf.PosteriorRegularization(WANTED), max_iter=2),
        {"expectations__slack": [0.0, 0.05]},
        cv=2,
        scoring=lambda model, X, y: -model.log_[-1].objective,
        error_score="raise",
    )
    assert set(search.fit(X, SEEN).best_params_) == {"expectations__slack"}
