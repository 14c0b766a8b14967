"""Estimates from random probes against exact factors; when they are used."""

import networkx
import numpy as np
import pytest
import scipy.sparse

from rulefield.datasets.fields import make_grid_field
from rulefield.encode.similarity import grid, laplacian
from rulefield.estimators.gaussian.classifier import GaussianCRFClassifier
from rulefield.estimators.gaussian.regressor import GaussianCRFRegressor
from rulefield.inference.gaussian import factors, sparse
from rulefield.inference.gaussian.factors import factorize
from rulefield.inference.gaussian.probing import ProbedInverse
from rulefield.inference.gaussian.sparse import SparseFactor, SparsityPattern, analyze
from rulefield.learning.gaussian import FieldObjective
from rulefield.models.gaussian import FieldBatch, GaussianModel


def coupling(strength=3.0, side=30, opposed=False):
    similarity = grid(side, side)
    if opposed:
        similarity = -similarity
    noise = np.random.default_rng(0).random(side * side)
    return scipy.sparse.csr_array(
        scipy.sparse.eye_array(side * side) + strength * laplacian(similarity) + scipy.sparse.diags_array(noise)
    )


@pytest.fixture
def no_factors(monkeypatch):
    """Let no factor be small enough."""
    factors._is_too_large.cache_clear()  # it warns once for a pattern
    analyze.cache_clear()
    monkeypatch.setattr(sparse, "MAX_FILL", 10)
    yield
    factors._is_too_large.cache_clear()
    analyze.cache_clear()


@pytest.mark.parametrize("opposed", [False, True])
@pytest.mark.parametrize("strength", [0.5, 30.0])
def test_estimates_lie_within_their_standard_errors(strength, opposed):
    a = coupling(strength, opposed=opposed)
    exact, found = SparseFactor(a), ProbedInverse(a, probes=200, seed=1)
    error = (found.inverse_diagonal() - exact.inverse_diagonal()) / found.diagonal_error
    assert np.abs(error).max() < 5
    assert 0.85 < np.sqrt((error**2).mean()) < 1.15
    assert abs(found.logdet - exact.logdet) < 4 * found.logdet_error
    assert found.logdet_error < 0.01 * abs(exact.logdet)
    edges, true = found.matrix.tocoo(), exact.matrix.tocoo()
    np.testing.assert_array_equal(edges.coords[0], true.coords[0])
    np.testing.assert_array_equal(edges.coords[1], true.coords[1])
    assert np.abs(edges.data - true.data).mean() < 0.1 * np.abs(true.data).mean()
    assert abs((edges.data - true.data).sum()) < 0.02 * np.abs(true.data).sum()
    right = np.random.default_rng(2).normal(size=(900, 2))
    np.testing.assert_allclose(found.solve(right), exact.solve(right), atol=1e-7)


def test_the_same_seed_gives_the_same_answer():
    a = coupling()
    np.testing.assert_array_equal(ProbedInverse(a).inverse_diagonal(), ProbedInverse(a).inverse_diagonal())
    assert ProbedInverse(a).logdet == ProbedInverse(a).logdet
    assert ProbedInverse(a, seed=1).logdet != ProbedInverse(a).logdet


def test_draws_have_the_covariance():
    a = coupling(5.0, side=6)
    drawn = ProbedInverse(a).color(np.random.default_rng(0).normal(size=(36, 40_000)))
    np.testing.assert_allclose(np.cov(drawn, ddof=0), np.linalg.inv(a.toarray()), atol=0.02)


@pytest.mark.parametrize(("kind", "method"), [("binary", "vb"), ("binary", "jj"), ("values", "exact")])
def test_gradient_is_near_the_exact_one(kind, method, request):
    data = make_grid_field(30, 30)
    graph = scipy.sparse.csr_array(laplacian(data.graphs[0]))
    batch = FieldBatch(data.scores[:, None], (graph,))
    labels = data.labels if kind == "binary" else data.latent
    model = GaussianModel(2, 1, log_variance=kind == "values")
    theta = model.start(2.0, 1.5)
    value, gradient = FieldObjective(model, [batch], [labels], kind, method).value_and_gradient(theta)
    request.getfixturevalue("no_factors")
    with pytest.warns(UserWarning, match="estimated from 64 random probes"):
        near_value, near = FieldObjective(model, [batch], [labels], kind, method).value_and_gradient(theta)
    assert near_value == pytest.approx(value, rel=0.02)
    np.testing.assert_allclose(near, gradient, rtol=0.1, atol=0.03 * np.abs(gradient).max())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:the Cholesky factor")
def test_fields_are_fitted_without_factors(no_factors):
    data = make_grid_field(21, 20)
    field = GaussianCRFClassifier(
        predictors="precomputed", graphs=data.graphs, algorithm="vb", mean="smoothed", max_iter=5
    )
    with pytest.warns(UserWarning, match="420 nodes is too large"):
        field.fit(data.scores, data.labels)
    p = field.predict_proba(data.scores, known=data.labels)
    assert np.all((p >= 0) & (p <= 1))
    assert field.sample(data.scores, n_samples=2).shape == (2, 1, 420)
    values = np.where(np.isnan(data.labels), np.nan, data.latent)
    mean, std = (
        GaussianCRFRegressor(predictors="precomputed", graphs=data.graphs)
        .fit(data.scores, values)
        .predict(data.scores, known=values, return_std=True)
    )
    hidden = np.isnan(values)
    assert np.all(std[hidden] > 0)
    assert np.corrcoef(mean[hidden], data.latent[hidden])[0, 1] > 0.9


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
        assert not found.too_large


def test_a_random_graph_is_not_factorized():
    graph = scipy.sparse.csr_array(networkx.to_scipy_sparse_array(networkx.random_regular_graph(6, 20_000, seed=0)))
    a = scipy.sparse.eye_array(20_000, format="csr") + laplacian(graph.astype(float))
    with pytest.warns(UserWarning, match="20000 nodes is too large"):
        assert isinstance(factorize(a), ProbedInverse)
    assert isinstance(factorize(coupling(side=120)), SparseFactor)
