"""RuledCRF of segments: weights of rules about segments, learned on segmentations that are held out."""

from itertools import product

import numpy as np
import pytest

import rulefield as rf
from rulefield import RuledCRF, SegmentCRF
from rulefield import rules as r
from rulefield.datasets import make_citations
from rulefield.estimators.ruled.families import family_of
from rulefield.estimators.ruled.held_out import cross_fit, held_out_examples
from rulefield.exceptions import InputError
from rulefield.inference.sequences.segments.decode import decode
from rulefield.metrics import token_accuracy
from rulefield.problem.segments import SegmentProblem
from rulefield.rules import RuleCompiler

RULES = [
    (r.segments("title") <= 1).soft("learn").named("one title"),
    (r.segments("date") <= 1).soft("auto").named("one date"),
    r.before("author", "title").soft("learn").named("authors first"),
]


def without_prefixes(y):
    return [[label.split("-")[-1] for label in row] for row in y]


@pytest.fixture(scope="module", params=["BIO", None])
def data(request):
    X, y = make_citations(90, seed=3)
    return request.param, X, y if request.param else without_prefixes(y)


@pytest.fixture(scope="module")
def segments(data):
    scheme, X, y = data
    return SegmentCRF(scheme=scheme, max_iter=30, max_length=25).fit(X[:40], y[:40])


@pytest.fixture(scope="module")
def ruled(data, segments):
    _, X, y = data
    return RuledCRF(segments, cv="prefit", rules=RULES).fit(X[40:], y[40:])


def test_weights_are_learned_and_cost_no_accuracy(data, segments, ruled):
    _, X, y = data
    assert {rule.name for rule in ruled.rules_} <= {rule.name for rule in RULES}
    assert "one date" in {rule.name for rule in ruled.rules_}
    plain, better = (token_accuracy(y[40:], list(model.predict(X[40:]))) for model in (segments, ruled))
    assert better >= plain
    assert ruled.classes_.tolist() == segments.classes_.tolist()
    assert all(answer.status == "optimal" for answer in ruled.decode(X[40:44]))
    assert [len(rows) for rows in ruled.predict_kbest(X[40:42], k=3)] == [3, 3]


def test_what_is_reported_is_what_predictions_do(data, segments, ruled):
    """Sequences that the model and gold labels break, counted by the definition of each rule."""
    scheme, X, y = data
    sides = list(segments.predict(X[40:])), y[40:]
    for row, rule in zip(ruled.report_, RULES):
        broken = [r.check([rule.soft(1.0)], X[40:], side, scheme)[0].broken for side in sides]
        assert [row.broken_by_model, row.broken_by_gold] == broken


def test_a_wrong_auto_rule_is_reported_and_costs_nothing(data, segments):
    _, X, y = data
    wrong = r.absent("title").soft("auto").named("no title")
    with pytest.warns(UserWarning, match='one rule is not obeyed.*"no title"'):
        made = RuledCRF(segments, cv="prefit", rules=[wrong]).fit(X[40:], y[40:])
    assert made.rules_ == []
    assert made.report_[0].contradicted


def test_found_on_folds_saved_and_loaded(data, tmp_path):
    scheme, X, y = data
    made = RuledCRF(SegmentCRF(scheme=scheme, max_iter=15, tol=0.01), cv=2, max_rules=5).fit(X[:30], y[:30])
    assert made.n_candidates_ > made.n_kept_ >= len(made.rules_)
    made.save(tmp_path / "m.rf")
    again = rf.load(tmp_path / "m.rf")
    assert isinstance(again.estimator_, SegmentCRF)
    assert list(again.predict(X[30:40])) == list(made.predict(X[30:40]))
    assert again.report() == made.report()


def test_chains_alone_have_two_stages_and_joint_models_no_learned_rules(segments, data):
    with pytest.raises(InputError, match=r"^method='two-stage' decodes chains only; use method='soft', or"):
        RuledCRF(segments, cv="prefit", method="two-stage").fit(data[1], data[2])
    with pytest.raises(InputError, match="^estimator must be None or a ChainCRF or a SegmentCRF; got JointCRF"):
        RuledCRF(rf.JointCRF()).fit(data[1], data[2])


def test_examples_of_segments_agree_with_enumeration():
    """Scores, k best and the best labels under rules, over all segmentations of three tokens."""
    X, y = [["a", "b", "c"], ["b", "a"]], [["x", "y", "y"], ["y", "x"]]
    crf = SegmentCRF(max_iter=5, max_length=2, all_transitions=True).fit(X, y)
    [example, _] = held_out_examples(crf, X, y)
    spelling, m = example.spelling, example.spelling.n_labels
    every = []
    for labels in product(range(m), repeat=3):
        row = np.array(labels)
        opens, types = spelling.read(row)
        if (spelling.write(opens, types) == row).all() and example.score(row) > -np.inf:
            every.append((example.score(row), labels))
    every.sort(reverse=True)
    rows, scores = example.kbest(50)
    assert sorted(map(tuple, rows.tolist())) == sorted(labels for _, labels in every)
    np.testing.assert_allclose(scores, [score for score, _ in every], atol=1e-9)
    compiler = RuleCompiler([(r.segments("y") <= 0).soft(0.7), r.first("y").soft(0.4)], family_of(crf).table)
    rules = compiler(X[0])
    cost = compiler.amounts_of_all([X[0]] * len(every), [np.array(labels) for _, labels in every]) @ [0.7, 0.4]
    best = max(score - c for (score, _), c in zip(every, cost))
    found = decode(SegmentProblem(example.potentials, spelling, rules))
    assert found.objective == pytest.approx(best, abs=1e-9)


def test_folds_that_never_saw_a_type_or_a_length_score_it_as_their_worst(data):
    scheme, X, y = data
    rare = [*y[:11], ["B-rare", *["I-rare"] * (len(X[11]) - 1)] if scheme else ["rare"] * len(X[11])]
    fitted = cross_fit(SegmentCRF(scheme=scheme, max_iter=5), X[:12], rare, cv=2)
    assert len(fitted.examples) == 12
    [lonely] = [e for e in fitted.examples if len(set(e.spelling.type_of[e.gold].tolist())) == 1]
    assert np.isfinite(lonely.score(lonely.gold))


def test_words_of_labels_decide_whether_tokens_are_right():
    """Without a scheme a segment may begin elsewhere: its tokens are right all the same."""
    X, y = [["a", "b", "c"]] * 2, [["x", "y", "y"]] * 2
    crf = SegmentCRF(max_iter=3, max_length=3).fit(X, y)
    family = family_of(crf)
    gold = family.encode(y[0])
    assert family.in_words(gold).tolist() == [0, 1, 1]
    assert gold.tolist() == [0, 1, 3]
    assert held_out_examples(crf, X, y)[0].word_of.tolist() == [0, 1, 0, 1]
