"""The likelihood of segmentations: its value by enumeration, its gradient by finite differences."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from oracles.segmentations import enumerate_segmentations
from rulefield.data.sequences import Sequences
from rulefield.exceptions import InputError
from rulefield.learning.segments import SegmentLikelihood
from rulefield.models.segments import Segmentation, SegmentModel, SpanMatches

N_LABELS = 3


def problem(seed=0, sparse=True, all_states=False, boundary=True):
    """A few short random sequences with gold segments, span matches and a model of them."""
    rng = np.random.default_rng(seed)
    lengths = np.array([4, 1, 5, 0, 3])
    matrix = rng.normal(size=(lengths.sum(), 6)) * (rng.random((lengths.sum(), 6)) < 0.6)
    data = Sequences(sp.csr_array(matrix) if sparse else matrix, lengths)
    opens = (rng.random(len(matrix)) < 0.6).astype(np.uint8)
    opens[data.offsets[:-1][lengths > 0]] = 1
    labels = np.zeros(len(matrix), np.int64)
    previous = -1
    for t, opened in enumerate(opens):
        if opened:
            previous = rng.choice([k for k in range(N_LABELS) if k != previous])
        labels[t] = previous
    gold = Segmentation(opens, labels)
    longest = np.full(N_LABELS, 3)
    np.maximum.at(longest, labels[gold.starts], gold.lengths)
    matches = SpanMatches(np.array([1, 1, 3, 7]), np.array([1, 2, 2, 2]), np.array([0, 1, 1, 0]))
    model = SegmentModel.build(
        data,
        gold,
        N_LABELS,
        longest=longest,
        allowed=~np.eye(N_LABELS, dtype=bool),
        n_span_features=2,
        boundary_features=boundary,
        all_states=all_states,
    )
    return model, data, gold, matches


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("all_states", [True, False])
def test_value_by_enumeration_and_gradient_by_differences(sparse, all_states):
    model, data, gold, matches = problem(1, sparse, all_states)
    theta = np.random.default_rng(2).normal(size=model.size)
    weight = np.array([1.0, 0.5, 2.0, 1.0, 0.0])
    likelihood = SegmentLikelihood(model, data, gold, matches, l2=0.3, sample_weight=weight)
    value, gradient = likelihood.value_and_gradient(theta)
    expected = 0.15 * theta @ theta
    for i, p in enumerate(model.potentials(theta, data, matches)):
        total = np.logaddexp.reduce([score for *_, score in enumerate_segmentations(p)])
        tokens = slice(data.offsets[i], data.offsets[i + 1])
        mine = Segmentation(gold.opens[tokens], gold.labels[tokens])
        expected += weight[i] * (total - p.score(mine.lengths, mine.labels[mine.starts]))
    assert_allclose(value, expected, rtol=1e-10)
    step = 1e-5
    for k in range(model.size):
        direction = np.zeros(model.size)
        direction[k] = step
        slope = (likelihood.value(theta + direction) - likelihood.value(theta - direction)) / (2 * step)
        assert_allclose(gradient[k], slope, atol=1e-6)


def test_threads_do_not_change_the_result(monkeypatch):
    model, data, gold, matches = problem(3)
    monkeypatch.setattr("rulefield.parallel.LEAST_SCORES", 30)
    theta = np.random.default_rng(0).normal(size=model.size)
    one, two = (SegmentLikelihood(model, data, gold, matches, n_jobs=n).value_and_gradient(theta) for n in (1, 2))
    assert one[0] == two[0]
    assert np.array_equal(one[1], two[1])


def test_without_boundary_features_only_tokens_have_weights():
    model, *_ = problem(boundary=False)
    assert model.first_pairs.n_pairs == model.last_pairs.n_pairs == 0
    assert model.token_pairs.n_pairs > 0


def test_a_segment_longer_than_allowed_is_refused():
    model, data, gold, _ = problem()
    short = SegmentModel.build(data, gold, N_LABELS, longest=np.ones(N_LABELS, int), allowed=model.allowed)
    with pytest.raises(InputError, match="raise max_length"):
        SegmentLikelihood(short, data, gold)
