"""Residual prices: the definition over all labelings, and the price at which a model breaks a rule as often as gold."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.special import expit, logit, softmax

from rulefield import rules as r
from rulefield.learning.rule_weights.learners import Example, Examples
from rulefield.learning.rule_weights.lists import Lists, MeasuredLists
from rulefield.learning.rule_weights.residual import broken_shares, residual_price, shares_in
from rulefield.learning.rule_weights.together import prices_together
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


def examples(rules, seed=0, n=7):
    rng = np.random.default_rng(seed)
    rows = [
        Example(["x"] * 4, ChainPotentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3))), rng.integers(0, 3, 4))
        for _ in range(n)
    ]
    fixed = np.array([np.nan if rule.is_open else rule.weight for rule in rules], dtype=float)
    return Examples(rows, RuleCompiler(rules, LABELS), fixed, np.array([rule.per == "once" for rule in rules]))


def test_shares_over_all_labelings_are_those_of_the_distribution():
    data = examples(RULES)
    every = [np.array(labels) for labels in product(range(3), repeat=4)]
    expected, gold = np.zeros(len(RULES)), np.zeros(len(RULES))
    for example in data.examples:
        names = [[LABELS[i] for i in labels] for labels in (*every, example.gold)]
        units = np.array([[rule.violation(example.tokens, labels) for rule in RULES] for labels in names])
        worth = [example.potentials.score(labels) - 0.7 * u[3] for labels, u in zip(every, units)]
        expected += softmax(worth) @ (units[:-1] > 0)
        gold += units[-1] > 0
    found = broken_shares(data, Lists.best(data.examples, 81))
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
    data = examples([r.present("c").soft("auto"), r.count("a") >= 4])
    alone = examples([r.present("c").soft("auto"), (r.count("a") >= 4).soft(0.0)])
    one = Lists.best(data.examples, 1)
    assert_allclose(broken_shares(data, one).by_model, broken_shares(alone, one).by_model)


def lawful(data, rules):
    """The same sequences with gold labels that are near to the model's and break few rules."""

    def worth(example, labels):
        broken = sum(rule.violation(example.tokens, [LABELS[i] for i in labels]) for rule in rules)
        return example.potentials.score(labels) - broken

    every = [np.array(labels) for labels in product(range(3), repeat=4)]
    rows = [replace(e, gold=max(every, key=lambda labels, e=e: worth(e, labels))) for e in data.examples]
    return Examples(rows, data.compiler, np.full(len(rules), np.nan), data.once)


def one_after_the_other(data, lists):
    """The definition of prices together, in loops over labelings."""
    units = data.units(lists.labelings, lists.owner).toarray()
    gold = (data.gold.toarray() > 0).sum(axis=0)
    right = np.array([(x == lists.examples[i].gold).sum() for i, x in zip(lists.owner, lists.labelings)])
    members = [np.flatnonzero(lists.owner == i) for i in range(len(lists.examples))]
    prices, left = np.zeros(units.shape[1]), set(range(units.shape[1]))
    while left:
        worth = lists.score - units @ prices
        by_model = sum(softmax(worth[own]) @ (units[own] > 0) for own in members)
        cost = residual_price(by_model, gold, len(members))
        rule = max(sorted(left), key=lambda i: (by_model[i] - gold[i]) * cost[i])
        if (by_model[rule] - gold[rule]) * cost[rule] <= 0.05:
            break
        left.remove(rule)
        more = [
            right[own[np.argmax((worth - cost[rule] * units[:, rule])[own])]] - right[own[np.argmax(worth[own])]]
            for own in members
        ]
        if sum(map(bool, more)) > 1 and sum(more) > np.sqrt(np.square(more).sum()) + 1e-9:
            prices[rule] = cost[rule]
    return prices


@pytest.mark.parametrize("seed", range(4))
def test_prices_together_are_those_of_the_definition(seed):
    rules = [rule.soft("auto") for rule in (*RULES, r.first("a"), r.eventually("a", "c"), r.present("c"))]
    data = lawful(examples(rules, seed, 14), rules)
    lists = Lists.best(data.examples, 30)
    found = prices_together(MeasuredLists.of(lists, data), data.gold)
    assert_allclose(found, one_after_the_other(data, lists))
    assert found.any()
    assert (found == 0).any()
    assert found[2] == 0 or found[-1] == 0, "one fact is paid once"


def test_what_one_sequence_says_is_no_evidence():
    """A rule that fixes one of many sequences goes; if it fixes two it stays."""
    rule = r.last("b").soft("auto")
    tokens, none = ["x", "x"], np.zeros((3, 3))
    wrong = Example(tokens, ChainPotentials(np.array([[1.0, 0.0, 0.0], [0.1, 0.0, -2.0]]), none), np.array([0, 1]))
    right = Example(tokens, ChainPotentials(np.array([[1.0, 0.0, 0.0], [0.0, 5.0, 0.0]]), none), np.array([0, 1]))
    for n_wrong in (1, 2):
        rows = [wrong] * n_wrong + [right] * 4
        data = Examples(rows, RuleCompiler([rule], LABELS), np.array([np.nan]), np.zeros(1, dtype=bool))
        found = prices_together(MeasuredLists.of(Lists.best(rows, 9), data), data.gold)
        assert (found[0] > 0) == (n_wrong == 2)
