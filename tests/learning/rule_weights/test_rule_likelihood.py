"""Weights of rules by likelihood: the definition over all labelings, its gradient, its least value."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from rulefield import rules as r
from rulefield.encode.spans import SegmentTable
from rulefield.learning.rule_weights.distances import count_segments
from rulefield.learning.rule_weights.learners import Example, Examples
from rulefield.learning.rule_weights.likelihood import learn_likelihood
from rulefield.learning.rule_weights.lists import Lists, MeasuredLists
from rulefield.learning.rule_weights.path import PathData, PathSettings, losses
from rulefield.learning.rule_weights.residual import expected_broken, shares_in
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


def examples(rules, fixed, n_examples=6, seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        Example(["x"] * 4, ChainPotentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3))), rng.integers(0, 3, 4))
        for _ in range(n_examples)
    ]
    return Examples(rows, RuleCompiler(rules, LABELS), np.array(fixed), np.zeros(len(rules), dtype=bool))


def learned_from(data, k=81, taken=(0, 1, 2), prior=None, **options):
    """Weights learned from the k best labelings of each sequence."""
    prior = np.zeros(len(data.learned)) if prior is None else prior
    return learn_likelihood(data, measured(data, k), np.array(taken), prior, **options)


def measured(data, k=81):
    return MeasuredLists.of(Lists.best(data.examples, k), data).paid(data)


def objective(data, c, l2=0.0, prior=0.0):
    """The definition: a sum over all labelings; targets are the gold labels, which are among them."""
    total = 0.5 * l2 * ((c - prior) ** 2).sum()
    for example in data.examples:
        worth = {}
        for labels in product(range(3), repeat=4):
            ids = np.array(labels)
            units = data.compiler.amounts(example.tokens, ids)
            worth[labels] = example.potentials.score(ids) - data.weights(c) @ units
        total += logsumexp(list(worth.values())) - worth[tuple(example.gold.tolist())]
    return total


def test_over_all_labelings_losses_are_those_of_the_likelihood():
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    weights = np.array([[0.3, 0.8, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    for size, c in enumerate(weights):
        assert_allclose(losses(measured(data), weights).sum(axis=0)[size], objective(data, c))


@pytest.mark.parametrize("prior", [[0.0, 0.0, 0.0, 0.0], [0.0, 1.5, 0.3, 0.0]])
def test_learned_weights_are_best(prior):
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    prior = np.array(prior)
    learned = learned_from(data, prior=prior, l2=0.1)
    assert learned.theta[3] == 0, "fixed rules are not learned"
    least = objective(data, learned.theta, 0.1, prior)
    assert_allclose(learned.objective, least)
    for rule in range(3):
        for step in (-0.01, 0.01):
            other = learned.theta + step * np.eye(4)[rule]
            if other[rule] >= 0:
                assert objective(data, other, 0.1, prior) >= least - 1e-6
    kept = learned_from(data, prior=prior, l2=1e6).theta
    assert_allclose(kept, prior, atol=1e-4)


def test_the_first_rule_of_a_path_is_worth_most_and_the_next_beyond_it():
    """Second-order gains at the residual price, from the definition over all labelings; one fact is taken once."""
    rules = [*RULES[:3], RULES[2], (r.count("b") <= 1).soft("learn")]
    data = examples(rules, [np.nan] * 5, n_examples=12, seed=4)
    lists, settings = measured(data), PathSettings(l2=1.0, most=4, min_price=0.0, min_gain=0.0, sweeps=50)
    path = PathData(lists, data.gold).follow(np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings)
    assert len(path.order) >= 2
    bounds = np.full(5, np.inf)
    for size, rule in enumerate(path.order):
        gains = np.array([worth_of_rule(data, lists, path.weights[size], r) for r in range(5)])
        while bounds[np.argmax(bounds)] != gains[np.argmax(bounds)]:  # only the largest gain is computed again
            bounds[np.argmax(bounds)] = gains[np.argmax(bounds)]
        assert rule == np.argmax(bounds)
        bounds[rule] = -np.inf
    assert not {2, 3} <= set(path.order.tolist()), "one fact is paid once"
    assert np.count_nonzero(path.weights, axis=1).tolist() == list(range(len(path.order) + 1))
    half = np.arange(0, 12, 2)
    some = PathData(lists, data.gold).follow(np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings, half)
    alone = PathData(lists.some(half), data.gold[half]).follow(
        np.zeros(0, np.int64), np.zeros(5), np.ones(5, bool), settings
    )
    assert_allclose(some.weights, alone.weights, err_msg="a path of some sequences is that of these alone")
    again = PathData(lists, data.gold).follow(path.order, path.prior, np.zeros(5, bool), settings)
    assert_allclose(again.weights[-1], path.weights[-1], atol=0.01)


def worth_of_rule(data, lists, c, rule):
    """What a rule's price, or less, adds to the log likelihood to second order; 0 if it has no price."""
    shares = shares_in(expected_broken(lists.lists, lists.units, lists.worth - lists.units @ c), data.gold)
    slope = [objective(data, c + step * np.eye(len(c))[rule]) for step in (-1e-3, 0.0, 1e-3)]
    first, second = (slope[0] - slope[2]) / 2e-3, (slope[0] + slope[2] - 2 * slope[1]) / 1e-6
    if first <= 0 or shares.prices[rule] <= 0:
        return 0.0
    step = min(shares.prices[rule], first / second)
    return step * (first - second * step / 2)


def test_a_path_ends_where_no_rule_is_worth_its_least_gain():
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    none, free = np.zeros(0, np.int64), np.ones(4, bool)
    settings = PathSettings(min_gain=1e6)
    assert not PathData(measured(data), data.gold).follow(none, np.zeros(4), free, settings).weights.any()


def test_small_sets_grow_by_what_is_decoded_until_nothing_is_new():
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7], n_examples=20, seed=3)
    learned = learned_from(data, k=2, rounds=20, l2=0.01)
    assert learned.converged
    assert 1 < learned.n_iter < 20
    assert learned.message == "Decoding brought no new labeling."


@pytest.mark.parametrize("last", [r.last("b"), r.last("b").soft(0.4)])
@pytest.mark.parametrize("k", [1, 3, 9, 81])
def test_where_the_list_is_sure_enumeration_finds_nothing_better(k, last):
    """Lists joined by a labeling that is worth less than their last, and without those that a hard rule forbids."""
    data = examples([*RULES[:3], last], [np.nan, np.nan, np.nan, last.weight], n_examples=30, seed=5)
    lists = measured(data, k)
    lists = MeasuredLists.of(lists.lists.joined({0: np.zeros(4, np.int64)})[0], data).paid(data)
    prices = np.array([0.9, 0.0, 1.5, 0.0])
    unsure = set(lists.unsure(prices).tolist())
    best = lists.best(prices)
    beaten = {
        i
        for i, example in enumerate(data.examples)
        if max(worth_of(data, example, labels, prices) for labels in product(range(3), repeat=4))
        > worth_of(data, example, lists.lists.labelings[best[i]], prices) + 1e-9
    }
    assert beaten <= unsure
    assert k < 81 or not unsure, "a list of all labelings is always sure"
    assert k != 9 or 0 < len(unsure) < 30


def worth_of(data, example, labels, prices) -> float:
    ids = np.array(labels)
    units = data.compiler.amounts(example.tokens, ids)
    costs = units[units > 0] * data.weights(prices)[units > 0]
    return example.potentials.score(ids) - float(costs.sum())


def test_labelings_that_break_a_hard_rule_play_no_part():
    rules = [RULES[0], r.last("b")]
    data = examples(rules, [np.nan, np.inf])
    lists = measured(data)
    assert np.bincount(lists.lists.owner).tolist() == [27] * len(data)
    for labels in lists.lists.labelings:
        assert labels[-1] == 1
    assert_allclose(lists.worth, lists.lists.score)
    one = examples([RULES[0], r.absent("a"), r.present("a")], [np.nan, np.inf, np.inf], n_examples=2)
    alone = measured(one).lists.labelings
    assert [labels.tolist() for labels in alone] == [e.gold.tolist() for e in one.examples], (
        "a contradiction leaves gold"
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
