"""Conflicts, relaxing, AD3, HiGHS and what the engines say of wrong input."""

from functools import partial

import numpy as np
import pytest

from oracles.graphs import best_objective, objectives, random_problem
from rulefield.exceptions import InputError
from rulefield.inference.graph import auto
from rulefield.inference.graph.ad3 import ad3_graph
from rulefield.inference.graph.conflict import minimal_conflict_graph, relax_graph
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.result import Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, Logic, LogicFactors


def factors(*specs, n=3):
    """Factors over nodes 0.. with two labels; a spec is (kind, nodes, weight, rule)."""
    nodes = np.concatenate([s[1] for s in specs]).astype(np.int64)
    return LogicFactors(
        np.array([s[0] for s in specs], np.uint8),
        np.concatenate([[0], np.cumsum([len(s[1]) for s in specs])]).astype(np.int64),
        nodes,
        np.ones(len(nodes), np.int64),
        np.zeros(len(nodes), np.bool_),
        np.array([s[4] if len(s) > 4 else 0 for s in specs]),
        np.array([s[2] for s in specs]),
        np.array([s[3] for s in specs]),
    )


def free(n):
    return GraphPotentials(np.full(n, 2), np.zeros(2 * n), np.zeros((0, 2), np.int64), np.zeros(0))


def test_conflict_names_only_the_rules_that_matter():
    logic = factors(
        (Logic.budget, [0, 3], np.inf, 4, 1),
        (Logic.xor, [0, 1, 2], np.inf, 7),
        (Logic.any_of, [3], np.inf, 1),
        (Logic.budget, [0, 1, 2], np.inf, 9),
        (Logic.budget, [0, 1, 2], 3.0, 2),
    )
    assert minimal_conflict_graph(GraphProblem(free(4), logic)) == (7, 9)
    assert decode_graph(GraphProblem(free(4), logic)).status == Status.infeasible


def test_conflicts_are_minimal():
    met = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 5, n_factors=9, n_rows=1)
        conflict = minimal_conflict_graph(problem)
        if best_objective(problem) > -np.inf:
            assert conflict == ()
            continue
        met += 1
        assert infeasible(problem, conflict)
        for rule in conflict:
            assert not infeasible(problem, [r for r in conflict if r != rule])
    assert met > 5


def infeasible(problem, rules):
    logic = problem.logic.select(np.isin(problem.logic.rule, rules))
    rows = problem.rows.select(np.isin(problem.rows.rule, rules))
    return best_objective(GraphProblem(problem.potentials, logic, rows)) == -np.inf


def test_no_conflict_of_rules_where_scores_forbid_everything():
    p = GraphPotentials(np.array([2]), np.full(2, -np.inf), np.zeros((0, 2), np.int64), np.zeros(0))
    problem = GraphProblem(p, factors((Logic.any_of, [0], np.inf, 0)))
    assert minimal_conflict_graph(problem) == ()
    assert decode_graph(problem).status == Status.infeasible


def test_relaxing_breaks_as_little_as_possible_then_scores_best():
    met = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 5, n_factors=9)
        if best_objective(problem) > -np.inf:
            continue
        met += 1
        counted = weighted(problem, hard=1.0, soft=0.0)
        labels, minus_violation = objectives(GraphProblem(flat(problem.potentials), counted))
        least = minus_violation == minus_violation.max()
        _, values = objectives(GraphProblem(problem.potentials, weighted(problem, hard=0.0)))
        found = relax_graph(problem)
        assert found.status == Status.optimal
        assert sum(b.amount for b in found.broken if b.cost == np.inf) == -minus_violation.max()
        assert found.objective == pytest.approx(values[least].max())
        assert len(labels)
    assert met > 5


def flat(p):
    return GraphPotentials(p.n_labels, np.zeros_like(p.unary), p.edges, np.zeros_like(p.pairwise))


def weighted(problem, hard, soft=None):
    f = problem.logic
    is_hard = np.isinf(f.weight)
    weight = np.where(is_hard, hard, f.weight if soft is None else soft)
    return LogicFactors(f.kind, f.pointer, f.atom_node, f.atom_label, f.atom_negated, f.limit, weight, f.rule)


def test_ad3_bounds_and_never_breaks_hard_rules():
    tight = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 5, n_factors=seed % 6, n_rows=seed % 3, step=0.0)
        best = best_objective(problem)
        found = decode_graph(problem, "ad3")
        assert found.upper_bound >= best - 1e-7
        assert found.objective <= best + 1e-7
        tight += found.status == Status.optimal
    assert tight > 20


def test_ad3_is_exact_on_trees():
    for seed in range(5):
        problem = random_problem(np.random.default_rng(seed), 7, n_factors=0, kind="forest")
        found = ad3_graph(problem)
        assert found.value == pytest.approx(best_objective(problem))
        assert found.bound == pytest.approx(found.value, abs=1e-5)


def coupled(n, seed, forbidden=0.0):
    """All pairs of n nodes of two labels, with random scores: bounds decide little."""
    rng = np.random.default_rng(seed)
    edges = np.array([(i, j) for i in range(n) for j in range(i)])
    pairwise = np.where(rng.random(4 * len(edges)) < forbidden, -np.inf, rng.normal(size=4 * len(edges)))
    return GraphProblem(GraphPotentials(np.full(n, 2), rng.normal(size=2 * n), edges, pairwise))


def walk_only(monkeypatch, *steps):
    """Leave one round of sweeps and the given steps of the walk."""
    monkeypatch.setattr(auto, "FIRST_STEPS", (auto.GraphStep("trws", partial(auto.sweep, rounds=1)),))
    monkeypatch.setattr(auto, "STEPS", steps)


def row(value, bound, weight, node=0, label=1):
    one = np.zeros(1)
    return GraphRows(
        np.array([0, 1]), np.array([node]), np.array([label]), one + value, one + bound, one + weight, np.array([5])
    )


def test_wrong_input_is_named():
    with pytest.raises(InputError, match="names node 4"):
        GraphProblem(free(2), rows=row(1.0, 0.0, 1.0, node=4))
    with pytest.raises(InputError, match="node 1 the label 2"):
        GraphProblem(free(2), rows=row(1.0, 0.0, 1.0, node=1, label=2))
    with pytest.raises(InputError, match="weight of a row must be 0 or more"):
        decode_graph(GraphProblem(free(2), rows=row(1.0, 0.0, -1.0)))
    with pytest.raises(InputError, match="unary scores must be numbers up to 1e"):
        decode_graph(GraphProblem(GraphPotentials(np.array([2]), np.array([0, np.nan]), free(1).edges, np.zeros(0))))
    with pytest.raises(InputError, match="engine .gurobi. is unknown"):
        decode_graph(GraphProblem(free(2)), "gurobi")


def test_broken_rules_are_listed_with_amounts():
    p = GraphPotentials(np.array([2]), np.array([0.0, 5.0]), free(1).edges, np.zeros(0))
    found = decode_graph(GraphProblem(p, rows=row(3.0, 1.0, 0.5)))
    assert found.labels.tolist() == [1]
    assert (found.score, found.objective) == (5.0, 4.0)
    (broken,) = found.broken
    assert (broken.rule, broken.amount, broken.cost) == (5, 2.0, 1.0)


def test_no_nodes_at_all():
    found = decode_graph(GraphProblem(free(0)))
    assert (found.status, found.objective, len(found.labels)) == (Status.optimal, 0.0, 0)
