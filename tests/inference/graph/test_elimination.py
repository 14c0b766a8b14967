"""Variable elimination: the optimum of tables of any number of nodes, in any order, and labelings made with it."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.graphs import random_logic, random_potentials
from rulefield.exceptions import InputError
from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.evaluate import centered
from rulefield.inference.graph.exact.eliminate import plan_elimination, propose, tables_of
from rulefield.inference.graph.parts import parts_of, split
from rulefield.inference.graph.trws import begin, descend
from rulefield.inference.limits import Deadline
from rulefield.kernels.graph.exact.eliminate import Tables, eliminate
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
        sizes,
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate(scopes),
        np.concatenate([[0], np.cumsum([len(v) for v in values])]),
        np.concatenate(values),
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
    alive = np.ones(len(p.unary), np.bool_)
    for first, end in zip(p.unary_offset[:-1], p.unary_offset[1:]):
        alive[first + rng.permutation(end - first)[: rng.integers(0, end - first)]] = False
    (piece,), decided, constant = split(parts_of(problem)[0], alive, 1)
    tables = tables_of(piece.parts)
    for picks in product(*map(range, tables.sizes)):
        total, labels = constant, decided.copy()
        for t in range(len(tables.at) - 1):
            scope = tables.scope[tables.scope_ptr[t] : tables.scope_ptr[t + 1]]
            place = np.ravel_multi_index(np.array(picks)[scope], tables.sizes[scope])
            total += tables.values[tables.at[t] + place]
        piece.write(labels, np.array(picks, dtype=np.int64))
        assert alive[p.unary_offset[:-1] + labels].all()
        expected = p.score(labels) - problem.logic.weight[problem.logic.broken(labels)].sum()
        assert_allclose(total, expected, atol=1e-9)


def coupled(n, seed, strength=2.0):
    """All pairs of n nodes of two labels, strong random scores: bounds decide nothing."""
    rng = np.random.default_rng(seed)
    edges = np.array([(i, j) for i in range(n) for j in range(i)])
    return GraphProblem(
        GraphPotentials(np.full(n, 2), rng.normal(size=2 * n), edges, strength * rng.normal(size=4 * len(edges)))
    )


def started(problem, rounds=2):
    parts, _ = parts_of(centered(problem)[0])
    search = begin(parts)
    descend(search, rounds)
    return parts, search


def test_tables_too_large_are_refused_before_they_are_made():
    parts, search = started(coupled(60, 0))
    assert plan_elimination(parts, search) is None
    assert plan_elimination(parts, search, 2.0**20) is None
    with pytest.raises(InputError, match='too large tables for this graph; use "auto"'):
        decode_graph(coupled(60, 0), "elimination")


def test_a_raised_flag_stops_it_and_proves_nothing():
    parts, search = started(coupled(14, 1))
    assert search.is_open
    value, bound = search.value, search.bound
    plan_elimination(parts, search).run(search, Deadline(0.0, np.ones(1, np.bool_)))
    assert (search.value, search.bound) == (value, bound)
    plan_elimination(parts, search).run(search)
    assert not search.is_open


@pytest.mark.parametrize("seed", range(10))
def test_proposals_are_never_worse_and_worth_what_they_say(seed):
    parts, search = started(coupled(40, seed, 0.5))
    before = search.value
    propose(parts, search, 2.0**14)
    assert search.value >= before
    labels = search.network.to_problem(search.labels.astype(np.int64))
    score = centered(coupled(40, seed, 0.5))[0].potentials.score(labels)
    assert search.value == pytest.approx(score)
