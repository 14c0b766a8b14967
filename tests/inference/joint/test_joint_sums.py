"""Sums, k best and samples of joint chains under rules, against the list of all joint labelings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.joint import problem as plain_problem
from oracles.joint_rules import random_joint_case
from rulefield.exceptions import InfeasibleError, InputError
from rulefield.inference.definition import amounts_of, costs_of, scores_of
from rulefield.inference.sequences.enumerate import labelings
from rulefield.inference.sequences.joint import windows
from rulefield.inference.sequences.joint.exact import joint_samples
from rulefield.inference.sequences.joint.sums import ruled_kbest, ruled_log_partition, ruled_marginals, ruled_samples
from rulefield.problem.joint import JointProblem


def objectives(problem):
    """Every labeling of the only chain, and what it is worth."""
    dense = problem.over(0)
    paths = labelings(dense.potentials)
    costs = sum((costs_of(rule, amounts_of(rule, paths)) for rule in dense.rules), np.zeros(len(paths)))
    return paths, scores_of(dense.potentials, paths) - costs


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_kbest_equal_enumeration(seed):
    rng = np.random.default_rng(50 + seed)
    for _ in range(60):
        case = random_joint_case(rng, max_rules=2, hard=0.3)
        if not case.tokens:
            continue
        problem = case.problem(rng, moves=rng.random() < 0.2)
        paths, values = objectives(problem)
        total = np.logaddexp.reduce(values)
        assert_allclose(ruled_log_partition(problem, 0), total, atol=1e-9)
        found, node = ruled_marginals(problem, 0)
        assert_allclose(found, total, atol=1e-9)
        best = ruled_kbest(problem, 0, 4)
        if total == -np.inf:
            assert best == []
            continue
        expected = np.zeros_like(node)
        for path, chance in zip(paths, np.exp(values - total)):
            expected[np.arange(len(path)), path] += chance
        assert_allclose(node, expected, atol=1e-9)
        order = np.sort(values[values > -np.inf])[::-1][:4]
        assert_allclose([value for _, value in best], order, atol=1e-9)
        at = {tuple(path): value for path, value in zip(paths.tolist(), values)}
        assert_allclose([at[tuple(labels.tolist())] for labels, _ in best], order, atol=1e-9)
        assert len({tuple(labels.tolist()) for labels, _ in best}) == len(best)


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
    drawn = ruled_samples(problem, 0, 20_000, rng)
    S = problem.potentials.n_states
    often = np.bincount(drawn[:, 0] * S + drawn[:, 1], minlength=S * S) / len(drawn)
    assert_allclose(often, chances, atol=0.015)
    assert not often[chances == 0].any()


def test_too_many_joint_labels_are_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(windows, "MOST_STATES", 2)
    rng = np.random.default_rng(3)
    case = random_joint_case(rng, max_rules=1)
    problem = case.problem(rng, forbid=0.0)
    while problem.rules[0][0].tally is not None or len(case.tokens) < 2:
        case = random_joint_case(rng, max_rules=1)
        problem = case.problem(rng, forbid=0.0)
    with pytest.raises(InputError, match="at most 2 joint labels"):
        ruled_marginals(problem, 0)


def test_nothing_can_be_drawn_where_all_is_forbidden():
    model, data, _, _, theta = plain_problem(2, (2, 3), lengths=(3,), moves=False)
    p = model.potentials(theta, data)
    p.psi[1] = -np.inf
    with pytest.raises(InfeasibleError):
        joint_samples(p, 2, np.random.default_rng(0))
