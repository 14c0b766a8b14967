"""Every graph engine against all labelings of small random problems."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.graphs import best_objective, objectives, random_logic, random_potentials, random_problem
from rulefield.exceptions import InputError
from rulefield.inference.graph.automata import automata
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Status
from rulefield.problem.graph import GraphProblem

SHAPES = {
    "plain": {"n_factors": 0},
    "forest": {"n_factors": 0, "kind": "forest"},
    "logic": {"n_factors": 4},
    "much logic": {"n_factors": 10},
    "rows": {"n_factors": 1, "n_rows": 3},
    "auxiliary": {"n_factors": 2, "n_rows": 3, "n_auxiliary": 2},
    "forbidden": {"n_factors": 3, "forbidden": 0.15},
    "half steps": {"n_factors": 0, "n_rows": 3, "step": 0.5},
}
EXACT = ("auto", "branch", "elimination", "milp")


def agrees(problem, engine):
    best = best_objective(problem)
    result = decode_graph(problem, engine)
    if best == -np.inf:
        assert result.status == Status.infeasible
        assert len(result.labels) == 0
        return
    assert result.status == Status.optimal
    assert result.objective == pytest.approx(best, abs=1e-6)
    assert result.upper_bound >= best - 1e-9
    assert result.score == pytest.approx(problem.potentials.score(result.labels))
    assert result.score - sum(rule.cost for rule in result.broken) == pytest.approx(result.objective)
    labels, values = objectives(problem)
    same = (labels[:, : problem.potentials.n_nodes] == result.labels).all(axis=1)
    assert values[same].max() == pytest.approx(result.objective)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n_nodes=st.integers(1, 7),
    n_factors=st.integers(0, 8),
    n_rows=st.integers(0, 2),
    forbidden=st.sampled_from([0.0, 0.1]),
)
def test_auto_equals_enumeration(seed, n_nodes, n_factors, n_rows, forbidden):
    agrees(random_problem(np.random.default_rng(seed), n_nodes, n_factors, n_rows, forbidden=forbidden), "auto")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("engine", EXACT)
def test_exact_engines_equal_enumeration(engine, shape):
    for seed in range(6):
        agrees(random_problem(np.random.default_rng(seed), 5, **SHAPES[shape]), engine)


def test_exact_engines_refuse_rules_that_they_do_not_read():
    problem = random_problem(np.random.default_rng(0), 5, n_factors=2, n_rows=2, step=0.0)
    with pytest.raises(InputError, match="branch.*in the form rows; engines that do: auto, milp"):
        decode_graph(problem, "branch")


@pytest.mark.parametrize("shape", SHAPES)
def test_trws_bounds_and_never_breaks_hard_rules(shape):
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), 6, **SHAPES[shape])
        best = best_objective(problem)
        result = decode_graph(problem, "trws")
        assert result.upper_bound >= best - 1e-9
        assert result.objective <= best + 1e-9
        assert (len(result.labels) == 0) == (result.objective == -np.inf)


def test_each_factor_has_the_automaton_of_its_own_meaning():
    rng = np.random.default_rng(0)
    p = random_potentials(rng, 4)
    logic = random_logic(rng, p, 600, soft=0.1)  # on so few nodes that many differ in a single respect
    made, _ = automata(GraphProblem(p, logic))
    for labels in product(*map(range, p.n_labels)):
        cost = np.where(logic.broken(np.array(labels)), -logic.weight, 0.0)
        for automaton, expected in zip(made, cost):
            state = 0
            for node, letters in zip(automaton.nodes, automaton.letters):
                state = automaton.delta[letters[labels[node]], state]
            assert automaton.final[state] == expected
