"""Builders of similarities between outputs, and their Laplacians."""

import networkx
import numpy as np
import pytest
import scipy.sparse
from scipy.stats import chi2_contingency
from sklearn.metrics import mutual_info_score

from rulefield.encode import similarity as s
from rulefield.exceptions import InputError


@pytest.fixture
def labels():
    rng = np.random.default_rng(0)
    common = rng.integers(0, 2, size=(200, 1))
    return np.where(rng.random((200, 4)) < 0.7, common, rng.integers(0, 2, size=(200, 4))).astype(float)


def test_builders_agree_with_their_definitions(labels):
    a, b = labels[:, 0], labels[:, 2]
    assert s.mutual_info(labels)[0, 2] == pytest.approx(mutual_info_score(a, b))
    table = np.histogram2d(a, b, bins=2)[0]
    assert s.chi2(labels)[2, 0] == pytest.approx(chi2_contingency(table, correction=False)[0] / 200)
    assert s.correlation(labels)[0, 2] == pytest.approx(np.corrcoef(a, b)[0, 1])
    distance = s.label_distance(labels)
    assert distance[0, 2] > 0
    assert np.all(np.diag(distance) == 0)


@pytest.mark.parametrize("build", [s.mutual_info, s.chi2, s.correlation, s.label_distance])
def test_builders_leave_out_unknown_labels(build, labels):
    holes = labels.copy()
    holes[:50, 1] = np.nan
    found = build(holes)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, found.T)
    alone = build(labels[50:, [0, 1]])
    if build is not s.label_distance:  # its unit is the median of all pairs
        assert found[0, 1] == pytest.approx(alone[0, 1])


def test_constant_column_has_no_relation(labels):
    labels[:, 3] = 1.0
    assert np.all(s.correlation(labels)[3] == 0)
    assert np.all(s.mutual_info(labels)[3] == 0)


def test_an_overfitted_network_finds_related_outputs(labels):
    rng = np.random.default_rng(1)
    found = s.overfit_correlation(rng.normal(size=(200, 5)), labels)
    assert found[0, 1] > 0.1


def test_grid_is_networkx_grid():
    expected = networkx.to_numpy_array(networkx.grid_2d_graph(3, 4))
    np.testing.assert_array_equal(s.grid(3, 4).toarray(), expected)


@pytest.mark.parametrize("sparse", [False, True])
def test_laplacian_is_positive_and_of_unit_degree(sparse):
    rng = np.random.default_rng(0)
    upper = np.triu(rng.normal(size=(6, 6)), 1)
    matrix = upper + upper.T
    found = s.laplacian(scipy.sparse.csr_array(matrix) if sparse else matrix)
    found = found.toarray() if sparse else found
    assert np.linalg.eigvalsh(found).min() > -1e-12
    assert np.diag(found).mean() == pytest.approx(1.0)
    z = rng.normal(size=6)
    pairs = [(abs(matrix[i, j]), (z[i] - np.sign(matrix[i, j]) * z[j]) ** 2) for i in range(6) for j in range(i)]
    scale = np.abs(matrix).sum(axis=1).mean()
    assert z @ found @ z == pytest.approx(sum(w * q for w, q in pairs) / scale)


def test_signs_are_split():
    matrix = np.array([[0, 1.0, -2.0], [1.0, 0, 0], [-2.0, 0, 0]])
    (plus, positive), (minus, negative) = s.split_signs(matrix)
    assert (plus, minus) == ("", " (opposed)")
    np.testing.assert_array_equal(positive + negative, matrix)
    assert len(s.split_signs(np.abs(matrix))) == 1


def test_bad_similarities_are_named():
    with pytest.raises(InputError, match="must be a square matrix"):
        s.check_similarity(np.ones((2, 3)), "S")
    with pytest.raises(InputError, match="not symmetric: it differs from its transpose by 1"):
        s.check_similarity(np.array([[0, 1.0], [0, 0]]), "S")
    with pytest.raises(InputError, match="labels must have shape"):
        s.mutual_info(np.ones(3))
