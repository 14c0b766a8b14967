"""Whatever runs out, the answer keeps its word: a labeling with a true gap, in time."""

from time import monotonic

import numpy as np
import pytest

from oracles.compiled import random_problem
from rulefield import rules as r
from rulefield.inference.limits import deadline
from rulefield.inference.result import Status
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.ilp import run_windows
from rulefield.inference.sequences.stages.neighbors import regrets, run_neighbors
from rulefield.inference.sequences.stages.repair import run_repair
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


def started(problem):
    progress = Progress.start(prepare(problem))
    run_duals(progress, 30)
    return progress


def test_repair_finds_a_labeling_that_obeys_the_hard_rules_whenever_there_is_one():
    """Nothing is known to begin with; where no labeling exists, the search ends without one."""
    met = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 6, 3)
        exact, progress = decode_enumerate(problem), started(problem)
        progress.best = -np.inf
        run_repair(progress, dual_potentials(progress), progress.nodes + 60_000)
        assert (progress.best > -np.inf) == (exact.objective > -np.inf)
        if progress.best > -np.inf:
            met += 1
            assert progress.best == pytest.approx(progress.prepared.value(progress.labels), abs=1e-9)
            assert progress.objective <= exact.objective + 1e-9
    assert met > 30


def worst_allowed(progress):
    """Forget the best labeling for the worst one that obeys the hard rules."""
    prepared = progress.prepared
    n, m = prepared.unary.shape
    every = np.array(np.meshgrid(*[np.arange(m)] * n)).reshape(n, -1).T
    values = np.array([prepared.value(np.ascontiguousarray(labels)) for labels in every])
    values[values == -np.inf] = np.inf
    progress.best = float(values.min())
    progress.labels[:] = every[values.argmin()]


def test_searching_around_a_labeling_ends_at_the_best_once_all_tokens_are_free():
    tried = 0
    for seed in range(100):
        problem = random_problem(np.random.default_rng(seed), 5, 3)
        exact, progress = decode_enumerate(problem), started(problem)
        if progress.settled or exact.status is Status.infeasible:
            continue
        bound = progress.bound
        worst_allowed(progress)
        run_neighbors(progress, dual_potentials(progress), progress.nodes + 200_000)
        assert progress.objective == pytest.approx(exact.objective, abs=1e-6)
        assert progress.best == pytest.approx(progress.prepared.value(progress.labels), abs=1e-9)
        assert progress.bound == bound  # parts prove nothing of the whole
        tried += 1
    assert tried > 10


def test_regrets_add_up_to_what_a_labeling_loses_under_the_duals():
    rng = np.random.default_rng(0)
    progress = started(random_problem(rng, 6, 3))
    dual = dual_potentials(progress)
    labels = rng.integers(0, 3, 6)
    score = dual.unary[np.arange(6), labels].sum()
    steps = np.minimum(np.arange(5), len(dual.arriving) - 1)
    score += dual.arriving[steps, labels[1:], labels[:-1]].sum()
    assert regrets(dual, labels).sum() == pytest.approx((dual.unary[0] + dual.ahead[0]).max() - score)


def test_windows_of_the_integer_program_prove_what_enumeration_finds():
    proved = 0
    for seed in range(120):
        problem = random_problem(np.random.default_rng(seed), 5, 3, 3)
        exact, progress = decode_enumerate(problem), started(problem)
        if progress.settled:
            continue
        run_windows(progress, dual_potentials(progress), 100_000_000)
        assert progress.settled
        assert progress.objective == pytest.approx(exact.objective, abs=1e-6)
        proved += 1
    assert proved > 20


def hard_to_prove(n=80, m=40, pairs=300):
    """Soft differences of segments between random pairs: nobody proves these."""
    rng = np.random.default_rng(7)
    names = [f"l{i}" for i in range(m)]
    drawn = [rng.choice(names, 2, replace=False) for _ in range(pairs)]
    rules = [(r.segments(str(a)) - r.segments(str(b)) <= 0).soft(float(rng.uniform(0.2, 1.5))) for a, b in drawn]
    potentials = ChainPotentials(2 * rng.normal(size=(n, m)), rng.normal(size=(m, m)) + np.eye(m))
    return ChainProblem(potentials, r.compile_rules(rules, names, None, n))


def test_a_limit_in_seconds_is_kept_inside_kernels():
    problem = hard_to_prove()
    decode(problem, node_limit=1_000)  # kernels are compiled
    begun = monotonic()
    result = decode(problem, seconds=0.5)
    assert monotonic() - begun < 2.5  # 0.75 on an idle machine
    assert result.status is Status.bounded
    assert 0 < result.gap < np.inf


def test_a_limit_in_nodes_is_kept_and_gives_the_same_answer_twice():
    problem = hard_to_prove(40, 20, 100)
    one, two = (decode(problem, node_limit=60_000) for _ in range(2))
    assert (one.objective, one.upper_bound, one.iterations) == (two.objective, two.upper_bound, two.iterations)
    assert one.iterations < 120_000


def test_a_deadline_raises_its_flag_and_none_never_does():
    with deadline(None) as never:
        assert never.left is None
        assert not never.over
    with deadline(0.0) as now:
        assert now.left == 0.0
        assert now.over


def test_scores_beyond_what_doubles_can_tell_apart_end_with_a_gap():
    """Two scores of 1e20: rounding hides more than the tolerance, no search can close the gap; once it never ended."""
    rng = np.random.default_rng(0)
    pairwise = rng.normal(size=(5, 5))
    pairwise[3, 1] = pairwise[2, 0] = 1e20
    problem = ChainProblem(ChainPotentials(rng.normal(size=(5, 5)), pairwise), ())
    result = decode(problem, node_limit=10_000)
    assert result.status is Status.bounded
    assert result.upper_bound >= decode_enumerate(problem).objective == result.objective
