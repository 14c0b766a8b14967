"""Sweeps of TRW-S: every bound is true, none is worse than the one before, pruned labels are never needed."""

import numpy as np
import pytest

from oracles.graphs import best_objective, objectives, random_problem
from rulefield.inference.graph.network import build_network
from rulefield.inference.graph.parts import parts_of
from rulefield.kernels.graph.local import total_value
from rulefield.kernels.graph.sweep import start_messages, sweep, workspace

SHAPES = {"plain": {"n_factors": 0}, "logic": {"n_factors": 6}, "rows": {"n_factors": 2, "n_rows": 3}}


def prepared(problem):
    network = build_network(parts_of(problem)[0])
    messages = network.new_messages()
    start_messages(network.net, network.scores, messages)
    return network, messages, workspace(network.net)


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_are_true_and_never_get_worse(shape):
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 7, **SHAPES[shape])
        best = best_objective(problem)
        network, messages, work = prepared(problem)
        if network.is_forest or best == -np.inf:
            continue
        before = np.inf
        for k in range(12):
            bound, value = sweep(network.net, network.scores, messages, k % 2 == 1, np.inf, -np.inf, *work)
            assert bound >= best - 1e-9
            assert bound <= before + 1e-9
            before = bound
            if k % 2 == 1 and value > -np.inf:
                assert value == pytest.approx(total_value(network.net, network.scores, work[0]))
                assert value <= best + 1e-9


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_that_reach_the_goal_stay(shape):
    pruned = 0
    for seed in range(40):
        problem = random_problem(np.random.default_rng(seed), 6, **SHAPES[shape])
        labels, values = objectives(problem)
        if values.max() == -np.inf:
            continue
        network, messages, work = prepared(problem)
        goal = values.max() - 0.5
        bound = np.inf
        for k in range(8):
            total, _ = sweep(network.net, network.scores, messages, k % 2 == 1, bound, goal, *work)
            bound = min(bound, total)
        alive = np.empty(len(network.scores.unary), np.bool_)
        alive[network.unary_from] = network.scores.unary > -np.inf
        start = np.concatenate([[0], np.cumsum([*problem.potentials.n_labels, *[2] * problem.rows.n_auxiliary])])
        for good in labels[values >= goal]:
            assert alive[start[:-1] + good].all()
        pruned += (~alive).sum()
    assert pruned > 50
