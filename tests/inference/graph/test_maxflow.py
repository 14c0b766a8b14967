"""Minimum cuts: the optimum by enumeration, true bounds, and clear refusals."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rulefield.encode.graph_builders import grid_edges
from rulefield.exceptions import InputError
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.maxflow import is_submodular
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, Logic, LogicFactors


def attractive(seed, n=9, m=20, scale=1.0):
    """Random edges, some of them parallel, with random tables that do not prefer different labels."""
    rng = np.random.default_rng(seed)
    edges = np.array([rng.permutation(n)[:2] for _ in range(m)])
    tables = rng.normal(size=(m, 2, 2))
    lack = tables[:, 0, 1] + tables[:, 1, 0] - tables[:, 0, 0] - tables[:, 1, 1]
    tables[:, 0, 0] += np.maximum(lack, 0.0) + (rng.random(m) < 0.7) * rng.random(m)
    return GraphProblem(
        GraphPotentials(np.full(n, 2), scale * 2 * rng.normal(size=2 * n), edges, scale * tables.ravel())
    )


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(15))
def test_the_cut_is_the_optimum(seed, scale):
    problem = attractive(seed, scale=scale)
    found, exact = decode_graph(problem, engine="maxflow"), decode_graph(problem, engine="enumerate")
    assert_allclose(found.objective, exact.objective, rtol=1e-6)
    assert found.status == "optimal"
    assert exact.objective <= found.upper_bound + 1e-9 * scale


@pytest.mark.parametrize("strength", [0.3, 1.0, 4.0])
def test_auto_takes_the_cut_on_grids_and_agrees_with_branch_and_bound(strength):
    rng = np.random.default_rng(1)
    edges, _ = grid_edges(15, 15)
    tables = strength * rng.random((len(edges), 1, 1)) * np.eye(2)
    problem = GraphProblem(GraphPotentials(np.full(225, 2), rng.normal(size=450), edges, tables.ravel()))
    found = decode_graph(problem)
    assert found.engine == "maxflow"
    assert_allclose(found.objective, decode_graph(problem, engine="branch").objective, rtol=1e-6)


def test_zero_scores_and_nodes_without_edges():
    nothing = GraphProblem(GraphPotentials(np.full(3, 2), np.zeros(6), np.zeros((0, 2), np.int64), np.zeros(0)))
    assert decode_graph(nothing, engine="maxflow").objective == 0.0
    alone = GraphProblem(
        GraphPotentials(np.full(2, 2), np.array([0.0, 1.0, 3.0, -2.0]), np.zeros((0, 2), np.int64), np.zeros(0))
    )
    assert decode_graph(alone, engine="maxflow").labels.tolist() == [1, 0]


def test_other_problems_are_refused():
    good = attractive(0)
    p = good.potentials
    repelled = GraphProblem(GraphPotentials(p.n_labels, p.unary, p.edges, -p.pairwise))
    forbidden = GraphProblem(
        GraphPotentials(p.n_labels, np.where(np.arange(18) == 3, -np.inf, p.unary), p.edges, p.pairwise)
    )
    three = GraphProblem(GraphPotentials(np.array([3]), np.zeros(3), np.zeros((0, 2), np.int64), np.zeros(0)))
    loop = GraphProblem(GraphPotentials(np.array([2]), np.zeros(2), np.zeros((1, 2), np.int64), np.zeros(4)))
    rule = LogicFactors(
        np.array([Logic.any_of], dtype=np.uint8),
        np.array([0, 1]),
        np.array([0]),
        np.array([1]),
        np.zeros(1, dtype=bool),
        np.zeros(1, dtype=np.int64),
        np.full(1, np.inf),
        np.zeros(1, dtype=np.int64),
    )
    assert is_submodular(good)
    for problem in (repelled, forbidden, three, loop):
        assert not is_submodular(problem)
        with pytest.raises(InputError, match="two labels"):
            decode_graph(problem, engine="maxflow")
        exact = decode_graph(problem, engine="enumerate")
        assert_allclose(decode_graph(problem).objective, exact.objective)
    with pytest.raises(InputError, match="'maxflow' does not read rules in the form logic; engines that do: auto"):
        decode_graph(GraphProblem(p, rule), engine="maxflow")


def test_variables_that_no_row_asks_about_are_part_of_the_answer():
    """As where the rules of a conflict are left out one after the other: the variables of their rows stay."""
    good = attractive(3)
    found = decode_graph(replace(good, rows=replace(GraphRows.none(), n_auxiliary=2)))
    assert found.engine == "maxflow"
    assert_allclose(found.objective, decode_graph(good, engine="enumerate").objective, rtol=1e-6)
