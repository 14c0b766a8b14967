"""Stochastic steps are the steps that they claim to be, and a fit that begins with them ends where it must."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles.labeled_chains import random_allowed, random_labels, random_sequences
from rulefield.learning.chain import likelihood as maximum_likelihood
from rulefield.learning.chain.likelihood import ChainLikelihood, fit_likelihood
from rulefield.learning.chain.stochastic import StochasticLikelihood
from rulefield.learning.lbfgs import minimize_lbfgs
from rulefield.models.chain import ChainModel

CASES = {
    "plain": {},
    "ones": {"ones": True},
    "forbidden": {"forbid": True},
    "partial": {"partial": 0.5},
    "partial and forbidden": {"partial": 0.5, "forbid": True},
    "no start and end": {"start_end": False},
    "all weights": {"all_states": True, "all_transitions": True},
    "extreme": {"scale": 300.0},
    "very extreme": {"scale": 1e4},
}


def problem(seed=0, n=30, n_labels=5, forbid=False, partial=0.0, ones=False, scale=1.0, l2=0.5, **options):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 7, size=n)
    allowed = random_allowed(rng, n_labels) if forbid else None
    sequences = random_sequences(rng, lengths, ones=ones)
    labels = random_labels(rng, lengths, n_labels, allowed, partial)
    model = ChainModel.build(sequences, labels, allowed=allowed, **options)
    weight = rng.uniform(0.5, 2.0, size=n)
    likelihood = ChainLikelihood(model, sequences, labels, l2=l2, sample_weight=weight)
    return model, sequences, labels, likelihood, scale * rng.normal(size=model.size)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_steps_are_gradient_steps(case):
    model, sequences, labels, likelihood, theta = problem(1, **case)
    walk = StochasticLikelihood(likelihood, start=theta)
    order = np.flatnonzero(sequences.lengths > 0)[:4].astype(np.uint64)
    rate, decay = 0.05, 0.5 / (sequences.lengths > 0).sum()
    loss = 0.0
    for t, i in enumerate(order):
        value, gradient = likelihood.of_sequence(theta, int(i))
        length = rate / (1 + rate * decay * t)
        theta = (1 - length * decay) * theta - length * gradient
        loss += value
    assert_allclose(walk._visit(order, rate), loss, rtol=1e-9)
    assert_allclose(walk.theta, theta, rtol=1e-9, atol=1e-9)


def test_losses_of_sequences_add_up_to_the_likelihood():
    model, sequences, _, likelihood, theta = problem(2, partial=0.3)
    parts = [likelihood.of_sequence(theta, i) for i in range(len(sequences))]
    value, gradient = likelihood.value_and_gradient(theta)
    assert_allclose(sum(v for v, _ in parts) + 0.25 * theta @ theta, value)
    assert_allclose(sum(g for _, g in parts) + 0.5 * theta, gradient, atol=1e-10)


def test_epochs_come_near_the_optimum():
    model, sequences, labels, likelihood, _ = problem(3, n=200)
    best = minimize_lbfgs(likelihood, model.zeros(), tol=1e-10).objective
    walk = StochasticLikelihood(likelihood)
    for _ in range(30):
        walk.epoch()
    assert likelihood.value(walk.theta) < 1.01 * best


def test_a_seed_fixes_the_result():
    def run(seed):
        model, sequences, labels, likelihood, _ = problem(4)
        walk = StochasticLikelihood(likelihood, seed=seed)
        walk.epoch()
        return walk.theta

    assert_array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))


def test_weights_that_no_token_touches_only_shrink():
    model, sequences, labels, _, theta = problem(5, all_states=True)
    matrix = sequences.matrix.copy()
    matrix.data[matrix.indices == 0] = 0.0
    matrix.eliminate_zeros()
    bare = type(sequences)(matrix, sequences.lengths)
    walk = StochasticLikelihood(ChainLikelihood(model, bare, labels, l2=0.5), start=theta)
    first = slice(0, int(model.pairs.ptr[1]))
    walk.epoch()
    shrunk = walk.theta[first] / theta[first]
    assert_allclose(shrunk, shrunk[0])
    assert 0 < shrunk[0] < 1


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_a_stochastic_beginning_does_not_change_the_end(l1, monkeypatch):
    _, _, _, likelihood, _ = problem(7, n=100)
    plain = fit_likelihood(likelihood, l1=l1, tol=1e-12)
    monkeypatch.setattr(maximum_likelihood, "LEAST_SCORES", 0)
    warm = fit_likelihood(likelihood, l1=l1, tol=1e-12)
    assert_allclose(warm.objective, plain.objective, rtol=1e-7)
    if l1 == 0.0:
        assert warm.log[0].objective < plain.log[0].objective


def test_interruption_of_the_beginning_keeps_the_weights(monkeypatch):
    _, _, _, likelihood, _ = problem(8)
    epochs = []

    def epoch(self, original=StochasticLikelihood.epoch):
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(original(self))
        return epochs[-1]

    monkeypatch.setattr(maximum_likelihood, "LEAST_SCORES", 0)
    monkeypatch.setattr(StochasticLikelihood, "epoch", epoch)
    result = fit_likelihood(likelihood)
    assert result.interrupted
    assert result.objective == likelihood.value(result.theta)
    assert result.theta.any()
