"""L-BFGS and OWL-QN reach the optimum, keep what they have when interrupted, and do not depend on threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from oracles.labeled_chains import random_labels, random_sequences
from rulefield.exceptions import InputError
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.learning.fit_log import Ending
from rulefield.learning.lbfgs import SHORT_FROM, History, Point, minimize_lbfgs, minimize_owlqn, pseudo_gradient
from rulefield.models.chain import ChainModel
from rulefield.parallel import Threads, n_threads, shard_bounds

EXACT = {"tol": 0.0, "gtol": 1e-9, "max_iter": 2000}


class Quadratic:
    def __init__(self, n=40, seed=0):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(n, n))
        self.matrix, self.vector = root @ root.T / n + 0.1 * np.eye(n), rng.normal(size=n)

    def value_and_gradient(self, theta):
        slope = self.matrix @ theta
        return float(0.5 * theta @ slope - self.vector @ theta), slope - self.vector


def chains(l2=0.5, seed=0, n_jobs=1, partial=0.0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=60)
    sequences = random_sequences(rng, lengths, n_features=12)
    labels = random_labels(rng, lengths, 4, partial=partial)
    model = ChainModel.build(sequences, labels)
    return ChainLikelihood(model, sequences, labels, l2=l2, n_jobs=n_jobs), model


def test_lbfgs_solves_linear_equations():
    problem = Quadratic()
    result = minimize_lbfgs(problem, np.zeros(40), **EXACT)
    assert result.converged
    # Rounding hides changes of the objective below 1e-14, that is of theta below sqrt(2 x 1e-14 / 0.1) = 4e-7.
    assert_allclose(result.theta, np.linalg.solve(problem.matrix, problem.vector), atol=1e-6)


@pytest.mark.parametrize(("n", "rounding"), [(70_001, 1e-9), (SHORT_FROM + 3, 3e-6)])
def test_direction_is_the_two_loop_recursion(n, rounding):
    rng = np.random.default_rng(1)
    memory = 3
    history, pairs = History(memory, n, Threads(2)), []
    for _ in range(5):
        s = rng.normal(size=n)
        y = s * rng.uniform(0.5, 2, size=n)
        history.add(Point(np.zeros(n), 0.0, np.zeros(n)), Point(s, 0.0, y))
        g = rng.normal(size=n)
        pairs = [*pairs, (s, y)][-memory:]
        q, alphas = g.copy(), []
        for a, b in reversed(pairs):
            alphas.append((a @ q) / (a @ b))
            q -= alphas[-1] * b
        q *= (pairs[-1][0] @ pairs[-1][1]) / (pairs[-1][1] @ pairs[-1][1])
        for (a, b), alpha in zip(pairs, reversed(alphas)):
            q += (alpha - (b @ q) / (a @ b)) * a
        assert_allclose(history.direction(g), -q, atol=rounding)


@pytest.mark.parametrize("partial", [0.0, 0.3])
def test_lbfgs_finds_the_optimum_that_scipy_finds(partial):
    objective, model = chains(partial=partial)
    result = minimize_lbfgs(objective, model.zeros(), **EXACT)
    peer = minimize(
        objective.value_and_gradient,
        model.zeros(),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-8},
    )
    assert_allclose(result.objective, peer.fun, rtol=1e-9)
    assert np.linalg.norm(objective.value_and_gradient(result.theta)[1]) < 1e-5


@pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (2.0, 0.0), (1.0, 0.7), (1e3, 0.0)])
def test_owlqn_satisfies_the_optimality_conditions(l1, l2):
    objective, model = chains(l2=l2)
    result = minimize_owlqn(objective, model.zeros(), l1, **EXACT)
    gradient = objective.value_and_gradient(result.theta)[1]
    zero = result.theta == 0.0
    assert (np.abs(gradient[zero]) <= l1 * (1 + 1e-6)).all()
    assert_allclose(gradient[~zero], -l1 * np.sign(result.theta[~zero]), atol=1e-4)
    assert zero.any()
    assert zero.all() == (l1 == 1e3)


def test_owlqn_of_a_separable_problem_is_soft_thresholding():
    class Separable:
        def value_and_gradient(self, theta):
            return float(0.5 * ((theta - center) ** 2).sum()), theta - center

    center = np.random.default_rng(0).normal(size=200)
    result = minimize_owlqn(Separable(), np.ones(200), 0.4, **EXACT)
    assert_allclose(result.theta, np.sign(center) * np.maximum(np.abs(center) - 0.4, 0), atol=1e-8)


def test_owlqn_without_penalty_is_plain_minimization():
    objective, model = chains()
    a = minimize_owlqn(objective, model.zeros(), 0.0, **EXACT)
    b = minimize_lbfgs(objective, model.zeros(), **EXACT)
    assert_allclose(a.objective, b.objective, rtol=1e-9)


def test_pseudo_gradient_has_the_least_norm():
    rng = np.random.default_rng(0)
    theta, gradient = np.array([0.0, 0.0, 0.0, 1.0, -1.0]), np.array([2.0, -2.0, 0.3, 0.5, 0.5])
    least = pseudo_gradient(theta, gradient, 1.0)
    assert_allclose(least, [1.0, -1.0, 0.0, 1.5, -0.5])
    for _ in range(100):
        sign = np.where(theta == 0, rng.uniform(-1, 1, 5), np.sign(theta))
        assert np.linalg.norm(least) <= np.linalg.norm(gradient + sign) + 1e-12


def test_objective_never_rises_and_the_log_is_complete():
    objective, model = chains()
    result = minimize_lbfgs(objective, model.zeros(), max_iter=15, tol=0.0)
    values = [record.objective for record in result.log]
    assert [record.iteration for record in result.log] == list(range(1, 16))
    assert (np.diff(values) <= 0).all()
    assert result.ending is Ending.limit
    assert not result.converged
    assert all(record.gradient_norm > 0 and record.seconds >= 0 for record in result.log)
    assert result.log[-1].evaluations >= 16


@pytest.mark.parametrize("minimize", [minimize_lbfgs, lambda f, x, **k: minimize_owlqn(f, x, 0.5, **k)])
def test_the_callback_can_stop(minimize):
    objective, model = chains()
    result = minimize(objective, model.zeros(), callback=lambda record, theta: record.iteration == 4)
    assert result.ending is Ending.stopped
    assert result.n_iter == 4


@pytest.mark.parametrize("minimize", [minimize_lbfgs, lambda f, x, **k: minimize_owlqn(f, x, 0.5, **k)])
def test_interruption_keeps_the_best_weights(minimize):
    objective, model = chains()
    seen = []

    def interrupt(record, theta):
        seen.append((record.objective, theta.copy()))
        if len(seen) == 5:
            raise KeyboardInterrupt

    result = minimize(objective, model.zeros(), callback=interrupt)
    assert result.interrupted
    assert_array_equal(result.theta, seen[-1][1])
    assert result.objective == seen[-1][0]


def test_a_warm_start_at_the_optimum_ends_at_once():
    objective, model = chains()
    best = minimize_lbfgs(objective, model.zeros(), **EXACT)
    again = minimize_lbfgs(objective, best.theta, gtol=1e-5)
    assert again.converged
    assert again.n_iter <= 2


def test_threads_change_no_bit():
    results = [
        minimize_lbfgs(chains(n_jobs=n)[0], chains()[1].zeros(), max_iter=20, n_jobs=n).theta for n in (1, 2, 3)
    ]
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


def test_an_infinite_beginning_is_refused():
    class Nowhere:
        def value_and_gradient(self, theta):
            return np.inf, np.zeros_like(theta)

    with pytest.raises(InputError, match="objective is inf"):
        minimize_lbfgs(Nowhere(), np.zeros(2))
    with pytest.raises(InputError, match="objective is inf"):
        minimize_owlqn(Nowhere(), np.zeros(2), 1.0)


def test_shards_cover_the_data_once_and_are_balanced():
    lengths = np.random.default_rng(0).integers(0, 50, size=4000)
    bounds = shard_bounds(lengths, 40)
    assert bounds[0] == 0
    assert bounds[-1] == len(lengths)
    sizes = [lengths[int(a) : int(b)].sum() for a, b in zip(bounds[:-1], bounds[1:])]
    assert len(sizes) > 1
    assert max(sizes) - min(sizes) <= 100
    assert_array_equal(shard_bounds(np.array([3]), 2), [0, 1])


def test_number_of_threads():
    assert n_threads(None) == n_threads(1) == 1
    assert n_threads(3) == 3
    assert n_threads(-1) >= 1
