"""Rules that engines read as one cost every labeling what they cost one by one."""

from itertools import permutations

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.flatten import flatten
from rulefield.inference.result import Status
from rulefield.inference.sequences.conflict import minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LABELS = ["a", "b", "c", "d"]


def orders(rng, share_hard, level):
    """Some of all orders of two labels; soft ones share two weights."""
    chosen = rng.permutation(list(permutations(LABELS, 2)))[:7]
    rules = [r.before(str(a), str(b), level=level) for a, b in chosen]
    return [rule if rng.random() < share_hard else rule.soft(float(rng.choice([0.7, 1.6]))) for rule in rules]


@pytest.mark.parametrize("level", ["segment", "token"])
@pytest.mark.parametrize("engine", ["auto", "product", "paths", "reduced_milp"])
def test_orders_read_together_keep_their_optimum(engine, level):
    found = set()
    for seed in range(5 if engine == "reduced_milp" else 12):
        rng = np.random.default_rng(seed)
        potentials = ChainPotentials(2 * rng.normal(size=(6, 4)), rng.normal(size=(4, 4)))
        problem = ChainProblem(potentials, r.compile_rules(orders(rng, rng.random(), level), LABELS, None, 6))
        exact, result = decode(problem, "enumerate"), decode(problem, engine)
        found.add(len(prepare(problem).flat.rules))
        assert result.status is exact.status
        assert result.objective == pytest.approx(exact.objective, abs=1e-6)
        assert result.broken == exact.broken or result.status is Status.infeasible
        for labels in rng.integers(4, size=(2, 6)):
            hard = any(rule.weight == np.inf for rule in problem.rules)
            told = prepare(problem).value(labels) + prepare(problem).offset
            one_by_one = decode(ChainProblem(_only(potentials, labels), problem.rules), "enumerate").objective
            assert told == pytest.approx(one_by_one, abs=1e-6) or (hard and told == one_by_one)
    assert min(found) < 7


def _only(potentials, labels):
    """Return the potentials that allow one labeling."""
    unary = np.full_like(potentials.unary, -np.inf)
    steps = np.arange(len(labels))
    unary[steps, labels] = potentials.unary[steps, labels]
    return ChainPotentials(unary, potentials.pairwise)


def test_a_total_order_needs_one_automaton_per_label_and_tables_are_shared_between_lengths():
    rules = [r.before(a, b) for i, a in enumerate(LABELS) for b in LABELS[i + 1 :]]
    compiler = r.RuleCompiler(rules, LABELS, None)
    short, long = (flatten(compiler(n), 4).together.rules for n in (5, 9))
    assert len(short) == len(long) == 3
    assert all(a.form is b.form for a, b in zip(short, long, strict=True))
    assert flatten(compiler(5), 4).together.rules is short


def test_hard_rules_that_no_last_label_can_keep_are_refuted_by_one_pass():
    """After every label another one must come: whichever is last lacks it."""
    rules = [r.eventually(LABELS[i], LABELS[(i + 1) % 4]) for i in range(4)]
    rng = np.random.default_rng(0)
    potentials = ChainPotentials(rng.normal(size=(40, 4)), rng.normal(size=(4, 4)))
    result = decode(ChainProblem(potentials, r.compile_rules(rules, LABELS, None, 40)))
    assert result.status is Status.infeasible
    assert result.engine == "soft_dd"


def test_a_conflict_names_rules_and_not_what_engines_made_of_them():
    rules = [
        r.before("a", "b"),
        r.before("a", "c"),
        r.before("b", "a"),
        r.present("a"),
        r.present("b"),
        r.count("d") <= 3,
    ]
    potentials = ChainPotentials(np.zeros((5, 4)), np.zeros((4, 4)))
    problem = ChainProblem(potentials, r.compile_rules(rules, LABELS, None, 5))
    assert minimal_conflict(problem) == (0, 2, 3, 4)
