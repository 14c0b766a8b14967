"""Structured SVM on graphs: block-coordinate Frank-Wolfe over cached labelings, with a true duality gap."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from rulefield.kernels.graph.planes import ascend
from rulefield.learning.fit_log import FitResult, Pass, run_passes
from rulefield.learning.graph.oracle import MapOracle
from rulefield.learning.graph.shards import GraphShard
from rulefield.models.graph import GraphModel

CACHE_PASSES = 30
STEPS_PER_EXAMPLE = 2
CERTIFY_EVERY = 4
IDLE_ROUNDS = 10


class StructuredSVM:
    r"""Minimize :math:`\frac{\lambda}{2} |w|^2 + \sum_i \max_y [\Delta_i(y) + w \cdot (\phi_i(y) - \phi_i(y_i))]`.

    Every labeling that the oracle ever returned is a *plane*: a sparse feature difference and a loss. The dual is
    raised over the cached planes by pairwise Frank-Wolfe steps with exact line search, which costs no inference;
    the oracle is called once per pass for each example, to add planes. The gap uses the oracle's upper bound, so it is
    true even where the oracle is not exact. All labels of the shards must be known. ``l2`` is :math:`\lambda`.

    References
    ----------
    [LacosteJulien13]; caching and pairwise steps: [Osokin16]
    """

    def __init__(self, model: GraphModel, shards: Sequence[GraphShard], l2: float, oracle: MapOracle):
        self.model, self.shards, self.C, self.oracle = model, list(shards), 1.0 / l2, oracle
        self._truth = [model.joint_features(shard.batch, shard.labels) for shard in self.shards]
        self._hamming = [shard.hamming() for shard in self.shards]
        self._caches = [_Cache(shard.batch.n_graphs, model.n_parameters) for shard in self.shards]
        self.w, self._passes, self._last = np.zeros(model.n_parameters), 0, 0
        self._scratch = np.zeros(model.n_parameters)

    def fit(self, max_iter: int, tol: float, start: np.ndarray | None = None) -> FitResult:
        """Run passes until the dual, or its gap, says enough; ``start`` seeds the cache with its labelings."""
        if start is not None and start.any():
            self._visit_all(start)
            self._ascend_all()
        self._last = max_iter
        return run_passes(self, max_iter, tol)

    @property
    def theta(self) -> np.ndarray:
        """The weights so far."""
        return self.w.copy()

    def learn(self) -> Pass:
        """One pass: the dual over all known planes, then new planes. The objective is minus the dual; it falls."""
        if self._passes:
            self._ascend_all()
            for cache in self._caches:
                cache.drop_idle()
        self._passes += 1
        gap = None
        if self._passes % CERTIFY_EVERY == 0 or self._passes == self._last:
            gap = self._certify() / self.C
        else:
            self._visit_in_turn()
        return Pass(-self.dual / self.C, gap)

    def _certify(self) -> float:
        """Visit every example at the present weights; return the duality gap there, times C."""
        upper = self._visit_all(self.w)
        return 0.5 * float(self.w @ self.w) + self.C * upper - self.dual

    @property
    def dual(self) -> float:
        """Value of the dual, times C: -|w|²/2 + C sum alpha loss."""
        return -0.5 * float(self.w @ self.w) + self.C * sum(cache.loss_in_use for cache in self._caches)

    def _visit_all(self, w: np.ndarray) -> float:
        """Call the oracle on every example at the same weights; return an upper bound on the sum of hinge losses."""
        found = [self._visit(k, w) for k in range(len(self.shards))]
        for cache, (planes, losses, _) in zip(self._caches, found):
            cache.add(planes, losses, self.w)
        return float(sum(upper.sum() for *_, upper in found))

    def _visit_in_turn(self) -> None:
        for k in range(len(self.shards)):
            planes, losses, _ = self._visit(k, self.w)
            self._caches[k].add(planes, losses, self.w)
            self._ascend(k)

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

    def _ascend_all(self) -> None:
        for _ in range(CACHE_PASSES):
            for k in range(len(self.shards)):
                self._ascend(k)

    def _ascend(self, k: int) -> None:
        """Raise the dual over the planes of one shard; every step changes the weights of all."""
        cache = self._caches[k]
        order = np.argsort(cache.owner, kind="stable")
        example = np.searchsorted(cache.owner[order], np.arange(cache.n_examples + 1)).astype(np.uint64)
        pointer = cache.planes.indptr.astype(np.uint64)
        ascend(
            self.w,
            order.astype(np.uint64),
            example,
            pointer[:-1],
            pointer[1:],
            cache.planes.indices.astype(np.uint64),
            cache.planes.data,
            cache.loss,
            cache.alpha,
            self.C,
            self._scratch,
            1,
            STEPS_PER_EXAMPLE,
            1e-9 * self.C,
        )


class _Cache:
    """The planes of one shard's examples: sparse feature differences, losses, dual weights, rounds without weight."""

    def __init__(self, n_examples: int, n_parameters: int):
        self.n_examples = n_examples
        self.planes = sparse.csr_array((n_examples, n_parameters))  # at first each example's own labeling: psi = 0
        self.owner, self.loss = np.arange(n_examples), np.zeros(n_examples)
        self.alpha, self.idle = np.ones(n_examples), np.zeros(n_examples, dtype=np.int64)

    @property
    def loss_in_use(self) -> float:
        """Sum of alpha x loss."""
        return float(self.alpha @ self.loss)

    def add(self, planes: sparse.csr_array, losses: np.ndarray, w: np.ndarray) -> None:
        """Keep the planes, one an example, that lie above what is already known of their examples."""
        known = np.full(self.n_examples, -np.inf)
        np.maximum.at(known, self.owner, self.loss - self.planes @ w)
        new = np.flatnonzero(losses - planes @ w > known + 1e-10)
        if len(new) == 0:
            return
        self.planes = sparse.csr_array(sparse.vstack([self.planes, planes[new]], format="csr"))
        self.owner = np.concatenate([self.owner, new])
        self.loss = np.concatenate([self.loss, losses[new]])
        self.alpha = np.concatenate([self.alpha, np.zeros(len(new))])
        self.idle = np.concatenate([self.idle, np.zeros(len(new), dtype=np.int64)])

    def drop_idle(self) -> None:
        """Forget planes that carried no weight for ``IDLE_ROUNDS`` passes."""
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        keep = self.idle <= IDLE_ROUNDS
        if not keep.all():
            self.planes = sparse.csr_array(self.planes[np.flatnonzero(keep)])
            self.owner, self.loss = self.owner[keep], self.loss[keep]
            self.alpha, self.idle = self.alpha[keep], self.idle[keep]
