"""Generated Gaussian fields: pictures on a grid."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg
from scipy.special import expit

from rulefield.encode.similarity import grid, laplacian


class FieldData(NamedTuple):
    """Scores (n_instances, n_nodes, n_scores), labels (n_instances, n_nodes), graphs, and the latent values."""

    scores: np.ndarray
    labels: np.ndarray
    graphs: list[Any]
    latent: np.ndarray


def make_grid_field(
    n_rows: int,
    n_columns: int,
    strength: float = 10.0,
    noise: float = 1.5,
    known: float = 0.5,
    random_state: int | None = 0,
) -> FieldData:
    """One picture: smooth latent values on a grid, noisy scores at every cell, labels at a share of the cells.

    ``latent`` is white noise smoothed by (I + strength L)^-1 and scaled to a standard deviation of 2; the scores are two
    noisy copies of it; unknown labels are NaN. The answer has one instance of n_rows x n_columns nodes.
    """
    rng = np.random.default_rng(random_state)
    similarity = grid(n_rows, n_columns)
    n = n_rows * n_columns
    matrix = scipy.sparse.eye_array(n, format="csr") + strength * laplacian(similarity)
    smooth, _ = scipy.sparse.linalg.cg(matrix, rng.normal(size=n), rtol=1e-8)
    latent = 2.0 * smooth / smooth.std()
    scores = latent[:, None] + noise * np.array([1.0, 2.0]) * rng.normal(size=(n, 2))
    labels = (rng.random(n) < expit(latent)).astype(float)
    labels[rng.random(n) >= known] = np.nan
    return FieldData(scores[None], labels[None], [similarity], latent[None])
