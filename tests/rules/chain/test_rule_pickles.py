"""Compiled rules from a pickle: what is shared between compilers must never be the wrong rule."""

import pickle

import numpy as np

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import RuleCompiler

RULES = [
    (r.count("a") <= 1).soft(1.0),
    (r.count("b") - r.count("c") <= 0).soft(2.0),
    r.before("a", "b").soft(0.5),
]


def test_a_compiler_from_a_pickle_is_not_taken_for_another():
    """Forms are told apart by identity, which does not survive a pickle."""
    rng = np.random.default_rng(1)
    compiler = RuleCompiler(RULES, ["a", "b", "c"])
    compiler(["x"] * 4)
    again = pickle.loads(pickle.dumps(compiler))
    chain = ChainPotentials(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
    rules = [c(["x"] * 4) for c in (compiler, again)]
    assert not {rule.form for rule in rules[0]} & {rule.form for rule in rules[1]}
    one, two = (decode(ChainProblem(chain, compiled)) for compiled in rules)
    assert one.labels.tolist() == two.labels.tolist()
