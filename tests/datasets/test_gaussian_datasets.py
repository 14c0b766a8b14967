"""Generated fields and the reader of multi-label files."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

from rulefield.datasets.fields import make_grid_field
from rulefield.datasets.multilabel import read_emotions, read_multilabel_arff, read_yeast
from rulefield.exceptions import InputError

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "papers"))

from paper_field import TABLE_5, make_paper_field

ARFF = """@relation toy
@attribute size numeric
@attribute weight numeric
@attribute red {0,1}
@attribute round {0,1}
@data
1.5,2,0,1
-3,0.25,1,1
"""


def test_reader(tmp_path):
    (tmp_path / "toy.arff").write_text(ARFF)
    found = read_multilabel_arff(tmp_path / "toy.arff", 2)
    np.testing.assert_array_equal(found.X, [[1.5, 2], [-3, 0.25]])
    np.testing.assert_array_equal(found.Y, [[0, 1], [1, 1]])
    assert found.label_names == ["red", "round"]
    (tmp_path / "toy.arff.gz").write_bytes(gzip.compress(ARFF.encode()))
    np.testing.assert_array_equal(read_multilabel_arff(tmp_path / "toy.arff.gz", 2).X, found.X)


def test_reader_names_what_is_wrong(tmp_path):
    (tmp_path / "toy.arff").write_text(ARFF)
    with pytest.raises(InputError, match="cannot end in 9 labels"):
        read_multilabel_arff(tmp_path / "toy.arff", 9)
    with pytest.raises(InputError, match="are not all 0 / 1"):
        read_multilabel_arff(tmp_path / "toy.arff", 3)
    with pytest.raises(InputError, match="there is no file"):
        read_emotions(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        read_yeast(tmp_path)


@pytest.mark.parametrize("shared", [False, True])
def test_paper_field_has_the_moments_it_claims(shared):
    alpha, beta = TABLE_5[5]
    data = make_paper_field(alpha, beta, 4000, 4, shared=shared)
    assert data.scores.shape == (4000, 4, 2)
    assert data.graphs[0].shape == ((4, 4) if shared else (4000, 4, 4))
    if shared:
        laplacians = [np.diag(g.sum(1)) - g for g in data.graphs]
        covariance = np.linalg.inv(2 * sum(alpha) * np.eye(4) + 2 * sum(b * l for b, l in zip(beta, laplacians)))
        mean = 2 * data.scores @ np.array(alpha) @ covariance
        np.testing.assert_allclose(np.cov((data.latent - mean).T), covariance, atol=0.03)


def test_grid_field():
    data = make_grid_field(12, 9, known=0.5)
    assert data.scores.shape == (1, 108, 2)
    assert data.graphs[0].shape == (108, 108)
    assert 0.3 < np.isnan(data.labels).mean() < 0.7
    np.testing.assert_array_equal(data.latent, make_grid_field(12, 9, known=0.5).latent)
