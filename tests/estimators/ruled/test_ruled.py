"""RuledCRF: weights of rules learned on held-out data."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold

import rulefield as rf
from rulefield import ChainCRF, RuledCRF
from rulefield import rules as r
from rulefield.datasets import make_citations
from rulefield.encode.spans import SegmentTable
from rulefield.estimators.ruled.families import FOLD_TOL
from rulefield.estimators.ruled.gains import Gain, gains, negligible
from rulefield.estimators.ruled.held_out import (
    CrossFitted,
    cross_fit,
    default_folds,
    held_out_examples,
)
from rulefield.estimators.ruled.two_stage import TauChoice
from rulefield.estimators.ruled.weighing import FoldGains, choose_size
from rulefield.exceptions import InfeasibleError, InputError, RuleError
from rulefield.inference.sequences.exact import log_partition
from rulefield.inference.sequences.two_stage import decode_two_stage
from rulefield.learning.rule_weights.lists import Example, Lists, MeasuredLists, costs_of
from rulefield.learning.rule_weights.residual import broken_shares
from rulefield.metrics import span_f1, token_accuracy
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import RuleCompiler
from rulefield.rules.finding.mine import ASKED_FOR, FAMILIES


@pytest.fixture(scope="module")
def data():
    X, y = make_citations(110, seed=3)
    return X[:40], y[:40], X[40:80], y[40:80], X[80:], y[80:]


@pytest.fixture(scope="module")
def crf(data):
    return ChainCRF(scheme="BIO", max_iter=30, n_jobs=2).fit(data[0], data[1])


CANDIDATES = [
    (r.segments("title") <= 1).soft("learn").named("one title"),
    (r.segments("date") <= 1).soft("learn").named("one date"),
    (r.segments("author") >= 1).soft("learn").named("an author"),
    (r.segments("title") <= 40).soft("learn").named("never broken"),
]


def test_useless_rules_are_dropped_and_accuracy_does_not_suffer(crf, data):
    _, _, X_dev, y_dev, X_test, y_test = data
    ruled = RuledCRF(crf, cv="prefit", rules=CANDIDATES).fit(X_dev, y_dev)
    assert "never broken" not in [rule.name for rule in ruled.rules_]
    assert all(rule.weight > 0 for rule in ruled.rules_)
    plain, better = (token_accuracy(y_test, list(m.predict(X_test))) for m in (crf, ruled))
    assert better >= plain - 0.005


def test_same_weights_for_any_number_of_threads(crf, data):
    fits = [RuledCRF(crf, cv="prefit", rules=CANDIDATES, n_jobs=n).fit(data[2], data[3]) for n in (1, 2)]
    assert fits[0].rules_ == fits[1].rules_


def test_proposed_and_saved(crf, data, tmp_path):
    ruled = RuledCRF(crf, cv="prefit", rules="propose", n_jobs=2).fit(data[2], data[3])
    assert ruled.n_candidates_ > ruled.n_kept_ >= len(ruled.rules_)
    assert str(ruled.n_candidates_) in ruled.report()
    ruled.save(tmp_path / "m")
    again = rf.load(tmp_path / "m")
    assert list(again.predict(data[4])) == list(ruled.predict(data[4]))
    assert list(again.predict(x for x in data[4])) == list(ruled.predict(data[4])), (
        "any iterable of sequences will do"
    )
    assert again.report() == ruled.report()


def test_two_stage_with_mined_rules_chooses_tau(crf, data):
    ruled = RuledCRF(crf, cv="prefit", rules="mine", method="two-stage").fit(data[2][:12], data[3][:12])
    assert 0.8 <= ruled.tau_ <= 1.0
    answers = ruled.decode(data[4][:4])
    assert all(answer.status == "optimal" for answer in answers)
    assert [len(a.labels) for a in answers] == [len(x) for x in data[4][:4]]


def test_cross_fitting_learns_on_sequences_the_chain_has_not_seen(data):
    ruled = RuledCRF(ChainCRF(scheme="BIO", max_iter=15), rules=CANDIDATES, cv=2)
    ruled.fit(data[0], data[1])
    assert ruled.estimator_.n_iter_ > 0
    assert np.isfinite([row.weight for row in ruled.report_]).all()


def test_chains_of_folds_end_early_but_never_know_their_fold(data):
    """Their potentials are those of a chain fitted, at the folds' tolerance, on the other sequences alone."""
    X, y = data[0][:40], data[1][:40]
    fitted = cross_fit(ChainCRF(scheme="BIO"), X, y, cv=2)
    train, test = next(iter(KFold(2, shuffle=True, random_state=0).split(np.arange(len(X)))))
    alone = ChainCRF(scheme="BIO", tol=FOLD_TOL).fit([X[i] for i in train], [y[i] for i in train])
    assert alone.n_iter_ < fitted.crf.n_iter_
    own = held_out_examples(alone, [X[i] for i in test], [y[i] for i in test], fitted.crf)
    for example, same in zip(fitted.examples, own):
        np.testing.assert_allclose(example.potentials.unary, same.potentials.unary, atol=1e-9)


def test_folds_follow_the_number_of_sequences(data):
    assert [default_folds(n) for n in (2, 4, 5, 9, 10, 99, 100, 999, 1000, 10**6)] == [2, 4, 5, 5, 5, 5, 5, 5, 3, 3]
    few = RuledCRF(ChainCRF(scheme="BIO", max_iter=5)).fit(data[0][:2], data[1][:2])
    assert few.gains_ == []
    with pytest.raises(InputError, match=r"2 folds need as many sequences.*there is 1\. Label more"):
        RuledCRF(ChainCRF(scheme="BIO")).fit(data[0][:1], data[1][:1])
    with pytest.raises(InputError, match=r"7 folds need.*there are 6\."):
        RuledCRF(ChainCRF(scheme="BIO"), cv=7).fit(data[0][:6], data[1][:6])


def test_cross_fitting_takes_further_held_out_sequences(data):
    chain = ChainCRF(scheme="BIO", max_iter=15)
    fitted = cross_fit(chain, data[0], data[1], cv=2, held_out=(data[2], data[3]))
    assert len(fitted.examples) == len(data[0]) + len(data[2])
    assert list(fitted.crf.predict(data[4])) == list(chain.fit(data[0], data[1]).predict(data[4]))
    last = fitted.examples[-1]
    assert [fitted.crf.classes_[k] for k in last.gold] == list(data[3][-1])
    ruled = RuledCRF(fitted, cv="prefit", rules=CANDIDATES).fit([], [])
    assert sum(row.broken_by_gold >= 0 for row in ruled.report_) == len(CANDIDATES)


def test_rules_that_gold_labels_break_as_often_are_not_tried_and_at_most_so_many_are_taken(crf, data):
    ruled = RuledCRF(crf, cv="prefit", rules=CANDIDATES).fit(data[2], data[3])
    assert len(ruled.report_) == len(CANDIDATES)
    done = CrossFitted(crf, held_out_examples(crf, data[2], data[3]))
    prices = broken_shares(done.measured(CANDIDATES, done.lists)).prices
    assert ruled.n_kept_ == (prices >= 0.1).sum() < len(CANDIDATES)
    written = r.propose(data[3], scheme="BIO")
    few, many = (
        RuledCRF(crf, cv="prefit", rules=written, max_rules=most).fit(data[2], data[3]) for most in (4, None)
    )
    assert 0 < len(few.rules_) <= 4 < len(many.rules_)


def test_the_fewest_rules_are_chosen_that_lose_next_to_nothing():
    """5 % of the gain and a tenth of its standard error, in every measure."""
    likelier = np.tile([0.0, 9.0, 9.9, 10.0, 8.0], (50, 1))
    assert choose_size(likelier) == 2
    tokens = np.zeros((50, 5))
    tokens[:2, 3:] = 1
    assert choose_size(likelier, tokens) == 3, "one of two tokens is more than 5 %"
    assert choose_size(-likelier) == 0, "rules that only lose are not taken"
    assert choose_size(np.zeros((10, 3))) == 0


def test_auto_prices_are_residual_and_wrong_rules_are_not_obeyed(crf, data, tmp_path):
    rules = [
        (r.segments("author") <= 1).soft("auto").named("one author"),
        r.absent("title").soft("auto", per="once").named("no title"),
        r.present("author").soft(0.5),
    ]
    with pytest.raises(RuleError, match='the price of "one author" is still to be found'):
        crf.predict(data[4], rules=rules[:1])
    with pytest.warns(UserWarning, match='one rule is not obeyed.*break it in as many of.*"no title"'):
        ruled = RuledCRF(crf, cv="prefit", rules=rules, l2=1e6).fit(data[2], data[3])
    done = CrossFitted(crf, held_out_examples(crf, data[2], data[3]))
    prices = broken_shares(done.measured(rules[:2], done.lists)).prices
    assert prices[0] > 0
    assert prices[1] == 0
    assert ruled.rules_[0].weight == pytest.approx(prices[0], rel=0.1), (
        "a rule with a price hardly matters to another"
    )
    assert [rule.label for rule in ruled.rules_] == ["one author", "present('author')"]
    assert "not obeyed" in ruled.report().splitlines()[-1]
    assert "no title" in ruled.report().splitlines()[-1]
    ruled.save(tmp_path / "m")
    assert rf.load(tmp_path / "m").report() == ruled.report()

    own = ruled.rules_[0].weight
    with pytest.warns(UserWarning, match="not obeyed"):
        moved = RuledCRF(crf, cv="prefit", rules=rules).fit(data[2], data[3])
    assert moved.vetoed_ == (moved.rules_[0].weight == own), "a veto gives the price back"
    assert moved.vetoed_ == (moved.gains_[0].points < -moved.gains_[0].error)


def test_mined_rules_with_weights_are_few_and_help(crf, data):
    done = CrossFitted(crf, held_out_examples(crf, data[2], data[3]))
    found = r.mine(data[2], data[3])
    weights = done.weights_of(found)
    rules = [rule.soft(weight) for rule, weight in zip(found, weights) if weight > 0]
    assert 0 < len(rules) < len(found)
    assert token_accuracy(data[3], crf.predict(data[2], rules=rules)) > token_accuracy(data[3], crf.predict(data[2]))


def test_gains_are_those_of_the_metrics_and_saved(crf, data, tmp_path):
    table = SegmentTable([str(c) for c in crf.classes_], "BIO")
    number = {label: i for i, label in enumerate(crf.classes_)}
    gold, right = list(data[1]), list(crf.predict(data[0]))
    wrong = [[crf.classes_[0]] * len(row) if i % 3 else row for i, row in enumerate(right)]
    ids = [[np.array([number[label] for label in row]) for row in rows] for rows in (gold, right, wrong)]
    found = gains(*ids, table)
    before, after = (
        [token_accuracy(gold, rows), np.mean([a == b for a, b in zip(gold, rows)]), span_f1(gold, rows, scheme="BIO")]
        for rows in (right, wrong)
    )
    assert [gain.points for gain in found] == pytest.approx([100 * (b - a) for a, b in zip(before, after)])
    assert [gain.missed for gain in found] == pytest.approx([100 * (1 - a) for a in before])
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, len(gold), len(gold)) for _ in range(150)]
    drawn = [[gain.points for gain in gains(*([side[i] for i in rows] for side in ids), table)] for rows in draws]
    assert np.array([gain.error for gain in found]) == pytest.approx(np.std(drawn, axis=0), rel=0.25)
    ruled = RuledCRF(crf, cv="prefit", rules=CANDIDATES).fit(data[2], data[3])
    assert [gain.measure for gain in ruled.gains_] == ["tokens", "whole", "spans"]
    assert "held-out gain" in ruled.report()
    ruled.save(tmp_path / "m")
    assert rf.load(tmp_path / "m").gains_ == ruled.gains_


def test_found_rules_that_surely_fix_nothing_go_and_written_ones_stay():
    """1 % of the chain's mistakes, out of reach by two standard errors, each no less than one of the wrong sequences."""
    nothing = [Gain("tokens", 0.0, 0.001, 2.5), Gain("whole", 0.01, 0.02, 25.0), Gain("spans", 0.01, 0.01, 20.0)]
    assert negligible(nothing, 2000)
    assert negligible(nothing, 300)
    assert not negligible(nothing, 199), "too few mistakes to know"
    assert not negligible(nothing, 0), "no mistake, no knowledge"
    for i, gain in enumerate(nothing):
        hopeful = [replace(g, error=0.0051 * gain.missed) if i == k else g for k, g in enumerate(nothing)]
        assert not negligible(hopeful, 2000), "one measure may still gain"
    none, sure = np.zeros(400, dtype=np.int64), np.ones(30)
    assert FoldGains(nothing, none, sure, 400).is_vetoed(found=True)
    assert not FoldGains(nothing, none, sure, 400).is_vetoed(found=False)
    assert not FoldGains(nothing, none, sure, 0).is_vetoed(found=True)
    assert not FoldGains([], none, sure, 400).is_vetoed(found=True)


def test_a_loss_beyond_its_standard_error_is_vetoed_but_never_by_one_sequence():
    gain = [Gain("tokens", -0.1, 0.1, 5.0)]
    for lost, expected in (
        ([-9], False),
        ([-1, -1], True),
        ([-2, -2, 2], False),
        ([-1, -1, 3], False),
        ([1, 1], False),
    ):
        judged = FoldGains(gain, np.array([*lost, *[0] * 30]), np.ones(30), 10)
        assert judged.is_vetoed(found=False) is expected
        assert judged.is_vetoed(found=True) is expected


def test_found_rules_prove_themselves_by_tokens_and_likelihood_together():
    """Two gains, each in its standard errors, must exceed 2; written rules are asked for no proof."""
    gain = [Gain("tokens", 0.1, 0.1, 5.0)]
    for fixed, likelier, proved in (
        ([1, 1, 1], [0.1, 0.1, 0.1], True),
        ([1], [0.1], False),
        ([0], [0.1, 0.1, 0.1], False),
        ([0], [0.1] * 5, True),
        ([0], [-0.1, -0.1], False),
        ([1, 1], [-0.1], False),
        ([1] * 16, [-0.1], True),
        ([-1], [0.1] * 16, True),
        ([-1, -1], [0.1] * 99, False),
    ):
        judged = FoldGains(gain, np.array([*fixed, *[0] * 30]), np.array([*likelier, 0.0]), 10)
        assert judged.is_vetoed(found=True) is not proved, (fixed, likelier)
        assert judged.is_vetoed(found=False) is (sum(fixed) < -1)


def test_bad_options(crf, data):
    with pytest.raises(InputError, match="method must be one of 'soft', 'two-stage'"):
        RuledCRF(crf, cv="prefit", method="hard").fit(data[2], data[3])
    with pytest.raises(InputError, match="cv must be"):
        RuledCRF(crf, cv=1).fit(data[2], data[3])
    with pytest.raises(InputError, match="rules must be"):
        RuledCRF(crf, cv="prefit", rules="invent").fit(data[2], data[3])


def test_impossible_held_out_labels_are_left_out(crf, data):
    """Labels that begin inside a segment have no score to learn from: they are left out, not turned into NaN."""
    X, y = data[2][:12], [list(labels) for labels in data[3][:12]]
    y[3][0] = "I-" + y[3][0].split("-")[1]
    with pytest.warns(UserWarning, match="1 held-out sequences have labels that the scheme forbids, the first is 3"):
        some = RuledCRF(crf, cv="prefit", rules=CANDIDATES).fit(X, y)
    keep = [i for i in range(12) if i != 3]
    without = RuledCRF(crf, cv="prefit", rules=CANDIDATES).fit([X[i] for i in keep], [y[i] for i in keep])
    assert some.rules_ == without.rules_


def test_a_chain_that_is_not_fitted_is_told_the_way_out():
    with pytest.raises(NotFittedError, match="or give cv=5"):
        RuledCRF(ChainCRF(), cv="prefit").fit([["a"]], [["x"]])


def proposed(y):
    """Candidates by template: those about lengths must hold in four fifths of the sequences."""
    counts = r.propose(y, scheme="BIO", families=("singleton", "pairwise", "hierarchy"))
    return [*counts, *r.propose(y, scheme="BIO", families=("length",), min_share=0.8)]


def test_by_default_rules_are_found_on_five_folds(data):
    X, y = data[0][:15], data[1][:15]
    ruled = RuledCRF(ChainCRF(scheme="BIO", max_iter=5), n_jobs=2).fit(X, y)
    mined = [family for family in (*FAMILIES, *ASKED_FOR) if family != "state change"]
    found = [*proposed(y), *r.mine(X, y, scheme="BIO", families=mined)]
    assert ruled.n_candidates_ == len(found)
    assert {row.rule for row in ruled.report_} == {rule.label for rule in ruled.rules_}
    same = RuledCRF(ChainCRF(scheme="BIO", max_iter=5), cv=5, rules="find").fit(X, y)
    assert same.rules_ == ruled.rules_


def test_rules_are_found_where_tokens_have_no_texts(data):
    """Features without a word: what rules would say of tokens is left out, and nobody is warned of what was found."""
    X, y = ([[{"length": float(len(token))} for token in row] for row in data[0][:15]], data[1][:15])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ruled = RuledCRF(ChainCRF(scheme="BIO", tol=0.1)).fit(X, y)
    assert ruled.n_candidates_ == len([*proposed(y), *r.mine(None, y, scheme="BIO")])
    assert not any(row.contradicted for row in ruled.report_)


@pytest.fixture(scope="module")
def two_stage(crf, data):
    return RuledCRF(crf, cv="prefit", rules="mine", method="two-stage").fit(data[2][:12], data[3][:12])


def test_two_stage_decoding_takes_known_labels_and_engines_and_refuses_the_rest(two_stage, data):
    X = data[2][:2]
    free = two_stage.decode(X)
    other = next(label for label in two_stage.classes_ if label not in (free[0].labels[0], "O") and label[0] == "B")
    forced = two_stage.decode(X, known=[[other] + [None] * (len(X[0]) - 1), None])
    assert forced[0].labels[0] == other
    assert forced[1] == free[1]
    assert all(found.cost is not None and found.cost_lower_bound <= found.cost + 1e-6 for found in free)
    with pytest.raises(InputError, match="two-stage decoding has one engine, 'auto'; got engine='soft_dd'"):
        two_stage.decode(X, engine="soft_dd")
    with pytest.raises(TypeError, match="konwn"):
        two_stage.decode(X, konwn=None)
    with pytest.raises(InputError, match="two-stage decoding has no distribution"):
        two_stage.predict_marginals(X)


def test_two_stage_decoding_names_or_relaxes_contradictions(two_stage, data):
    kind = two_stage.classes_[0].split("-")[-1]
    rules = [r.absent(kind).named("none"), r.present(kind).named("some")]
    with pytest.raises(InfeasibleError) as error:
        two_stage.predict(data[2][:1], rules=rules)
    assert set(error.value.rules) == {"none", "some"}
    relaxed = clone(two_stage).set_params(on_infeasible="relax")
    relaxed.__dict__ |= {name: value for name, value in vars(two_stage).items() if name.endswith("_")}
    assert relaxed.decode(data[2][:1], rules=rules)[0].broken[0].cost == np.inf


def test_scores_are_counted_as_chains_count_them(data):
    """Prefixed labels tell the scheme where none was given."""
    chain = ChainCRF(max_iter=10).fit(data[0], data[1])
    ruled = RuledCRF(chain, cv="prefit", rules=[]).fit(data[2], data[3])
    assert ruled.score(data[2], data[3]) == chain.score(data[2], data[3])
    assert ruled.score(data[2], data[3]) != span_f1(data[3], list(chain.predict(data[2])), scheme=None)


def test_a_fitted_chain_that_makes_no_mistake_is_asked_whether_it_saw_the_data(data):
    chain = ChainCRF(scheme="BIO", l2=1e-3).fit(data[0][:8], data[1][:8])
    assert list(chain.predict(data[0][:8])) == list(data[1][:8])
    with pytest.warns(UserWarning, match="makes no mistake on these 8 sequences.*fitted on folds"):
        assert not RuledCRF(chain, cv="prefit", rules="propose").fit(data[0][:8], data[1][:8]).rules_


def test_a_fitted_chain_is_cloned_and_fitted_on_folds_by_default(data):
    """As in scikit-learn's meta-estimators: whether the chain was fitted before, and on what, changes nothing."""
    fresh = ChainCRF(scheme="BIO", max_iter=8)
    X, y = data[0][:20], data[1][:20]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(fresh).fit(data[2], data[3])
        made = [RuledCRF(chain, rules=CANDIDATES, random_state=0).fit(X, y) for chain in (fresh, fitted)]
    assert [rule.text for rule in made[0].rules_] == [rule.text for rule in made[1].rules_]
    assert np.array_equal(made[0].estimator_.theta_, made[1].estimator_.theta_)


def test_reports_tell_what_a_rule_fixes_and_breaks(crf, data, tmp_path):
    ruled = RuledCRF(crf, cv="prefit", rules=CANDIDATES).fit(data[2], data[3])
    plain, rule = list(crf.predict(data[2])), ruled.rules_[0]
    row = next(row for row in ruled.report_ if row.rule == rule.label)
    alone = list(crf.predict(data[2], rules=[rule]))
    right = [np.array([a == b for row, g in zip(rows, data[3]) for a, b in zip(row, g)]) for rows in (plain, alone)]
    assert row.acted == sum(a != b for a, b in zip(plain, alone))
    assert (row.fixed, row.broken) == ((right[1] & ~right[0]).sum(), (right[0] & ~right[1]).sum())
    assert row.helped == row.fixed - row.broken
    ruled.save(tmp_path / "m")
    assert rf.load(tmp_path / "m").report_ == ruled.report_


@pytest.mark.parametrize("seed", range(3))
def test_the_second_stage_of_lists_is_that_of_the_engine(seed):
    rng = np.random.default_rng(seed)
    rules = [(r.count("a") <= 1).soft(0.7), r.before("a", "b").soft(1.3), r.first("c")]
    rows = [
        Example(["x"] * 3, ChainPotentials(rng.normal(size=(3, 3)), rng.normal(size=(3, 3))), rng.integers(0, 3, 3))
        for _ in range(8)
    ]
    lists, compiler = Lists.best(rows, 27), RuleCompiler(rules, ["a", "b", "c"])
    costs = costs_of(MeasuredLists.of(lists, compiler).units, np.array([0.7, 1.3, np.inf]))
    choice = TauChoice(lists, costs, (1.0, 0.9, 0.5, 0.0))
    for k, tau in enumerate(choice.taus):
        for i, row in enumerate(rows):
            problem = ChainProblem(row.potentials, compiler(row.tokens))
            answer = decode_two_stage(problem, tau=float(tau), log_partition=log_partition(row.potentials))
            assert lists.labelings[choice._places[k][i]].tolist() == answer.labels.tolist()
    right = choice._right.sum(axis=1)
    best = choice._right[int(np.argmax(right))]
    chosen = choice.best()
    behind = best - choice._right
    assert behind[chosen].sum() <= np.sqrt((behind[chosen] ** 2).sum())
    assert all(row.sum() > np.sqrt((row**2).sum()) for row in behind[:chosen]), "the first that is near enough"


def test_rules_that_read_tokens_are_compiled_once_for_many_sequences(crf, data):
    """Tables, token classes and caps are those of each sequence's own rules, rules that are said together included."""
    X = [*data[2], ["Proc."]]
    rules = [
        r.before("author", "title").soft(0.7),
        r.before("journal", "title").soft(0.7),
        r.at(r.token_equals("Proc."), next="booktitle").soft(1.1),
        r.at(r.token_matches("[0-9]+"), prev="title", next="date").soft(0.4),
        (r.segments("title") <= 1).soft(2.0),
        r.last("date").soft(0.2),
    ]
    data_, under = crf._encode(X).data, crf._answers(rules, "raise", 1)
    some = np.array([0, 3, 4, len(X) - 1])
    classes = under.compiler.reader.classes_of_all(X, data_.lengths)
    found, _ = under._tables(X, classes, data_.offsets, some)
    own, _ = under._compiled([X[i] for i in some], data_.lengths[some])
    assert own[0].together is not None
    for a, b in zip(found, own):
        for mine, right in ((a, b), (a.together, b.together)):
            assert mine.shared is right.shared
            np.testing.assert_array_equal(mine.classes, right.classes)
            np.testing.assert_array_equal(mine.caps, right.caps)
    assert crf.predict(X, rules=rules).tolist() == [crf.predict([x], rules=rules)[0] for x in X]


def test_rules_are_compiled_once_for_all_calls_under_the_same_ones(crf, data, monkeypatch):
    made, init = [], RuleCompiler.__init__
    monkeypatch.setattr(RuleCompiler, "__init__", lambda self, *args: made.append(1) or init(self, *args))
    one, other = [(r.segments("title") <= 1).soft(1.5)], [(r.segments("title") <= 0).soft(9.0)]
    answers = [crf.predict(data[4], rules=rules).tolist() for rules in (one, [*one], other, one)]
    assert len(made) == 3, "the rules themselves are compared, not the list"
    assert answers[0] == answers[1] == answers[3] != answers[2]
