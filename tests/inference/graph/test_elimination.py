"""Variable elimination: the optimum of tables of any number of nodes, in any order, and labelings made with it."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.graphs import random_logic, random_potentials
from rulefield.exceptions import InputError
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.evaluate import centered
from rulefield.inference.graph.exact.eliminate import plan_elimination, propose
from rulefield.inference.graph.parts import parts_of
from rulefield.inference.graph.trws import begin, descend
from rulefield.inference.limits import Deadline
from rulefield.kernels.graph.exact.eliminate import eliminate
from rulefield.kernels.graph.exact.living import Tables, living_tables
from rulefield.kernels.graph.exact.plan import greedy_order, make_plan
from rulefield.problem.graph import GraphPotentials, GraphProblem

GOES_ON = np.zeros(1, np.bool_)


def random_tables(rng, sizes, n_tables, widest):
    """Tables of 1 to ``widest`` nodes, some entries forbidden; and the sum of all of them for every labeling."""
    n = len(sizes)
    scopes = [np.array([v]) for v in range(n)]
    scopes += [rng.permutation(n)[: rng.integers(2, widest + 1)] for _ in range(n_tables)]
    whole, values = np.zeros(sizes), []
    for scope in scopes:
        table = np.round(rng.normal(size=sizes[scope]), int(rng.integers(0, 4)))
        table[rng.random(table.shape) < rng.choice([0.0, 0.1])] = -np.inf
        by_node = np.argsort(scope)
        shape = np.where(np.isin(np.arange(n), scope), sizes, 1)
        whole = whole + table.transpose(by_node).reshape(shape)
        values.append(table.ravel())
    lengths = [len(scope) for scope in scopes]
    tables = Tables(
        np.arange(n),
        np.zeros(n, np.int64),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([np.arange(m) for m in sizes]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate(scopes),
        np.concatenate([[0], np.cumsum([len(v) for v in values])]),
        np.concatenate(values),
        0.0,
    )
    return tables, whole


@pytest.mark.parametrize("seed", range(60))
def test_the_maximum_in_any_order(seed):
    """Small ones, and (every third) some whose tables are larger than a block."""
    rng = np.random.default_rng(seed)
    large = seed % 3 == 0
    n = int(rng.integers(9, 13)) if large else int(rng.integers(2, 7))
    sizes = rng.choice([2, 2, 2, 3, 4], size=n) if large else rng.integers(2, 6, size=n)
    while np.prod(sizes) > 40_000:
        sizes[np.argmax(sizes)] -= 1
    tables, whole = random_tables(rng, sizes, 3 * n if large else int(rng.integers(0, 2 * n)), 4)
    scopes, early = (tables.scope_ptr, tables.scope), rng.random(n) < 0.2
    orders = [greedy_order(sizes, *scopes, early, by_fill, 30.0, n) for by_fill in (False, True)]
    assert not len(greedy_order(sizes, *scopes, early, False, 30.0, 1)) or not (np.diff(scopes[0]) > 1).any()
    for order in [*orders, rng.permutation(n)]:
        plan = make_plan(sizes, order, tables.scope_ptr, tables.scope)
        total, labels = eliminate(tables, plan, GOES_ON)
        assert total == pytest.approx(whole.max())
        if total > -np.inf:
            assert whole[tuple(labels)] == pytest.approx(total)


@pytest.mark.parametrize("seed", range(6))
def test_tables_of_living_labels_sum_to_the_score_of_every_labeling(seed):
    rng = np.random.default_rng(seed)
    p = random_potentials(rng, 6, sizes=(3, 4))
    problem = GraphProblem(p, random_logic(rng, p, 5, soft=0.7))
    network = begin(parts_of(problem)[0]).network
    net, scores = network.net, network.scores
    unary = scores.unary.copy()
    for first, end in zip(net.node_at[:-1], net.node_at[1:]):
        unary[first + rng.permutation(end - first)[: rng.integers(0, end - first)]] = -np.inf
    tables = living_tables(net, unary, scores.pairwise, scores.final, 10_000)
    places = [range(b - a) for a, b in zip(tables.label_at[:-1], tables.label_at[1:])]
    sizes = np.array([len(place) for place in places])
    for picks in product(*places):
        total, labels = tables.constant, tables.only.copy()
        for t in range(len(tables.at) - 1):
            scope = tables.scope[tables.scope_ptr[t] : tables.scope_ptr[t + 1]]
            total += tables.values[tables.at[t] + np.ravel_multi_index(np.array(picks)[scope], sizes[scope])]
        labels[tables.node] = tables.label[tables.label_at[:-1] + np.array(picks, dtype=np.int64)]
        in_problem = np.empty_like(labels)
        in_problem[network.order] = labels
        expected = p.score(in_problem) - problem.logic.weight[problem.logic.broken(in_problem)].sum()
        assert_allclose(total, expected, atol=1e-9)


def coupled(n, seed, strength=2.0):
    """All pairs of n nodes of two labels, strong random scores: bounds decide nothing."""
    rng = np.random.default_rng(seed)
    edges = np.array([(i, j) for i in range(n) for j in range(i)])
    return GraphProblem(
        GraphPotentials(np.full(n, 2), rng.normal(size=2 * n), edges, strength * rng.normal(size=4 * len(edges)))
    )


def started(problem, rounds=2):
    search = begin(parts_of(centered(problem)[0])[0])
    descend(search, rounds)
    return search


def test_tables_too_large_are_refused_before_they_are_made():
    search = started(coupled(60, 0))
    assert plan_elimination(search) is None
    assert plan_elimination(search, 2.0**20) is None
    with pytest.raises(InputError, match='too large tables for this graph; use "auto"'):
        decode_graph(coupled(60, 0), "elimination")


def test_a_raised_flag_stops_it_and_proves_nothing():
    search = started(coupled(14, 1))
    assert search.is_open
    value, bound = search.value, search.bound
    plan_elimination(search).run(search, Deadline(0.0, np.ones(1, np.bool_)))
    assert (search.value, search.bound) == (value, bound)
    plan_elimination(search).run(search)
    assert not search.is_open


@pytest.mark.parametrize("seed", range(10))
def test_proposals_are_never_worse_and_worth_what_they_say(seed):
    search = started(coupled(40, seed, 0.5))
    before = search.value
    propose(search, 2.0**14)
    assert search.value >= before
    labels = search.network.to_problem(search.labels.astype(np.int64))
    score = centered(coupled(40, seed, 0.5))[0].potentials.score(labels)
    assert search.value == pytest.approx(score)
