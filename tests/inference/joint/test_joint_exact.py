"""Sums over joint states: the factored kernel and the one over open states, both against the dense product."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.joint import problem
from oracles.labelings import labelings
from rulefield.inference.sequences.exact import forward_backward
from rulefield.inference.sequences.joint import exact as joint

LENGTHS = (3, 1, 6, 2, 5, 4, 1, 7, 3, 2, 9)  # more than the lanes hold, and no multiple of them


def dense_sums(p, weight):
    """Log partition functions, node marginals and expected steps, chain by chain over the product."""
    totals, node, steps = [], np.zeros_like(p.psi), np.zeros((p.n_states, p.n_states))
    for i, w in enumerate(weight):
        sums = forward_backward(p.chain(i), edges=True)
        totals.append(sums.log_partition)
        node[p.offsets[i] : p.offsets[i + 1]] = sums.node
        if len(sums.edge):
            steps += w * sums.edge.sum(axis=0)
    return np.array(totals), node, steps


@pytest.mark.parametrize("denser", [0.0, np.inf], ids=["factored", "open states"])
@pytest.mark.parametrize("sizes", [(3,), (5, 4), (2, 3, 2)])
@pytest.mark.parametrize("clamp", [False, True])
def test_sums_equal_the_dense_product(monkeypatch, denser, sizes, clamp):
    monkeypatch.setattr(joint, "DENSER", denser)
    model, data, labels, weight, theta = problem(1, sizes, lengths=LENGTHS)
    p = model.potentials(theta, data, labels if clamp else None)
    totals, node, steps = dense_sums(p, weight)
    sums = joint.joint_marginals(p, weight)
    assert_allclose(sums.log_partition, totals, rtol=1e-12)
    assert_allclose(sums.node, node, atol=1e-12)
    assert_allclose(sums.moves, steps[p.move_from, p.move_to], atol=1e-12)
    for own, m, edges in zip(p.task_labels, p.sizes, sums.edges):
        onehot = (own[:, None] == np.arange(m)).astype(float)
        assert_allclose(edges, onehot.T @ steps @ onehot, atol=1e-11)


@pytest.mark.parametrize("denser", [0.0, np.inf], ids=["factored", "open states"])
def test_a_chain_without_labelings_leaves_the_others_alone(monkeypatch, denser):
    monkeypatch.setattr(joint, "DENSER", denser)
    model, data, _, weight, theta = problem(2, (2, 3), lengths=LENGTHS, forbid=False)
    p = model.potentials(theta, data)
    whole = joint.joint_marginals(p)
    p.psi[p.offsets[2] + 1] = -np.inf
    without = joint.joint_marginals(p)
    assert without.log_partition[2] == -np.inf
    others = np.arange(len(LENGTHS)) != 2
    assert_allclose(without.log_partition[others], whole.log_partition[others])
    tokens = np.repeat(others, LENGTHS)
    assert_allclose(without.node[tokens], whole.node[tokens])
    assert all(np.isfinite(edges).all() for edges in without.edges)


def best_of_all(p, i):
    """Best score of any labeling through each state at each token, by listing them."""
    chain = p.chain(i)
    best = np.full_like(chain.unary, -np.inf)
    for path in labelings(chain):
        value = chain.score(path)
        steps = np.arange(len(path))
        best[steps, path] = np.maximum(best[steps, path], value)
    return best


@pytest.mark.parametrize("sizes", [(1,), (3,), (2, 1), (2, 3), (2, 2, 2)])
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("clamp", [False, True])
def test_the_factored_maximum_is_the_best_of_all_labelings(sizes, moves, clamp):
    moves = moves and np.prod(sizes) > 2
    model, data, labels, _, theta = problem(3, sizes, lengths=(3, 1, 4, 2), moves=moves)
    p = model.potentials(theta, data, labels if clamp else None)
    states, scores = joint.joint_viterbi(p)
    for i, score in enumerate(scores):
        through = best_of_all(p, i)
        assert_allclose(score, through.max())
        assert_allclose(joint.best_through(p, i), through, atol=1e-12)
        assert_allclose(p.chain(i).score(states[p.offsets[i] : p.offsets[i + 1]]), score)


def test_a_chain_without_labelings_scores_minus_infinity():
    model, data, _, _, theta = problem(2, (2, 3), lengths=(2, 0, 3), moves=False)
    p = model.potentials(theta, data)
    p.psi[1] = -np.inf
    _, scores = joint.joint_viterbi(p)
    assert (scores[:2] == [-np.inf, 0]).all()
    assert np.isfinite(scores[2])
