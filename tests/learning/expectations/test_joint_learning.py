"""Joint models against enumeration: likelihood, gradients, posteriors under expectations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from oracles.joint import fits, labelings, problem, score
from rulefield.inference.sequences.joint.exact import joint_marginals, joint_viterbi
from rulefield.learning.expectations.corpus import JointCorpus, JointLikelihood, TiltedCorpus
from rulefield.learning.expectations.regularized import Posterior, RegularizedObjective, minimize_regularized
from rulefield.problem.expectation import CompiledExpectation

SIZES = [(3,), (2, 3), (2, 2, 2)]


def enumerated(model, theta, data, i, keep=lambda path: True):
    paths = [path for path in labelings(model, int(data.lengths[i])) if keep(path)]
    return paths, np.array([score(model, theta, data, i, path) for path in paths])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_likelihood_of_what_is_known(sizes, seed):
    model, data, labels, weight, theta = problem(seed, sizes)
    expected = 0.5 * 0.3 * theta @ theta
    for i, w in enumerate(weight):
        _, every = enumerated(model, theta, data, i)
        _, known = enumerated(model, theta, data, i, lambda path, i=i: fits(labels, data, i, path))
        expected += w * (logsumexp(every) - logsumexp(known))
    corpus = JointCorpus(model, data, labels, weight)
    value, gradient = JointLikelihood(corpus, 0.3).value_and_gradient(theta)
    assert_allclose(value, expected)
    objective = JointLikelihood(corpus, 0.3)
    numeric = approx_fprime(theta, lambda x: objective.value_and_gradient(x)[0], 1e-6)
    assert_allclose(gradient, numeric, atol=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_factored_sums_equal_the_dense_product_also_for_huge_weights(seed):
    model, data, _, _, theta = problem(seed, (2, 3))
    for scale in (1.0, 3000.0):
        potentials = model.potentials(scale * theta, data)
        sums = joint_marginals(potentials)
        best, top = joint_viterbi(potentials)
        for i in range(len(data)):
            paths, scores = enumerated(model, scale * theta, data, i)
            assert_allclose(sums.log_partition[i], logsumexp(scores), rtol=1e-10)
            assert_allclose(top[i], scores.max())
            first = int(data.offsets[i])
            p = np.exp(scores - logsumexp(scores))
            for t in range(int(data.lengths[i])):
                states = np.array([np.ravel_multi_index(path[t], model.sizes) for path in paths])
                assert_allclose(sums.node[first + t], np.bincount(states, p, model.n_states), atol=1e-9)


@pytest.mark.parametrize("sizes", SIZES)
def test_sums_over_open_states_alone_are_the_factored_sums(monkeypatch, sizes):
    model, data, labels, weight, theta = problem(4, sizes)
    potentials = model.potentials(theta, data, labels)
    found = []
    for denser in (0.0, 1e9):  # never, always
        monkeypatch.setattr("rulefield.inference.sequences.joint.exact.DENSER", denser)
        found.append(joint_marginals(potentials, weight))
    factored, alone = found
    assert_allclose(alone.log_partition, factored.log_partition)
    assert_allclose(alone.node, factored.node, atol=1e-12)
    assert_allclose(alone.moves, factored.moves, atol=1e-12)
    for a, b in zip(alone.edges, factored.edges):
        assert_allclose(a, b, atol=1e-12)


def expectations(model, data, low, high):
    """Three statements: a share of two states, of a move, and of a task's transition."""
    rng = np.random.default_rng(5)
    S, n = model.n_states, data.n_tokens
    none, zero = np.zeros(0, np.int64), np.zeros(n, np.uint16)
    node = np.vstack([np.zeros(S), (np.arange(S) < 2).astype(float)])
    steps = float((data.lengths - 1).sum())
    blank = (None,) * len(model.sizes)
    table = (rng.random((model.sizes[0],) * 2) < 0.5).astype(float)
    return [
        CompiledExpectation(node, (np.arange(n) % 3 > 0).astype(np.uint16), blank, none, none, float(n), low, high),
        CompiledExpectation(np.zeros((1, S)), zero, blank, np.array([0, 1]), np.array([1, 1]), steps, low, high),
        CompiledExpectation(np.zeros((1, S)), zero, (table, *blank[1:]), none, none, steps, low, np.inf),
    ]


def phi(expectation, model, data, i, path):
    first = int(data.offsets[i])
    states = [int(np.ravel_multi_index(labels, model.sizes)) for labels in path]
    total = sum(expectation.node[expectation.token_class[first + t], s] for t, s in enumerate(states))
    moves = set(zip(expectation.move_from.tolist(), expectation.move_to.tolist()))
    total += sum((a, b) in moves for a, b in zip(states[:-1], states[1:]))
    for k, table in enumerate(expectation.edges):
        if table is not None:
            total += sum(table[a[k], b[k]] for a, b in zip(path[:-1], path[1:]))
    return total


@pytest.mark.parametrize("seed", range(3))
def test_dual_and_tilted_posterior_by_enumeration(seed):
    model, data, labels, weight, theta = problem(seed)
    wanted = expectations(model, data, 0.2, 0.3)
    tilted = TiltedCorpus(JointCorpus(model, data, labels, weight), wanted)
    tilted.set_theta(theta)
    posterior = Posterior(tilted)
    nu = np.abs(np.random.default_rng(seed).normal(size=posterior.n_sides)) * 5
    value, gradient, found = posterior.smooth(nu)
    tau = posterior.tau(nu)
    expected, shares = float(posterior.bound @ nu), np.zeros(3)
    for i, w in enumerate(weight):
        paths, scores = enumerated(model, theta, data, i, lambda path, i=i: fits(labels, data, i, path))
        amounts = np.array([[phi(e, model, data, i, path) for e in wanted] for path in paths])
        scores = scores - amounts @ tau
        expected += w * logsumexp(scores)
        shares += w * np.exp(scores - logsumexp(scores)) @ amounts
    assert_allclose(value, expected)
    assert_allclose(found, shares / [e.total for e in wanted])
    assert_allclose(gradient, approx_fprime(nu, lambda x: posterior.smooth(x)[0], 1e-6), atol=1e-6)


@pytest.mark.parametrize("slack", [0.0, 0.02])
def test_multipliers_meet_the_conditions_of_an_optimum(slack):
    """Karush, Kuhn and Tucker's: no side is missed by more than the slack, and only sides that bind have a multiplier."""
    model, data, labels, _, theta = problem(1, lengths=(4, 3, 3), forbid=False)
    every = tuple(None for _ in labels)
    tilted = TiltedCorpus(JointCorpus(model, data, every, np.ones(len(data))), expectations(model, data, 0.2, 0.3))
    tilted.set_theta(theta)
    posterior = Posterior(tilted, slack)
    answer = posterior.minimize()
    excess = posterior.sign * answer.shares[posterior.index] - posterior.bound
    assert excess.max() <= slack + 1e-6
    assert (answer.nu >= 0).all()
    assert answer.nu.any()
    assert_allclose(answer.nu * (excess - slack), 0.0, atol=1e-4)


@pytest.mark.parametrize("with_expectations", [False, True])
def test_the_fit_never_rises_and_ends_where_the_gradient_is_zero(with_expectations):
    model, data, labels, _, theta = problem(2, lengths=(3, 2), forbid=False)
    wanted = expectations(model, data, 0.25, 0.35) if with_expectations else []
    objective = RegularizedObjective(JointCorpus(model, data, labels), wanted, l2=0.5)
    done = minimize_regularized(objective, 0.1 * theta, max_iter=300, tol=1e-12)
    values = np.array([record.objective for record in done.log])
    assert (np.diff(values) < 1e-7 * np.abs(values[1:])).all()
    value, gradient = objective.value_and_gradient(done.theta)
    assert_allclose(value, values[-1])
    assert np.abs(gradient).max() < 1e-3


def test_gradient_of_the_regularized_objective():
    model, data, labels, _, theta = problem(4, forbid=False)
    corpus = JointCorpus(model, data, (labels[0], None))
    objective = RegularizedObjective(corpus, expectations(model, data, 0.2, 0.3), l2=0.1, slack=0.05)
    _, gradient = objective.value_and_gradient(theta)
    numeric = np.array(
        [
            (objective.value_and_gradient(theta + h)[0] - objective.value_and_gradient(theta - h)[0]) / 2e-4
            for h in 1e-4 * np.eye(len(theta))
        ]
    )
    assert_allclose(gradient, numeric, atol=1e-4)


def test_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("rulefield.learning.expectations.corpus.SHARD_SCORES", 16)
    model, data, labels, weight, theta = problem(0, lengths=(3, 2, 3, 2, 3))
    values = [
        JointLikelihood(JointCorpus(model, data, labels, weight, n), 1.0).value_and_gradient(theta) for n in (1, 2, 3)
    ]
    for value, gradient in values[1:]:
        assert value == values[0][0]
        assert (gradient == values[0][1]).all()


def test_expectations_that_cannot_hold_end_with_bounded_multipliers():
    model, data, labels, _, theta = problem(1, forbid=False)
    none = np.zeros(0, np.int64)
    impossible = CompiledExpectation(
        np.ones((1, model.n_states)), np.zeros(data.n_tokens, np.uint16), (None, None), none, none,
        float(data.n_tokens), -np.inf, 0.5,
    )  # fmt: skip
    tilted = TiltedCorpus(JointCorpus(model, data, labels), [impossible])
    tilted.set_theta(theta)
    answer = Posterior(tilted).minimize()
    assert np.isfinite(answer.value)
    assert_allclose(answer.shares, [1.0])
