"""Leaving logic factors out at first changes nothing but the time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.graphs import best_objective
from rulefield.inference.graph.decode import decode_graph
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, Logic, LogicFactors


def problem(rng, weight):
    n = 5
    edges = np.array([[i, j] for i in range(n) for j in range(i + 1, n) if rng.random() < 0.5]).reshape(-1, 2)
    scores = GraphPotentials(
        np.full(n, 2), rng.normal(size=2 * n), edges.astype(np.int64), rng.normal(size=4 * len(edges))
    )
    kind = np.array([Logic.budget, Logic.any_of], dtype=np.uint8)
    nodes = np.concatenate([rng.permutation(n)[:3], rng.permutation(n)[:3]])
    logic = LogicFactors(
        kind,
        np.array([0, 3, 6]),
        nodes,
        rng.integers(2, size=6),
        np.zeros(6, dtype=bool),
        np.ones(2, dtype=np.int64),
        np.full(2, weight),
        np.array([0, 1]),
    )
    return GraphProblem(scores, logic, GraphRows.none())


@pytest.mark.parametrize("weight", [np.inf, 0.7])
@pytest.mark.parametrize("seed", range(15))
def test_the_answer_is_the_same(seed, weight):
    p = problem(np.random.default_rng(seed), weight)
    lazy, best = decode_graph(p), best_objective(p)
    assert lazy.status == ("optimal" if best > -np.inf else "infeasible")
    assert_allclose(lazy.objective, best)
    assert lazy.upper_bound >= best - 1e-9
    assert {b.rule for b in lazy.broken} == {int(k) for k in np.flatnonzero(p.logic.broken(lazy.labels))}


def test_what_is_kept_of_factors_serves_other_scores_and_graphs_but_no_other_factors():
    rng = np.random.default_rng(7)
    first = problem(rng, np.inf)
    for seed in range(10):
        other = replace(problem(np.random.default_rng(seed), np.inf), logic=first.logic)
        assert_allclose(decode_graph(other).objective, best_objective(other))
    assert first.logic.memory
    softer = replace(first, logic=replace(first.logic, weight=np.full(2, 0.1)))
    assert not softer.logic.memory
    assert_allclose(decode_graph(softer).objective, best_objective(softer))
