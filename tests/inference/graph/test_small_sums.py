"""Sums over all labelings of small graphs of binary nodes, against enumeration."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from rulefield.inference.graph.fields import ExactField
from rulefield.problem.graph import GraphUnion

EDGES = np.array([(0, 1), (2, 1), (0, 2), (3, 0), (3, 4), (2, 4), (0, 1)])  # with a loop, and one pair twice
N = 5


def by_enumeration(unary, pairwise):
    """Log-partition value, node and edge marginals of one graph."""
    every = np.array(list(product((0, 1), repeat=N)))
    node = np.stack([every == value for value in (0, 1)], axis=2)
    ends = every[:, EDGES]
    edge = np.stack([(ends == pair).all(axis=2) for pair in ((0, 0), (0, 1), (1, 0), (1, 1))], axis=2)
    scores = [
        unary[one.ravel()].sum() + pairwise[two.ravel()].sum()
        for one, two in zip(node.astype(bool), edge.astype(bool))
    ]
    value = logsumexp(scores)
    shares = np.exp(np.array(scores) - value)
    return value, np.tensordot(shares, node, 1).ravel(), np.tensordot(shares, edge, 1).ravel()


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize("forbidden", [False, True])
def test_sums_are_those_of_all_labelings(size, forbidden):
    """Two graphs at once; weights of 3000 leave the range of products, and a forbidden pair has no number at all."""
    rng = np.random.default_rng(int(size) + forbidden)
    unary, pairwise = size * rng.normal(size=4 * N), size * rng.normal(size=8 * len(EDGES))
    if forbidden:
        unary[3], pairwise[[4, 5, 9]] = -np.inf, -np.inf
    pointers = np.array([0, N, 2 * N]), np.array([0, len(EDGES), 2 * len(EDGES)])
    graphs = GraphUnion(np.full(2 * N, 2), np.concatenate([EDGES, EDGES + N]), *pointers)
    values, node, edge, _ = ExactField(graphs, None).marginals(unary, pairwise)
    for g in range(2):
        wanted = by_enumeration(*(np.split(scores, 2)[g] for scores in (unary, pairwise)))
        assert_allclose(values[g], wanted[0], rtol=1e-12, atol=1e-12)
        assert_allclose(np.split(node, 2)[g], wanted[1], atol=1e-12)
        assert_allclose(np.split(edge, 2)[g], wanted[2], atol=1e-12)


def test_a_graph_without_a_labeling_has_no_value():
    unary, pairwise = np.zeros(2 * N), np.zeros(4 * len(EDGES))
    unary[2:4] = -np.inf
    graph = GraphUnion(np.full(N, 2), EDGES, np.array([0, N]), np.array([0, len(EDGES)]))
    assert ExactField(graph, None).marginals(unary, pairwise).values.tolist() == [-np.inf]
