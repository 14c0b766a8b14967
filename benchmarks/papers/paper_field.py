"""The synthetic setting of the Gaussian CRF paper: fields drawn from its own model."""

from typing import Any

import numpy as np
from scipy.special import expit

from rulefield.datasets.fields import FieldData

# (alpha, beta) of the six rows of table 5
TABLE_5 = (
    ((5.0, 4.0), (5.0, 22.0)),
    ((1.0, 18.0), (1.0, 18.0)),
    ((22.0, 21.0), (5.0, 22.0)),
    ((22.0, 21.0), (0.1, 0.67)),
    ((0.8, 0.5), (5.0, 22.0)),
    ((0.2, 0.4), (1.0, 18.0)),
)


def make_paper_field(
    alpha: Any,
    beta: Any,
    n_instances: int = 100,
    n_nodes: int = 10,
    shared: bool = False,
    spread: float = 10.0,
    random_state: int | None = 0,
) -> FieldData:
    """Draw labels from the paper's own model (appendix D).

    Similarities are uniform on (0, 1) and symmetric, scores uniform on (-spread, spread); the latent values are drawn from
    N(mu, P^-1), P = 2 sum(alpha) I + 2 sum beta L, mu = P^-1 2 R alpha, and the labels from their logistic.

    Parameters
    ----------
    alpha, beta : sequences of float
        Weights of the scores and of the graphs, as in :data:`TABLE_5`.
    shared : bool
        Whether all instances have the same graphs; else ``graphs`` holds (n_instances, n_nodes, n_nodes) arrays.
    spread : float
        The paper does not give its range; 10 gives AUCs like its own (.8 to .99).
    """
    rng = np.random.default_rng(random_state)
    alpha, beta = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
    count = 1 if shared else n_instances
    graphs = []
    for _ in beta:
        upper = np.triu(rng.random((count, n_nodes, n_nodes)), 1)
        graphs.append(upper + np.swapaxes(upper, 1, 2))
    precision = np.repeat(2 * alpha.sum() * np.eye(n_nodes)[None], count, axis=0)
    for weight, s in zip(beta, graphs):
        precision += 2 * weight * (s.sum(axis=-1)[..., None] * np.eye(n_nodes) - s)
    scores = rng.uniform(-spread, spread, size=(n_instances, n_nodes, len(alpha)))
    covariance = np.linalg.inv(precision)
    mean = ((2 * scores @ alpha)[:, None, :] @ covariance)[:, 0]
    noise = (np.linalg.cholesky(covariance) @ rng.normal(size=(n_instances, n_nodes, 1)))[..., 0]
    latent = mean + noise
    labels = (rng.random(latent.shape) < expit(latent)).astype(float)
    return FieldData(scores, labels, [g[0] if shared else g for g in graphs], latent)
