"""The likelihood agrees with enumeration, its gradient with differences, and threads change nothing."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime

from oracles.chain_likelihood import objective_by_enumeration
from oracles.labeled_chains import random_allowed, random_labels, random_sequences
from rulefield.data.sequences import Labels, Sequences
from rulefield.exceptions import InputError, LabelError
from rulefield.learning.chain.likelihood import ChainLikelihood
from rulefield.models.chain import ChainModel

LENGTHS = [3, 1, 0, 4, 2]
MODELS = {
    "plain": {},
    "all weights": {"all_states": True, "all_transitions": True},
    "no start and end": {"start_end": False},
}
DATA = {
    "sparse": {},
    "dense": {"dense": True},
    "ones": {"ones": True},
    "forbidden": {"forbid": True},
    "partial": {"partial": 0.6},
    "partial and forbidden": {"partial": 0.6, "forbid": True},
    "weighted": {"weighted": True},
    "weighted partial": {"weighted": True, "partial": 0.4},
}


def problem(seed=0, n_labels=3, forbid=False, partial=0.0, weighted=False, dense=False, ones=False, **options):
    rng = np.random.default_rng(seed)
    allowed = random_allowed(rng, n_labels) if forbid else None
    sequences = random_sequences(rng, LENGTHS, dense=dense, ones=ones)
    labels = random_labels(rng, LENGTHS, n_labels, allowed, partial)
    weight = rng.random(len(LENGTHS)) * 3 if weighted else None
    model = ChainModel.build(sequences, labels, allowed=allowed, **options)
    return model, sequences, labels, weight, rng.normal(size=model.size)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_value_by_enumeration_and_gradient_by_differences(options, data):
    model, sequences, labels, weight, theta = problem(1, **data, **options)
    objective = ChainLikelihood(model, sequences, labels, l2=0.7, sample_weight=weight)
    value, gradient = objective.value_and_gradient(theta)
    assert_allclose(value, objective_by_enumeration(model, theta, sequences, labels, weight, 0.7), rtol=1e-10)
    slopes = approx_fprime(theta, objective.value, 1e-7)
    assert_allclose(gradient, slopes, atol=1e-5)
    direction = np.random.default_rng(0).normal(size=model.size)
    step = 1e-4
    ends = [objective.value(theta + s * step * direction) for s in (-2, -1, 1, 2)]
    slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
    assert_allclose(gradient @ direction, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_labels", [2, 8, 9, 17])
def test_any_number_of_labels(n_labels):
    rng = np.random.default_rng(n_labels)
    sequences = random_sequences(rng, [2, 1, 2])
    labels = random_labels(rng, [2, 1, 2], n_labels)
    model = ChainModel.build(sequences, labels, all_states=True)
    theta = rng.normal(size=model.size)
    value = ChainLikelihood(model, sequences, labels).value(theta)
    assert_allclose(value, objective_by_enumeration(model, theta, sequences, labels), rtol=1e-10)


def many_labels(seed, n_labels=60, forbid=0.0, scale=1.0):
    """Long enough chains of many labels, few transitions seen: the kernel's sparse form of the transitions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, size=20)
    sequences = random_sequences(rng, lengths, n_features=40, density=0.1)
    labels = random_labels(rng, lengths, n_labels)
    allowed = None
    if forbid:
        steps = rng.random((n_labels, n_labels)) > forbid
        inner = np.delete(np.arange(len(labels.ids)), labels.offsets[:-1])
        steps[labels.ids[inner - 1], labels.ids[inner]] = True
        allowed = (steps, np.ones(n_labels, bool), np.ones(n_labels, bool))
    model = ChainModel.build(sequences, labels, allowed=allowed)
    return model, sequences, labels, scale * rng.normal(size=model.size)


def in_log_space(model, sequences, labels, theta):
    objective = ChainLikelihood(model, sequences, labels)
    gradient = -objective._observed
    value = objective._in_log_space(theta, np.arange(len(sequences)), gradient) - theta @ objective._observed
    return value, gradient


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("forbid", [0.0, 0.05, 0.95])
def test_few_seen_transitions_of_many_labels(forbid, scale):
    model, sequences, labels, theta = many_labels(3, forbid=forbid, scale=scale)
    objective = ChainLikelihood(model, sequences, labels)
    assert objective.factors.sparse
    value, gradient = objective.value_and_gradient(theta)
    expected, slopes = in_log_space(model, sequences, labels, theta)
    assert_allclose(value, expected, rtol=1e-10)
    assert_allclose(gradient, slopes, atol=1e-9)


def test_strongly_negative_transitions_lose_no_digits():
    model, sequences, labels, theta = many_labels(4)
    model.layout.transition(theta)[:] = -40.0
    value, gradient = ChainLikelihood(model, sequences, labels).value_and_gradient(theta)
    expected, slopes = in_log_space(model, sequences, labels, theta)
    assert_allclose(value, expected, rtol=1e-10)
    assert_allclose(gradient, slopes, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0, 1e4])
@pytest.mark.parametrize("forbid", [False, True])
def test_extreme_weights(scale, forbid):
    model, sequences, labels, _, theta = problem(5, forbid=forbid)
    theta *= scale
    value, gradient = ChainLikelihood(model, sequences, labels).value_and_gradient(theta)
    assert_allclose(value, objective_by_enumeration(model, theta, sequences, labels), rtol=1e-10, atol=1e-9)
    expected, slopes = in_log_space(model, sequences, labels, theta)
    assert_allclose(value, expected, rtol=1e-10, atol=1e-9)
    assert_allclose(gradient, slopes, atol=1e-8)


def test_a_path_that_fades_and_returns():
    """Label 1 loses 60 per token for a while, then wins 60 per token; nothing else may enter it: it must not be lost."""
    n = 31
    rows = np.zeros((n, 2))
    rows[1:13, 0] = 1.0
    rows[13:, 1] = 1.0
    steps = np.array([[True, False], [False, True]])
    allowed = (steps, np.ones(2, bool), np.ones(2, bool))
    sequences, labels = Sequences(rows, [n]), Labels(np.ones(n), [n], 2)
    model = ChainModel.build(sequences, labels, allowed=allowed, start_end=False)
    theta = model.zeros()
    model.layout.state(theta)[:] = [-60.0, 60.0]
    value, gradient = ChainLikelihood(model, sequences, labels).value_and_gradient(theta)
    expected, slopes = in_log_space(model, sequences, labels, theta)
    assert_allclose(value, expected, atol=1e-9)
    assert_allclose(gradient, slopes, atol=1e-9)


def test_a_long_sequence():
    rng = np.random.default_rng(6)
    lengths = [10_000]
    sequences = random_sequences(rng, lengths)
    labels = random_labels(rng, lengths, 4)
    model = ChainModel.build(sequences, labels)
    theta = rng.normal(size=model.size)
    value, gradient = ChainLikelihood(model, sequences, labels).value_and_gradient(theta)
    expected, slopes = in_log_space(model, sequences, labels, theta)
    assert_allclose(value, expected, rtol=1e-10)
    assert_allclose(gradient, slopes, atol=1e-7)


@pytest.mark.parametrize("partial", [0.0, 0.3])
def test_threads_change_no_bit(partial):
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 40, size=1500)
    sequences = random_sequences(rng, lengths, n_features=300, density=0.02)
    labels = random_labels(rng, lengths, 5, partial=partial)
    model = ChainModel.build(sequences, labels)
    theta = rng.normal(size=model.size)
    first, *others = (
        ChainLikelihood(model, sequences, labels, n_jobs=n_jobs).value_and_gradient(theta) for n_jobs in (1, 2, 3)
    )
    for value, gradient in others:
        assert value == first[0]
        assert_array_equal(gradient, first[1])


class Elsewhere:
    """An executor that works in another order and only sees what travels: answers are copies, arguments read-only."""

    def stream(self, function, items, *shared):
        items = list(items)
        found = {k: pickle.dumps(function(item, *shared)) for k, item in reversed(list(enumerate(items)))}
        return (pickle.loads(found[k]) for k in range(len(items)))


@pytest.mark.parametrize("partial", [0.0, 0.2])
def test_parts_are_pure_so_they_may_be_evaluated_elsewhere(partial, monkeypatch):
    monkeypatch.setattr("rulefield.parallel.LEAST_SCORES", 8)
    rng = np.random.default_rng(1)
    sequences, labels = random_sequences(rng, LENGTHS, 40, 0.2), random_labels(rng, LENGTHS, 3, partial=partial)
    model = ChainModel.build(sequences, labels)
    theta = rng.normal(size=model.size)
    likelihood = ChainLikelihood(model, sequences, labels, l2=0.3)
    assert len(likelihood._bounds) > 3
    assert 0 < likelihood.packing.n_shared < likelihood.packing.own_from[1] < likelihood.packing.own_from[2]
    value, gradient = likelihood.value_and_gradient(theta)
    whole = ChainLikelihood(model, sequences, labels, l2=0.3, bounds=np.array([0, len(sequences)], np.uint64))
    for several, one in zip((value, gradient), whole.value_and_gradient(theta)):
        assert_allclose(several, one, rtol=1e-12, atol=1e-12)
    likelihood.threads = Elsewhere()
    for _ in range(2):
        again = likelihood.value_and_gradient(theta)
        assert again[0] == value
        assert_array_equal(again[1], gradient)


def test_data_twice_is_weight_two():
    model, sequences, labels, _, theta = problem(8)
    twice = [*range(len(LENGTHS))] * 2
    once = ChainLikelihood(model, sequences, labels, sample_weight=np.full(len(LENGTHS), 2.0))
    double = ChainLikelihood(model, sequences[twice], labels[twice])
    for a, b in zip(once.value_and_gradient(theta), double.value_and_gradient(theta)):
        assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_labels_that_the_scheme_forbids_are_refused():
    sequences = Sequences(np.ones((2, 1)), [2])
    allowed = (np.eye(2, dtype=bool), np.ones(2, bool), np.ones(2, bool))
    known = Labels(np.array([0, 1]), [2], 2)
    model = ChainModel.build(sequences, known, allowed=allowed)
    with pytest.raises(LabelError, match="sequence 0 break the label scheme"):
        ChainLikelihood(model, sequences, known)
    both = Sequences(np.ones((4, 1)), [2, 2])
    partial = Labels(np.array([0, -1, 0, 1]), [2, 2], 2, np.array([[1, 0], [1, 1], [1, 0], [0, 1]], np.uint8))
    with pytest.raises(LabelError, match="sequence 1 allow no labeling"):
        ChainLikelihood(model, both, partial).value(model.zeros())


def test_labels_of_other_lengths_are_refused():
    model, sequences, labels, _, _ = problem(9)
    with pytest.raises(InputError, match="same lengths"):
        ChainLikelihood(model, sequences, labels[:3])


@pytest.mark.parametrize("n_labels", [2, 3, 12])
@pytest.mark.parametrize("ones", [True, False])
def test_packed_features_can_be_unpacked(n_labels, ones):
    """A likelihood keeps no matrix: a sequence comes back from what was packed, but for features without weights."""
    rng = np.random.default_rng(n_labels)
    lengths = [3, 0, 1, 40, 7]
    sequences = random_sequences(rng, lengths, n_features=30, ones=ones)
    labels = random_labels(rng, lengths, n_labels)
    model = ChainModel.build(sequences, labels, min_count={2: 13, 3: 10, 12: 6}[n_labels])
    weighted = np.diff(model.pairs.ptr.astype(int)) > 0
    assert 0 < weighted.sum() < len(weighted)
    bounds = np.array([0, 2, 3, 5], np.uint64)
    likelihood = ChainLikelihood(model, sequences, labels, bounds=bounds)
    for i in range(len(lengths)):
        expected = sequences[i].matrix.toarray() * weighted
        assert_array_equal(likelihood.sequence(i).matrix.toarray(), expected)
