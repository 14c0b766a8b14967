"""The graph model: potentials, their adjoint, joint features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles.graph_makers import random_graphs, random_labels
from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import InputError
from rulefield.models.graph import GraphModel, GraphSpec
from rulefield.models.graph_batch import make_batch

COUNTS = {"a": 3, "b": 2}


SPEC = GraphSpec(COUNTS, {"a": 4, "b": 2}, {("a", "a"): 3, ("a", "b"): 1, ("b", "b"): 2})


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    graphs = random_graphs(rng, 5, sparse_edges=True)
    return rng, GraphModel(SPEC), make_batch(graphs, COUNTS), graphs


def test_the_score_is_the_sum_over_nodes_and_edges(case):
    rng, model, batch, graphs = case
    theta = rng.normal(size=model.n_parameters)
    potentials = model.potentials(theta, batch)
    for g, graph in enumerate(graphs):
        y = random_labels(rng, graph, COUNTS)
        total = 0.0
        for t, matrix in graph.nodes.items():
            w = model.weights(theta, t)
            total += sum(matrix[v] @ w[:, y[t][v]] for v in range(matrix.shape[0]))
        for (s, t), (pairs, features) in graph.edges.items():
            w = model.weights(theta, (s, t))
            dense = np.ones((len(pairs), 1)) if features is None else sparse.csr_array(features).toarray()
            total += sum(f @ w[:, y[s][i] * COUNTS[t] + y[t][j]] for (i, j), f in zip(pairs, dense))
        flat = np.concatenate([y[t] for t in sorted(y)])
        assert_allclose(batch.potentials_of(potentials, g).score(flat), total)


def test_pullback_is_the_adjoint_of_potentials(case):
    rng, model, batch, _ = case
    theta = rng.normal(size=model.n_parameters)
    potentials = model.potentials(theta, batch)
    d_unary, d_pairwise = rng.normal(size=potentials.unary.shape), rng.normal(size=potentials.pairwise.shape)
    forward = d_unary @ potentials.unary + d_pairwise @ potentials.pairwise
    assert_allclose(model.pullback(batch, d_unary, d_pairwise) @ theta, forward)


def test_joint_features_times_weights_are_scores(case):
    rng, model, batch, graphs = case
    theta = rng.normal(size=model.n_parameters)
    potentials = model.potentials(theta, batch)
    labels = [np.concatenate([y[t] for t in sorted(y)]) for y in (random_labels(rng, g, COUNTS) for g in graphs)]
    scores = [batch.potentials_of(potentials, g).score(y) for g, y in enumerate(labels)]
    assert_allclose(model.joint_features(batch, np.concatenate(labels)) @ theta, scores)


def test_the_number_of_parameters_is_that_of_the_paper():
    expected = 3 * 4 + 2 * 2 + 3 * 3 * 3 + 3 * 2 * 1 + 2 * 2 * 2
    assert GraphModel(SPEC).n_parameters == expected


def test_wrong_feature_counts_are_named():
    model = GraphModel(SPEC)
    with pytest.raises(InputError, match=r"knows 4 features .*'a'.*got 5"):
        model.potentials(np.zeros(model.n_parameters), make_batch([TypedGraph({"a": np.ones((2, 5))})], COUNTS))


def test_graphs_may_lack_types_and_edges():
    graphs = [TypedGraph({"a": np.ones((2, 4))}), TypedGraph({"b": np.ones((1, 2)), "a": np.zeros((0, 4))})]
    batch = make_batch(graphs, COUNTS)
    potentials = GraphModel(SPEC).potentials(np.ones(GraphModel(SPEC).n_parameters), batch)
    assert batch.potentials_of(potentials, 0).unary.tolist() == [4.0] * 6
    assert batch.potentials_of(potentials, 1).unary.tolist() == [2.0] * 2
