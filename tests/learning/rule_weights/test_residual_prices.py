"""Residual prices: the definition over all labelings, and the price at which a model breaks a rule as often as gold."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.special import expit, logit, softmax

from rulefield import rules as r
from rulefield.learning.rule_weights.lists import Example, Lists, MeasuredLists
from rulefield.learning.rule_weights.residual import broken_shares, residual_price, shares_in
from rulefield.problem.chain import ChainPotentials
from rulefield.rules import RuleCompiler

LABELS = ["a", "b", "c"]
RULES = [
    (r.count("a") <= 1).soft("auto"),
    r.before("a", "b").soft("auto", per="once"),
    r.present("c").soft("auto"),
    (r.count("c") <= 1).soft(0.7),
    r.first("b").soft(0.0),
]


def measured(rules, k, seed=0, n=7):
    """The k best labelings of random sequences, under rules."""
    rng = np.random.default_rng(seed)
    rows = [
        Example(["x"] * 4, ChainPotentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3))), rng.integers(0, 3, 4))
        for _ in range(n)
    ]
    return MeasuredLists.of(Lists.best(rows, k), RuleCompiler(rules, LABELS))


def test_shares_over_all_labelings_are_those_of_the_distribution():
    data = measured(RULES, 81)
    every = [np.array(labels) for labels in product(range(3), repeat=4)]
    expected, gold = np.zeros(len(RULES)), np.zeros(len(RULES))
    for example in data.lists.examples:
        names = [[LABELS[i] for i in labels] for labels in (*every, example.gold)]
        units = np.array([[rule.violation(example.tokens, labels) for rule in RULES] for labels in names])
        worth = [example.potentials.score(labels) - 0.7 * u[3] for labels, u in zip(every, units)]
        expected += softmax(worth) @ (units[:-1] > 0)
        gold += units[-1] > 0
    found = broken_shares(data)
    assert_allclose(found.by_model, expected)
    assert found.by_gold.tolist() == gold.tolist()
    m, g = (expected + 0.5) / 8, (gold + 0.5) / 8
    assert_allclose(found.prices, np.maximum(0, logit(m) - logit(g)))
    assert found.contradicted[gold > expected].all()
    assert (gold > expected).any()


def test_a_rule_is_contradicted_within_a_standard_error_or_by_a_third_of_the_sequences():
    """Rules: kept by gold; broken by gold as often; less often by more than an error; by less than one; by half."""
    model = np.array([[0.5, 1, 1, 1, 1], [0.2, 0, 1, 0, 1], [0, 0.1, 1, 0.2, 1], [0, 0, 0, 0, 1], *[[0] * 5] * 8])
    gold = np.array(
        [[0, 1, 0, 1, 1], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], *[[0] * 5] * 7]
    )
    model[5:, 4] = 1
    gold[5:7, 4] = 1
    shares = shares_in(csr_matrix(model), csr_matrix(gold))
    assert shares.contradicted.tolist() == [False, True, False, True, True]
    assert_allclose(shares.errors, np.sqrt(((model - gold) ** 2).sum(axis=0)))


@pytest.mark.parametrize("amounts", [[1], [1, 2, 5]])
def test_at_its_price_a_model_breaks_a_rule_as_often_as_gold_or_less(amounts):
    m, g, n = 0.4, 0.1, 1000
    price = residual_price(np.array(m * n), np.array(g * n), n, smoothing=0.0)
    broken = sum(m / len(amounts) * np.exp(-price * amount) for amount in amounts)
    share = broken / (broken + 1 - m)
    if amounts == [1]:
        assert_allclose(share, g)
        assert_allclose(expit(logit(m) - price), g)
    else:
        assert share < g


def test_hard_rules_that_forbid_the_best_labelings_leave_the_chain_alone():
    data = measured([r.present("c").soft("auto"), r.count("a") >= 4], 1)
    alone = measured([r.present("c").soft("auto"), (r.count("a") >= 4).soft(0.0)], 1)
    assert_allclose(broken_shares(data).by_model, broken_shares(alone).by_model)
