"""Sum-product against sums over all labelings; bounds of the tree-reweighted kind."""

import numpy as np
import pytest

from oracles.graphs import exact_marginals, random_potentials
from rulefield.exceptions import InputError
from rulefield.inference.graph.marginals import graph_marginals
from rulefield.problem.graph import GraphPotentials


def sums_to_one(p, found):
    for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:]):
        assert found.node[a:b].sum() == pytest.approx(1.0)
    for e, (i, j) in enumerate(p.edges):
        table = found.edge[p.pairwise_offset[e] : p.pairwise_offset[e + 1]].reshape(p.n_labels[i], p.n_labels[j])
        assert table.sum(axis=1) == pytest.approx(found.node[p.unary_offset[i] : p.unary_offset[i + 1]], abs=1e-5)


@pytest.mark.parametrize("forbidden", [0.0, 0.1])
def test_forests_are_exact(forbidden):
    tried = 0
    for seed in range(40):
        p = random_potentials(np.random.default_rng(seed), 6, "forest", forbidden)
        if not np.isfinite(exact := exact_log_z(p)):
            continue
        tried += 1
        node, edge, log_z = exact_marginals(p)
        found = graph_marginals(p)
        assert (found.method, found.converged) == ("exact", True)
        assert found.node == pytest.approx(node)
        assert found.edge == pytest.approx(edge)
        assert found.log_partition == pytest.approx(log_z)
        assert exact == pytest.approx(log_z)
    assert tried > 20


def exact_log_z(p):
    from scipy.special import logsumexp

    from oracles.graphs import all_labelings, scores_of

    with np.errstate(divide="ignore"):
        return logsumexp(scores_of(p, all_labelings(p.n_labels)))


def test_tree_reweighted_bounds_log_z_and_is_consistent():
    seen = 0
    for seed in range(40):
        p = random_potentials(np.random.default_rng(seed), 6)
        found = graph_marginals(p, "tree_reweighted")
        assert found.converged
        assert found.log_partition >= exact_log_z(p) - 1e-7
        sums_to_one(p, found)
        seen += found.log_partition > exact_log_z(p) + 1e-3
    assert seen > 10


def test_gradient_of_the_bound_is_the_marginals():
    p = random_potentials(np.random.default_rng(3), 5)
    found = graph_marginals(p, "tree_reweighted", tolerance=1e-12)
    for k in range(0, len(p.unary), 3):
        ends = []
        for step in (1e-5, -1e-5):
            unary = p.unary.copy()
            unary[k] += step
            shifted = GraphPotentials(p.n_labels, unary, p.edges, p.pairwise)
            ends.append(graph_marginals(shifted, "tree_reweighted", tolerance=1e-12).log_partition)
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(found.node[k], abs=1e-5)


def test_sweeps_are_near_on_weak_coupling():
    p = random_potentials(np.random.default_rng(1), 6)
    p = GraphPotentials(p.n_labels, p.unary, p.edges, 0.2 * p.pairwise)
    found = graph_marginals(p, "tree_reweighted")
    assert found.converged
    assert found.node == pytest.approx(exact_marginals(p)[0], abs=0.02)


@pytest.mark.parametrize("forbidden", [0.0, 0.1])
@pytest.mark.parametrize("method", ["auto", "exact"])
def test_small_sums_are_exact_on_any_graph(method, forbidden):
    tried = 0
    for seed in range(40):
        p = tangled(np.random.default_rng(seed), forbidden)
        if not np.isfinite(exact_log_z(p)):
            with pytest.raises(InputError, match="no labeling is allowed"):
                graph_marginals(p, method)
            continue
        tried += 1
        node, edge, log_z = exact_marginals(p)
        found = graph_marginals(p, method)
        assert (found.method, found.converged) == ("exact", True)
        assert found.node == pytest.approx(node, abs=1e-12)
        assert found.edge == pytest.approx(edge, abs=1e-12)
        assert found.log_partition == pytest.approx(log_z)
    assert tried > 20


def tangled(rng, forbidden):
    """Nodes of one to three labels; edges in both directions, some of them twice, and loops at nodes."""
    sizes = rng.integers(1, 4, 5)
    edges = np.array([(1, 0), (1, 2), (3, 2), (0, 1), (2, 2), (3, 4), (4, 4), (4, 0)])
    pairwise = rng.normal(size=int((sizes[edges[:, 0]] * sizes[edges[:, 1]]).sum()))
    pairwise[rng.random(len(pairwise)) < forbidden] = -np.inf
    return GraphPotentials(sizes, rng.normal(size=sizes.sum()), edges, pairwise)


def test_sweeps_count_scores_of_a_node_with_itself():
    p = tangled(np.random.default_rng(0), 0.0)
    found, (node, _, log_z) = graph_marginals(p, "tree_reweighted"), exact_marginals(p)
    assert found.method == "tree_reweighted"
    assert log_z <= found.log_partition <= log_z + 0.3
    assert found.node == pytest.approx(node, abs=0.1)


def test_wrong_questions():
    n = 30
    full = np.array([(i, j) for i in range(n) for j in range(i)])
    dense = GraphPotentials(np.full(n, 2), np.zeros(2 * n), full, np.zeros(4 * len(full)))
    with pytest.raises(InputError, match="needs a table of more than"):
        graph_marginals(dense, "exact")
    assert graph_marginals(dense).method == "tree_reweighted"
    loop = GraphPotentials(np.full(3, 2), np.zeros(6), np.array([[0, 1], [1, 2], [2, 0]]), np.zeros(12))
    with pytest.raises(InputError, match="must be one of"):
        graph_marginals(loop, "mean_field")
    with pytest.raises(InputError, match="no labeling is allowed"):
        graph_marginals(GraphPotentials(np.array([2]), np.full(2, -np.inf), np.zeros((0, 2), np.int64), np.zeros(0)))
