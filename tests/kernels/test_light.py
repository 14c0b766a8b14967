"""What stands in for kernels while none is loaded gives what they give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rulefield.encode.vocabulary import Vocabulary
from rulefield.inference.sequences import exact
from rulefield.kernels import light
from rulefield.kernels.chain.train_features import add_scores
from rulefield.kernels.jit import Kernel, kernel


@pytest.fixture
def small_process(monkeypatch):
    """A process that has loaded no kernel, and may not."""
    monkeypatch.setattr(light, "_spent", 0.0)
    monkeypatch.setattr(Kernel, "any_loaded", False)
    monkeypatch.setattr(Kernel, "dispatcher", property(lambda self: pytest.fail(f"{self.__name__} was loaded")))
    yield monkeypatch
    monkeypatch.undo()


def chains(seed):
    """Random chains one after the other, some empty, some with much forbidden, with scores of every size."""
    rng = np.random.default_rng(seed)
    m, lengths = int(rng.integers(1, 6)), rng.integers(0, 6, int(rng.integers(1, 4)))
    n, size = int(lengths.sum()), rng.choice([1.0, 30.0, 1000.0])
    unary = size * rng.normal(size=(n, m)).round(int(rng.integers(0, 3)))  # rounded: ties
    pairwise = size * rng.normal(size=(1 if seed % 2 else max(n, 1), m, m)).round(1)
    for scores in (unary, pairwise):
        scores[rng.random(scores.shape) < rng.choice([0.0, 0.4])] = -np.inf
    return unary, pairwise, np.concatenate([[0], np.cumsum(lengths)])


def answers(problem):
    unary, pairwise, offsets = problem
    labels, best = exact.viterbi_batch(unary, pairwise, offsets)
    node, totals = exact.marginals_batch(unary, pairwise, offsets)
    again = exact.log_partition_batch(unary, pairwise, offsets)
    return labels, best, exact.score_batch(unary, pairwise, offsets, labels), node, totals, again


def test_chains(small_process):
    problems = [chains(seed) for seed in range(120)]
    small = [answers(problem) for problem in problems]
    small_process.undo()
    for problem, made in zip(problems, small):
        labels, *values = answers(problem)
        assert_array_equal(made[0], labels)
        for mine, theirs in zip(made[1:], values):
            assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_scores_of_features(small_process):
    rng = np.random.default_rng(0)
    ptr = np.array([0, 2, 2, 3], np.uint64)
    label, weights = np.array([0, 2, 1], np.uint32), rng.normal(size=3)
    indptr, indices = np.array([0, 3, 3, 5], np.uint64), np.array([0, 1, 0, 2, 0], np.uint32)
    for values in (rng.normal(size=5), np.array([0.7])):  # one value stands for all
        made, wanted = np.zeros((2, 3, 3))
        add_scores(indptr, indices, values, ptr, label, weights, made)
        for row, k in ((0, 0), (0, 1), (0, 2), (2, 3), (2, 4)):
            for p in range(int(ptr[indices[k]]), int(ptr[indices[k] + 1])):
                wanted[row, label[p]] += np.resize(values, 5)[k] * weights[p]
        assert_allclose(made, wanted, rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.text(alphabet="ab\n\0é\ud800", max_size=3), max_size=12), max_size=4),
    st.integers(0, 4),
)
def test_a_vocabulary_goes_on_when_kernels_are_loaded(batches, switch):
    numbers: dict[str, int] = {}
    wanted = [[numbers.setdefault(name, len(numbers)) for name in batch] for batch in batches]
    spent, light._spent, Kernel.any_loaded = light._spent, 0.0, False
    try:
        vocabulary, found = Vocabulary(), []
        for i, batch in enumerate(batches):
            Kernel.any_loaded = i >= switch
            found.append(vocabulary.add(batch).tolist())
        assert found == wanted
        assert vocabulary.names == list(numbers)
        assert vocabulary.find([*numbers, "other"]).tolist() == [*range(len(numbers)), -1]
    finally:
        light._spent, Kernel.any_loaded = spent, True


def test_much_work_loads_kernels(small_process):
    @kernel
    def double(values):
        values *= 2

    light._twin(double, lambda values: float(len(values)))(double.py_func)
    small_process.setattr(light, "BUDGET", 10.0)
    values = np.ones(4)
    double(values)
    double(values)
    assert values.tolist() == [4.0] * 4
    with pytest.raises(pytest.fail.Exception, match="double was loaded"):
        double(values)
