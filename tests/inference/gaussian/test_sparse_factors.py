"""Orders and sizes of sparse factors."""

import networkx
import numpy as np
import pytest
import scipy.sparse

from rulefield.encode.similarity import grid, laplacian
from rulefield.estimators.gaussian.regressor import GaussianCRFRegressor
from rulefield.exceptions import InputError
from rulefield.inference.gaussian.sparse import SparseFactor, SparsityPattern, analyze


def test_the_order_holds_every_node_once_and_the_factor_is_counted():
    """On a grid, on components, on a clique; the entries are those of a dense Cholesky factor in the same order."""
    two = scipy.sparse.block_diag([grid(40, 40), grid(7, 50)], format="csr")
    clique = scipy.sparse.csr_array(np.ones((90, 90)) - np.eye(90))
    star = scipy.sparse.csr_array(networkx.to_scipy_sparse_array(networkx.star_graph(200)))
    for graph in (grid(60, 60), two, clique, star):
        n = graph.shape[0]
        csr = scipy.sparse.csr_array(graph + scipy.sparse.eye_array(n))
        found = analyze(SparsityPattern(csr))
        np.testing.assert_array_equal(np.sort(found.order), np.arange(n))
        counts = np.diff(found.l_pointer)
        if n == 3600:
            assert counts.sum() < 31 * n * np.log2(n) / 4  # a banded order would have 60 n
        else:
            order = found.order
            dense = -csr[order][:, order].toarray() + 2 * n * np.eye(n)
            below = np.tril(np.linalg.cholesky(dense), -1) != 0
            np.testing.assert_array_equal(counts, below.sum(axis=0))


def test_a_random_graph_is_not_factorized():
    graph = scipy.sparse.csr_array(networkx.to_scipy_sparse_array(networkx.random_regular_graph(6, 20_000, seed=0)))
    with pytest.raises(InputError, match='graph of 20000 nodes is too large.*algorithm="map"'):
        SparseFactor(scipy.sparse.eye_array(20_000, format="csr") + laplacian(graph.astype(float)))
    with pytest.raises(InputError, match="20000 nodes is too large"):
        GaussianCRFRegressor(predictors="precomputed", graphs=[graph]).fit(
            np.random.default_rng(0).normal(size=(1, 20_000, 1)), np.ones((1, 20_000))
        )
    assert SparseFactor(scipy.sparse.eye_array(14_400, format="csr") + laplacian(grid(120, 120))).logdet > 0
