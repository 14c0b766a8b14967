"""Submodular problems with two labels, whose relaxation is tight: sweeps alone find and prove the optimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.graphs import best_objective
from rulefield.encode.graph_builders import grid_edges
from rulefield.inference.graph.decode import decode_graph
from rulefield.problem.graph import GraphPotentials, GraphProblem


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
def test_the_optimum_is_that_of_enumeration(seed, scale):
    problem = attractive(seed, scale=scale)
    found, best = decode_graph(problem), best_objective(problem)
    assert_allclose(found.objective, best, rtol=1e-6)
    assert found.status == "optimal"
    assert best <= found.upper_bound + 1e-9 * scale


@pytest.mark.parametrize("strength", [0.3, 1.0, 4.0])
def test_sweeps_prove_grids(strength):
    rng = np.random.default_rng(1)
    edges, _ = grid_edges(15, 15)
    tables = strength * rng.random((len(edges), 1, 1)) * np.eye(2)
    problem = GraphProblem(GraphPotentials(np.full(225, 2), rng.normal(size=450), edges, tables.ravel()))
    found = decode_graph(problem, engine="trws")
    assert found.status == "optimal"
    assert_allclose(found.objective, decode_graph(problem, engine="elimination").objective, rtol=1e-6)
