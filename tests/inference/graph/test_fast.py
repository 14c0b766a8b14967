"""Sweeps from messages of other scores; larger problems against the reference engine; limits and warm starts."""

import numpy as np
import pytest

from oracles.graphs import best_objective, random_logic, random_potentials, random_problem
from rulefield.exceptions import InputError
from rulefield.inference.graph import auto
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.pieces import finish_pieces
from rulefield.inference.result import Status
from rulefield.learning.graph.oracle import sweep_on
from rulefield.problem.graph import GraphPotentials, GraphProblem


def grid(seed, side=8, n_labels=4, strength=1.0):
    rng = np.random.default_rng(seed)
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    edges = np.concatenate([across, np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)])
    pairwise = np.tile(strength * np.eye(n_labels).ravel(), len(edges))
    unary = rng.normal(size=side * side * n_labels)
    return GraphProblem(GraphPotentials(np.full(side * side, n_labels), unary, edges, pairwise))


def test_forests_are_exact_in_a_few_sweeps():
    for seed in range(20):
        p = random_potentials(np.random.default_rng(seed), 7, "forest")
        search, constant = sweep_on(p)
        assert search.value + constant == pytest.approx(best_objective(GraphProblem(p)))
        assert not search.is_open


def test_messages_of_other_scores_leave_true_bounds():
    rng = np.random.default_rng(0)
    for seed in range(20):
        p = random_potentials(np.random.default_rng(seed), 6)
        search = None
        for _ in range(4):
            p = GraphPotentials(p.n_labels, rng.normal(size=len(p.unary)), p.edges, rng.normal(size=len(p.pairwise)))
            search, constant = sweep_on(p, search)
            best = best_objective(GraphProblem(p))
            assert search.value + constant - 1e-9 <= best <= search.bound + constant + 1e-9


def test_messages_of_the_same_scores_tighten_the_bound():
    p = grid(0, side=16, strength=1.5).potentials
    cold, _ = sweep_on(p)
    warm, _ = sweep_on(p, cold)
    assert warm.bound < cold.bound - 1e-3


@pytest.mark.parametrize("strength", [0.5, 1.5])
def test_grids_against_the_reference(strength):
    problem = grid(5, side=7, strength=strength)
    ours, reference = decode_graph(problem), decode_graph(problem, "milp")
    assert (ours.status, reference.status) == (Status.optimal, Status.optimal)
    assert ours.objective == pytest.approx(reference.objective)


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_rules_against_the_reference(seed):
    rng = np.random.default_rng(seed)
    p = random_potentials(rng, 30, sizes=(3, 5))
    problem = GraphProblem(p, random_logic(rng, p, 12, soft=0.6))
    ours, reference = decode_graph(problem), decode_graph(problem, "milp")
    assert ours.status == reference.status
    assert ours.objective == pytest.approx(reference.objective)


def test_many_separate_pieces_are_solved_one_by_one(monkeypatch):
    only = tuple(step for step in auto.STEPS if step.run is finish_pieces)
    monkeypatch.setattr(auto, "FIRST_STEPS", auto.FIRST_STEPS[:1])
    monkeypatch.setattr(auto, "STEPS", only)
    pieces = [random_potentials(np.random.default_rng(seed), 7, sizes=(3, 4)) for seed in range(12)]
    start = np.cumsum([0, *(p.n_nodes for p in pieces)])
    whole = GraphPotentials(
        np.concatenate([p.n_labels for p in pieces]),
        np.concatenate([p.unary for p in pieces]),
        np.concatenate([p.edges + s for p, s in zip(pieces, start)]),
        np.concatenate([4 * p.pairwise for p in pieces]),
    )
    apart = [GraphPotentials(p.n_labels, p.unary, p.edges, 4 * p.pairwise) for p in pieces]
    found = decode_graph(GraphProblem(whole))
    assert found.status == Status.optimal
    assert found.objective == pytest.approx(sum(best_objective(GraphProblem(p)) for p in apart))


def test_labelings_made_around_sure_nodes_are_true(monkeypatch):
    monkeypatch.setattr("rulefield.inference.graph.state.MANY_NODES", 0)
    for seed in range(150):
        problem = random_problem(np.random.default_rng(seed), 7, n_factors=9, n_rows=2, forbidden=0.1)
        best = best_objective(problem)
        found = decode_graph(problem)
        assert found.status == (Status.infeasible if best == -np.inf else Status.optimal)
        assert found.objective == pytest.approx(best)
    ours, reference = decode_graph(grid(1)), decode_graph(grid(1), "branch")
    assert ours.objective == pytest.approx(reference.objective)


def test_limits_return_a_bound():
    problem = random_problem(np.random.default_rng(1), 30, n_factors=25)
    for limits in ({"node_limit": 1}, {"seconds": 0.0}):
        found = decode_graph(problem, "branch", **limits)
        assert found.upper_bound >= found.objective
        assert found.status in (Status.optimal, Status.bounded, Status.infeasible)


def test_wrong_warm_starts_are_named():
    with pytest.raises(InputError, match="one label for each of the 16 nodes"):
        decode_graph(grid(0, side=4), warm_start=np.zeros(3, np.int64))
    with pytest.raises(InputError, match="node 0 the label 9"):
        decode_graph(grid(0, side=4), warm_start=np.full(16, 9))


def test_warm_start_labeling_is_never_lost():
    problem = grid(3)
    best = decode_graph(problem)
    found = decode_graph(problem, "trws", warm_start=best.labels)
    assert found.objective == pytest.approx(best.objective)
