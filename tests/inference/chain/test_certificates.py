"""No false certificate: every chain engine against enumeration, at all scales, offsets and limits.

Enumeration is compiled (the checker judges every labeling); ``test_check.py`` holds the checker against the definition.
"""

from dataclasses import replace

import numpy as np
import pytest

from oracles.compiled import random_problem
from oracles.labelings import labelings
from rulefield import rules as r
from rulefield.inference.result import Status
from rulefield.inference.sequences.conflict import decode_relaxed, is_hard
from rulefield.inference.sequences.decode import ENGINES, decode
from rulefield.inference.sequences.enumerate import judge_every
from rulefield.inference.sequences.sums import IMPOSSIBLE, Question, chances_of
from rulefield.inference.sequences.two_stage import decode_two_stage
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

TOLERANCE = 1e-6  # as documented, whatever the library has
OFFSETS = (0.0, 1e3, 1e6)
SCALES = (1e-9, 1.0, 1e3)
WEIGHTS = (1e-9, 1e-3, 1.0, 1e3, 1e6)
LIMITS = (0, 1, 3)
STATES = [name for name, engine in ENGINES.items() if engine.exact and "automaton" in engine.reads]
INEXACT = [name for name, engine in ENGINES.items() if not engine.exact]
PROGRAMS = [name for name, engine in ENGINES.items() if engine.exact and "automaton" not in engine.reads]


def moved(problem, offset=0.0, scale=1.0, weight=1.0):
    """The same problem with scores times ``scale`` plus ``offset`` for each token, weights times ``weight``."""
    chain = ChainPotentials(problem.potentials.unary * scale + offset, problem.potentials.pairwise * scale)
    return ChainProblem(chain, tuple(replace(rule, weight=rule.weight * weight) for rule in problem.rules))


def wild_problem(seed, n=5, m=3, rules=4, hard=0.25):
    """A small problem at an extreme scale."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n, m, rules, hard)
    return moved(problem, *(float(rng.choice(values)) for values in (OFFSETS, SCALES, WEIGHTS)))


@pytest.mark.parametrize("engine", [name for name, engine in ENGINES.items() if engine.exact])
@pytest.mark.parametrize("size", [1e-5, 1e-4])
def test_a_small_loss_is_a_loss(engine, size):
    """The best path breaks a rule of little weight; giving up half of that keeps it."""
    rule = r.implies(r.first("a"), r.last("b"))
    compiled = r.RuleCompiler([rule.soft(size)], ["a", "b"])(["x", "x"])
    unary = np.array([[0.0, -1.0], [0.0, -size / 2]])
    result = decode(ChainProblem(ChainPotentials(unary, np.zeros((2, 2))), compiled), engine)
    assert result.status is Status.optimal
    assert result.labels.tolist() == [0, 1]


def rounding_of(problem):
    """What sums of this problem may lose, constants included: the enumeration adds them up."""
    sizes = [
        np.abs(x[np.isfinite(x)]).max(initial=0) for x in (problem.potentials.unary, problem.potentials.pairwise)
    ]
    costs = sum(rule.weight * max(rule.max_amount, 1) for rule in problem.rules if np.isfinite(rule.weight))
    terms = 2 * problem.potentials.n_steps + len(problem.rules)
    return terms * 2.0**-52 * (problem.potentials.n_steps * sum(sizes) + costs)


def objectives(problem):
    scores, costs = judge_every(problem)
    return np.where(scores > -np.inf, scores - np.where(scores > -np.inf, costs, 0.0), -np.inf)


def check(problem, result):
    """A result keeps its word; returns the optimum."""
    values = objectives(problem)
    best, blur = values.max(), rounding_of(problem)
    assert result.upper_bound >= best - blur, "a false bound"
    if not len(result.labels):
        assert result.objective == -np.inf
        assert result.status is (Status.infeasible if result.upper_bound == -np.inf else Status.bounded)
    else:
        m = problem.potentials.n_states
        place = int(np.ravel_multi_index(tuple(result.labels), (m,) * len(result.labels)))
        assert values[place] > -np.inf, "a hard rule is broken"
        assert abs(values[place] - result.objective) <= blur, "the objective is not that of the labels"
        if result.status is Status.optimal:
            assert best - values[place] <= TOLERANCE + blur, "a false certificate"
    if result.status is Status.infeasible:
        assert best == -np.inf, "a false proof that nothing is allowed"
    return best


def check_proof(problem, result):
    best = check(problem, result)
    assert result.status is (Status.infeasible if best == -np.inf else Status.optimal)


@pytest.mark.parametrize("engine", STATES)
def test_exact_engines_prove_at_every_scale(engine):
    for seed in range(1600 if engine == "auto" else 700):
        problem = wild_problem(seed)
        check_proof(problem, decode(problem, engine))


@pytest.mark.parametrize("engine", INEXACT)
def test_inexact_engines_keep_their_word_at_every_scale(engine):
    for seed in range(500):
        problem = wild_problem(10_000 + seed)
        check(problem, decode(problem, engine))


@pytest.mark.parametrize("engine", PROGRAMS)
def test_integer_programs_keep_their_word_at_every_scale(engine):
    for seed in range(60):
        problem = wild_problem(20_000 + seed, 4, 3, 3)
        check(problem, decode(problem, engine))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("engine", ["auto", "paths", "product"])
def test_small_limits_leave_true_gaps(engine, limit):
    for seed in range(150 if engine != "auto" else 60):
        problem = wild_problem(30_000 + seed)
        check(problem, decode(problem, engine, node_limit=limit))


def test_sums_and_kbest_at_every_offset():
    for seed in range(500):
        rng = np.random.default_rng(40_000 + seed)
        offset = float(rng.choice(OFFSETS))
        problem = moved(random_problem(rng, 5, 3, 4), offset, float(rng.choice((1e-3, 1.0))))
        values, paths = objectives(problem), labelings(problem.potentials)
        total = np.logaddexp.reduce(values)
        found = chances_of(problem, Question(marginals=True, k=6))
        assert found.log_partition[0] == pytest.approx(total, abs=1e-8)
        if total == -np.inf:
            assert found.reason[0] == IMPOSSIBLE
            continue
        p = np.exp(values - total)
        expected = (p[:, None, None] * (paths[:, :, None] == np.arange(problem.potentials.n_states))).sum(axis=0)
        np.testing.assert_allclose(found.node, expected, atol=1e-8)
        best = np.sort(values[values > -np.inf])[::-1][:6]
        got = found.best.reshape(6, -1)[found.best_chance[0] > 0]
        at = {tuple(path): value for path, value in zip(paths.tolist(), values)}
        np.testing.assert_allclose([at[tuple(row)] for row in got.tolist()], best, rtol=0, atol=1e-8)
        assert len({tuple(row) for row in got.tolist()}) == len(got)


def test_relaxed_answers_break_least_at_every_scale():
    for seed in range(500):
        problem = wild_problem(50_000 + seed, 4, 3, 5, hard=0.6)
        units = tuple(replace(r, weight=1.0, once=False) for r in problem.rules if is_hard(r))
        amounts = judge_every(ChainProblem(problem.potentials, units))[1]
        soft = ChainProblem(problem.potentials, tuple(r for r in problem.rules if not is_hard(r)))
        values = objectives(soft)
        result = decode_relaxed(problem)
        if (values == -np.inf).all():
            assert result.status is Status.infeasible
            continue
        least = amounts[values > -np.inf].min()
        hard = {rule.rule for rule in problem.rules if is_hard(rule)}
        assert result.status is Status.optimal
        assert sum(b.amount for b in result.broken if b.rule in hard) == least, f"seed {seed}"
        best = values[amounts == least].max()
        assert abs(result.objective - best) <= TOLERANCE + rounding_of(soft)


def test_two_stage_answers_cost_least_at_every_scale():
    for seed in range(900):
        rng = np.random.default_rng(60_000 + seed)
        problem = wild_problem(60_000 + seed, 4, 3, 4, hard=0.15)
        near = ("delta", (0.0, 0.5, 3.0, 1e3)) if seed % 2 else ("tau", (0.5, 0.97, 1.0))
        result = decode_two_stage(problem, **{near[0]: float(rng.choice(near[1]))})
        scores, costs = judge_every(problem)
        allowed = (scores > -np.inf) & (costs < np.inf)
        if not allowed.any():
            assert result.status is Status.infeasible
            continue
        blur = rounding_of(problem)
        assert abs(result.best_score - scores[allowed].max()) <= TOLERANCE + blur
        assert result.score >= result.score_floor - blur
        surely = allowed & (scores >= result.score_floor + blur)
        maybe = allowed & (scores >= result.score_floor - blur)
        assert result.cost >= costs[maybe].min() - blur
        assert result.cost_lower_bound <= result.cost
        if result.status is Status.optimal and surely.any():
            assert result.cost <= costs[surely].min() + TOLERANCE + blur, f"seed {seed}"
        assert result.status is Status.optimal
