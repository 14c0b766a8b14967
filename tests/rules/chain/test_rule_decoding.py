"""Rules as users write them, decoded: the answer is the best of all labelings by the rules' own definition."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.rules import best_objective, random_case
from rulefield import rules as r
from rulefield.inference.result import Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.rules import compile_rules
from rulefield.rules.expression import LabeledTokens


def random_problem(seed, max_tokens):
    """A case with potentials in which the scheme is masked, and its compiled problem."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, max_tokens=max_tokens, max_rules=3)
    compiled = compile_rules(case.rules, case.labels, case.scheme, case.tokens)
    return case, ChainProblem(random_potentials(rng, case), compiled)


def random_potentials(rng, case):
    n, m = len(case.tokens), len(case.labels)
    unary, pairwise = rng.normal(size=(n, m)) * 2, rng.normal(size=(m, m))
    if rng.random() < 0.2:
        unary, pairwise = np.round(unary), np.round(pairwise)  # ties
    allowed, begin, end = case.masks
    pairwise[~allowed] = -np.inf
    if n:
        unary[0, ~begin] = unary[-1, ~end] = -np.inf
    return ChainPotentials(unary, pairwise)


def amounts(case, y):
    world = LabeledTokens(case.tokens, case.names(y), case.scheme)
    return [rule.body.amount(world) for rule in case.rules]


def objective(case, problem, y):
    """Score less what the rules cost, all from definitions."""
    return problem.potentials.score(y) - sum(rule.cost(a) for rule, a in zip(case.rules, amounts(case, y)))


def check_answer(case, problem, result, best):
    """The answer is feasible exactly when some labeling is, earns what it says, and names what it breaks."""
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
    best = max((objective(case, problem, y) for y in case.labelings()), default=-np.inf)
    check_answer(case, problem, decode(problem), best)


@settings(max_examples=700, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_answers_are_the_best_of_all_labelings(seed):
    case, problem = random_problem(seed, max_tokens=6)
    rng = np.random.default_rng(seed)
    for potentials in (problem.potentials, random_potentials(rng, case), random_potentials(rng, case)):
        problem = replace(problem, potentials=potentials)
        check_answer(case, problem, decode(problem), best_objective(problem))


@pytest.mark.parametrize("engine", ["paths", "product", "milp", "reduced_milp"])
def test_every_exact_engine_agrees(engine):
    for seed in range(30):
        case, problem = random_problem(seed, max_tokens=4)
        check_answer(case, problem, decode(problem, engine=engine), best_objective(problem))


@pytest.mark.parametrize("engine", ["milp", "reduced_milp", "product"])
@pytest.mark.parametrize("then", ["prev", "here", "next"])
def test_a_window_may_conclude_about_any_of_its_tokens(engine, then):
    """Also where the label in the middle is free: its rows were missing once."""
    rule = r.at(r.token_equals(","), prev="x", here=["x", "y", "z"], next="y", then=then).soft(2.0)
    compiled = compile_rules([rule], ["x", "y", "z"], None, ["a", ",", "b", ",", "c"])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        problem = ChainProblem(ChainPotentials(rng.normal(size=(5, 3)), rng.normal(size=(3, 3))), compiled)
        assert decode(problem, engine).objective == pytest.approx(decode(problem, "enumerate").objective, abs=1e-7)


@pytest.mark.parametrize(
    ("rule", "obeyed"), [(r.present("x"), False), (r.count("x") <= 1, True), (r.first("x"), True)]
)
def test_no_tokens_are_judged_like_any_labeling(rule, obeyed):
    assert (rule.violation([], []) == 0) == obeyed
    problem = ChainProblem(
        ChainPotentials(np.zeros((0, 2)), np.zeros((2, 2))), compile_rules([rule], ["x", "y"], None, [])
    )
    assert decode(problem).status is (Status.optimal if obeyed else Status.infeasible)
    assert minimal_conflict(problem) == (() if obeyed else (0,))
    relaxed = decode_relaxed(problem)
    assert relaxed.status is Status.optimal
    assert [b.amount for b in relaxed.broken] == ([] if obeyed else [1.0])
