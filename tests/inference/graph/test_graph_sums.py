"""Exact sums under rules against sums over all labelings, and where they are refused."""

import numpy as np
import pytest
from scipy.special import logsumexp

from oracles.graphs import all_labelings, objectives, random_problem
from rulefield.data.graphs import TypedGraph
from rulefield.exceptions import InputError
from rulefield.inference.graph.exact import sums
from rulefield.inference.graph.marginals import exact_draws, exact_sums, reading_order
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.rules import at_most, node, nodes
from rulefield.rules.graph.compiler import GraphRuleCompiler


def enumerated(problem):
    """Marginals and log-partition from the definition: auxiliary variables take their best values."""
    p = problem.potentials
    labels, total = objectives(problem)
    best = total.reshape(-1, 2**problem.rows.n_auxiliary).max(axis=1)
    log_z = logsumexp(best) if np.isfinite(best).any() else -np.inf
    every = all_labelings(p.n_labels)
    weight = np.exp(best - log_z) if np.isfinite(log_z) else np.zeros(len(best))
    return np.concatenate([np.bincount(every[:, v], weight, m) for v, m in enumerate(p.n_labels)]), log_z


@pytest.mark.parametrize("direct", [0, 512])
@pytest.mark.parametrize(
    "options",
    [
        {"n_factors": 0},
        {"kind": "forest"},
        {"forbidden": 0.15},
        {"n_rows": 3},
        {"n_factors": 2, "n_rows": 3, "n_auxiliary": 2, "n_nodes": 5},
        {"n_factors": 2, "n_rows": 2, "n_auxiliary": 1, "step": 0.0},
    ],
)
def test_sums_are_those_over_all_labelings(options, direct, monkeypatch):
    monkeypatch.setattr("rulefield.inference.graph.marginals.TABLE_ENTRIES", direct)
    impossible = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), **options)
        node_marginals, log_z = enumerated(problem)
        found = exact_sums(problem)
        assert found.log_partition == pytest.approx(log_z, abs=1e-9)
        assert found.node == pytest.approx(node_marginals, abs=1e-9)
        impossible += log_z == -np.inf
    assert impossible < 50


@pytest.mark.parametrize("options", [{}, {"n_rows": 2, "n_auxiliary": 1}, {"forbidden": 0.2, "kind": "forest"}])
def test_draws_follow_the_distribution(options):
    tried = 0
    for seed in range(30):
        problem = random_problem(np.random.default_rng(seed), n_nodes=5, **options)
        expected, log_z = enumerated(problem)
        if log_z == -np.inf:
            assert exact_draws(problem, 3, np.random.default_rng(0)) is None
            continue
        tried += 1
        p = problem.potentials
        drawn = exact_draws(problem, 4000, np.random.default_rng(seed))
        shares = np.concatenate([np.bincount(drawn[:, v], minlength=m) / 4000 for v, m in enumerate(p.n_labels)])
        assert shares == pytest.approx(expected, abs=0.045)
        labels, total = objectives(problem)
        best = dict.fromkeys(map(tuple, labels[:, : p.n_nodes].tolist()), -np.inf)
        for row, value in zip(labels[:, : p.n_nodes].tolist(), total):
            best[tuple(row)] = max(best[tuple(row)], value)
        assert all(best[tuple(row)] > -np.inf for row in drawn.tolist())
        top = max(best, key=best.get)
        assert (drawn == top).all(axis=1).mean() == pytest.approx(np.exp(best[top] - log_z), abs=0.045)
    assert tried > 5


def long_chain(n, n_labels=3, seed=0):
    rng = np.random.default_rng(seed)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    return GraphPotentials(
        np.full(n, n_labels), rng.normal(size=n * n_labels), edges, rng.normal(size=(n - 1) * n_labels**2)
    )


def under(p, *rules):
    compiler = GraphRuleCompiler(rules, {"token": np.arange(p.n_labels[0])})
    return GraphProblem(p, *compiler.compile(TypedGraph({"token": np.zeros((p.n_nodes, 1))})))


def test_a_long_chain_under_a_count_is_summed():
    p = long_chain(300)
    found = exact_sums(under(p, at_most(40, nodes("token").is_(0))))
    begin = np.arange(300) * 3
    assert found.node[begin].sum() < 40
    assert found.log_partition < exact_sums(GraphProblem(p)).log_partition
    free = exact_sums(under(p, at_most(300, nodes("token").is_(0))))
    assert free.node == pytest.approx(exact_sums(GraphProblem(p)).node)


def test_a_known_label_is_certain():
    p = long_chain(5)
    found = exact_sums(under(p, node("token", 2).is_(1)))
    assert found.node[6:9] == pytest.approx([0, 1, 0])


def test_what_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(sums, "MOST_ENTRIES", 100)
    with pytest.raises(InputError, match="needs a table of more than"):
        exact_sums(under(long_chain(60), at_most(30, nodes("token").is_(0))))


def test_trees_are_read_with_few_open_nodes():
    n = 127
    edges = np.array([[(v - 1) // 2, v] for v in range(1, n)])
    place = np.argsort(reading_order(n, edges))
    opened = [(place[edges].min(axis=1) <= t) & (place[edges].max(axis=1) > t) for t in range(n)]
    assert max(len(np.unique(edges[cut][:, 0])) for cut in opened) <= 14
