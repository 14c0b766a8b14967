"""AD3 as an engine: the relaxation's bound, and its rounding improved by local search."""

import numpy as np

from rulefield.inference.graph.auto import search_answer
from rulefield.inference.graph.evaluate import Answer
from rulefield.inference.graph.inequalities import factor_inequalities, row_inequalities
from rulefield.inference.graph.parts import extend, parts_of
from rulefield.inference.graph.trws import begin
from rulefield.kernels.graph.ad3 import Factors, ad3
from rulefield.problem.graph import GraphPotentials, GraphProblem

ITERATIONS = 2_000
"""Steps at most."""
TOLERANCE = 1e-6
"""Distance between copies of an indicator and their mean at which steps end."""


def ad3_graph(problem: GraphProblem) -> Answer:
    """Relaxation by AD3, bounded by its dual, rounded and improved.

    Hard logic factors enter by their convex hull, soft ones by the convex envelope of their cost, rows exactly.
    Forbidden pairs and labels must be few: they are priced above the range of all scores, which slows AD3 down.
    """
    parts, rest = parts_of(problem)
    search = begin(parts)
    p = extend(problem)
    p = GraphPotentials(
        p.n_labels, np.maximum(p.unary, -search.price), p.edges, np.maximum(p.pairwise, -search.price)
    )
    mean, bound, done = ad3(_factors(p, problem), p.unary, p.pairwise, ITERATIONS, TOLERANCE)
    labels = np.array([np.argmax(mean[a:b]) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])])
    search.offer(labels[search.network.order])
    search.bound, search.rounds = max(bound, search.value), done
    return search_answer(problem, search, rest, "ad3")


def _factors(p: GraphPotentials, problem: GraphProblem) -> Factors:
    start, sizes = p.unary_offset, p.n_labels[p.edges]
    ends = [np.arange(start[v], start[v + 1]) for v in p.edges.ravel()]
    rules = [one for _, one in factor_inequalities(problem, start)] + [*row_inequalities(problem, start)]
    edge_at = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))]) + len(p.unary)
    rule_at = np.concatenate([[0], np.cumsum([len(one.column) for one in rules])]) + edge_at[-1]
    return Factors(
        var=np.concatenate([np.arange(len(p.unary)), *ends, *(one.column for one in rules)]).astype(np.int64),
        node_at=start,
        edge_at=edge_at.astype(np.int64),
        wide=sizes[:, 1].astype(np.int64),
        pair_at=p.pairwise_offset,
        rule_at=rule_at.astype(np.int64),
        high=np.array([one.bound for one in rules], dtype=np.float64),
        price=np.array([one.price for one in rules], dtype=np.float64),
        value=np.concatenate([np.ones(edge_at[-1]), *(one.value for one in rules)]),
    )
