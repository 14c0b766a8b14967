"""Gradients of every Gaussian objective against finite differences; learning; graph selection."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from rulefield.learning.gaussian import FieldObjective
from rulefield.models.gaussian import FieldBatch, GaussianModel


def laplacian(similarity):
    return np.diag(similarity.sum(axis=-1)) - similarity


def random_laplacian(rng, n):
    s = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.6), 1)
    return laplacian(s + s.T)


def random_batch(rng, layout, n_classes=1, m=5, n=4, k=2, weighted=False):
    scores = rng.normal(size=(m, n_classes, n, k)) * 2
    if layout == "each":
        graphs = tuple(np.array([random_laplacian(rng, n) for _ in range(m)]) for _ in range(2))
    elif layout == "mixed":
        graphs = (random_laplacian(rng, n), np.array([random_laplacian(rng, n) for _ in range(m)]))
    else:
        graphs = tuple(random_laplacian(rng, n) for _ in range(2))
    if layout == "sparse":
        graphs = tuple(scipy.sparse.csr_array(g) for g in graphs)
    return FieldBatch(scores, graphs, rng.integers(0, 4, size=m).astype(float) if weighted else None)


def random_labels(rng, kind, n_classes, m=5, n=4):
    if kind == "values":
        labels = rng.normal(size=(m, n))
    else:
        labels = rng.integers(0, max(2, n_classes), size=(m, n)).astype(float)
    labels[rng.random((m, n)) < 0.2] = np.nan
    return labels


CASES = [
    ("binary", "map", 1),
    ("binary", "jj", 1),
    ("binary", "vb", 1),
    ("classes", "map", 3),
    ("classes", "vb", 3),
    ("values", "exact", 1),
]


@pytest.mark.parametrize("layout", ["shared", "each", "mixed", "sparse"])
@pytest.mark.parametrize(("kind", "method", "n_classes"), CASES)
@pytest.mark.parametrize("form", ["smoothed", "direct", "own", "simplex"])
def test_gradient_is_the_derivative(kind, method, n_classes, layout, form):
    if method == "map" and form == "direct":
        return
    rng = np.random.default_rng(3)
    model = GaussianModel(
        2,
        2,
        n_classes,
        n_nodes=4 if form == "own" else 0,
        smoothed=form != "direct",
        simplex=form == "simplex",
        bayesian=method != "map",
        log_variance=kind == "values",
    )
    batch, labels = random_batch(rng, layout, n_classes), random_labels(rng, kind, n_classes)
    objective = FieldObjective(model, batch, labels, kind, method, toll=0.3)
    theta = model.start(variance=1.5) + 0.1 * rng.random(model.size)
    _, gradient = objective.value_and_gradient(theta)
    for i in range(model.size):
        h = np.zeros(model.size)
        h[i] = 1e-5
        numeric = (objective.value_and_gradient(theta + h)[0] - objective.value_and_gradient(theta - h)[0]) / 2e-5
        assert gradient[i] == pytest.approx(numeric, rel=1e-6, abs=1e-6)


def test_gradient_where_variance_is_zero():
    """The Bayesian objectives touch the plain one at v = 0, and their gradients stay finite there."""
    rng = np.random.default_rng(1)
    batch, labels = random_batch(rng, "shared"), random_labels(rng, "binary", 2)
    plain = FieldObjective(GaussianModel(2, 2, bayesian=False), batch, labels, "binary", "map")
    theta = GaussianModel(2, 2, bayesian=False).start()
    for method in ("jj", "vb"):
        objective = FieldObjective(GaussianModel(2, 2), batch, labels, "binary", method)
        value, gradient = objective.value_and_gradient(np.r_[theta, 0.0])
        assert value == pytest.approx(
            plain.value_and_gradient(theta)[0], abs=1e-6
        )  # the mixture for log(1 + e^z) is good to 1e-8 per node
        np.testing.assert_allclose(gradient[:-1], plain.value_and_gradient(theta)[1], atol=1e-6)
        ahead = objective.value_and_gradient(np.r_[theta, 1e-6])[0]  # log(1 + v) = v there
        assert gradient[-1] == pytest.approx((ahead - value) / 1e-6, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("layout", ["shared", "each", "sparse"])
@pytest.mark.parametrize(("kind", "method", "n_classes"), CASES)
def test_a_weight_counts_as_often_as_copies(kind, method, n_classes, layout):
    """Instances with whole weights give the value and gradient of that many copies of each."""
    rng = np.random.default_rng(5)
    model = GaussianModel(2, 2, n_classes, bayesian=method != "map", log_variance=kind == "values")
    batch, labels = random_batch(rng, layout, n_classes, weighted=True), random_labels(rng, kind, n_classes)
    copies = np.repeat(np.arange(5), batch.weight.astype(int))
    graphs = tuple(g[copies] if layout == "each" else g for g in batch.graphs)
    repeated = FieldObjective(model, FieldBatch(batch.scores[copies], graphs), labels[copies], kind, method)
    weighted = FieldObjective(model, batch, labels, kind, method)
    theta = model.start(variance=1.5)
    for a, b in zip(weighted.value_and_gradient(theta), repeated.value_and_gradient(theta)):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert weighted.n_known == repeated.n_known


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)))
def test_every_number_of_theta_has_one_bound_and_starts_within(flags):
    model = GaussianModel(2, 3, 2, 4, **dict(zip(("smoothed", "simplex", "bayesian", "log_variance"), flags)))
    bounds = np.array(model.bounds(), dtype=float)
    assert bounds.shape == (model.size, 2)
    assert not ((model.start() < bounds[:, 0]) | (model.start() > bounds[:, 1])).any()
