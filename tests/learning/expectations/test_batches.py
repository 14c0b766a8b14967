"""Expectations by batch: each batch is a problem of its own, and the objective is their sum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from oracles.joint import problem
from rulefield.learning.expectations.corpus import JointCorpus
from rulefield.learning.expectations.regularized import RegularizedObjective, minimize_regularized
from rulefield.rules import expected, segments, share, token_matches
from rulefield.rules.expectations import ExpectationCompiler

LABELS = ["a", "b", "c"]


@pytest.fixture
def case():
    """Five sequences of one task, their statements, and a way to compile these for some of the sequences."""
    model, data, _, weight, theta = problem(
        4, (3,), lengths=(4, 3, 2, 5, 3), moves=False, features=False, forbid=False
    )
    corpus = JointCorpus(model, data, (None,), weight, n_jobs=2)  # nothing known: every batch can meet its shares
    tokens = [["x"] * n for n in data.lengths]
    wanted = [
        share("b").between(0.3, 0.35),
        share("c", after="a").at_most(0.2),
        expected(segments("a")).at_least(0.4),
    ]

    def compiled(first=0, last=5):
        compiler = ExpectationCompiler({"label": (LABELS, None)})
        return [compiler(e, tokens[first:last], weight[first:last]) for e in wanted]

    return corpus, compiled, theta


def test_the_objective_is_the_sum_of_separate_problems(case):
    corpus, compiled, theta = case
    batched = RegularizedObjective(corpus, compiled(), 0.5, batch_size=2)
    near, counts = batched.expectation_step(theta)
    parts = [RegularizedObjective(corpus.part(a, b), compiled(a, b), 0.0) for a, b in ((0, 2), (2, 4), (4, 5))]
    alone = [part.expectation_step(theta) for part in parts]
    assert_allclose(near, sum(value for value, _ in alone), atol=1e-8)
    assert_allclose(counts, sum(c for _, c in alone), atol=1e-5)
    for part in parts:
        assert part.shares[0] <= 0.35 + 1e-6
        assert part.shares[0] >= 0.3 - 1e-6
    mean = np.average([p.shares[0] for p in parts], weights=[p.posteriors[0].total[0] for p in parts])
    assert_allclose(batched.shares[0], mean, atol=1e-6)


def test_one_batch_is_the_whole_corpus(case):
    corpus, compiled, theta = case
    batched = RegularizedObjective(corpus, compiled(), 0.5, batch_size=100)
    whole = RegularizedObjective(corpus, compiled(), 0.5)
    assert_allclose(batched.value_and_gradient(theta)[0], whole.value_and_gradient(theta)[0], atol=1e-8)
    assert_allclose(batched.multipliers(batched.nu), whole.multipliers(whole.nu), atol=1e-5)


def test_batches_ask_for_more_than_the_corpus_and_em_never_rises(case):
    corpus, compiled, theta = case
    batched = RegularizedObjective(corpus, compiled(), 0.5, batch_size=2)
    whole = RegularizedObjective(corpus, compiled(), 0.5)
    assert batched.value_and_gradient(theta)[0] >= whole.value_and_gradient(theta)[0] - 1e-8
    values = [r.objective for r in minimize_regularized(batched, 0.1 * theta, max_iter=15, tol=0.0).log]
    assert (np.diff(values) < 1e-7 * np.abs(values[1:])).all()


def test_gradient(case):
    corpus, compiled, theta = case
    batched = RegularizedObjective(corpus, compiled(), 0.5, batch_size=2)
    gradient = batched.value_and_gradient(theta)[1]
    numeric = approx_fprime(theta, lambda x: batched.value_and_gradient(x)[0], 1e-6)
    assert_allclose(gradient, numeric, atol=2e-4)


def test_a_batch_without_anything_to_count_is_free(case):
    corpus, _, theta = case
    compiler = ExpectationCompiler({"label": (LABELS, None)})
    tokens = [["x"] * n for n in corpus.data.lengths]
    tokens[0] = ["named"] * len(tokens[0])
    rule = share("b", given=token_matches("named")).between(0.9, 1.0)
    batched = RegularizedObjective(corpus, [compiler(rule, tokens, corpus.weight)], 0.5, batch_size=2)
    batched.expectation_step(theta)
    assert [len(own) for own in batched.members] == [1, 0, 0]
    assert batched.shares[0] >= 0.9 - 1e-6
