"""Sums, k best and samples of joint chains under rules, against the list of all joint labelings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.definition import amounts_of, costs_of, scores_of
from oracles.joint_rules import random_joint_case
from oracles.labelings import labelings
from rulefield.inference.sequences.joint import sums
from rulefield.inference.sequences.joint.sums import joint_chances
from rulefield.inference.sequences.sums import Question
from rulefield.problem.joint import JointProblem


def objectives(problem):
    """Every labeling of the only chain, and what it is worth."""
    dense = problem.over(0)
    paths = labelings(dense.potentials)
    costs = sum((costs_of(rule, amounts_of(rule, paths)) for rule in dense.rules), np.zeros(len(paths)))
    return paths, scores_of(dense.potentials, paths) - costs


@pytest.mark.parametrize(("seed", "tolerance"), list(enumerate([0.0, 1e-6, 1e-3, 0.3])))
def test_sums_and_kbest_equal_enumeration(seed, tolerance):
    rng = np.random.default_rng(50 + seed)
    for _ in range(60):
        case = random_joint_case(rng, max_rules=2, hard=0.3)
        if not case.tokens:
            continue
        problem = case.problem(rng, moves=rng.random() < 0.2)
        paths, values = objectives(problem)
        total = np.logaddexp.reduce(values)
        found = joint_chances(problem, 0, Question(marginals=True, k=4), tolerance)
        if total == -np.inf:
            assert found.log_partition[0] == -np.inf
            continue
        error = found.error[0]
        assert error <= tolerance
        assert (1 - error) * (1 - 1e-8) <= np.exp(found.log_partition[0] - total) <= 1 + 1e-8
        expected = np.zeros((paths.shape[1], problem.potentials.n_states))
        for path, chance in zip(paths, np.exp(values - total)):
            expected[np.arange(len(path)), path] += chance
        assert_allclose(found.node, expected, atol=1e-8 + error)
        order = np.sort(values[values > -np.inf])[::-1][:4]
        best = found.best.reshape(4, -1)[found.best_chance[0] > 0]
        at = {tuple(path): value for path, value in zip(paths.tolist(), values)}
        assert_allclose([at[tuple(row)] for row in best.tolist()], order, atol=1e-9)
        assert len({tuple(row) for row in best.tolist()}) == len(best)
        plain = joint_chances(JointProblem(problem.potentials, ((),), ()), 0)
        assert plain.error[0] == 0


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_samples_come_as_often_as_they_should(ruled, moves):
    rng = np.random.default_rng(7)
    while True:
        case = random_joint_case(rng, max_tokens=2, max_rules=2, hard=0.5)
        problem = case.problem(rng, moves=moves)
        if (
            len(case.tokens) == 2
            and np.isfinite(objectives(problem)[1]).sum() > 4
            and problem.rules[0][0].tally is None
        ):
            break
    if not ruled:
        problem = JointProblem(problem.potentials, ((),), ())
    paths, values = objectives(problem)
    chances = np.exp(values - np.logaddexp.reduce(values))
    found = joint_chances(problem, 0, Question(uniform=rng.random(40_000)))
    drawn = found.drawn.reshape(20_000, 2)
    S = problem.potentials.n_states
    often = np.bincount(drawn[:, 0] * S + drawn[:, 1], minlength=S * S) / len(drawn)
    assert_allclose(often, chances, atol=0.015)
    assert not often[chances == 0].any()


def test_the_error_counts_joint_labels_that_were_left_out(monkeypatch):
    monkeypatch.setattr(sums, "MOST_STATES", 2)
    rng = np.random.default_rng(3)
    for _ in range(30):
        case = random_joint_case(rng, max_rules=1)
        problem = case.problem(rng, forbid=0.0)
        if not case.tokens:
            continue
        _, values = objectives(problem)
        found = joint_chances(problem, 0, Question(marginals=True), 1e-6)
        if values.max() == -np.inf or found.log_partition[0] == -np.inf:
            continue
        chance, error = found.whole(values.max(keepdims=True))
        assert abs(chance[0] - np.exp(values.max() - np.logaddexp.reduce(values))) <= error[0] + 1e-9
