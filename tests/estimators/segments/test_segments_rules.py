"""SegmentCRF under rules and known labels: what every method answers, from the definition of the rules."""

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest

import rulefield as rf
from oracles.rules import TOKENS, pick
from oracles.rules import random_rule as random_language_rule
from rulefield import SegmentCRF
from rulefield import rules as r
from rulefield.encode.schemes import allowed_transitions
from rulefield.exceptions import InfeasibleError, InputError, LabelError, RuleError
from rulefield.rules.expression import LabeledTokens


def corpus(scheme, n=30, seed=0):
    """Random words, labeled with some reason: every word leans to a type."""
    rng = np.random.default_rng(seed)
    lean = {"p": "a", "q": "b", ",": "O"}
    X, y = [], []
    for _ in range(n):
        words, labels = [], []
        for _ in range(rng.integers(1, 4)):
            word = pick(rng, TOKENS)
            kind = lean[word] if rng.random() < 0.8 else pick(rng, ["a", "b", "O"])
            for k in range(rng.integers(1, 3)):
                words.append(word if rng.random() < 0.9 else pick(rng, TOKENS))
                plain = kind == "O" or scheme is None
                labels.append(kind if plain else f"{'B' if k == 0 else 'I'}-{kind}")
        X.append(words)
        y.append(labels)
    return X, y


def fit(scheme):
    return SegmentCRF(scheme=scheme, max_length=6, all_transitions=True, l2=0.1).fit(*corpus(scheme))


model = cache(fit)


def listed(crf, tokens, rules):
    """Every labeling of the tokens, with its log-probability less what the rules cost: the definition."""
    words = ["O", "B-a", "I-a", "B-b", "I-b"] if crf.scheme else ["O", "a", "b"]
    allowed, begin, end = allowed_transitions(words, crf.scheme)
    ways = [
        y
        for y in product(range(len(words)), repeat=len(tokens))
        if begin[y[0]] and end[y[-1]] and all(allowed[i, j] for i, j in pairwise(y))
    ]
    named = [[words[i] for i in y] for y in ways]
    worth = crf.log_likelihood([tokens] * len(named), named)
    for k, labels in enumerate(named):
        world = LabeledTokens(tokens, labels, crf.scheme)
        worth[k] -= sum(rule.cost(rule.body.amount(world)) for rule in rules)
    return named, worth


@pytest.mark.parametrize("scheme", ["BIO", None])
def test_every_method_follows_the_rules_by_definition(scheme):
    crf, rng = model(scheme), np.random.default_rng(1)
    for trial in range(40):
        tokens = [pick(rng, TOKENS) for _ in range(rng.integers(1, 5))]
        rules = [random_language_rule(rng, ["a", "b", "O", ["a", "b"]]) for _ in range(2)]
        named, worth = listed(crf, tokens, rules)
        if worth.max() == -np.inf:
            with pytest.raises(InfeasibleError, match="no segmentation obeys"):
                crf.predict([tokens], rules=rules)
            continue
        (best,) = crf.decode([tokens], rules=rules)
        assert best.status == "optimal"
        assert worth[named.index(best.labels)] == pytest.approx(worth.max(), abs=1e-7)
        assert list(crf.predict([tokens], rules=rules)) == [best.labels]
        total = np.logaddexp.reduce(worth)
        (sure,) = crf.decode([tokens], rules=rules, probability=True, tolerance=0.0)
        assert sure.labels == best.labels
        assert sure.probability == pytest.approx(np.exp(worth.max() - total), rel=1e-8)
        assert sure.probability_error == 0.0
        (row,) = crf.predict_kbest([tokens], rules=rules, k=4)
        ranked = np.exp(np.sort(worth[worth > -np.inf])[::-1][:4] - total)
        np.testing.assert_allclose([p for _, p in row], ranked, atol=1e-6)
        (table,) = crf.predict_marginals([tokens], rules=rules)
        kinds = [[label.split("-")[-1] for label in labels] for labels in named]
        for t in range(len(tokens)):
            for kind in crf.classes_:
                share = sum(np.exp(w - total) for w, k in zip(worth, kinds) if k[t] == kind)
                assert table[t][kind] == pytest.approx(share, abs=1e-6)
        if trial < 8:
            (drawn,) = crf.sample([tokens], rules=rules, n_samples=50, random_state=trial)
            assert all(worth[named.index(labels)] > -np.inf for labels in drawn)


def test_the_models_own_rules_none_and_others():
    X, _ = corpus("BIO")
    crf = fit("BIO").set_params(rules=[r.absent("a")])
    assert not any("a" in label for labels in crf.predict(X) for label in labels)
    assert not any(s.type == "a" for row in crf.predict_segments(X) for s in row)
    assert list(crf.predict(X, rules=[])) == list(model("BIO").predict(X))
    assert crf.score(X, crf.predict(X, rules=[]), rules=[]) == 1.0
    assert all(d["a"] == 0 for row in crf.predict_marginals(X[:3]) for d in row)
    others = crf.decode(X, rules=[(r.segments("b") <= 0).soft(1.0, per="once").named("no b")])
    assert {b.rule for row in others for b in row.broken} == {"no b"}
    with pytest.raises(RuleError, match="still to be learned"):
        crf.predict(X, rules=[r.absent("a").soft("learn")])
    with pytest.raises(RuleError, match="matches no label"):
        crf.predict(X, rules=[r.absent("aa")])


@pytest.mark.parametrize("scheme", ["BIO", None])
def test_known_labels_hold_with_and_without_rules(scheme):
    crf = model(scheme)
    x, word = ["p", "q", ",", "p"], "B-b" if scheme else "b"
    known = [[word, None, {"O", word}, None], None]
    for rules in ([], [r.last("a")]):
        labels, free = crf.predict([x, x], known=known, rules=rules)
        assert labels[0] == word
        assert labels[2] in ("O", word)
        assert list(free) == list(crf.predict([x], rules=rules)[0])
        named, worth = listed(crf, x, rules)
        fits = [y[0] == word and y[2] in ("O", word) for y in named]
        best = max(w for w, ok in zip(worth, fits) if ok)
        assert worth[named.index(labels)] == pytest.approx(best, abs=1e-7)
        assert crf.predict_marginals([x], known=known[:1], rules=rules)[0][0]["b"] == pytest.approx(1.0)
        assert all(y[0] == word for y in crf.sample([x], known=known[:1], rules=rules, n_samples=20)[0])
    with pytest.raises(LabelError, match="unknown"):
        crf.predict([x], known=[["B-c", None, None, None]])
    with pytest.raises(LabelError, match="sequences"):
        crf.predict([x], known=[None, None])


def test_rules_that_clash_are_named_or_broken_least():
    crf = fit("BIO")
    rules = [r.absent("a").named("none"), r.present("a").named("some"), (r.segments("b") <= 5).named("few")]
    with pytest.raises(InfeasibleError, match="none; some") as error:
        crf.decode([["p", "q"]], rules=rules)
    assert error.value.rules == ("none", "some")
    (found,) = crf.set_params(on_infeasible="relax").decode([["p", "q"]], rules=rules)
    assert found.status == "optimal"
    assert [b.cost for b in found.broken] == [np.inf]
    with pytest.raises(InfeasibleError, match="known labels"):
        crf.predict([["p", "q"]], known=[["O", "I-a"]])


def test_no_tokens_break_what_asks_for_some():
    crf = fit("BIO")
    assert list(crf.predict([[]], rules=[r.absent("a")])) == [[]]
    assert crf.decode([[]])[0].labels == []
    assert crf.predict_kbest([[]], rules=[r.absent("a")]) == [[([], 1.0)]]
    with pytest.raises(InfeasibleError, match="present"):
        crf.predict([[]], rules=[r.present("a")])
    relaxed = crf.set_params(on_infeasible="relax").decode([[]], rules=[r.present("a")])
    assert relaxed[0].broken[0].cost == np.inf


def test_files_threads_and_limits(tmp_path):
    X, _ = corpus("BIO", 12, seed=4)
    crf = fit("BIO").set_params(rules=[(r.segments("a") <= 1).soft(2.5), r.before("a", "b")], on_infeasible="relax")
    crf.save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert again.rules == crf.rules
    assert again.decode(X) == crf.decode(X)
    assert again.set_params(n_jobs=3).decode(X) == crf.decode(X)
    one, two = (again.set_params(n_jobs=n).sample(X, n_samples=3, random_state=1) for n in (1, 2))
    assert one == two
    hard = [r.before("a", "b"), r.before("b", "a"), r.segments("a") + r.segments("b") == 2]
    limited = crf.decode(X, rules=hard, node_limit=1)
    assert {row.status for row in limited} & {"bounded"}
    with pytest.raises(InputError, match="soft_dd"):
        crf.decode(X, engine="soft_ddd")
