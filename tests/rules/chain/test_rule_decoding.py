"""Rules as users write them, decoded: the answer is the best of all labellings by the rules' own definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.rules import best_objective, random_case
from rulefield.inference.chain.decode import decode
from rulefield.inference.result import Status
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import compile_rules
from rulefield.rules.expression import Labelling


def random_problem(seed, max_tokens):
    """A case with potentials in which the scheme is masked, and its compiled problem."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, max_tokens=max_tokens, max_rules=3)
    n, m = len(case.tokens), len(case.labels)
    unary, pairwise = rng.normal(size=(n, m)) * 2, rng.normal(size=(m, m))
    if rng.random() < 0.2:
        unary, pairwise = np.round(unary), np.round(pairwise)  # ties
    allowed, begin, end = case.masks
    pairwise[~allowed] = -np.inf
    if n:
        unary[0, ~begin] = unary[-1, ~end] = -np.inf
    potentials = ChainPotentials(unary, pairwise)
    return case, ChainProblem(potentials, compile_rules(case.rules, case.labels, case.scheme, case.tokens))


def amounts(case, y):
    world = Labelling(case.tokens, case.names(y), case.scheme)
    return [rule.body.amount(world) for rule in case.rules]


def objective(case, problem, y):
    """Score less what the rules cost, all from definitions."""
    return problem.potentials.score(y) - sum(rule.cost(a) for rule, a in zip(case.rules, amounts(case, y)))


def check_answer(case, problem, result, best):
    """The answer is feasible exactly when some labelling is, earns what it says, and names what it breaks."""
    assert (result.status is Status.infeasible) == (best == -np.inf)
    if best == -np.inf:
        return
    assert result.status is Status.optimal
    found = amounts(case, result.labels)
    assert {b.rule: b.amount for b in result.broken} == {i: a for i, a in enumerate(found) if a}
    assert all(a == 0 for rule, a in zip(case.rules, found) if rule.is_hard)
    assert result.objective == pytest.approx(objective(case, problem, result.labels), abs=1e-7)
    assert result.objective == pytest.approx(best, abs=1e-7)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_answers_are_the_best_by_definition(seed):
    case, problem = random_problem(seed, max_tokens=3)
    best = max((objective(case, problem, y) for y in case.labellings()), default=-np.inf)
    check_answer(case, problem, decode(problem), best)


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_answers_are_the_best_of_all_labellings(seed):
    case, problem = random_problem(seed, max_tokens=6)
    check_answer(case, problem, decode(problem), best_objective(problem))


@pytest.mark.parametrize("engine", ["paths", "product", "milp", "reduced_milp"])
def test_every_exact_engine_agrees(engine):
    for seed in range(30):
        case, problem = random_problem(seed, max_tokens=4)
        check_answer(case, problem, decode(problem, engine=engine), best_objective(problem))
