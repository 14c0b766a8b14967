"""Every engine for chains under rules gives what enumeration gives, or says how far it may be off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.chains import random_chain
from oracles.compiled import check_word, random_problem, random_rule
from rulefield.exceptions import InputError
from rulefield.inference.result import Status
from rulefield.inference.sequences.decode import ENGINES, decode
from rulefield.inference.sequences.enumerate import decode_enumerate
from rulefield.parallel import in_threads
from rulefield.problem.chain_rules import ChainProblem

SEEDS = st.integers(0, 2**32 - 1)


def check_exact(problem, engine, **options):
    exact = decode_enumerate(problem)
    result = decode(problem, engine, **options)
    assert result.status is exact.status
    check_word(problem, result, exact)


@given(SEEDS)
@settings(max_examples=500, deadline=None)
def test_auto_equals_enumeration(seed):
    check_exact(random_problem(np.random.default_rng(seed)), "auto")


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_product_equals_enumeration(seed):
    check_exact(random_problem(np.random.default_rng(seed)), "product")


def test_several_automata_at_once():
    """Rules read by automata only, paid by the unit: the ones that are first folded in as prices, then made exact."""
    for seed in range(120):
        rng = np.random.default_rng(seed)
        rules = []
        while len(rules) < 4:
            rule = random_rule(rng, len(rules), 7, 3, hard=0)
            if rule.automaton is not None and not rule.once:
                rules.append(rule)
        check_exact(ChainProblem(random_chain(rng, 7, 3), tuple(rules)), "product")


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_paths_equal_enumeration(seed):
    check_exact(random_problem(np.random.default_rng(seed)), "paths")


@pytest.mark.parametrize("engine", ["milp", "reduced_milp"])
@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_integer_programs_equal_enumeration(engine, seed):
    check_exact(random_problem(np.random.default_rng(seed), 4, 3, 3), engine)


@pytest.mark.parametrize("engine", ["viterbi", "soft_dd"])
@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_inexact_engines_keep_their_word(engine, seed):
    problem = random_problem(np.random.default_rng(seed))
    check_word(problem, decode(problem, engine), decode_enumerate(problem))


@pytest.mark.parametrize("engine", ["auto", "product", "paths"])
@given(SEEDS, st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_a_limit_leaves_a_true_gap(engine, seed, limit):
    problem = random_problem(np.random.default_rng(seed))
    check_word(problem, decode(problem, engine, node_limit=limit), decode_enumerate(problem))


def test_threads_change_nothing():
    rng = np.random.default_rng(5)
    problems = [random_problem(rng, 30, 6) for _ in range(60)]
    one = [decode(problem) for problem in problems]
    for n_jobs in (2, 5, -1):
        for a, b in zip(one, in_threads(decode, problems, n_jobs), strict=True):
            assert (a.objective, a.upper_bound, a.status, a.iterations) == (
                b.objective,
                b.upper_bound,
                b.status,
                b.iterations,
            )
            np.testing.assert_array_equal(a.labels, b.labels)


def test_unknown_engine_is_named():
    problem = random_problem(np.random.default_rng(0))
    with pytest.raises(InputError, match="'magic' is unknown; chains have auto"):
        decode(problem, "magic")


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_what_it_declares(name):
    """Exact ones prove every small problem whose rules they read; the others judge rules that they do not read."""
    engine = ENGINES[name]
    rng = np.random.default_rng(8)
    bounded = 0
    for _ in range(20):
        problem = random_problem(rng, 4, 3, 4)
        result = engine.run(problem, 10_000, None)
        assert result.engine == name or name == "auto"
        bounded += result.status is Status.bounded
    assert (bounded == 0) == engine.exact


def test_an_engine_that_does_not_read_a_rule_is_passed_over_or_refused(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr("rulefield.inference.flatten._offered", lambda rule: frozenset({"rows"}))
    fresh = ChainProblem(random_chain(rng, 4, 3), tuple(random_rule(rng, i, 4, 3) for i in range(3)))
    with pytest.raises(
        InputError, match="engine 'product' does not read rules in the form rows; engines that do: auto"
    ):
        decode(fresh, "product")
    assert decode(fresh, "auto").engine in ("viterbi", "soft_dd", "ilp")
