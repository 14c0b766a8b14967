"""Two-stage decoding: least cost near the best score, ties to the score, equal to what listing all labelings finds."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.compiled import random_problem
from oracles.definition import amounts_of
from rulefield.exceptions import InputError
from rulefield.inference.result import Status
from rulefield.inference.sequences.enumerate import judge_every
from rulefield.inference.sequences.two_stage import decode_two_stage

SEEDS = st.integers(0, 2**32 - 1)


def form(rng):
    return (
        {"tau": float(rng.choice([0.5, 0.9, 0.97, 1.0]))}
        if rng.random() < 0.5
        else {"delta": float(rng.exponential(2))}
    )


class Listed(NamedTuple):
    """What the definition says, of all labelings."""

    best_score: float
    floor: float
    cost: float
    score: float


def listed(problem, tau=None, delta=None, log_partition=0.0):
    """The least cost of the labelings near the best, and the best score at that cost; None if no labeling is allowed."""
    scores, costs = judge_every(problem)
    allowed = (scores > -np.inf) & (costs < np.inf)
    if not allowed.any():
        return None
    best = scores[allowed].max()
    floor = best - ((1 - tau) * abs(best - log_partition) if tau is not None else delta)
    near = allowed & (scores >= floor - 1e-9)
    cost = costs[near].min()
    return Listed(best, floor, cost, scores[near & (costs <= cost + 1e-9)].max())


@given(SEEDS)
@settings(max_examples=800, deadline=None)
def test_the_answer_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, hard=0.1)
    options = form(rng) | {"log_partition": float(rng.choice([0.0, 3.0]))}
    exact, result = listed(problem, **options), decode_two_stage(problem, **options)
    assert result.status is (Status.infeasible if exact is None else Status.optimal)
    if exact is None:
        return
    np.testing.assert_allclose(result.best_score, exact.best_score, atol=1e-6)
    np.testing.assert_allclose(result.score_floor, exact.floor, atol=1e-6)
    np.testing.assert_allclose(result.cost, exact.cost, atol=2e-6)
    np.testing.assert_allclose(result.score, exact.score, atol=2e-5)
    assert result.score >= result.score_floor - 1e-5
    assert result.cost_lower_bound <= exact.cost + 1e-6
    np.testing.assert_allclose(result.objective, result.score - result.cost, atol=1e-9)
    for rule in problem.rules:
        assert rule.weight < np.inf or amounts_of(rule, result.labels[None])[0] == 0


@given(SEEDS, st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_a_limit_leaves_a_true_gap(seed, limit):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, hard=0.0)
    exact = listed(problem, tau=0.9)
    result = decode_two_stage(problem, tau=0.9, node_limit=limit)
    assert exact is None or result.cost_lower_bound <= exact.cost + 1e-6
    if len(result.labels):
        assert result.score >= result.score_floor - 1e-6
    if result.status is Status.optimal:
        np.testing.assert_allclose(result.cost, exact.cost, atol=1e-6)


@pytest.mark.parametrize(("seed", "limit"), [(599, 8), (954, 3), (2384, 46), (2570, 22), (2769, 34)])
def test_a_second_stage_that_a_limit_stops_proves_nothing(seed, limit):
    """Found by search: here the lattice is given up while a cheaper labeling is left."""
    problem = random_problem(np.random.default_rng(seed), 7, 3, 6, 0.0)
    result = decode_two_stage(problem, tau=0.5, node_limit=limit)
    assert result.status is Status.bounded
    assert result.cost_lower_bound <= listed(problem, tau=0.5).cost < result.cost


@pytest.mark.parametrize(
    "options", [{}, {"tau": 0.9, "delta": 1.0}, {"tau": 1.5}, {"delta": -1.0}, {"tau": 0.9, "engine": "milp"}]
)
def test_options_must_make_sense(options):
    with pytest.raises(InputError):
        decode_two_stage(random_problem(np.random.default_rng(0)), **options)
