"""Gaussian CRF: weights of predictors and graphs <-> potentials of the field."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rulefield.problem.gaussian import (
    Coupling,
    DenseCoupling,
    GaussianGradient,
    GaussianPotentials,
    SparseCoupling,
)

LARGEST = float(np.log1p(1e6))
"""Of log(1 + rho) and log(1 + v): beyond this, rho and v only scale each other."""


@dataclass(frozen=True)
class FieldBatch:
    """Instances of one size: their predictors' scores and the Laplacians of their graphs.

    ``scores`` is (n_instances, n_classes, n_nodes, n_scores), with one class for binary and continuous outputs. A graph is
    (n_nodes, n_nodes), shared, or (n_instances, n_nodes, n_nodes), or sparse and shared; all are dense or all sparse.
    ``weight`` says how much each instance counts in learning.
    """

    scores: np.ndarray
    graphs: tuple[Any, ...]
    weight: np.ndarray | None = None

    @property
    def sparse(self) -> bool:
        """Whether the graphs are sparse matrices."""
        return bool(self.graphs) and scipy.sparse.issparse(self.graphs[0])

    @cached_property
    def aligned(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Sparse graphs on one pattern: the pattern, the identity's values on it, each graph's values on it."""
        n = self.scores.shape[2]
        identity = scipy.sparse.eye_array(n, format="csr")
        pattern = scipy.sparse.csr_array(sum((abs(g) for g in self.graphs), identity))
        pattern.sort_indices()
        row = np.repeat(np.arange(n), np.diff(pattern.indptr))
        key = row.astype(np.int64) * n + pattern.indices

        def spread(graph: Any) -> np.ndarray:
            entries = scipy.sparse.coo_array(graph)
            entries.sum_duplicates()
            kept = entries.data != 0
            where = np.searchsorted(key, entries.coords[0][kept].astype(np.int64) * n + entries.coords[1][kept])
            out = np.zeros(len(key))
            out[where] = entries.data[kept]
            return out

        return pattern, spread(identity), np.array([spread(g) for g in self.graphs])

    def coupling(self, rho: np.ndarray) -> Coupling:
        """Build A = I + sum_l rho_l L_l, always on the same pattern where sparse."""
        if self.sparse:
            pattern, identity, values = self.aligned
            matrix = scipy.sparse.csr_array(
                (identity + rho @ values, pattern.indices, pattern.indptr), shape=pattern.shape
            )
            return SparseCoupling(matrix)
        matrix = np.eye(self.scores.shape[2])
        for weight, graph in zip(rho, self.graphs):
            matrix = matrix + weight * graph
        return DenseCoupling(matrix)


@dataclass(frozen=True)
class GaussianModel:
    r"""The stable parametrization of a Gaussian CRF.

    .. math:: A = I + \sum_l \rho_l L_l, \quad f_i = \sum_k w_{ik} R_{ik} + c_i, \quad \Sigma = v A^{-1},

    with mean :math:`A^{-1} f` (``mean="smoothed"``) or :math:`f` (``"direct"``: the graph then shapes only the
    covariance). In the paper's terms, w_k = alpha_k / sum alpha, rho_l = beta_l / sum alpha, v = 1 / (2 sum alpha);
    v = 0 is its non-Bayesian model. All of it stays finite as alpha grows without limit.

    Parameters
    ----------
    n_nodes : int
        Number of nodes that have weights and biases of their own (deviations from the shared ones), or 0.
    simplex : bool
        Weights >= 0 that sum to one and no bias, as in the paper.
    bayesian : bool
        Whether v is a parameter (else 0).
    log_variance : bool
        Whether theta holds log v, for outputs whose v cannot be 0.

    Notes
    -----
    theta holds log(1 + rho) and log(1 + v): zero is exact, and strengths of any size are a few steps away (the best
    field often has almost no identity in A, with rho and v growing together).
    """

    n_scores: int
    n_graphs: int
    n_classes: int = 1
    n_nodes: int = 0
    smoothed: bool = True
    simplex: bool = False
    bayesian: bool = True
    log_variance: bool = False

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each part of theta stands: weight, bias, own_weight, own_bias, rho, variance."""
        own = 0 if self.simplex else self.n_nodes
        sizes = {
            "weight": self.n_scores,
            "bias": 0 if self.simplex else self.n_classes,
            "own_weight": own * self.n_scores,
            "own_bias": own * self.n_classes,
            "rho": self.n_graphs,
            "variance": int(self.bayesian),
        }
        ends = np.cumsum([0, *sizes.values()])
        return {name: slice(a, b) for name, a, b in zip(sizes, ends, ends[1:])}

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.slices["variance"].stop

    def start(self, rho: float = 0.5, variance: float = 1.0) -> np.ndarray:
        """Equal weights, no bias, all graphs at the same strength."""
        theta = np.zeros(self.size)
        theta[self.slices["weight"]] = 1.0 / self.n_scores
        theta[self.slices["rho"]] = np.log1p(rho / max(self.n_graphs, 1))
        theta[self.slices["variance"]] = np.log(variance) if self.log_variance else np.log1p(variance)
        return theta

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Of each entry of theta: rho, v (and simplex weights) are not negative."""
        out: list[tuple[float | None, float | None]] = [(None, None)] * self.size
        limits: dict[str, tuple[float | None, float | None]] = {"rho": (0.0, LARGEST)}
        limits["variance"] = (-LARGEST if self.log_variance else 0.0, LARGEST)
        if self.simplex:
            limits["weight"] = (1e-9, None)
        for name, limit in limits.items():
            part = self.slices[name]
            out[part] = [limit] * (part.stop - part.start)
        return out

    def toll(self, price: float) -> np.ndarray:
        """Price of a unit of log(1 + rho) and log(1 + v): little, but it drops what the data do not ask for."""
        out = np.zeros(self.size)
        out[self.slices["rho"]] = price
        out[self.slices["variance"]] = 0.0 if self.log_variance else price
        return out

    def penalty(self, l2: float, weak: float = 1e-3) -> np.ndarray:
        """Ridge strength of each entry of theta: ``l2`` on nodes' own deviations, weak on shared ones, else none."""
        out = np.zeros(self.size)
        if not self.simplex:
            out[self.slices["weight"]] = weak
            out[self.slices["bias"]] = weak
        out[self.slices["own_weight"]] = l2
        out[self.slices["own_bias"]] = l2
        return out

    def weights(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (n_scores,) or (n_nodes, n_scores), and biases (n_classes, 1 or n_nodes)."""
        s = self.slices
        weight = theta[s["weight"]]
        if self.simplex:
            return weight / weight.sum(), np.zeros((self.n_classes, 1))
        bias = theta[s["bias"]][:, None]
        if self.n_nodes:
            weight = weight + theta[s["own_weight"]].reshape(self.n_nodes, self.n_scores)
            bias = bias + theta[s["own_bias"]].reshape(self.n_classes, self.n_nodes)
        return weight, bias

    def rho(self, theta: np.ndarray) -> np.ndarray:
        """Strength rho of each graph, (n_graphs,)."""
        return np.expm1(theta[self.slices["rho"]])

    def variance(self, theta: np.ndarray) -> float:
        """Scale v of the latent covariance."""
        if not self.bayesian:
            return 0.0
        value = float(theta[self.slices["variance"]][0])
        return float(np.exp(value) if self.log_variance else np.expm1(value))

    def potentials(self, theta: np.ndarray, batch: FieldBatch) -> GaussianPotentials:
        """Mean (n_instances, n_classes, n_nodes; no class axis where there is one class), A and v."""
        weight, bias = self.weights(theta)
        scores = batch.scores
        drive = (scores @ weight if weight.ndim == 1 else np.einsum("mcnk,nk->mcn", scores, weight)) + bias
        coupling = batch.coupling(self.rho(theta))
        mean = coupling.solve(drive) if self.smoothed else drive
        if self.n_classes == 1:
            mean = mean[:, 0]
        return GaussianPotentials(mean, coupling, self.variance(theta), batch.weight)

    def pullback(
        self, theta: np.ndarray, batch: FieldBatch, potentials: GaussianPotentials, d: GaussianGradient
    ) -> np.ndarray:
        """Gradient by theta of an objective whose gradient by the potentials is ``d``."""
        s = self.slices
        out = np.zeros(self.size)
        d_mean = d.mean if d.mean.ndim == 3 else d.mean[:, None]
        d_drive = potentials.coupling.solve(d_mean) if self.smoothed else d_mean
        gradient = d.coupling
        if self.smoothed and batch.graphs:  # the mean moves with A
            outer = potentials.coupling.sum_of_outer(d_drive, potentials.mean.reshape(d_drive.shape))
            gradient = -outer if gradient is None else gradient - outer
        d_rho = np.array([0.0 if gradient is None else _inner(graph, gradient) for graph in batch.graphs])
        out[s["rho"]] = d_rho * np.exp(theta[s["rho"]])
        if self.bayesian:
            out[s["variance"]] = d.variance * np.exp(theta[s["variance"]])
        own = np.einsum("mcn,mcnk->nk", d_drive, batch.scores)
        shared = own.sum(axis=0)
        if self.simplex:
            raw = theta[s["weight"]]
            shared = (shared - raw @ shared / raw.sum()) / raw.sum()
        out[s["weight"]] = shared
        if not self.simplex:
            d_bias = d_drive.sum(axis=0)
            out[s["bias"]] = d_bias.sum(axis=1)
            if self.n_nodes:
                out[s["own_weight"]] = own.ravel()
                out[s["own_bias"]] = d_bias.ravel()
        return out


def _inner(graph: Any, gradient: Any) -> float:
    """<L, G>, whatever is shared by the instances and whatever is not."""
    if scipy.sparse.issparse(graph):
        return float(graph.multiply(gradient).sum())
    if graph.ndim == gradient.ndim:
        return float(np.vdot(graph, gradient))
    return float(np.vdot(graph, gradient.sum(axis=0) if gradient.ndim == 3 else gradient))
