"""Inference over segmentations against enumeration and against the chain."""

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from oracles.chains import chain_problems
from oracles.labelings import viterbi
from oracles.segment_exact import best_segmentation, segment_marginals
from oracles.segmentations import enumerate_segmentations
from oracles.segments import random_segments, segment_problems
from rulefield.exceptions import InputError
from rulefield.inference.result import Status
from rulefield.inference.sequences import exact as chain
from rulefield.problem.segments import SegmentPotentials, Spans

examples = settings(max_examples=120, deadline=None)


@examples
@given(segment_problems())
def test_best_segmentation_is_the_best_of_all(p):
    best = max((score for *_, score in enumerate_segmentations(p)), default=-np.inf)
    got = best_segmentation(p)
    assert_allclose(got.score, best, rtol=1e-10)
    if got.status is Status.optimal:
        assert got.lengths.sum() == p.n_steps
        assert_allclose(p.score(got.lengths, got.labels), got.score, rtol=1e-10)
    else:
        assert best == -np.inf


@examples
@given(segment_problems())
def test_marginals_are_sums_over_segmentations(p):
    everything = list(enumerate_segmentations(p))
    scores = np.array([score for *_, score in everything])
    total = np.logaddexp.reduce(scores) if len(scores) else -np.inf
    got = segment_marginals(p)
    assert_allclose(got.log_partition, total, rtol=1e-12, atol=1e-12)
    token, first, last = (np.zeros(p.token.shape) for _ in range(3))
    length, pairwise, span = np.zeros(p.length.shape), np.zeros(p.pairwise.shape), np.zeros(p.spans.score.shape)
    for lengths, labels, score in everything if total > -np.inf else []:
        q = np.exp(score - total)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        token[np.arange(p.n_steps), np.repeat(labels, lengths)] += q
        first[starts, labels] += q
        last[ends - 1, labels] += q
        np.add.at(length, (lengths - 1, labels), q)
        np.add.at(pairwise, (labels[:-1], labels[1:]), q)
        for k, (s, d) in enumerate(zip(p.spans.start, p.spans.length)):
            span[k, labels[(starts == s) & (lengths == d)]] += q
    for mine, expected in (
        (got.token, token),
        (got.first, first),
        (got.last, last),
        (got.length, length),
        (got.pairwise, pairwise),
        (got.span, span),
    ):
        assert_allclose(mine, expected, atol=1e-8)


@examples
@given(chain_problems(scales=(1.0, 50.0)))
def test_segments_of_one_token_are_a_chain(p):
    pairwise = p.pairwise if p.pairwise.ndim == 2 else np.zeros((p.n_states, p.n_states))
    c = type(p)(p.unary, pairwise)
    nothing = np.zeros_like(p.unary)
    s = SegmentPotentials(p.unary, nothing, nothing, np.zeros((1, p.n_states)), pairwise, Spans.none(p.n_states))
    assert_allclose(best_segmentation(s).score, viterbi(c).score, rtol=1e-12)
    expected, got = chain.forward_backward(c, edges=True), segment_marginals(s)
    assert_allclose(got.log_partition, expected.log_partition, rtol=1e-12, atol=1e-12)
    assert_allclose(got.token, expected.node, atol=1e-10)
    assert_allclose(got.pairwise, expected.edge.sum(axis=0), atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_ten_thousand_tokens(scale):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) * scale for shape in [(10_000, 3)] * 3 + [(8, 3), (3, 3)]]
    p = SegmentPotentials(*arrays, Spans.none(3))
    got = segment_marginals(p)
    assert_allclose(got.token.sum(axis=1), 1.0, atol=1e-9)
    assert_allclose(got.first.sum(), got.last.sum(), rtol=1e-9)
    best = best_segmentation(p)
    assert best.score <= got.log_partition + 1e-9 * abs(best.score)
    assert_allclose(p.score(best.lengths, best.labels), best.score, rtol=1e-9)


def test_all_forbidden_is_infeasible():
    p = random_segments(np.random.default_rng(0), 4, 2, 2, forbidden=1.0)
    assert best_segmentation(p).status is Status.infeasible
    got = segment_marginals(p)
    assert got.log_partition == -np.inf
    assert got.token.sum() == 0


def test_bad_potentials_are_named():
    z = np.zeros((3, 2))
    with pytest.raises(InputError, match=r"length must have shape"):
        SegmentPotentials(z, z, z, np.zeros((2, 3)), np.zeros((2, 2)), Spans.none(2))
    bad = SegmentPotentials(z + np.nan, z, z, np.zeros((2, 2)), np.zeros((2, 2)), Spans.none(2))
    with pytest.raises(InputError, match="token scores must be numbers"):
        best_segmentation(bad)
    spans = Spans(np.array([2, 0]), np.array([1, 1]), np.zeros((2, 2)))
    with pytest.raises(InputError, match="sorted by their end"):
        best_segmentation(SegmentPotentials(z, z, z, np.zeros((2, 2)), np.zeros((2, 2)), spans))
    big = SegmentPotentials(*[np.zeros((30, 2))] * 3, np.zeros((2, 2)), np.zeros((2, 2)), Spans.none(2))
    with pytest.raises(InputError, match="more than"):
        list(enumerate_segmentations(big))
