"""Exchanges of labels: each is the best of all permutations of its pieces, and none changes how often a label occurs."""

from itertools import permutations

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.chain.dual import Progress
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.chain.search import exchange
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


def score(unary, arriving, labels):
    steps = [arriving[min(t - 1, len(arriving) - 1), labels[t], labels[t - 1]] for t in range(1, len(labels))]
    return sum(unary[t, label] for t, label in enumerate(labels)) + sum(steps)


@pytest.mark.parametrize("by_step", [False, True])
@pytest.mark.parametrize("length", [1, 2])
def test_an_exchange_is_the_best_permutation(monkeypatch, by_step, length):
    rng = np.random.default_rng(length)
    n, m, starts = 9, 4, np.array([0, 3, 7])
    unary, arriving = rng.normal(size=(n, m)), rng.normal(size=(n - 1 if by_step else 1, m, m))
    labels = rng.integers(0, m, n)
    monkeypatch.setattr(exchange, "_starts", lambda *shape: starts)
    monkeypatch.setattr(exchange, "LONGEST_PIECE", length)

    class Longest:
        def integers(self, low, high):
            return high - 1

    pieces = [labels[s : s + length].copy() for s in starts]
    best = -np.inf
    for order in permutations(range(3)):
        tried = labels.copy()
        for s, k in zip(starts, order):
            tried[s : s + length] = pieces[k]
        best = max(best, score(unary, arriving, tried))
    before = score(unary, arriving, labels)
    gain = exchange._exchange(Longest(), unary, arriving, labels)
    assert score(unary, arriving, labels) == pytest.approx(before + gain) == pytest.approx(best)


def test_exchanges_keep_counts_and_find_the_best_labelling():
    """Two labels of three, twice each: few enough to list all."""
    rng = np.random.default_rng(3)
    n, m = 6, 3
    labels = [f"l{i}" for i in range(m)]
    rules = r.compile_rules([r.count(a) == r.count(b) for a, b in zip(labels, labels[1:])], labels, None, n)
    potentials = ChainPotentials(2.0 * rng.normal(size=(n, m)), rng.normal(size=(m, m)))
    progress = Progress.start(prepare(ChainProblem(potentials, rules)))
    progress.offer(np.array([0, 0, 1, 1, 2, 2]))
    exchange.run_exchanges(progress, 200 * exchange.NODES_PER_EXCHANGE)
    everything = set(permutations([0, 0, 1, 1, 2, 2]))
    assert progress.objective == pytest.approx(max(potentials.score(np.array(y)) for y in everything))
    assert np.bincount(progress.labels).tolist() == [2, 2, 2]


def test_rules_of_order_are_left_alone():
    """An exchange would break them."""
    labels = ["a", "b"]
    rules = r.compile_rules([r.before("a", "b"), r.count("a") == 1], labels, None, 3)
    potentials = ChainPotentials(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 2)))
    progress = Progress.start(prepare(ChainProblem(potentials, rules)))
    progress.offer(np.array([0, 1, 1]))
    exchange.run_exchanges(progress, 10_000)
    assert progress.nodes == 0
