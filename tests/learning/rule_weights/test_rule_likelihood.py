"""Weights of rules by likelihood: the definition over all labelings, its gradient, its least value."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from rulefield import rules as r
from rulefield.encode.spans import SegmentTable
from rulefield.learning.rule_weights import path as path_module
from rulefield.learning.rule_weights.lists import Example, Lists, MeasuredLists, count_segments
from rulefield.learning.rule_weights.path import PathData, PathSettings, losses, worth_under
from rulefield.learning.rule_weights.residual import broken_shares
from rulefield.metrics import span_counts
from rulefield.problem.chain import ChainPotentials
from rulefield.rules import RuleCompiler

LABELS = ["a", "b", "c"]
RULES = [
    (r.count("a") <= 1).soft("learn"),
    (r.count("a") - r.count("b") <= 0).soft("learn"),
    r.present("c").soft("learn"),
    (r.count("c") <= 2).soft(0.7),
]


def measured(rules=RULES, k=81, n_examples=6, seed=0):
    """The k best labelings of random sequences, under rules."""
    rng = np.random.default_rng(seed)
    rows = [
        Example(["x"] * 4, ChainPotentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3))), rng.integers(0, 3, 4))
        for _ in range(n_examples)
    ]
    return MeasuredLists.of(Lists.best(rows, k), RuleCompiler(rules, LABELS))


def objective(data, c, rules=RULES, l2=0.0, prior=0.0):
    """The definition: a sum over all labelings; targets are the gold labels, which are among them."""
    total = 0.5 * l2 * ((c - prior) ** 2).sum()
    prices = np.where(data.is_open, c, data.weights)
    for example in data.lists.examples:
        worth = {}
        for labels in product(range(3), repeat=4):
            names = [LABELS[i] for i in labels]
            units = np.array([rule.violation(example.tokens, names) for rule in rules])
            worth[labels] = example.potentials.score(np.array(labels)) - prices @ units
        total += logsumexp(list(worth.values())) - worth[tuple(example.gold.tolist())]
    return total


def losses_under(data, weights):
    return losses(data, worth_under(data.worth, data.units, weights))


def test_over_all_labelings_losses_are_those_of_the_likelihood():
    data = measured()
    weights = np.array([[0.3, 0.8, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    for size, c in enumerate(weights):
        assert_allclose(losses_under(data, weights).sum(axis=0)[size], objective(data, c))


@pytest.mark.parametrize("prior", [[0.0, 0.0, 0.0, 0.0], [0.0, 1.5, 0.3, 0.0]])
def test_weights_of_rules_that_were_taken_are_best(prior):
    data, prior = measured(), np.array(prior)
    taken, none = np.arange(3), np.zeros(4, bool)
    learned = PathData(data).follow(taken, prior, none, PathSettings(l2=0.1, sweeps=200)).weights[-1]
    assert learned[3] == 0, "fixed rules are not learned"
    least = objective(data, learned, l2=0.1, prior=prior)
    for rule in range(3):
        for step in (-0.01, 0.01):
            other = learned + step * np.eye(4)[rule]
            if other[rule] >= 0:
                assert objective(data, other, l2=0.1, prior=prior) >= least - 1e-6
    kept = PathData(data).follow(taken, prior, none, PathSettings(l2=1e6, sweeps=200)).weights[-1]
    assert_allclose(kept, prior, atol=1e-4)


def test_the_first_rule_of_a_path_is_worth_most_and_the_next_beyond_it():
    """Second-order gains at the residual price, from the definition over all labelings; one fact is taken once."""
    rules = [*RULES[:3], RULES[2], (r.count("b") <= 1).soft("learn")]
    data, settings = (
        measured(rules, n_examples=12, seed=4),
        PathSettings(min_price=0.0, min_gain=0.0, sweeps=50),
    )
    path = PathData(data).follow(np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings)
    assert len(path.order) >= 2
    bounds = np.full(5, np.inf)
    for size, rule in enumerate(path.order):
        gains = np.array([worth_of_rule(data, rules, path.weights[size], r) for r in range(5)])
        while bounds[np.argmax(bounds)] != gains[np.argmax(bounds)]:  # only the largest gain is computed again
            bounds[np.argmax(bounds)] = gains[np.argmax(bounds)]
        assert rule == np.argmax(bounds)
        bounds[rule] = -np.inf
    assert not {2, 3} <= set(path.order.tolist()), "one fact is paid once"
    assert np.count_nonzero(path.weights, axis=1).tolist() == list(range(len(path.order) + 1))
    half = np.arange(12) % 2 == 0
    some = PathData(data).follow(np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings, half)
    rows = [data.lists.examples[i] for i in np.flatnonzero(half)]
    alone = PathData(MeasuredLists.of(Lists.best(rows, 81), RuleCompiler(rules, LABELS))).follow(
        np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings
    )
    assert_allclose(some.weights, alone.weights, err_msg="a path of some sequences is that of these alone")
    again = PathData(data).follow(path.order, path.prior, np.zeros(5, bool), settings)
    assert_allclose(again.weights[-1], path.weights[-1], atol=0.01)


def test_the_rule_without_which_labels_are_hardly_less_likely_is_dropped_first(monkeypatch):
    """For the states that it costs; from the definition over all labelings. A rule is kept if it is worth enough."""
    monkeypatch.setattr(path_module, "MIN_LOSS", -np.inf)
    rules = [*RULES[:3], (r.count("b") <= 1).soft("learn"), r.first("a").soft("learn")]
    data = measured(rules, n_examples=12, seed=8)
    settings = PathSettings(min_price=0.0, min_gain=0.0, sweeps=50)
    search = PathData(data)
    path = search.follow(np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings)
    short = search.shorten(path, settings)
    assert sorted(short.order) == sorted(path.order)
    assert len(short.order) == 5
    dropped = []
    for size in range(len(short.order), 0, -1):
        c, left = short.weights[size], short.order[:size]
        assert set(np.flatnonzero(c)) <= set(left.tolist())
        without = [objective(data, np.where(np.arange(5) == rule, 0.0, c), rules) for rule in left]
        losses = (np.array(without) - objective(data, c, rules)) / (
            1 + path_module.STATE_SHARE * np.log2(data.states[left])
        )
        assert losses[size - 1] == pytest.approx(losses.min())
        dropped.append(losses.min())
    monkeypatch.setattr(path_module, "MIN_LOSS", np.median(dropped))
    kept = search.shorten(path, settings)
    assert len(kept.order) == max(len(dropped) - i for i, loss in enumerate(dropped) if loss >= np.median(dropped))
    assert_allclose(kept.weights, short.weights[: len(kept.order) + 1])
    assert len(search.shorten(path, replace(settings, most=1)).order) <= 1


def worth_of_rule(data, rules, c, rule):
    """What a rule's price, or less, adds to the log likelihood to second order; 0 if it has no price."""
    paid = replace(data, weights=np.zeros(len(c)))
    paid.__dict__["worth"] = data.worth - data.units @ c
    price = broken_shares(paid).prices[rule]
    slope = [objective(data, c + step * np.eye(len(c))[rule], rules) for step in (-1e-3, 0.0, 1e-3)]
    first, second = (slope[0] - slope[2]) / 2e-3, (slope[0] + slope[2] - 2 * slope[1]) / 1e-6
    if first <= 0 or price <= 0:
        return 0.0
    step = min(price, first / second)
    return step * (first - second * step / 2)


def test_a_path_ends_where_no_rule_is_worth_its_least_gain_or_at_most_so_many_are_taken():
    none, free = np.zeros(0, np.int64), np.ones(4, bool)
    data = PathData(measured())
    assert not data.follow(none, np.zeros(4), free, PathSettings(min_gain=1e6)).weights.any()
    assert len(data.follow(none, np.zeros(4), free, PathSettings(min_price=0.0, min_gain=0.0)).order) > 1
    assert len(data.follow(none, np.zeros(4), free, PathSettings(min_price=0.0, min_gain=0.0, most=1)).order) == 1


def test_labelings_that_break_a_hard_rule_play_no_part():
    data = measured([RULES[0], r.last("b")])
    for labels, worth in zip(data.lists.labelings, data.worth):
        assert np.isfinite(worth) == (labels[-1] == 1)
    assert all(data.lists.labelings[j][-1] == 1 for j in (*data.target, *data.best()))
    contradiction = measured([RULES[0], r.absent("a"), r.present("a")], n_examples=2)
    assert_allclose(
        contradiction.worth, contradiction.lists.score, err_msg="rules that forbid all labelings say nothing"
    )


def test_wrong_spans_are_those_that_span_counts_sees():
    labels = ["B-x/B-y", "I-x/I-y", "I-x/B-y", "I-x", "B-x", "O"]
    rng = np.random.default_rng(1)
    gold = [rng.integers(0, 6, n) for n in (7, 0, 3)]
    owner = np.array([2, 0, 0, 1, 0, 2, 0, 1])
    rows = [rng.integers(0, 6, len(gold[i])) for i in owner]
    found = count_segments(SegmentTable(labels, "BIO"), gold, rows, owner)
    for i, row, wrong, right in zip(owner, rows, found.wrong, found.right):
        counts = span_counts([[labels[k] for k in gold[i]]], [[labels[k] for k in row]], scheme="BIO").values()
        assert wrong == sum(c.gold + c.predicted - 2 * c.correct for c in counts)
        assert right == sum(c.correct for c in counts)
