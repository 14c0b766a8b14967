"""Chain inference against enumeration, and against itself said another way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from oracles.chains import chain_problems, lay_end_to_end, random_chain, reversed_chain
from oracles.labelings import (
    enumerate_kbest,
    enumerate_map,
    enumerate_marginals,
    labelings,
    viterbi,
)
from rulefield.exceptions import InputError
from rulefield.inference.result import Status
from rulefield.inference.sequences import exact as chain
from rulefield.inference.sequences.enumerate import judge_every
from rulefield.inference.sequences.sums import Question, chances_of
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

examples = settings(max_examples=150, deadline=None)
few = settings(max_examples=50, deadline=None)


@examples
@given(chain_problems())
def test_viterbi_is_the_best_of_all_labelings(p):
    exact, got = enumerate_map(p), viterbi(p)
    assert got.status is exact.status
    assert_allclose(got.score, exact.score, rtol=1e-12)
    assert got.upper_bound == got.objective == got.score
    if got.status is Status.optimal:
        assert_allclose(p.score(got.labels), got.score, rtol=1e-12)
    else:
        assert got.labels.size == 0


@examples
@given(chain_problems())
def test_marginals_are_sums_over_labelings(p):
    exact = enumerate_marginals(p)
    with_edges, without = chain.forward_backward(p, edges=True), chain.forward_backward(p)
    for got in (with_edges, without):
        assert got.status is exact.status
        assert_allclose(got.log_partition, exact.log_partition, rtol=1e-12, atol=1e-12)
        assert_allclose(got.node, exact.node, atol=1e-9)
    assert_allclose(with_edges.edge, exact.edge, atol=1e-9)
    assert_allclose(chain.log_partition(p), exact.log_partition, rtol=1e-12, atol=1e-12)


@examples
@given(chain_problems(), st.integers(1, 40))
def test_kbest_is_the_head_of_the_sorted_list(p, k):
    exact, got = enumerate_kbest(p, k), chain.kbest(p, k)
    assert_allclose([r.score for r in got], [r.score for r in exact], rtol=1e-12, atol=1e-12)
    assert len({tuple(r.labels) for r in got}) == len(got)
    for r in got:
        assert_allclose(p.score(r.labels), r.score, rtol=1e-12)


@few
@given(chain_problems(), st.randoms(use_true_random=False))
def test_clamping_is_conditioning(p, random):
    allowed = np.array([[random.random() < 0.7 for _ in range(p.n_states)] for _ in range(p.n_steps)])
    allowed = allowed.reshape(p.unary.shape)
    masked = ChainPotentials(np.where(allowed, p.unary, -np.inf), p.pairwise)
    exact = enumerate_marginals(masked)
    got = chain.forward_backward(chain.clamp(p, allowed), edges=True)
    assert_allclose(got.log_partition, exact.log_partition, rtol=1e-12, atol=1e-12)
    assert_allclose(got.node, exact.node, atol=1e-9)
    clamped = chain.clamp(p, allowed)
    assert_allclose(viterbi(clamped).score, enumerate_map(masked).score)
    assert_allclose([r.score for r in chain.kbest(clamped, 3)], [r.score for r in enumerate_kbest(masked, 3)])


def samples(p, n):
    """Draw n labelings of a chain without rules."""
    uniform = np.random.default_rng(0).random(n * p.n_steps)
    return chances_of(ChainProblem(p), Question(uniform=uniform)).drawn.reshape(n, p.n_steps)


@pytest.mark.parametrize("conditioned", [False, True])
def test_samples_have_the_right_frequencies(conditioned):
    p = random_chain(np.random.default_rng(3), 4, 3, 0.2, conditioned)
    n = 40_000
    drawn = samples(p, n)
    paths = labelings(p)
    expected = np.exp([p.score(y) - chain.log_partition(p) for y in paths])
    codes = np.ravel_multi_index(tuple(drawn.T), (3,) * 4)
    counts = np.bincount(codes, minlength=len(paths))
    assert np.all(counts[expected == 0] == 0)
    cells = expected > 1e-3
    chi2 = ((counts - n * expected)[cells] ** 2 / (n * expected[cells])).sum()
    assert chi2 < cells.sum() + 5 * np.sqrt(2 * cells.sum())
    assert np.array_equal(drawn, samples(p, n))


@few
@given(st.integers(1, 3), st.lists(st.integers(0, 2**32 - 1), max_size=5), st.booleans())
def test_batch_equals_loop(m, seeds, conditioned):
    chains = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        chains.append(random_chain(rng, int(rng.integers(0, 6)), m, rng.choice([0, 0.4]), conditioned))
    if not chains:
        chains = [random_chain(np.random.default_rng(0), 0, m)]
    unary, steps, offsets = lay_end_to_end(chains)
    if not conditioned:
        chains = [ChainPotentials(c.unary, chains[0].pairwise) for c in chains]
        steps = chains[0].pairwise
    labels, scores = chain.viterbi_batch(unary, steps, offsets)
    node, totals = chain.marginals_batch(unary, steps, offsets)
    gold = chain.score_batch(unary, steps, offsets, labels)
    for i, c in enumerate(chains):
        alone, here = viterbi(c), slice(offsets[i], offsets[i + 1])
        assert scores[i] == alone.score
        if alone.status is Status.optimal:
            assert np.array_equal(labels[here], alone.labels)
            assert_allclose(gold[i], scores[i])
        marginals = chain.forward_backward(c)
        assert_allclose(totals[i], marginals.log_partition, rtol=1e-13, atol=1e-13)
        assert_allclose(node[here], marginals.node, atol=1e-12)
    part, _ = chain.viterbi_batch(unary, steps, offsets[1:])  # a slice of the offsets: the same answers there
    assert np.array_equal(part[offsets[1] :], labels[offsets[1] :])


@few
@given(chain_problems(scales=(1.0, 50.0)))
def test_reading_from_the_right_changes_nothing(p):
    back = reversed_chain(p)
    assert_allclose(viterbi(back).score, viterbi(p).score, rtol=1e-12)
    a, b = chain.forward_backward(p, edges=True), chain.forward_backward(back, edges=True)
    assert_allclose(a.log_partition, b.log_partition, rtol=1e-12, atol=1e-12)
    assert_allclose(a.node, b.node[::-1], atol=1e-10)
    assert_allclose(a.edge, np.swapaxes(b.edge[::-1], 1, 2), atol=1e-10)


@few
@given(chain_problems(scales=(1.0,)), st.floats(-1e3, 1e3))
def test_a_constant_moves_scores_and_nothing_else(p, c):
    if not p.n_steps:
        return
    moved = ChainPotentials(p.unary + c, p.pairwise)
    assert_allclose(chain.log_partition(moved), chain.log_partition(p) + c * p.n_steps, rtol=1e-9, atol=1e-9)
    assert_allclose(chain.forward_backward(moved).node, chain.forward_backward(p).node, atol=1e-9)


def test_underflowing_sums_are_taken_again():
    # label 0 leads by e^1000, and then is forbidden: every bit of the answer comes from what had underflowed
    unary = np.array([[1000.0, 0.0, 0.5], [0.0, 0.0, 0.0], [-np.inf, 0.0, 0.0]])
    pairwise = np.where(np.eye(3, dtype=bool), 0.0, [[0, -np.inf, -np.inf], [-np.inf, 0, -2000.0], [-np.inf, 0.0, 0]])
    p = ChainPotentials(unary, pairwise)
    exact, got = enumerate_marginals(p), chain.forward_backward(p, edges=True)
    assert_allclose(got.log_partition, exact.log_partition, rtol=1e-14)
    assert_allclose(got.node, exact.node, atol=1e-14)
    assert_allclose(chain.forward_backward(p).node, exact.node, atol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_ten_thousand_tokens(scale):
    p = random_chain(np.random.default_rng(0), 10_000, 5, scale=scale)
    p.pairwise[np.random.default_rng(1).random((5, 5)) < 0.3] = -np.inf
    best = viterbi(p)
    assert_allclose(p.score(best.labels), best.score, rtol=1e-9)
    got = chain.forward_backward(p, edges=True)
    assert_allclose(got.node.sum(axis=1), 1.0, atol=1e-9)
    assert_allclose(got.edge.sum(axis=1), got.node[1:], atol=1e-7)
    assert best.score <= got.log_partition + 1e-9 * abs(best.score)
    second = chain.kbest(p, 2)[1]
    assert second.score <= best.score


def test_all_forbidden_is_infeasible():
    p = ChainPotentials(np.zeros((3, 2)), np.full((2, 2), -np.inf))
    assert viterbi(p).status is Status.infeasible
    assert chain.forward_backward(p).status is Status.infeasible
    assert chain.kbest(p, 4) == []
    assert_allclose(chain.forward_backward(p, edges=True).edge, 0)


def test_ties_go_to_the_lowest_labels():
    p = ChainPotentials(np.zeros((3, 3)), np.zeros((3, 3)))
    assert viterbi(p).labels.tolist() == [0, 0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_plus_infinity_are_refused(bad):
    unary = np.zeros((2, 2))
    unary[1, 1] = bad
    with pytest.raises(InputError, match="unary scores must be numbers or -inf"):
        viterbi(ChainPotentials(unary, np.zeros((2, 2))))


def test_wrong_shapes_are_named():
    p = ChainPotentials(np.zeros((3, 2)), np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"allowed must have the shape of unary, \(3, 2\)"):
        chain.clamp(p, np.ones((2, 3)))
    with pytest.raises(InputError, match="pairwise must have shape"):
        chain.viterbi_batch(np.zeros((3, 2)), np.zeros((3, 3)), np.array([0, 3]))
    with pytest.raises(InputError, match="offsets must not fall"):
        chain.viterbi_batch(np.zeros((3, 2)), np.zeros((2, 2)), np.array([0, 4]))
    with pytest.raises(InputError, match="k must be at least 1"):
        chain.kbest(p, 0)
    with pytest.raises(InputError, match="at most"):
        judge_every(ChainProblem(ChainPotentials(np.zeros((30, 5)), np.zeros((5, 5)))))
