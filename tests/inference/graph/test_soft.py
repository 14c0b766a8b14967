"""Search under soft arc consistency: the optimum of every small problem, forbidden pairs included, however it is cut up."""

import numpy as np
import pytest

from oracles.graphs import best_objective
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.evaluate import centered
from rulefield.inference.graph.exact.soft import begin_soft
from rulefield.inference.graph.parts import parts_of
from rulefield.inference.graph.trws import begin, branch_and_bound, descend
from rulefield.kernels.graph.exact.soft_moves import cost_of
from rulefield.problem.graph import GraphPotentials, GraphProblem


def random_problem(rng) -> GraphProblem:
    n = int(rng.integers(2, 7))
    sizes = rng.integers(1, 5, size=n)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and rng.random() < 0.4]
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    entries = int((sizes[edges[:, 0]] * sizes[edges[:, 1]]).sum())
    scale = rng.choice([1.0, 100.0])
    pairwise = scale * rng.normal(size=entries)
    if rng.random() < 0.5:
        pairwise = np.round(pairwise)  # ties
    pairwise[rng.random(entries) < rng.choice([0.0, 0.3, 0.5])] = -np.inf
    return GraphProblem(GraphPotentials(sizes, scale * rng.normal(size=sizes.sum()), edges, pairwise))


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_found_and_proved(seed):
    rng = np.random.default_rng(seed)
    searched = 0
    for _ in range(100):
        problem = random_problem(rng)
        right = best_objective(problem)
        inner, constant = centered(problem)
        if constant == -np.inf:
            continue
        search = begin(parts_of(inner)[0])
        if rng.random() < 0.5:
            descend(search, 1)
        soft = begin_soft(search)
        if soft is None:
            continue
        searched += 1
        while soft.depth and search.is_open:
            soft.run(search, int(rng.choice([1, 50, 10_000])))
            assert search.bound + constant >= right - 1e-6  # at every stop
        if right == -np.inf:
            assert search.answer() is None
            assert search.bound == -np.inf
        else:
            assert search.value + constant == pytest.approx(right, abs=1e-6)
            assert not search.is_open
    assert searched > 20


def test_costs_are_the_scores_that_messages_leave():
    rng = np.random.default_rng(9)
    for _ in range(50):
        problem = random_problem(rng)
        inner, _ = centered(problem)
        search = begin(parts_of(inner)[0])
        descend(search, 2)
        soft = begin_soft(search)
        if soft is None:
            continue
        labels = rng.integers(0, inner.potentials.n_labels)
        placed = labels[search.network.order]
        score = inner.potentials.score(labels)
        if np.isfinite(search.network.scores.unary[soft.soft.at[:-1] + placed]).all():
            assert soft.constant - cost_of(soft.soft, placed) == pytest.approx(score, abs=1e-6)


def test_it_does_not_begin_on_a_subproblem():
    """Branching leaves the scores and messages of a subproblem behind; a search on these proved falsehoods."""
    rng = np.random.default_rng(0)
    edges = np.array([(i, j) for i in range(12) for j in range(i)])
    potentials = GraphPotentials(np.full(12, 2), rng.normal(size=24), edges, 3 * rng.normal(size=4 * len(edges)))
    search = begin(parts_of(centered(GraphProblem(potentials))[0])[0])
    descend(search, 1)
    assert begin_soft(search) is not None
    branch_and_bound(search, 3)
    assert search.is_open
    assert begin_soft(search) is None


def test_auto_agrees_on_dense_couplings_that_sweeps_leave_open():
    rng = np.random.default_rng(1)
    edges = np.array([(i, j) for i in range(14) for j in range(i)])
    for scale in (1.0, 3.0):
        potentials = GraphPotentials(
            np.full(14, 2), rng.normal(size=28), edges, scale * rng.normal(size=4 * len(edges))
        )
        problem = GraphProblem(potentials)
        assert decode_graph(problem).objective == pytest.approx(best_objective(problem))
