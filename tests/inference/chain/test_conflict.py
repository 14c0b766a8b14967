"""Hard rules in conflict: found, explained by a minimal set, and broken as little as possible when asked."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.compiled import random_problem
from oracles.definition import amounts_of, costs_of, scores_of
from oracles.labelings import labelings
from rulefield import rules as r
from rulefield.inference.result import Status
from rulefield.inference.sequences.conflict import conflicting, decode_relaxed, is_hard, minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress
from rulefield.inference.sequences.stages.farkas import prove_infeasible
from rulefield.kernels.lattice.dual import path_score
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import compile_rules

SEEDS = st.integers(0, 2**32 - 1)


def infeasible(problem, rules):
    return decode_enumerate(ChainProblem(problem.potentials, tuple(rules))).status is Status.infeasible


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_minimal_conflict_is_a_conflict_and_minimal(seed):
    problem = random_problem(np.random.default_rng(seed), 5, 3, 5, hard=0.9)
    found = minimal_conflict(problem)
    hard = [rule for rule in problem.rules if is_hard(rule)]
    assert (conflicting(problem) is not None) == infeasible(problem, hard)
    if not infeasible(problem, hard) or infeasible(problem, []):
        assert found == ()
        return
    rules = [rule for rule in hard if rule.rule in found]
    assert len(rules) == len(found) > 0
    assert infeasible(problem, rules)
    for rule in rules:
        assert not infeasible(problem, [other for other in rules if other is not rule])


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_relaxed_breaks_least_then_scores_best(seed):
    problem = random_problem(np.random.default_rng(seed), 5, 3, 5, hard=0.6)
    paths = labelings(problem.potentials)
    objective = scores_of(problem.potentials, paths)
    amounts = np.zeros(len(paths))
    for rule in problem.rules:
        amount = amounts_of(rule, paths)
        if is_hard(rule):
            amounts += amount
        else:
            objective -= costs_of(rule, amount)
    result = decode_relaxed(problem)
    if (objective == -np.inf).all():
        assert result.status is Status.infeasible
        return
    least = amounts[objective > -np.inf].min()
    best = objective[amounts == least].max()
    assert result.status is Status.optimal
    np.testing.assert_allclose(result.objective, best, atol=1e-5)
    hard = {rule.rule for rule in problem.rules if is_hard(rule)}
    assert sum(b.amount for b in result.broken if b.rule in hard) == least


def test_pigeons_are_refuted_by_one_combination():
    """More tokens than the labels may have: no search, a sum of rows that every labeling breaks."""
    counts = [r.count(f"l{i}") <= 2 for i in range(25)]
    problem = ChainProblem(
        ChainPotentials(np.random.default_rng(0).normal(size=(60, 25)), np.zeros((25, 25))),
        compile_rules(counts, [f"l{i}" for i in range(25)], None, 60),
    )
    result = decode(problem)
    assert (result.status, result.engine) == (Status.infeasible, "farkas")
    assert len(minimal_conflict(problem)) == 25


@given(SEEDS)
@settings(max_examples=300, deadline=None)
def test_a_refutation_is_never_wrong(seed):
    """What the cutting planes refute, enumeration refutes too; the combination is broken by every labeling."""
    problem = random_problem(np.random.default_rng(seed), 5, 3, 5, hard=0.9)
    progress = Progress.start(prepare(problem))
    duals = prove_infeasible(progress)
    if duals is None:
        return
    hard = [rule for rule in problem.rules if is_hard(rule)]
    assert infeasible(problem, hard)
    prepared = progress.prepared
    for path in labelings(problem.potentials):
        if path_score(prepared.unary, prepared.arriving, path) > -np.inf:
            assert duals @ prepared.amounts(path)[1] > 0
