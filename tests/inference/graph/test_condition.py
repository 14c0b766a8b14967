"""Hubs tried label by label: the same answers as enumeration, tighter bounds than without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rulefield.inference.graph import auto as graph_auto
from rulefield.inference.graph import fast as graph_fast
from rulefield.inference.graph.condition import cases_of, hubs_of
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.fast import decode_fast
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, Logic, LogicFactors


def wheel(seed, n=12, n_hubs=1, strength=1.0, rules=False, weight=np.inf):
    """A ring of binary nodes, all of them joined to the last nodes, in both directions."""
    rng = np.random.default_rng(seed)
    ring = [(i, (i + 1) % n) for i in range(n)]
    spokes = [(i, n + h) if rng.random() < 0.5 else (n + h, i) for h in range(n_hubs) for i in range(n)]
    between = [(n, n + 1)] if n_hubs == 2 else []
    edges = np.array(ring + spokes + between)
    sizes = np.full(n + n_hubs, 2)
    sizes[n] = 3
    pairwise = strength * rng.normal(size=int((sizes[edges[:, 0]] * sizes[edges[:, 1]]).sum()))
    potentials = GraphPotentials(sizes, rng.normal(size=sizes.sum()), edges, pairwise)
    return GraphProblem(potentials, _rules(rng, n, weight)) if rules else GraphProblem(potentials)


def _rules(rng, n, weight):
    """At most one of five nodes has label 1; the hub has label 2 only if one of three others has label 1."""
    few, other = rng.permutation(n)[:5], rng.permutation(n)[:3]
    return LogicFactors(
        np.array([Logic.at_most_one, Logic.or_out], dtype=np.uint8),
        np.array([0, 5, 9]),
        np.concatenate([few, other, [n]]),
        np.array([1] * 8 + [2]),
        np.zeros(9, dtype=bool),
        np.zeros(2, dtype=np.int64),
        np.full(2, weight),
        np.arange(2),
    )


def test_hubs_are_nodes_with_far_more_edges_than_others():
    p = wheel(0, n=30).potentials
    assert hubs_of(p.n_labels, p.edges).tolist() == [30]
    assert len(hubs_of(np.append(np.full(30, 2), 9), p.edges)) == 0, "nine cases are too many"
    star = np.stack([np.arange(30), np.full(30, 30)], axis=1)
    assert len(hubs_of(p.n_labels, star)) == 0, "a forest needs none"
    wide = np.concatenate([p.edges, np.stack([np.arange(31, 150), np.arange(32, 151)], axis=1)])
    assert len(hubs_of(np.full(151, 2), wide)) == 0, "busy, but joined to a fifth of the nodes only"
    full = np.array([(i, j) for i in range(20) for j in range(i)])
    assert len(hubs_of(np.full(20, 2), full)) == 0, "all nodes are alike"
    assert len(hubs_of(np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))) == 0


@pytest.mark.parametrize("n_hubs", [1, 2])
def test_every_case_scores_as_the_whole(n_hubs):
    problem = wheel(1, n_hubs=n_hubs, n=24)
    cases = cases_of(problem.potentials)
    assert len(cases.labels) == 3 * 2 ** (n_hubs - 1)
    rng = np.random.default_rng(0)
    for k, given in enumerate(cases.labels):
        labels = np.concatenate([rng.integers(2, size=24), given])
        case = cases.problem(problem, k).potentials
        assert_allclose(case.score(labels), problem.potentials.score(labels))
        labels[24] = (labels[24] + 1) % 3
        assert case.score(labels) == -np.inf


@pytest.mark.parametrize("weight", [np.inf, 0.5])
@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_case_is_the_best_labeling(seed, rules, weight):
    problem = wheel(seed, rules=rules, weight=weight)
    assert cases_of(problem.potentials) is not None
    exact, ours = decode_graph(problem, engine="enumerate"), decode_graph(problem)
    assert ours.engine == "cases"
    assert ours.status == "optimal"
    assert_allclose(ours.objective, exact.objective)
    assert_allclose(decode_graph(problem, warm_start=exact.labels).objective, exact.objective)
    state = None
    for _ in range(3):
        fast = decode_fast(problem, 2, warm_start=state)
        assert fast.objective <= exact.objective + 1e-9 <= fast.upper_bound + 2e-9
        state = fast.state


@pytest.mark.parametrize("seed", range(4))
def test_rows_and_their_auxiliary_variables_stay(seed):
    problem = wheel(seed)
    rows = GraphRows(
        np.array([0, 3]),
        np.array([0, 1, 12]),
        np.array([1, 1, 1]),
        np.array([1.0, 1.0, 1.0]),
        np.array([1.0]),
        np.array([np.inf]),
        np.array([0]),
        0,
    )
    ruled = GraphProblem(problem.potentials, LogicFactors.none(), rows)
    assert_allclose(decode_graph(ruled).objective, decode_graph(ruled, engine="enumerate").objective)


def test_rules_that_leave_nothing_are_infeasible():
    problem = wheel(3)
    label = np.array([0, 1])
    logic = LogicFactors(
        np.full(2, Logic.any_of, dtype=np.uint8),
        np.array([0, 1, 2]),
        np.array([0, 0]),
        label,
        np.zeros(2, dtype=bool),
        np.zeros(2, dtype=np.int64),
        np.full(2, np.inf),
        np.arange(2),
    )
    found = decode_graph(GraphProblem(problem.potentials, logic))
    assert found.status == "infeasible"
    assert len(found.labels) == 0


def test_bounds_are_tighter_than_without_cases(monkeypatch):
    problems = [wheel(seed, n=60, strength=1.5) for seed in range(5)]
    with_cases = [decode_fast(problem, 5).upper_bound for problem in problems]
    exact = [decode_graph(problem).objective for problem in problems]
    monkeypatch.setattr(graph_fast, "cases_of", lambda _: None)
    without = [decode_fast(problem, 5).upper_bound for problem in problems]
    gap, plain = np.subtract(with_cases, exact), np.subtract(without, exact)
    assert (gap <= plain + 1e-9).all()
    assert gap.sum() < 0.5 * plain.sum()
    monkeypatch.setattr(graph_auto, "cases_of", lambda _: None)
    assert_allclose([decode_graph(problem).objective for problem in problems], exact)
