"""Soft-DD: bounds, the certificate, the weaker test that [Anzaroot14] prints, and other MAP oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.compiled import random_problem
from rulefield.inference.result import Status
from rulefield.inference.sequences.decode import decode_soft_dd
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_soft_dd
from rulefield.inference.sequences.stages.columns import run_columns
from rulefield.kernels.lattice.dual import passes_paper_test
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule, Counter, Tally

SEEDS = st.integers(0, 2**32 - 1)


def counting_problem(rng, n=5, m=3, rules=4):
    """Soft rules that count labels, the setting of [Anzaroot14]."""
    compiled = []
    for i in range(rules):
        row = rng.integers(-1, 2, size=(1, m)).astype(np.int32)
        counter = Counter(Tally(row), int(rng.integers(-2, 3)))
        weight = float(np.round(rng.exponential(2.0), 2)) + 0.1
        compiled.append(
            CompiledRule(
                i, weight, False, np.zeros(n, np.uint16), None, (counter,), None, lambda: 2 * n, lambda: None
            )
        )
    chain = ChainPotentials(rng.normal(size=(n, m)) * 2, rng.normal(size=(m, m)))
    return ChainProblem(chain, tuple(compiled))


@given(SEEDS, st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_every_number_of_iterations_gives_a_bound(seed, iterations):
    problem = random_problem(np.random.default_rng(seed))
    exact = decode_enumerate(problem)
    result = decode_soft_dd(problem, iterations)
    assert result.iterations <= iterations
    assert result.upper_bound >= exact.objective - 1e-6
    assert result.objective <= exact.objective + 1e-6


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_duals_stay_between_zero_and_the_weights(seed):
    prepared = prepare(counting_problem(np.random.default_rng(seed)))
    progress = Progress.start(prepared)
    run_soft_dd(progress, 50)
    assert (progress.duals >= 0).all()
    assert (progress.duals <= prepared.caps).all()
    dual = dual_potentials(progress)
    value = dual.constant + (dual.unary[0] + dual.ahead[0]).max()
    np.testing.assert_allclose(value, progress.bound)  # the duals that are kept are those of the bound


def test_the_papers_stopping_test_is_no_certificate_but_status_is_true():
    """Of the labelings that it accepts some are not optimal; the corrected test accepts none of those."""
    rng = np.random.default_rng(1)
    accepted = wrong = 0
    for _ in range(400):
        problem = counting_problem(rng)
        exact = decode_enumerate(problem).objective
        result = decode_soft_dd(problem, 100, paper_stop=True)
        if result.iterations < 100:
            accepted += 1
            wrong += result.objective < exact - 1e-6
        if result.status is Status.optimal:
            assert result.objective == pytest.approx(exact, abs=1e-6)
    assert accepted > 300
    assert wrong > 0


def test_the_papers_stopping_test_waits_for_a_dual_step():
    """At the first iteration all duals are 0, and it would accept every labeling."""
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(50):
        problem = counting_problem(rng)
        first = decode_soft_dd(problem, 1)
        if first.broken and first.status is not Status.optimal:
            assert decode_soft_dd(problem, 100, paper_stop=True).iterations > 1
            seen += 1
    assert seen > 5


def test_a_soft_rule_that_stays_broken_is_certified_at_the_second_iteration():
    """The first step takes the duals of broken soft rows to their weights, where they must end if the path stays."""
    counter = Counter(Tally(np.array([[1, 0]], dtype=np.int32)), 1)
    rule = CompiledRule(0, 0.5, False, np.zeros(3, np.uint16), None, (counter,), None, lambda: 2, lambda: None)
    result = decode_soft_dd(ChainProblem(ChainPotentials(np.array([[2.0, 0.0]] * 3), np.zeros((2, 2))), (rule,)))
    assert result.labels.tolist() == [0, 0, 0]
    assert result.status is Status.optimal
    assert result.iterations == 2


@pytest.mark.parametrize(
    ("excess", "dual", "passes"),
    [
        (0, 0.5, True),
        (1, 2.0, True),
        (-1, 0.0, True),
        (1, 0.0, True),
        (-1, 2.0, True),
        (1, 0.5, False),
        (-1, 0.5, False),
    ],
)
def test_the_test_of_the_paper(excess, dual, passes):
    rows = np.array([excess]), np.array([dual]), np.array([2.0])
    assert passes_paper_test(*rows) is passes


def test_columns_find_the_least_dual():
    """Cutting planes keep a true bound, never above what subgradients find, and within [0, weight]."""
    lower = 0
    for seed in range(150):
        problem = (
            random_problem(np.random.default_rng(seed)) if seed % 2 else counting_problem(np.random.default_rng(seed))
        )
        exact = decode_enumerate(problem)
        steps, columns = (Progress.start(prepare(problem)) for _ in range(2))
        run_soft_dd(steps, 30)
        run_soft_dd(columns, 3)
        run_columns(columns, dual_potentials(columns), 10**9)
        if exact.status is Status.optimal:
            assert columns.objective_bound >= exact.objective - 1e-9
            assert columns.objective <= exact.objective + 1e-9
            assert columns.bound <= steps.bound + 2e-3
        assert (columns.duals >= 0).all()
        assert (columns.duals <= columns.prepared.caps).all()
        lower += columns.bound < steps.bound - 1e-3
    assert lower > 5
