"""Builders of typed graphs against plain definitions."""

import itertools

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import mutual_info_score

from rulefield.encode.graph_builders import (
    chain,
    end_features,
    from_arrays,
    grid,
    grid_edges,
    multilabel_edges,
    mutual_information,
)
from rulefield.exceptions import InputError


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (3, 4)])
@pytest.mark.parametrize("neighbors", [4, 8])
def test_grid_joins_exactly_the_neighbors(shape, neighbors):
    pairs, direction = grid_edges(*shape, neighbors)
    cells = list(itertools.product(range(shape[0]), range(shape[1])))
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbors // 2]
    expected = {
        (i * shape[1] + j, (i + di) * shape[1] + j + dj, k)
        for (i, j), (k, (di, dj)) in itertools.product(cells, enumerate(steps))
        if (i + di, j + dj) in cells
    }
    assert {(a, b, d) for (a, b), d in zip(pairs.tolist(), direction.tolist())} == expected
    assert len(pairs) == len(expected)


def test_grid_edge_features():
    x = np.arange(12.0).reshape(6, 2)
    assert grid(x, (2, 3)).edges["cell", "cell"][1].shape == (7, 2)
    assert grid(x, (2, 3), neighbors=8).edges["cell", "cell"][1].shape == (11, 4)
    pairs, direction = grid_edges(2, 3)
    features = end_features(x, pairs, direction, 2)
    for (i, j), d, row in zip(pairs, direction, features.toarray()):
        expected = np.zeros((2, 4))
        expected[d] = np.concatenate([x[i], x[j]])
        assert_allclose(row, expected.ravel())
    assert end_features(x, np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int), 2).shape == (0, 8)


def test_a_chain_joins_neighbors():
    assert chain(np.ones((3, 2))).edges["token", "token"][0].tolist() == [[0, 1], [1, 2]]
    assert chain(np.ones((1, 2))).n_edges == {("token", "token"): 0}


def test_mutual_information_is_that_of_scikit_learn():
    Y = (np.random.default_rng(0).random((50, 3)) < 0.4).astype(float)
    Y[:, 2] = Y[:, 0]
    expected = [[mutual_info_score(a, b) for b in Y.T] for a in Y.T]
    assert_allclose(mutual_information(Y), expected, atol=1e-12)


def test_chow_liu_is_the_best_spanning_tree():
    rng = np.random.default_rng(1)
    Y = (rng.random((60, 5)) < 0.5).astype(int)
    Y[:, 1] = Y[:, 0] ^ (rng.random(60) < 0.1)
    Y[:, 4] = Y[:, 1] ^ (rng.random(60) < 0.1)
    gain = mutual_information(Y.astype(float))
    graph = nx.Graph([(i, j, {"weight": gain[i, j]}) for i, j in itertools.combinations(range(5), 2)])
    best = sum(d["weight"] for *_, d in nx.maximum_spanning_tree(graph).edges(data=True))
    tree = multilabel_edges(Y, "tree")
    assert len(tree) == 4
    assert nx.is_tree(nx.Graph(tree.tolist()))
    assert_allclose(gain[tree[:, 0], tree[:, 1]].sum(), best)
    assert len(multilabel_edges(Y, "full")) == 10
    assert len(multilabel_edges(Y, "none")) == 0


def test_constant_labels_still_give_a_tree():
    assert len(multilabel_edges(np.zeros((4, 3)), "tree")) == 2


def test_arrays_are_a_graph_of_one_type():
    assert from_arrays(np.ones((2, 1)), [[0, 1]]).n_edges == {("node", "node"): 1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grid_edges(2, 2, 6), "4 or 8"),
        (lambda: grid(np.ones((5, 1)), (2, 3)), "height x width = 6"),
        (lambda: multilabel_edges(np.ones((2, 2)), "star"), "structure must be"),
    ],
)
def test_mistakes_are_explained(call, message):
    with pytest.raises(InputError, match=message):
        call()
