"""Gaussian posteriors against quadrature, importance sampling, dense algebra and each other."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.integrate
import scipy.sparse
import scipy.stats
from scipy.special import expit, logsumexp

from rulefield.exceptions import InputError
from rulefield.inference.gaussian import field as gaussian
from rulefield.inference.gaussian.factors import SMALL, DenseFactors
from rulefield.inference.gaussian.field import expected_logistic, gaussian_likelihood, map_likelihood, posterior
from rulefield.inference.gaussian.softmax import expected_softmax, softmax_posterior
from rulefield.inference.gaussian.sparse import SparseFactor
from rulefield.problem.gaussian import DenseCoupling, GaussianPotentials, SparseCoupling


def random_coupling(rng, n, m=None):
    shape = (n, n) if m is None else (m, n, n)
    s = np.triu(rng.random(shape) * (rng.random(shape) < 0.5), 1)
    s = s + np.swapaxes(s, -1, -2)
    return np.eye(n) + s.sum(axis=-1)[..., None] * np.eye(n) - s


def random_problem(seed=0, m=4, n=5, variance=2.0, unknown=0.2, each=False):
    rng = np.random.default_rng(seed)
    potentials = GaussianPotentials(
        rng.normal(size=(m, n)) * 1.5, DenseCoupling(random_coupling(rng, n, m if each else None)), variance
    )
    labels = rng.integers(0, 2, size=(m, n)).astype(float)
    labels[rng.random((m, n)) < unknown] = np.nan
    return potentials, labels


def exact_marginal(mean, variance):
    """E sigma(z) by splitting the integral where the integrand bends."""
    width = np.sqrt(variance)

    def integrand(e):
        return expit(mean + width * e) * np.exp(-e * e / 2) / np.sqrt(2 * np.pi)

    kink = np.clip(-mean / width, -37, 37)
    near = np.clip([kink - 30 / width, kink, kink + 30 / width], -38, 38)
    points = np.unique(np.r_[-38, near, np.linspace(-8, 8, 9), 38])
    return sum(scipy.integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(points))


@pytest.mark.parametrize("variance", [1e-6, 0.01, 1.0, 35.0, 400.0, 1e5, 1e9])
def test_marginals_agree_with_quadrature_at_any_variance(variance):
    means = np.r_[0.0, -0.3, 2.0, -7.0, 25.0, 300.0, -3.0 * np.sqrt(variance)]
    expected = [exact_marginal(m, variance) for m in means]
    np.testing.assert_allclose(expected_logistic(means, variance), expected, atol=1e-8, rtol=0)


def test_marginals_without_variance_are_exact():
    means = np.array([-800.0, -40.0, 0.0, 40.0])
    np.testing.assert_array_equal(expected_logistic(means, 0.0), expit(means))


def true_log_likelihood(potentials, labels, q, n_samples=200_000, seed=0):
    """Importance sampling with a wide Gaussian around q; (n_instances,) estimates and their standard errors."""
    rng = np.random.default_rng(seed)
    out = []
    for j in range(len(labels)):
        seen = ~np.isnan(labels[j])
        prior_cov = potentials.variance * np.linalg.inv(potentials.coupling.matrix)
        proposal = scipy.stats.multivariate_normal(q.mean[j], np.diag(q.variance[j] * 1.5) * 0.5 + prior_cov * 0.5)
        z = proposal.rvs(n_samples, random_state=rng)
        prior = scipy.stats.multivariate_normal(potentials.mean[j], prior_cov)
        sign = 2 * labels[j][seen] - 1
        log_w = prior.logpdf(z) - proposal.logpdf(z) - np.logaddexp(0, -sign * z[:, seen]).sum(axis=1)
        value = logsumexp(log_w) - np.log(n_samples)
        out.append((value, np.exp(log_w - value).std() / np.sqrt(n_samples)))
    return np.array(out).T


@pytest.mark.parametrize("variance", [0.5, 2.0, 10.0])
def test_bounds_are_ordered_and_below_the_truth(variance):
    potentials, labels = random_problem(variance=variance)
    vb, jj = posterior(potentials, labels, "vb"), posterior(potentials, labels, "jj")
    truth, error = true_log_likelihood(potentials, labels, vb)
    assert np.all(jj.bound <= vb.bound + 1e-9)
    assert np.all(vb.bound <= truth + 4 * error)
    assert np.all(truth - vb.bound < 0.1 * (truth - jj.bound) + 4 * error)


def test_one_node_bound_against_quadrature():
    potentials = GaussianPotentials(np.array([[0.7]]), DenseCoupling(np.eye(1)), 3.0)
    truth = np.log(exact_marginal(0.7, 3.0))
    assert posterior(potentials, np.array([[1.0]]), "vb").bound[0] == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("method", ["vb", "jj"])
@pytest.mark.parametrize("variance", [0.0, 1e-9, 3.0, 200.0])
@pytest.mark.parametrize("each", [False, True])
def test_batches_of_any_size_and_sparse_agree(method, variance, each, monkeypatch):
    potentials, labels = random_problem(1, variance=variance, each=each)
    small = posterior(potentials, labels, method)
    monkeypatch.setattr(gaussian, "MEMORY", 50)
    others = [posterior(potentials, labels, method)]
    if not each:
        sparse = SparseCoupling(scipy.sparse.csr_array(potentials.coupling.matrix))
        others.append(posterior(GaussianPotentials(potentials.mean, sparse, variance), labels, method))
    unit = 1e-6 * max(1.0, variance)  # sites agree to 1e-8; means and variances are that times v
    for other in others:
        np.testing.assert_allclose(other.bound, small.bound, atol=1e-7)
        np.testing.assert_allclose(other.mean, small.mean, atol=unit)
        np.testing.assert_allclose(other.variance, small.variance, atol=unit)
        d = other.gradient.coupling
        if scipy.sparse.issparse(d):
            edges = potentials.coupling.matrix != 0
            np.testing.assert_allclose(d.toarray()[edges], small.gradient.coupling[edges], atol=unit)
        else:
            np.testing.assert_allclose(d, small.gradient.coupling, atol=unit)
        assert other.gradient.variance == pytest.approx(small.gradient.variance, abs=1e-6)


def test_unknown_labels_leave_the_prior():
    potentials, labels = random_problem()
    q = posterior(potentials, np.full_like(labels, np.nan), "vb")
    np.testing.assert_allclose(q.mean, potentials.mean)
    np.testing.assert_allclose(q.variance[0], potentials.variance * np.diag(potentials.coupling.inverse))
    np.testing.assert_allclose(q.bound, 0.0, atol=1e-12)


def test_a_known_label_moves_its_neighbors():
    coupling = DenseCoupling(np.eye(3) + 4 * np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0.0]]))
    potentials = GaussianPotentials(np.zeros((1, 3)), coupling, 5.0)
    q = posterior(potentials, np.array([[1.0, np.nan, np.nan]]), "vb")
    assert q.mean[0, 1] > 0.3
    assert q.mean[0, 2] == pytest.approx(0)


def test_instances_do_not_depend_on_each_other():
    potentials, labels = random_problem(m=6)
    whole = posterior(potentials, labels, "vb")
    one = posterior(GaussianPotentials(potentials.mean[2:3], potentials.coupling, 2.0), labels[2:3], "vb")
    np.testing.assert_allclose(one.bound[0], whole.bound[2], atol=1e-9)


def test_map_is_the_limit_of_no_variance():
    potentials, labels = random_problem(variance=0.0)
    np.testing.assert_allclose(
        map_likelihood(potentials, labels).bound, posterior(potentials, labels, "vb").bound, atol=1e-6
    )


def test_unknown_method_is_named():
    with pytest.raises(InputError, match=r'method must be "vb" or "jj"; got \'ep\''):
        posterior(*random_problem(), "ep")


@pytest.mark.parametrize("each", [False, True])
def test_values_against_the_dense_normal_density(each):
    potentials, _ = random_problem(each=each, variance=0.7)
    values = np.random.default_rng(5).normal(size=potentials.mean.shape)
    values[0, 1] = values[1, :3] = values[3, :] = np.nan
    found = gaussian_likelihood(potentials, values)
    for j in range(len(values)):
        a = potentials.coupling.matrix[j] if each else potentials.coupling.matrix
        cov = 0.7 * np.linalg.inv(a)
        o, h = np.flatnonzero(~np.isnan(values[j])), np.flatnonzero(np.isnan(values[j]))
        mean = potentials.mean[j]
        density = scipy.stats.multivariate_normal(mean[o], cov[np.ix_(o, o)]).logpdf(values[j, o]) if len(o) else 0.0
        assert found.bound[j] == pytest.approx(density)
        gain = cov[np.ix_(h, o)] @ np.linalg.inv(cov[np.ix_(o, o)])
        np.testing.assert_allclose(found.mean[j, h], mean[h] + gain @ (values[j, o] - mean[o]))
        spread = np.diag(cov[np.ix_(h, h)] - gain @ cov[np.ix_(o, h)])
        np.testing.assert_allclose(found.variance[j, h], spread)
        np.testing.assert_allclose(found.mean[j, o], values[j, o])


def test_class_bound_is_below_the_truth_and_marginals_sum_to_one():
    rng = np.random.default_rng(2)
    coupling = DenseCoupling(random_coupling(rng, 3))
    potentials = GaussianPotentials(rng.normal(size=(1, 4, 3)), coupling, 0.4)
    labels = np.array([[0.0, 2.0, np.nan]])
    q = softmax_posterior(potentials, labels)
    noise = rng.normal(size=(400_000, 4, 3)) @ np.linalg.cholesky(0.4 * coupling.inverse).T
    z = potentials.mean[0] + noise
    log_p = z[:, 0, 0] - logsumexp(z[:, :, 0], axis=1) + z[:, 2, 1] - logsumexp(z[:, :, 1], axis=1)
    truth = logsumexp(log_p) - np.log(len(z))
    assert truth - 0.3 < q.bound[0] < truth
    p = expected_softmax(potentials.mean, 0.4 * np.diag(coupling.inverse)[None])
    np.testing.assert_allclose(p.sum(axis=-1), 1.0)
    sampled = np.exp(z - logsumexp(z, axis=1, keepdims=True)).mean(axis=0).T
    np.testing.assert_allclose(p[0], sampled, atol=3e-3)


def test_two_classes_with_half_variance_match_a_binary_field():
    """z_1 - z_0 has twice the variance, so a class field of variance v answers like a binary one of 2 v."""
    p = expected_softmax(np.array([[[0.0], [0.8]]]), np.array([[1.5]]), n_points=4096)
    assert p[0, 0, 1] == pytest.approx(expected_logistic(np.array([0.8]), 3.0)[0], abs=2e-4)


@pytest.mark.parametrize("n", [1, 2, 30, 121])
def test_sparse_factor_against_dense_algebra(n):
    rng = np.random.default_rng(n)
    side = int(np.sqrt(n))
    if side * side == n:
        path = scipy.sparse.diags_array([np.ones(max(side - 1, 0))], offsets=[1], shape=(side, side))
        eye = scipy.sparse.eye_array(side)
        s = scipy.sparse.kron(path, eye) + scipy.sparse.kron(eye, path)
    else:
        s = scipy.sparse.random_array((n, n), density=0.1, rng=rng)
        s = scipy.sparse.triu(s, k=1)
    s = scipy.sparse.csr_array(s + s.T)
    a = scipy.sparse.csr_array(scipy.sparse.diags_array(1 + rng.random(n) + s.sum(axis=1)) - s)
    factor, dense = SparseFactor(a), a.toarray()
    inverse = np.linalg.inv(dense)
    assert factor.logdet == pytest.approx(np.linalg.slogdet(dense)[1])
    np.testing.assert_allclose(factor.solve(np.eye(n)), inverse, atol=1e-12)
    np.testing.assert_allclose(factor.matrix.toarray()[dense != 0], inverse[dense != 0], atol=1e-12)
    color = factor.color(np.eye(n))
    np.testing.assert_allclose(color @ color.T, inverse, atol=1e-12)


@pytest.mark.parametrize("n", [1, 5, SMALL, SMALL + 1])
def test_inverses_of_many_matrices(n):
    rng = np.random.default_rng(n)
    matrices = random_coupling(rng, n, 3) * 10.0 ** rng.uniform(-2, 4)
    found = DenseFactors(matrices)
    np.testing.assert_allclose(found.inverse @ matrices, np.tile(np.eye(n), (3, 1, 1)), atol=1e-10)
    np.testing.assert_allclose(found.logdet, np.linalg.slogdet(matrices)[1], atol=1e-9)


def test_couplings_solve_alike():
    rng = np.random.default_rng(0)
    a = random_coupling(rng, 12)
    right = rng.normal(size=(3, 2, 12))
    dense, other = DenseCoupling(a), SparseCoupling(scipy.sparse.csr_array(a))
    np.testing.assert_allclose(other.solve(right), dense.solve(right), atol=1e-9)
    np.testing.assert_allclose(other.apply(right), dense.apply(right), atol=1e-9)
