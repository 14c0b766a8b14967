"""Best labelings of a shard under given scores: the oracle of the max-margin learners."""

import numpy as np

from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.evaluate import centered
from rulefield.inference.graph.parts import extend, parts_of
from rulefield.inference.graph.trws import Search, begin, begin_network, descend
from rulefield.learning.graph.shards import GraphShard
from rulefield.parallel import in_threads
from rulefield.problem.graph import GraphPotentials, GraphProblem

ITERATIONS = 10
"""Rounds of sweeps on one graph."""
GAP = 1e-3
"""Share of the objective that sweeps may leave open."""


class MapOracle:
    """Find the best labeling of every graph, or a good one, and a true upper bound; starts from its last messages.

    A few sweeps come first; if they leave a gap, the exact engine goes on for ``node_limit`` search nodes (0: never).
    """

    def __init__(self, node_limit: int = 100, n_jobs: int | None = None):
        self.node_limit, self.n_jobs = node_limit, n_jobs
        self._searches: dict[int, Search] = {}

    def __call__(
        self, shard: GraphShard, unary: np.ndarray, pairwise: np.ndarray, keep: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels of all nodes, (n_nodes,), and an upper bound for each graph, (n_graphs,)."""
        batch = shard.batch
        union = GraphPotentials(batch.n_labels, unary, batch.edges, pairwise)
        if batch.is_forest:
            labels = decode_graph(GraphProblem(union)).labels
            return labels, shard.scores_of_labels(union, labels)
        answers = in_threads(lambda g: self._one(shard, union, g, keep), range(batch.n_graphs), self.n_jobs)
        labels = np.concatenate([labels for labels, _ in answers]) if answers else np.zeros(0, dtype=np.int64)
        return labels, np.array([bound for _, bound in answers])

    def _one(self, shard: GraphShard, union: GraphPotentials, g: int, keep: bool) -> tuple[np.ndarray, float]:
        member = int(shard.members[g])
        potentials = shard.batch.potentials_of(union, g)
        search, constant = sweep_on(potentials, self._searches.get(member) if keep else None)
        if keep:
            self._searches[member] = search
        labels, value, bound = search.answer(), search.value + constant, search.bound + constant
        if labels is not None and (self.node_limit == 0 or bound - value <= GAP * max(1.0, abs(value))):
            return labels, bound
        limit = None if labels is None else self.node_limit
        exact = decode_graph(GraphProblem(potentials), node_limit=limit, warm_start=labels)
        return exact.labels, min(exact.upper_bound, bound)


def sweep_on(potentials: GraphPotentials, before: Search | None = None) -> tuple[Search, float]:
    """Sweep a few times, from the messages of an earlier search on the same graph; return the search and its constant."""
    inner, constant = centered(GraphProblem(potentials))
    if before is None:
        search = begin(parts_of(inner)[0])
    else:
        search = begin_network(before.network.with_scores(extend(inner)), before.messages)
    descend(search, ITERATIONS)
    return search, constant
