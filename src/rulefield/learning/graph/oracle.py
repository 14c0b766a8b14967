"""Best labelings of a shard under given scores: the oracle of the max-margin learners."""

from typing import Any

import numpy as np

from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.fast import decode_fast
from rulefield.learning.graph.shards import GraphShard
from rulefield.parallel import in_threads
from rulefield.problem.graph import GraphPotentials, GraphProblem

ITERATIONS = 10
"""Sweeps of the fast engine."""
GAP = 1e-3
"""Share of the objective that a labeling of the fast engine may leave open."""


class MapOracle:
    """Find the best labeling of every graph, or a good one, and a true upper bound; starts from its last messages.

    A few sweeps of the fast engine come first; if they leave a gap, the exact engine goes on for ``node_limit``
    search nodes.

    Parameters
    ----------
    node_limit : int
        Most search nodes of the exact engine; 0 leaves it out.
    n_jobs : int or None
        Threads over graphs.
    """

    def __init__(self, node_limit: int = 100, n_jobs: int | None = None):
        self.node_limit, self.n_jobs = node_limit, n_jobs
        self._state: dict[int, Any] = {}

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
        problem = GraphProblem(shard.batch.potentials_of(union, g))
        answer = decode_fast(problem, ITERATIONS, self._state.get(member) if keep else None)
        if keep:
            self._state[member] = answer.state
        gap = answer.upper_bound - answer.objective
        if answer.objective > -np.inf and (self.node_limit == 0 or gap <= GAP * max(1.0, abs(answer.objective))):
            return answer.labels, answer.upper_bound
        if answer.objective == -np.inf:
            exact = decode_graph(problem)
        else:
            exact = decode_graph(problem, node_limit=self.node_limit, warm_start=answer.labels)
        better = exact.objective >= answer.objective
        return exact.labels if better else answer.labels, min(exact.upper_bound, answer.upper_bound)
