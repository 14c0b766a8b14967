"""Joint probabilities of two labels against brute-force quadrature."""

import numpy as np
import pytest
from scipy.special import expit

from rulefield.inference.gaussian.joint import pair_probabilities


def quadrature(mean, covariance):
    """E of the product of two logistics on a fine grid of two independent normals."""
    points = np.linspace(-9, 9, 1801)
    weight = np.exp(-0.5 * points**2)
    weight /= weight.sum()
    root = np.linalg.cholesky(covariance + 1e-14 * np.eye(2))
    first = mean[0] + root[0, 0] * points
    second = mean[1] + root[1, 0] * points[:, None] + root[1, 1] * points
    return float((weight * expit(first)) @ expit(second) @ weight)


@pytest.mark.parametrize("scale", [0.01, 1.0, 6.0])
@pytest.mark.parametrize("rho", [-0.95, 0.0, 0.6, 0.999])
def test_pairs_match_quadrature(scale, rho):
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 2)) * 2
    s = scale * np.array([1.0, 1.7])
    covariance = np.outer(s, s) * np.array([[1.0, rho], [rho, 1.0]])
    found = pair_probabilities(means, np.repeat(covariance[None], 3, axis=0))
    for mean, both in zip(means, found):
        assert both[0, 1] == both[1, 0] == pytest.approx(quadrature(mean, covariance), abs=2e-8)


def test_without_variance_labels_are_independent():
    mean = np.array([[0.3, -1.0, 2.0]])
    p = expit(mean[0])
    found = pair_probabilities(mean, np.zeros((1, 3, 3)))[0]
    np.testing.assert_allclose(found, np.outer(p, p) + np.diag(p - p**2), atol=1e-12)
