"""Sums over joint states: the factored kernel and the one over open states, both against the dense product."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.joint import problem
from rulefield.inference import joint
from rulefield.inference.chain.exact import forward_backward

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
    assert_allclose(joint.joint_log_partition(p), totals, rtol=1e-12)
    assert_allclose(sums.node, node, atol=1e-12)
    assert_allclose(sums.moves, steps[p.move_from, p.move_to], atol=1e-12)
    for own, m, edges in zip(p.task_labels, p.sizes, sums.edges):
        onehot = (own[:, None] == np.arange(m)).astype(float)
        assert_allclose(edges, onehot.T @ steps @ onehot, atol=1e-11)


@pytest.mark.parametrize("denser", [0.0, np.inf], ids=["factored", "open states"])
def test_a_chain_without_labellings_leaves_the_others_alone(monkeypatch, denser):
    monkeypatch.setattr(joint, "DENSER", denser)
    model, data, _, weight, theta = problem(2, (2, 3), lengths=LENGTHS, forbid=False)
    p = model.potentials(theta, data)
    whole = joint.joint_marginals(p)
    p.psi[p.offsets[2] + 1] = -np.inf
    without = joint.joint_marginals(p)
    assert without.log_partition[2] == -np.inf
    assert joint.joint_log_partition(p)[2] == -np.inf
    others = np.arange(len(LENGTHS)) != 2
    assert_allclose(without.log_partition[others], whole.log_partition[others])
    tokens = np.repeat(others, LENGTHS)
    assert_allclose(without.node[tokens], whole.node[tokens])
    assert all(np.isfinite(edges).all() for edges in without.edges)
