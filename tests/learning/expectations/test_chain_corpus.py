"""One chain under expectations, against enumeration: the nearest distribution q, its dual, the fit; presumed labels."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from oracles.joint import problem
from rulefield.data.sequences import Labels
from rulefield.estimators.chain.expectations import presumed
from rulefield.learning.expectations.corpus import ChainCorpus, JointCorpus, TiltedCorpus
from rulefield.learning.expectations.regularized import Posterior, RegularizedObjective, minimize_regularized
from rulefield.models.joint import JointModel
from rulefield.problem.expectation import CompiledExpectation

M = 3


def chain_problem(seed, **how):
    """Return a chain model of three labels, data, partly known labels, weights and theta."""
    model, data, labels, weight, theta = problem(seed, (M,), lengths=(4, 3, 2), moves=False, features=False, **how)
    return model.tasks[0], data, labels[0], weight, theta


def statements(data, low, high):
    """Two statements: a share of tokens of a class with label 1, and a share of steps from 0 to 2."""
    none, n = np.zeros(0, np.int64), data.n_tokens
    node = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    steps = float((data.lengths - 1).sum())
    return [
        CompiledExpectation(node, (np.arange(n) % 3 > 0).astype(np.uint16), (None,), none, none, float(n), low, high),
        CompiledExpectation(
            np.zeros((1, M)), np.zeros(n, np.uint16), (None,), np.array([0]), np.array([2]), steps, low, np.inf
        ),
    ]


def amounts(wanted, data, i, path):
    """Value of every statement on one labeling of sequence i."""
    first = int(data.offsets[i])
    tokens = sum(wanted[0].node[wanted[0].token_class[first + t], y] for t, y in enumerate(path))
    return np.array([tokens, sum((a, b) == (0, 2) for a, b in zip(path[:-1], path[1:]))])


def enumerated(model, theta, data, labels, i):
    """All labelings of sequence i that its annotation allows, and their scores."""
    masks = labels[i].allowed
    paths = [
        path
        for path in product(range(M), repeat=int(data.lengths[i]))
        if (masks is None and path == tuple(labels[i].ids))
        or (masks is not None and masks[range(len(path)), path].all())
    ]
    potentials = model.potentials(theta, data, i)
    return paths, np.array([potentials.score(np.array(path)) for path in paths])


@pytest.mark.parametrize("seed", range(3))
def test_free_and_clamped_sums_are_those_of_the_joint_corpus(seed):
    model, data, labels, weight, theta = chain_problem(seed)
    fast = ChainCorpus(model, data, labels, weight)
    plain = JointCorpus(JointModel.of((model,)), data, (labels,), weight)
    for clamp in (False, True):
        for a, b in zip(fast.sums(theta, clamp), plain.sums(theta, clamp)):
            assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_dual_q_and_its_features_by_enumeration(seed):
    model, data, labels, weight, theta = chain_problem(seed)
    wanted = statements(data, 0.2, 0.3)
    tilted = TiltedCorpus(ChainCorpus(model, data, labels, weight), wanted)
    tilted.set_theta(theta)
    posterior = Posterior(tilted)
    nu = np.abs(np.random.default_rng(seed).normal(size=posterior.n_sides)) * 4
    value, gradient, found = posterior.smooth(nu)
    expected, shares, features = float(posterior.bound @ nu), np.zeros(2), model.zeros()
    for i, w in enumerate(weight):
        paths, scores = enumerated(model, theta, data, labels, i)
        phi = np.array([amounts(wanted, data, i, path) for path in paths])
        scores = scores - phi @ posterior.tau(nu)
        q = np.exp(scores - logsumexp(scores))
        expected += w * logsumexp(scores)
        shares += w * q @ phi
        for path, p in zip(paths, q):
            if p > 0:
                model.add_features(features, data, i, np.array(path), w * p)
    assert_allclose(value, expected)
    assert_allclose(found, shares / [e.total for e in wanted])
    assert_allclose(tilted.counts(posterior.tau(nu)), features, atol=1e-10)
    assert_allclose(gradient, approx_fprime(nu, lambda x: posterior.smooth(x)[0], 1e-6), atol=1e-6)


def test_q_is_the_nearest_distribution_that_meets_the_expectations():
    """KL(q || p) is the least among tilted distributions, and q meets what p does not."""
    model, data, _, _, theta = chain_problem(0, forbid=False)
    unknown = Labels(np.full(data.n_tokens, -1), data.lengths, M, np.ones((data.n_tokens, M), np.uint8))
    tilted = TiltedCorpus(ChainCorpus(model, data, unknown), statements(data, 0.3, 0.3))
    tilted.set_theta(theta)
    posterior = Posterior(tilted)
    _, before = tilted.evaluate(np.zeros(2))
    best = posterior.minimize()
    assert not 0.3 <= before[0] <= 0.3
    assert_allclose(best.shares[0], 0.3, atol=1e-6)
    assert best.shares[1] >= 0.3 - 1e-6
    rng = np.random.default_rng(0)
    others = [posterior.smooth(np.maximum(0, best.nu + rng.normal(size=len(best.nu))))[0] for _ in range(20)]
    assert best.value <= min(others) + 1e-9


def test_the_fit_never_rises_and_ends_where_the_gradient_is_zero():
    model, data, labels, weight, theta = chain_problem(2, forbid=False)
    objective = RegularizedObjective(ChainCorpus(model, data, labels, weight), statements(data, 0.25, 0.35), l2=0.5)
    done = minimize_regularized(objective, 0.1 * theta, max_iter=300, tol=1e-12)
    values = np.array([record.objective for record in done.log])
    assert (np.diff(values) < 1e-7 * np.abs(values[1:])).all()
    assert np.abs(objective.value_and_gradient(done.theta)[1]).max() < 1e-3


def test_presumed_labels_fill_what_is_unknown_where_the_scheme_permits():
    allowed = np.ones((M, M), bool)
    allowed[0, 2] = False  # O I is impossible
    start = np.array([True, True, False])
    rows = [[1, 1, 1], [0, 0, 1], [1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]]
    masks = np.array(rows, np.uint8)
    labels = Labels(np.where(masks.sum(1) == 1, masks.argmax(1), -1), np.array([2, 4]), M, masks)
    ends = (allowed, start, np.ones(M, bool))
    guess = presumed(labels, 0, ends)
    assert (guess[0].allowed == masks[:2]).all(), "0 before 2 is impossible: left unknown"
    assert guess[1].allowed.tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]], "sets stay sets"
    assert presumed(labels[1], 0, ends).ids.tolist() == [0, -1, 0, 1]
    whole = Labels(np.array([0, 1]), np.array([2]), M)
    assert presumed(whole, 0, ends) is whole
