"""Weights of rules by likelihood: the definition over all labelings, its gradient, its least value."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from rulefield import rules as r
from rulefield.encode.spans import SegmentTable
from rulefield.learning.rule_weights.distances import WrongSpans, wrong_labels
from rulefield.learning.rule_weights.learners import Example, Examples
from rulefield.learning.rule_weights.likelihood import Likelihood, Penalty, learn_likelihood
from rulefield.learning.rule_weights.lists import Lists, MeasuredLists
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


def learned_from(data, k=81, **options):
    """Weights learned from the k best labelings of each sequence."""
    return learn_likelihood(data, measured(data, k), **options)


def measured(data, k=81):
    return MeasuredLists.of(Lists.best(data.examples, k), data).paid(data)


def objective(data, c, l1, l2):
    """The definition: a sum over all labelings; targets are the gold labels, which are among them."""
    total = l1 * c.sum() + 0.5 * l2 * c @ c
    for example in data.examples:
        worth = {}
        for labels in product(range(3), repeat=4):
            ids = np.array(labels)
            units = data.compiler.amounts(example.tokens, ids)
            worth[labels] = example.potentials.score(ids) - data.weights(c) @ units
        total += logsumexp(list(worth.values())) - worth[tuple(example.gold.tolist())]
    return total


def test_over_all_labelings_it_is_the_penalized_likelihood():
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    likelihood = Likelihood(measured(data))
    assert len(likelihood.first) == len(data), "no sequence is left out: labelings pay differently"
    c = np.array([0.3, 0.8, 0.1, 0.0])
    value, slope = likelihood.value(c, Penalty.of(0.2, 0.5, None, data.learned))
    assert_allclose(value, objective(data, c, 0.2, 0.5))
    for rule in range(3):
        step = np.eye(4)[rule] * 1e-5
        change = objective(data, c + step, 0.2, 0.5) - objective(data, c - step, 0.2, 0.5)
        assert_allclose(slope[rule], change / 2e-5, atol=1e-6)


@pytest.mark.parametrize("l1", [0.05, 2.0])
def test_learned_weights_are_best(l1):
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    learned = learned_from(data, l1=l1, l2=0.1)
    assert learned.theta[3] == 0, "fixed rules are not learned"
    here = objective(data, learned.theta, l1, 0.1)
    assert_allclose(learned.objective, here)
    for rule in range(3):
        for step in (-1e-3, 1e-3):
            there = learned.theta + step * np.eye(4)[rule]
            if there[rule] >= 0:
                assert objective(data, there, l1, 0.1) >= here - 1e-7


def test_weights_with_a_prior_price_are_drawn_to_it():
    """The definition with l2 (c - p)²/2 in place of l1 c + l2 c²/2 for the rule that has a prior price."""
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    prior = np.array([0.0, 1.5, 0.0, 0.0])

    def here(c):
        return objective(data, c, 0.0, 0.0) + 0.4 * (c[0] + c[2]) + 0.15 * ((c - prior) ** 2).sum()

    learned = learned_from(data, l1=0.4, l2=0.3, prior=prior).theta
    for rule in range(3):
        for step in (-1e-3, 1e-3):
            there = learned + step * np.eye(4)[rule]
            if there[rule] >= 0:
                assert here(there) >= here(learned) - 1e-7
    kept = learned_from(data, l1=1e6, l2=1e6, prior=prior).theta
    assert_allclose(kept, prior, atol=1e-4)


def test_enough_l1_drops_every_rule():
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7])
    assert not learned_from(data, l1=100.0).theta.any()


def test_small_sets_grow_by_what_is_decoded_until_nothing_is_new():
    data = examples(RULES, [np.nan, np.nan, np.nan, 0.7], n_examples=20, seed=3)
    learned = learned_from(data, k=2, rounds=20, l1=0.01, l2=0.01)
    assert learned.converged
    assert 1 < learned.n_iter < 20
    assert learned.message == "Decoding brought no new labeling."


@pytest.mark.parametrize("last", [r.last("b"), r.last("b").soft(0.4)])
@pytest.mark.parametrize("k", [1, 3, 9, 81])
def test_where_the_list_is_sure_enumeration_finds_nothing_better(k, last):
    """Lists joined by a labeling that is worth less than their last, and without those that a hard rule forbids."""
    data = examples([*RULES[:3], last], [np.nan, np.nan, np.nan, last.weight], n_examples=30, seed=5)
    lists = measured(data, k)
    lists = MeasuredLists.of(lists.lists.joined({0: np.zeros(4, np.int64)}, wrong_labels)[0], data).paid(data)
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
    distance = WrongSpans(SegmentTable(labels, "BIO"))
    rows = rng.integers(0, 6, (9, 7))
    found = distance(rows[0], list(rows[1:]))
    for row, wrong in zip(rows[1:], found):
        counts = span_counts([[labels[i] for i in rows[0]]], [[labels[i] for i in row]], scheme="BIO").values()
        assert wrong == sum(c.gold + c.predicted - 2 * c.correct for c in counts)
