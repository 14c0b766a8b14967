"""Sums, marginals, samples and k best labelings under rules, against lists of all labelings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.compiled import random_problem
from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.definition import amounts_of, costs_of, scores_of
from rulefield.inference.result import Status
from rulefield.inference.sequences.enumerate import labelings
from rulefield.inference.sequences.sums import (
    constrained_kbest,
    constrained_log_partition,
    constrained_marginals,
    constrained_samples,
)

SEEDS = st.integers(0, 2**32 - 1)


def listed(problem):
    """All labelings and their objectives."""
    paths = labelings(problem.potentials)
    objective = scores_of(problem.potentials, paths)
    for rule in problem.rules:
        objective = objective - costs_of(rule, amounts_of(rule, paths))
    return paths, objective


@given(SEEDS)
@settings(max_examples=400, deadline=None)
def test_sums_equal_enumeration(seed):
    problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
    paths, objective = listed(problem)
    total = np.logaddexp.reduce(objective)
    np.testing.assert_allclose(constrained_log_partition(problem), total, atol=1e-9)
    marginals = constrained_marginals(problem)
    assert (marginals.status is Status.infeasible) == (total == -np.inf)
    if total == -np.inf:
        return
    n, m = problem.potentials.unary.shape
    probability = np.exp(objective - total)
    node, edge = np.zeros((n, m)), np.zeros((n - 1, m, m))
    steps = np.arange(n)
    for path, p in zip(paths, probability, strict=True):
        node[steps, path] += p
        edge[steps[:-1], path[:-1], path[1:]] += p
    np.testing.assert_allclose(marginals.node, node, atol=1e-9)
    np.testing.assert_allclose(marginals.edge, edge, atol=1e-9)


@given(SEEDS, st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_kbest_equals_enumeration(seed, k):
    problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
    objective = np.sort(listed(problem)[1])[::-1]
    objective = objective[objective > -np.inf][:k]
    results = constrained_kbest(problem, k)
    np.testing.assert_allclose([result.objective for result in results], objective, atol=1e-9)
    assert len({tuple(result.labels.tolist()) for result in results}) == len(results)


def test_samples_follow_the_distribution():
    rng = np.random.default_rng(3)
    checked = 0
    while checked < 5:
        problem = random_problem(rng, 4, 3, 4)
        paths, objective = listed(problem)
        if (objective == -np.inf).all():
            continue
        checked += 1
        probability = np.exp(objective - np.logaddexp.reduce(objective))
        drawn = constrained_samples(problem, 20_000, rng)
        base = problem.potentials.n_states ** np.arange(paths.shape[1])[::-1]
        share = np.bincount(drawn @ base, minlength=len(paths)) / len(drawn)
        assert (share[probability == 0] == 0).all()
        np.testing.assert_allclose(share, probability, atol=0.02)


def test_limits_and_impossible_rules_are_said():
    rng = np.random.default_rng(0)
    while True:
        problem = random_problem(rng, 5, 3, 4, hard=0.9)
        if constrained_log_partition(problem) == -np.inf:
            break
    with pytest.raises(InfeasibleError):
        constrained_samples(problem, 1, rng)
    big = random_problem(np.random.default_rng(8), 40, 4, 5)
    with pytest.raises(InputError, match="more than node_limit = 3 nodes"):
        constrained_log_partition(big, node_limit=3)
    with pytest.raises(InputError, match="k must be at least 1"):
        constrained_kbest(problem, 0)
