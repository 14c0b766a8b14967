"""Joint tables of automata and dives: bounds that hold, labelings that obey, against enumeration."""

import numpy as np
import pytest

from oracles.compiled import random_problem
from rulefield import rules as r
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.dive import run_dive
from rulefield.inference.sequences.stages.joint_table import make_table, run_joint
from rulefield.inference.sequences.stages.product import run_product
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


def started(problem):
    progress = Progress.start(prepare(problem))
    run_duals(progress, 3)
    return progress


def ordered(seed, weight):
    """A problem of order rules: small automata only, as a joint table wants them."""
    rng = np.random.default_rng(seed)
    rules = [
        r.before("a", "b"),
        r.before("c", "a"),
        r.eventually("b", "c"),
        r.before("b", "d"),
        r.eventually("d", "a"),
    ]
    rules = [rule if rng.random() < 0.3 else rule.soft(weight) for rule in rules]
    unary, pairwise = rng.normal(size=(6, 4)) * 2.0, rng.normal(size=(4, 4))
    return ChainProblem(ChainPotentials(unary, pairwise), r.RuleCompiler(rules, list("abcd"))(["x"] * 6))


def test_joint_tables_bound_every_labeling_and_settle_what_they_hold():
    """With all automata in the table its best path is the optimum; with some of them it is a bound."""
    exact_tables = bounds = 0
    for seed in range(40):
        problem = ordered(seed, 0.7)
        exact, progress = decode_enumerate(problem), started(problem)
        automata = progress.prepared.flat.shared.automaton_rules
        dual = dual_potentials(progress)
        for some in (automata, automata[:2]):
            table = make_table(progress, dual, tuple(some), 1e6)
            value = table.value + progress.prepared.offset
            assert value >= exact.objective - 1e-9
            if len(some) == len(progress.prepared.flat.rules):
                assert value == pytest.approx(exact.objective, abs=1e-9)
                exact_tables += exact.objective > -np.inf
            bounds += value > exact.objective + 1e-9
    assert exact_tables > 20
    assert bounds > 5


def test_products_over_a_joint_table_find_what_enumeration_finds():
    """Whatever rules are in the table, the others are added to its lattice one by one."""
    solved = 0
    for seed in range(400):
        problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
        exact, progress = decode_enumerate(problem), started(problem)
        tables = progress.prepared.tables
        held = [
            r
            for r in progress.prepared.flat.shared.automaton_rules
            if tables.weight[r] == np.inf or not tables.once[r]
        ]
        if progress.settled or not held:
            continue
        dual = dual_potentials(progress)
        progress.table = make_table(progress, dual, tuple(held[: 1 + seed % 3]), 100_000)
        run_product(progress, dual, 100_000)
        assert progress.settled
        assert progress.objective == pytest.approx(exact.objective, abs=1e-9)
        solved += 1
    assert solved > 20


def test_tables_grow_by_what_is_broken_until_nothing_is():
    """Their bound never rises, and where every automaton is held or obeyed it is reached."""
    for seed in range(20):
        problem = ordered(seed, 0.7)
        exact, progress = decode_enumerate(problem), started(problem)
        run_joint(progress, dual_potentials(progress), 100_000)
        assert progress.settled
        assert progress.objective == pytest.approx(exact.objective, abs=1e-9)


def test_tables_that_would_be_too_large_are_not_made():
    progress = started(ordered(1, 0.7))
    automata = tuple(progress.prepared.flat.shared.automaton_rules)
    assert make_table(progress, dual_potentials(progress), automata, 20) is None


def test_dives_end_at_labelings_that_earn_their_value():
    """A dive proves nothing; on small problems, where nothing is cut, it mostly finds the best."""
    met = solved = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 6, 3)
        exact, progress = decode_enumerate(problem), started(problem)
        if progress.settled or exact.objective == -np.inf:
            continue
        bound = progress.bound
        run_dive(progress, dual_potentials(progress), 100_000, 100)
        assert progress.bound == bound
        if progress.best > -np.inf:
            assert progress.best == pytest.approx(progress.prepared.value(progress.labels), abs=1e-9)
            assert progress.objective <= exact.objective + 1e-9
        met += 1
        solved += progress.objective >= exact.objective - 1e-9
    assert met > 10
    assert solved > 0.9 * met
