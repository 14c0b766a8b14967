"""ChainCRF under rules, against all labelings."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import cross_val_predict

import rulefield as rf
from rulefield import ChainCRF
from rulefield import rules as r
from rulefield.datasets import make_citations
from rulefield.estimators.chain.answers import ChainAnswers, best_without_rules
from rulefield.exceptions import InfeasibleError, RuleError

X = [["a", "b", "c", "a"], ["b", "b", "a"], ["c", "a", "b", "c"], ["a", "a"]] * 3
Y = [["A", "B", "A", "A"], ["B", "B", "A"], ["C", "A", "B", "C"], ["A", "A"]] * 3
RULES = [
    (r.segments("A") <= 1).named("one A"),
    r.before("A", "B").soft(0.7),
    r.implies(r.present("C"), r.first("C")).soft(0.4, per="once"),
]


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(l2=2.0).fit(X, Y)


def enumerated(crf, x, rules):
    """Every labeling that obeys the hard rules, and its log-score minus what soft rules cost."""
    paths = [list(p) for p in product(crf.classes_, repeat=len(x))]
    worth = []
    for path in paths:
        amounts = [rule.violation(x, path, scheme=None) for rule in rules]
        hard = any(rule.is_hard and amount for rule, amount in zip(rules, amounts))
        cost = sum(rule.cost(amount) for rule, amount in zip(rules, amounts) if not rule.is_hard)
        worth.append(-np.inf if hard else crf.log_likelihood([x], [path])[0] - cost)
    return paths, np.array(worth)


@pytest.mark.parametrize("x", [["a", "b", "c", "a"], ["c", "c", "a"], ["b"]])
def test_best_marginals_and_kbest_under_rules(crf, x):
    paths, worth = enumerated(crf, x, RULES)
    assert crf.predict([x], rules=RULES)[0] == paths[int(worth.argmax())]
    answer = crf.decode([x], rules=RULES)[0]
    assert answer.status == "optimal"
    assert answer.gap <= 1e-6
    named = {b.rule: b.amount for b in answer.broken}
    for rule in RULES:
        assert named.get(rule.label, 0) == rule.violation(x, answer.labels, scheme=None)
    p = np.exp(worth - worth.max())
    p /= p.sum()
    marginals = crf.predict_marginals([x], rules=RULES, tolerance=0.0)[0]
    for t, label in product(range(len(x)), crf.classes_):
        expected = sum(q for q, path in zip(p, paths) if path[t] == label)
        assert_allclose(marginals[t][label], expected, atol=1e-9)
    best = crf.predict_kbest([x], k=3, rules=RULES)[0]
    assert_allclose([q for _, q in best], np.sort(p)[::-1][: len(best)], rtol=1e-3)
    for labels in crf.sample([x], n_samples=20, rules=RULES, random_state=0)[0]:
        assert RULES[0].violation(x, labels, scheme=None) == 0


def test_rules_of_the_model_are_seen_by_cross_validation_and_saved(crf, tmp_path):
    rule = (r.count("B") <= 0).named("no B")
    ruled = ChainCRF(l2=2.0, rules=[rule])
    for labels in cross_val_predict(ruled, X, Y, cv=2):
        assert "B" not in labels
    ruled.fit(X, Y).save(tmp_path / "m")
    again = rf.load(tmp_path / "m")
    assert again.rules == [rule]
    assert "B" not in again.predict([["b", "b"]])[0]
    assert again.predict([["b", "b"]], rules=[])[0] == crf.predict([["b", "b"]])[0]


def test_contradictions_are_named_or_relaxed(crf):
    rules = [
        (r.count("A") >= 2).named("two A"),
        (r.count("A") <= 1).named("one A"),
        (r.count("C") <= 1).named("innocent"),
    ]
    with pytest.raises(InfeasibleError, match="sequence 0 .*two A; one A") as error:
        crf.predict([["a", "b"]], rules=rules)
    assert set(error.value.rules) == {"two A", "one A"}
    for method in (crf.predict, crf.predict_marginals, crf.predict_kbest, crf.sample):
        with pytest.raises(InfeasibleError, match=r"sequence 0 \(0 tokens\): .*two A"):
            method([[]], rules=rules)
        method([[]], rules=rules[1:])  # obeyed by a labeling of nothing
    crf.on_infeasible = "relax"
    try:
        answer = crf.decode([["a", "b"]], rules=rules)[0]
    finally:
        crf.on_infeasible = "raise"
    assert sum(b.amount for b in answer.broken) == 1
    assert len(answer.labels) == 2


@pytest.mark.parametrize("on_infeasible", ["raise", "relax"])
@pytest.mark.parametrize("rules", [[], [r.count("a") >= 3], [r.present("a")]], ids=["none", "broken", "obeyed"])
def test_known_labels_that_the_scheme_forbids_are_refused_with_and_without_rules(rules, on_infeasible):
    """Rules can give way, a scheme cannot: an empty answer would pass for one."""
    model = ChainCRF(scheme="BIO", max_iter=5, tol=1.0, on_infeasible=on_infeasible)
    model.fit([["x", "y"], ["x"]], [["B-a", "I-a"], ["O"]])
    for method in (model.predict, model.decode, model.predict_marginals, model.predict_kbest, model.sample):
        with pytest.raises(InfeasibleError):
            method([["x", "y"]], rules=rules, known=[["O", "I-a"]])


def test_threads_and_engines_give_the_same_answer(crf):
    several = ChainCRF(l2=2.0, n_jobs=2).fit(X, Y)
    expected = [a.labels for a in crf.decode(X, rules=RULES)]
    assert [a.labels for a in several.decode(X, rules=RULES)] == expected
    for engine in ("paths", "product", "milp", "enumerate"):
        objectives = [a.objective for a in crf.decode(X[:4], rules=RULES, engine=engine)]
        assert_allclose(objectives, [a.objective for a in crf.decode(X[:4], rules=RULES)], rtol=1e-6)


def test_known_labels_and_rules_together(crf):
    labels = crf.predict([["a", "b", "c", "a"]], rules=RULES, known=[["A", None, None, "B"]])[0]
    assert (labels[0], labels[3]) == ("A", "B")
    assert RULES[0].violation(list("abca"), labels, scheme=None) == 0


def test_wrong_rules_get_a_sentence(crf):
    with pytest.raises(RuleError, match="D"):
        crf.predict([["a"]], rules=[r.present("D")])
    with pytest.raises(RuleError, match="learn"):
        crf.predict([["a"]], rules=[r.present("A").soft("learn")])
    with pytest.raises(RuleError):
        crf.predict([["a"]], rules=["one title"])


def test_broken_rules_are_told_by_their_own_names(crf):
    rules = [r.present("A").soft(1e-6), r.absent("B").soft(1e-6), (r.segments("B") <= 0).named("no B").soft(1e-6)]
    for x in (["b", "b", "a"], ["a", "a"]):
        answer = crf.decode([x], rules=rules)[0]
        amounts = {rule.label: rule.violation(x, answer.labels, scheme=None) for rule in rules}
        assert {b.rule: b.amount for b in answer.broken} == {
            name: amount for name, amount in amounts.items() if amount
        }
    assert len(crf.decode([["b", "b", "a"]], rules=rules)[0].broken) == 2


def test_what_breaks_no_rule_is_answered_in_one_pass_with_the_same_words(monkeypatch):
    """Under rules most sequences need no engine; what the pass over all of them says is what an engine says of each."""
    X, y = make_citations(60, seed=2, noise=0.6)
    crf = ChainCRF(scheme="BIO", max_iter=8).fit(X[:20], y[:20])
    rules = [(r.segments("title") == 1), (r.segments("author") <= 1).soft(0.7), r.before("author", "title").soft(0.4)]
    many = crf.decode(X, rules=rules)
    monkeypatch.setattr(ChainAnswers, "_quick", lambda _, batch, *others: [None] * len(batch))
    each = crf.decode(X, rules=rules)
    assert [a.labels for a in many] == [a.labels for a in each]
    for a, b in zip(many, each):
        assert (a.status, a.engine, a.broken) == (b.status, b.engine, b.broken)
        assert a.objective == pytest.approx(b.objective, abs=1e-9)
        assert a.upper_bound == pytest.approx(b.upper_bound, abs=1e-9)
    assert 5 < sum(a.engine == "viterbi" for a in many) < 55


def test_sums_that_doubles_cannot_tell_apart_are_left_to_the_engines():
    X, y = make_citations(20, seed=2)
    crf = ChainCRF(scheme="BIO", max_iter=4).fit(X, y)

    def proved():
        data = crf._encoder.transform(X)
        return best_without_rules(*crf._decoder().scores(data, None, 0, len(data))).proved

    assert proved().all()
    crf.theta_ = crf.theta_ * 1e10
    assert not proved().any()
    crf.theta_ = crf.theta_ * 1e-9
    assert proved().all()
