"""JointCRF: scattered annotation, expectations, files, and its mistakes."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import rulefield as rf
from rulefield import GeneralizedExpectation, JointCRF, PosteriorRegularization
from rulefield.exceptions import InfeasibleError, InputError, LabelError, MissedExpectationWarning, RuleError
from rulefield.rules.expectations import expected, share
from rulefield.rules.facts import each_at_most_once, present
from rulefield.rules.finding.estimate import expectations_from
from rulefield.rules.numbers import segments
from rulefield.rules.tokens import token_matches

WORDS = {
    "Ada": ("B-PER", "NOUN"),
    "Bob": ("B-PER", "NOUN"),
    "Rome": ("B-LOC", "NOUN"),
    "runs": ("O", "VERB"),
    "sees": ("O", "VERB"),
    "the": ("O", "DET"),
    "dog": ("O", "NOUN"),
}


def corpus(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = [[str(w) for w in rng.choice(list(WORDS), rng.integers(2, 6))] for _ in range(n)]
    y = [{"ner": [WORDS[w][0] for w in x], "pos": [WORDS[w][1] for w in x]} for x in X]
    return X, y


def scattered(y):
    return [{"ner": row["ner"]} if i % 2 else {"ner": None, "pos": row["pos"]} for i, row in enumerate(y)]


@pytest.fixture(scope="module")
def fitted():
    X, y = corpus()
    return JointCRF(scheme={"ner": "BIO"}, l2=0.1, max_iter=8).fit(X, scattered(y))


def test_learns_both_tasks_from_scattered_annotation_and_never_goes_up(fitted):
    X, y = corpus(seed=1)
    scores = fitted.score_tasks(X, y)
    assert min(scores.values()) > 0.95
    assert_allclose(fitted.score(X, y), np.mean(list(scores.values())))
    values = [record.objective for record in fitted.log_]
    assert (np.diff(values) < 1e-6 * np.abs(values[1:])).all()
    marginals = fitted.predict_marginals(X[:2])
    assert_allclose(marginals[0]["pos"].sum(axis=1), 1.0)


@pytest.mark.parametrize("ruled", [False, True])
def test_probabilities_of_labelings_are_what_the_other_methods_say(fitted, ruled):
    """The k best have the same, and labels that are all known have probability 1."""
    X, _ = corpus(8, seed=3)
    rules = [segments("PER", task="ner") <= 1, present("VERB", task="pos").soft(0.7)] if ruled else []
    found = fitted.decode(X, rules=rules, probability=True, tolerance=0.0)
    for labeling, ranked in zip(found, fitted.predict_kbest(X, rules=rules, k=3)):
        assert ranked[0][0] == labeling.labels
        assert_allclose(labeling.probability, ranked[0][1], rtol=2e-6)  # k best leave out a millionth
        assert 0.0 < labeling.probability <= 1.0
        assert labeling.probability_error == 0.0
    known = [labeling.labels for labeling in found]
    sure = fitted.decode(X, rules=rules, known=known, probability=True, tolerance=0.0)
    assert_allclose([labeling.probability for labeling in sure], 1.0)


def test_files_and_clone(fitted, tmp_path):
    X, _ = corpus(5, seed=2)
    fitted.save(tmp_path / "joint")
    again = rf.load(tmp_path / "joint")
    assert list(again.predict(X)) == list(fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()


def test_expectations_hold_under_q():
    X, y = corpus(30)
    hidden = [
        {"ner": [label if label != "O" and t == 0 else None for t, label in enumerate(row["ner"])]} for row in y
    ]
    hidden[0] = {"ner": y[0]["ner"]}
    truth = np.mean([label != "O" for row in y for label in row["ner"]])
    wanted = [share(ner=["B-PER", "B-LOC"]).between(truth - 0.01, truth + 0.01)]
    crf = JointCRF(tasks=["ner"], l2=0.5, expectations=PosteriorRegularization(wanted), max_iter=5).fit(X, hidden)
    report = crf.expectations_[0]
    assert report.low - 1e-3 <= report.under_q <= report.high + 1e-3
    free = JointCRF(tasks=["ner"], l2=0.5, max_iter=5).fit(X, hidden)
    share_of = [np.mean([label != "O" for p in m.predict(X) for label in p["ner"]]) for m in (crf, free)]
    assert abs(share_of[0] - truth) < abs(share_of[1] - truth), "without it everything becomes an entity"


def test_generalized_expectation_pulls_the_model_itself():
    X, y = corpus(30)
    half = [{"pos": row["pos"]} if i < 3 else {"pos": [None] * len(row["pos"])} for i, row in enumerate(y)]
    wanted = [share(pos="VERB", given=token_matches("^(runs|sees)$")).between(0.95, 1.0)]
    strays = []
    for expectations in (None, wanted):
        keeper = GeneralizedExpectation(expectations, strength=50)
        crf = JointCRF(tasks=["pos"], l2=2.0, expectations=keeper, max_iter=10).fit(X, half)
        p = [m["pos"] for m in crf.predict_marginals(X)]
        verb = crf.classes_["pos"].tolist().index("VERB")
        strays.append(
            1 - np.mean([p[i][t, verb] for i, x in enumerate(X) for t, w in enumerate(x) if w in ("runs", "sees")])
        )
    assert strays[1] < strays[0]


def test_a_share_of_at_most_zero_forbids_joint_labels():
    X, y = corpus(20)
    crf = JointCRF(l2=0.1, max_iter=3, expectations=[share(ner="B-PER", pos="VERB").at_most(0)]).fit(X, scattered(y))
    states = np.arange(crf.model_.n_states).reshape(crf.model_.sizes)
    a, b = crf.classes_["ner"].tolist().index("B-PER"), crf.classes_["pos"].tolist().index("VERB")
    assert not crf.model_.allowed[states[a, b]]


def test_estimated_ranges_contain_what_they_were_estimated_from():
    _, y = corpus(40)
    found = expectations_from(y, width=0.1, least=0.05)
    tokens = [joint for row in y for joint in zip(row["ner"], row["pos"])]
    by_text = {repr(e.quantity): e for e in found}
    e = by_text["share(ner='O', pos='VERB')"]
    assert e.low <= np.mean([joint == ("O", "VERB") for joint in tokens]) <= e.high
    assert any("after" in text for text in by_text)


def test_ranges_by_standard_errors_of_the_sample():
    _, y = corpus(40)
    shares = [share(ner="O", pos="VERB"), share(ner="B-PER", pos="VERB")]
    seen, never = expectations_from(y, shares, sample=400, errors=2.0)
    value = np.mean([joint == ("O", "VERB") for row in y for joint in zip(row["ner"], row["pos"])])
    error = np.sqrt(value * (1 - value) / 400)
    assert_allclose([seen.low, seen.high], [value - 2 * error, value + 2 * error])
    assert (never.low, never.high) == (-np.inf, 2 / 400)  # as if seen once


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([["B", "O"]], r"y\[0\] must be a dict"),
        ([{"ner": ["B"]}], "task 'ner'.*2 tokens in X but 1 labels"),
        ([{"nre": ["B", "O"]}], "did you mean 'ner'"),
        ([{"ner": None}], "no sequence has labels"),
    ],
)
def test_bad_labels(y, words):
    with pytest.raises(LabelError, match=words):
        JointCRF(tasks=["ner"]).fit([["a", "b"]], y)


def test_bad_options_and_expectations():
    X, y = corpus(4)
    with pytest.raises(InputError, match="sample_weight must have one weight for each of 4 sequences"):
        JointCRF().fit(X, y, sample_weight=[1.0])
    with pytest.raises(InputError, match="slack must be a finite number"):
        JointCRF(expectations=PosteriorRegularization([share(ner="O").at_most(1)], slack=-1.0)).fit(X, y)
    with pytest.raises(RuleError, match="the task 'names' is unknown"):
        JointCRF(expectations=[share(names="B-PER").at_least(0.1)]).fit(X, y)
    with pytest.raises(RuleError, match="linear"):
        expected(segments("PER") <= 1)
    with pytest.raises(RuleError, match="low <= high"):
        share("O").between(0.5, 0.2)
    with pytest.raises(RuleError, match="B-PRE"):
        JointCRF(expectations=[share(ner="B-PRE").at_least(0.1)]).fit(X, y)


def test_missed_expectations_are_told():
    X, y = corpus(20)
    wanted = [share(ner="O").at_most(0.1), share(ner=["B-PER", "B-LOC"]).at_most(0.1)]
    hidden = [{"ner": [None] * len(row["ner"])} for row in y]
    hidden[0] = {"ner": y[0]["ner"]}
    with pytest.warns(MissedExpectationWarning, match="could not be met"):
        JointCRF(expectations=wanted, max_iter=2).fit(X, hidden)


def test_each_at_most_once_asks_for_a_task():
    X, y = [["Ada", "sleeps"]] * 3, [{"name": ["B-PER", "O"], "pos": ["N", "V"]}] * 3
    crf = JointCRF(tasks=["name", "pos"], max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(X, y)
    with pytest.raises(RuleError, match="does not say which task"):
        crf.decode(X, rules=[each_at_most_once()])


def test_no_tokens_do_not_obey_a_rule_that_asks_for_a_label(fitted):
    rule = present("PER", task="ner")
    for method in (fitted.decode, fitted.predict_marginals, fitted.predict_kbest, fitted.sample):
        with pytest.raises(InfeasibleError, match="0 tokens"):
            method([[]], rules=[rule])
    (soft,) = fitted.decode([[]], rules=[rule.soft(2.0)])
    assert (soft.status, soft.objective) == ("optimal", -2.0)
    assert fitted.predict([[]]) == [{"ner": [], "pos": []}]
