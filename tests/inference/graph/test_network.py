"""A problem written into a network; how much of a short time rounds may take."""

from itertools import product
from time import monotonic

import numpy as np
import pytest

from rulefield.inference.graph import auto, decode, trws
from rulefield.inference.graph.decode import NODE_LIMIT, decode_graph
from rulefield.inference.graph.evaluate import evaluate
from rulefield.inference.graph.network import build_network
from rulefield.inference.graph.parts import parts_of
from rulefield.kernels.graph.local import total_value
from rulefield.problem.graph import GraphPotentials, GraphProblem


def tangled(seed, tree=False):
    """Nodes of one to three labels; edges in both directions, some of them twice, and loops."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 5)
    edges = np.array([(1, 0), (1, 2), (3, 2), (0, 1), (2, 2), (3, 4), (4, 4)] + ([] if tree else [(4, 0), (0, 2)]))
    entries = int((sizes[edges[:, 0]] * sizes[edges[:, 1]]).sum())
    return GraphProblem(GraphPotentials(sizes, rng.normal(size=sizes.sum()), edges, rng.normal(size=entries)))


@pytest.mark.parametrize("seed", range(12))
def test_every_labeling_is_worth_the_same_in_the_network(seed):
    """Forests are read root first, so that tables are turned and places change."""
    problem = tangled(seed, tree=bool(seed % 2))
    network = build_network(parts_of(problem)[0])
    for labels in product(*map(range, problem.potentials.n_labels)):
        placed = np.array(labels)[network.order].astype(np.uint64)
        found = total_value(network.net, network.scores, placed)
        assert found == pytest.approx(evaluate(problem, np.array(labels)).objective)


def test_rounds_are_no_more_than_the_time_left_allows(monkeypatch):
    """One round where their cost is not known yet; on small networks, or without a limit, all of them."""
    search = trws.begin(parts_of(tangled(0))[0])
    assert search.affordable(20, monotonic() + 1.0) == 20
    monkeypatch.setattr(trws, "MANY_NODES", 2)
    assert search.affordable(20, np.inf) == 20
    assert search.affordable(20, monotonic() + 1.0) == 1
    search.round_seconds = 0.1
    assert 8 <= search.affordable(20, monotonic() + 1.0) <= 10
    assert search.affordable(20, monotonic() - 1.0) == 1


def test_more_time_is_worth_more_nodes(monkeypatch):
    """Without a limit of nodes: the default, and as many again for every ten seconds; one that is given is kept."""
    asked = []

    def run(problem, node_limit, seconds, warm_start):
        asked.append(node_limit)
        return auto.auto_graph(problem, node_limit, seconds, warm_start)

    monkeypatch.setattr(decode, "auto_graph", run)
    for given in ({}, {"seconds": 5.0}, {"seconds": 60.0}, {"node_limit": 7, "seconds": 60.0}):
        decode_graph(tangled(0), **given)
    assert asked == [NODE_LIMIT, NODE_LIMIT, 6 * NODE_LIMIT, 7]


def test_a_large_graph_without_time_has_a_labeling_and_a_true_bound():
    """No local search is begun that cannot end in time; what rounds found is the answer."""
    rng = np.random.default_rng(0)
    n, sides = 2_500, np.arange(2_500).reshape(50, 50)
    edges = np.concatenate(
        [np.c_[sides[:, :-1].ravel(), sides[:, 1:].ravel()], np.c_[sides[:-1].ravel(), sides[1:].ravel()]]
    )
    problem = GraphProblem(
        GraphPotentials(np.full(n, 3), rng.normal(size=3 * n), edges, np.tile(np.eye(3).ravel(), len(edges)))
    )
    hurried, plain = decode_graph(problem, seconds=0.0), decode_graph(problem)
    assert hurried.objective <= plain.objective + 1e-9 <= hurried.upper_bound + 2e-9
    assert hurried.objective == pytest.approx(evaluate(problem, hurried.labels).objective)
