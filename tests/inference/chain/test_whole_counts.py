"""Counts that hard rules imply: bounds hold for every labeling, and know that counts are whole."""

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.counts import run_counts
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LABELS = ["a", "b", "c"]


def begun(rules, n, seed):
    rng = np.random.default_rng(seed)
    potentials = ChainPotentials(2.0 * rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))
    problem = ChainProblem(potentials, r.compile_rules(rules, LABELS, None, n))
    progress = Progress.start(prepare(problem))
    run_duals(progress, 3)
    return problem, progress


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_and_labelings_obey(seed):
    sets = [
        [r.count("a") <= r.count("b"), r.count("b") <= r.count("c"), r.before("c", "a").soft(1.0)],
        [2 * r.count("a") + 3 * r.count("b") == 8, (r.count("c") <= 1).soft(0.7)],
        [r.count("a") == r.count("b"), r.count("c") >= 1],
    ]
    problem, progress = begun(sets[seed % 3], 5, seed)
    optimum = decode(problem, "enumerate").objective
    run_counts(progress, dual_potentials(progress), 60_000)
    assert progress.objective_bound >= optimum - 1e-9
    assert progress.best == -np.inf or progress.objective <= optimum + 1e-9


def test_the_bound_knows_that_counts_are_whole():
    """Three labels equally often in seven tokens, one of them forbidden its share: over the reals 7/3 each."""
    _, progress = begun([r.count("a") == r.count("b"), r.count("b") == r.count("c")], 7, 0)
    assert progress.bound > -np.inf
    run_counts(progress, dual_potentials(progress), 60_000)
    assert progress.bound == -np.inf


def test_the_bound_falls_below_that_of_real_counts():
    """Label a at most half as often as b, b at most half as often as c, in six tokens: 6/7 times over the reals, or never."""
    problem, progress = begun([2 * r.count("a") <= r.count("b"), 2 * r.count("b") <= r.count("c")], 6, 4)
    for _ in range(3):
        run_counts(progress, dual_potentials(progress), progress.nodes + 100_000)
    optimum = decode(problem, "enumerate").objective
    assert optimum - 1e-9 <= progress.objective_bound <= optimum + 0.5
