"""The averaged perceptron against one written plainly, and what it promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.chain_data import chain_data
from rulefield.exceptions import InputError, LabelError
from rulefield.inference.sequences.exact import viterbi
from rulefield.learning.chain.perceptron import AveragedPerceptron


def plain_perceptron(model, data, labels, weight, seed, epochs):
    """Decode, step, remember every theta: the definition."""
    theta, history, mistakes = model.zeros(), [], []
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        wrong = 0
        for i in rng.permutation(len(data)):
            gold = labels.ids[data.offsets[i] : data.offsets[i + 1]]
            if len(gold) and weight[i] > 0:
                decoded = viterbi(model.potentials(theta, data, i)).labels
                wrong += (decoded != gold).sum()
                model.add_features(theta, data, i, gold, weight[i])
                model.add_features(theta, data, i, decoded, -weight[i])
            history.append(theta.copy())
        mistakes.append(wrong)
    return theta, np.mean(history, axis=0), mistakes


@pytest.mark.parametrize("case", ["seen", "all", "dense", "scheme", "conditioned", "one label"])
def test_equals_the_plain_algorithm(case):
    model, data, labels = chain_data(case)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], len(data))
    learner = AveragedPerceptron(model, data, labels, sample_weight=weight, seed=5)
    mistakes = [learner.epoch() for _ in range(3)]
    last, mean, expected = plain_perceptron(model, data, labels, weight, 5, 3)
    assert mistakes == expected
    assert_allclose(learner.last_theta, last, atol=1e-9)
    assert_allclose(learner.theta, mean, atol=1e-9)


def test_separable_data_is_learned_without_a_mistake():
    model, data, labels = chain_data("separable")
    learner = AveragedPerceptron(model, data, labels)
    assert [learner.epoch() for _ in range(30)][-1] == 0


def test_the_same_seed_gives_the_same_weights():
    model, data, labels = chain_data("seen")
    thetas = []
    for seed in (3, 3, 4):
        learner = AveragedPerceptron(model, data, labels, seed=seed)
        learner.epoch()
        thetas.append(learner.theta)
    assert np.array_equal(thetas[0], thetas[1])
    assert not np.array_equal(thetas[0], thetas[2])


def test_it_begins_where_it_is_told():
    model, data, labels = chain_data("separable")
    first = AveragedPerceptron(model, data, labels)
    while first.epoch():
        pass
    again = AveragedPerceptron(model, data, labels, start=first.last_theta)
    assert again.epoch() == 0
    assert_allclose(again.theta, first.last_theta)


def test_unknown_labels_and_broken_schemes_are_refused():
    model, data, labels = chain_data("scheme")
    partial = type(labels)(
        np.where(np.arange(len(labels.ids)) == 0, -1, labels.ids),
        labels.lengths,
        labels.n_labels,
        np.ones((len(labels.ids), labels.n_labels), np.uint8),
    )
    with pytest.raises(InputError, match="needs every label"):
        AveragedPerceptron(model, data, partial)
    broken = type(labels)(np.full(len(labels.ids), 2), labels.lengths, labels.n_labels)
    with pytest.raises(LabelError, match="break the label scheme"):
        AveragedPerceptron(model, data, broken)
    with pytest.raises(InputError, match="sample_weight"):
        AveragedPerceptron(model, data, labels, sample_weight=-np.ones(len(data)))
