"""Composite likelihood of labeled graphs: each type of node given the labels of all others."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rulefield.learning.fit_log import penalized
from rulefield.learning.graph.likelihood import GraphLikelihood
from rulefield.learning.graph.shards import UNKNOWN, GraphShard
from rulefield.models.graph import GraphModel


class GraphComposite:
    r"""Negative composite log-likelihood :math:`-\sum_t \log p(y_t \mid y_{known} \setminus y_t, x)` and its gradient.

    The sum is over the types that have labels; unknown labels are summed out, as in the likelihood. With a single such
    type it is the likelihood. Where two layers of labels are joined (rows and headings of the same lines), each layer is
    its own graph given the other: the loops between layers, which loosen the bound of the whole graph and slow its messages
    down, are gone, and the weights that join them are learned from both sides.

    Notes
    -----
    A term sees only what can change it (:func:`layer_of`): an edge within one type is scored once, not once for each type.

    References
    ----------
    [Lindsay88], [Varin11]
    """

    def __init__(
        self,
        model: GraphModel,
        shards: Sequence[GraphShard],
        l2: float = 0.0,
        n_jobs: int | None = None,
    ):
        self.l2 = l2
        types = [name for name in sorted(model.spec.labels) if any(_known(shard, name).any() for shard in shards)]
        self.layers = []
        for name in types:
            parts, given = zip(*(layer_of(shard, name) for shard in shards))
            self.layers.append(GraphLikelihood(model, parts, 0.0, n_jobs, given))
        self.precision = max((layer.precision for layer in self.layers), default=0.0)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient with respect to ``theta``, half of ``l2`` times its squared norm included."""
        return penalized([layer.value_and_gradient(theta) for layer in self.layers], theta, self.l2)

    def settle(self) -> None:
        """Begin the next evaluations with the messages of the last one; called after each step of a search."""
        for layer in self.layers:
            layer.settle()


def layer_of(shard: GraphShard, name: str) -> tuple[GraphShard, np.ndarray]:
    """Return what the labels of one type depend on when those of all others are given, and which of its nodes are.

    Edges between given nodes, their own scores, and nodes that only given ones separate from the type add the same to the
    sums with and without its labels: they are left out.
    """
    batch = shard.batch
    known = _known(shard, name)
    given = (shard.labels != UNKNOWN) & ~known
    told = known if shard.allowed is None else known | (~given & ~shard.anything)
    first, second = batch.edges.T
    open_ends = ~given[first] & ~given[second]
    links = sparse.coo_array((np.ones(open_ends.sum()), (first[open_ends], second[open_ends])), shape=2 * given.shape)
    _, component = connected_components(links, directed=False)
    scored = ~given & np.isin(component, component[told])
    edges = scored[first] | scored[second]
    nodes = scored.copy()
    nodes[batch.edges[edges]] = True
    return shard.part(nodes, edges, scored), given[nodes]


def _known(shard: GraphShard, name: str) -> np.ndarray:
    """Mark the nodes of a type whose labels are known."""
    found = np.zeros(len(shard.labels), dtype=bool)
    found[shard.batch.rows.get(name, ())] = True
    return found & (shard.labels != UNKNOWN)
