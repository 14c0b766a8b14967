"""Compiled rules at changing prices: what is shared between steps of learning must never be the wrong rule."""

import pickle

import numpy as np

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import RuleCompiler

RULES = [
    (r.count("a") <= 1).soft("learn"),
    (r.count("b") - r.count("c") <= 0).soft("learn"),
    r.before("a", "b").soft("learn"),
]
LABELS = ["a", "b", "c"]


def test_prices_that_come_and_go_are_those_of_a_fresh_compiler():
    rng = np.random.default_rng(0)
    compiler = RuleCompiler(RULES, LABELS)
    for _ in range(30):
        weights = rng.choice([0.0, 0.5, 1.0, np.inf], size=3)
        n = int(rng.integers(2, 5))
        chain = ChainPotentials(rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))
        rules = compiler.with_weights(weights)(["x"] * n)
        assert [rule.weight for rule in rules] == weights[weights != 0].tolist()
        fresh = RuleCompiler(RULES, LABELS).with_weights(weights)(["x"] * n)
        one, two = (decode(ChainProblem(chain, compiled)) for compiled in (rules, fresh))
        np.testing.assert_allclose(one.objective, two.objective)
        assert one.status == two.status


def test_a_compiler_from_a_pickle_is_not_taken_for_another():
    """Forms are told apart by identity, which does not survive a pickle."""
    rng = np.random.default_rng(1)
    compiler = RuleCompiler(RULES, LABELS)
    compiler.with_weights([1.0, 1.0, 1.0])(["x"] * 4)
    again = pickle.loads(pickle.dumps(compiler))
    chain = ChainPotentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
    for weights in ([1.0, 0.0, 2.0], [0.0, 3.0, 0.5]):
        rules = [c.with_weights(weights)(["x"] * 4) for c in (compiler, again)]
        assert not {rule.form for rule in rules[0]} & {rule.form for rule in rules[1]}
        one, two = (decode(ChainProblem(chain, compiled)) for compiled in rules)
        assert one.labels.tolist() == two.labels.tolist()
