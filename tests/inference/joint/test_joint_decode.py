"""Decoding joint chains under rules: every answer against the list of all joint labellings."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.joint_rules import random_joint_case
from rulefield.exceptions import InternalError
from rulefield.inference.chain.enumerate import labellings
from rulefield.inference.definition import amounts_of, costs_of, scores_of
from rulefield.inference.joint import decode as joint_decode
from rulefield.inference.joint import windows
from rulefield.inference.joint.amounts import joint_amounts
from rulefield.inference.joint.decode import ENGINES, decode_joint
from rulefield.inference.result import Status


def best_of_all(potentials, paths, costs):
    """Best objective of any joint labelling; ``costs`` (paths,) holds what the rules cost."""
    return (scores_of(potentials.chain(0), paths) - costs).max(initial=-np.inf)


@pytest.mark.parametrize("seed", range(10))
def test_two_thousand_problems_are_solved_as_enumeration_solves_them(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        case = random_joint_case(rng)
        problem = case.problem(rng)
        dense = problem.over(0)
        paths = labellings(dense.potentials)
        costs = sum(costs_of(rule, amounts_of(rule, paths)) for rule in dense.rules)
        for _ in range(7):
            potentials = case.potentials(rng, moves=rng.random() < 0.15)
            (found,) = decode_joint(replace(problem, potentials=potentials))
            best = best_of_all(potentials, paths, costs)
            if best == -np.inf:
                assert found.status is Status.infeasible
                continue
            assert found.status is Status.optimal
            assert_allclose(found.objective, best, atol=2e-6)
            assert_allclose(potentials.chain(0).score(found.labels), found.score)
            assert_allclose(found.score - sum(b.cost for b in found.broken), found.objective)
            assert found.upper_bound >= found.objective


@pytest.mark.parametrize("seed", range(4))
def test_compiled_letters_say_what_the_definition_says(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(25):
        case = random_joint_case(rng, max_rules=2)
        problem = case.problem(rng)
        schemes = {task: scheme for task, (_, scheme) in case.tasks.items()}
        every = list(case.labellings())
        for j in rng.permutation(len(every))[:25]:
            states, names = every[j]
            amounts = joint_amounts(problem, states)[0]
            for rule, amount in zip(case.rules, amounts):
                assert rule.violation(case.tokens, names, schemes) == amount, (rule, names)


def test_where_joint_labels_are_too_many_the_bound_is_true(monkeypatch):
    monkeypatch.setattr(windows, "MOST_STATES", 3)
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(60):
        case = random_joint_case(rng, hard=0.2)
        problem = case.problem(rng)
        paths = labellings(problem.potentials.chain(0))
        costs = sum(costs_of(rule, amounts_of(rule, paths)) for rule in problem.over(0).rules)
        best = best_of_all(problem.potentials, paths, costs)
        (found,) = decode_joint(problem)
        seen.add(found.status)
        assert found.upper_bound >= best - 1e-6
        assert found.objective <= best + 1e-6
        if found.status is Status.optimal:
            assert_allclose(found.objective, best, atol=2e-6)
    assert Status.bounded in seen


def test_a_wrong_claim_is_withheld(monkeypatch):
    """Scores of the factored maximum and bounds of small chains are held against the definition on every answer."""
    rng = np.random.default_rng(5)
    problems = [random_joint_case(rng).problem(rng) for _ in range(30)]
    with monkeypatch.context() as patch:
        plain = joint_decode.joint_viterbi
        patch.setattr(joint_decode, "joint_viterbi", lambda p: (plain(p)[0], plain(p)[1] + 0.01))
        problem = next(problem for problem in problems if plain(problem.potentials)[1][0] > -np.inf)
        with pytest.raises(InternalError, match="claims an objective"):
            decode_joint(problem)
    small = joint_decode.decode

    def modest(*args):
        result = small(*args)
        lower = {name: getattr(result, name) - 0.01 for name in ("score", "objective", "upper_bound")}
        return replace(result, **lower)

    monkeypatch.setattr(joint_decode, "decode", modest)
    withheld = 0
    for problem in problems:
        try:
            decode_joint(problem)
        except InternalError:
            withheld += 1
    assert withheld > 3


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_engine_keeps_its_word(engine):
    rng = np.random.default_rng(8)
    for _ in range(6):
        problem = random_joint_case(rng).problem(rng)
        dense = problem.over(0)
        paths = labellings(dense.potentials)
        best = best_of_all(
            problem.potentials, paths, sum(costs_of(rule, amounts_of(rule, paths)) for rule in dense.rules)
        )
        (found,) = decode_joint(problem, engine)
        assert found.upper_bound >= best - 1e-6
        if ENGINES[engine].exact:
            assert found.status is (Status.infeasible if best == -np.inf else Status.optimal)
        if found.status is Status.optimal:
            assert_allclose(found.objective, best, atol=2e-6)
