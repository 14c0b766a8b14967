"""Sums, marginals, segments, samples and k best labelings under rules, against lists of all labelings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.compiled import random_problem
from oracles.definition import amounts_of, costs_of, scores_of
from oracles.labelings import labelings
from rulefield.inference.sequences import sums
from rulefield.inference.sequences.sums import IMPOSSIBLE, Question, chances_of

SEEDS = st.integers(0, 2**32 - 1)
TOLERANCES = st.sampled_from([0.0, 1e-6, 1e-3, 0.3])


def listed(problem):
    """All labelings and their objectives."""
    paths = labelings(problem.potentials)
    objective = scores_of(problem.potentials, paths)
    for rule in problem.rules:
        objective = objective - costs_of(rule, amounts_of(rule, paths))
    return paths, objective


def listed_marginals(problem, paths, probability):
    n, m = problem.potentials.unary.shape
    node, steps = np.zeros((n, m)), np.arange(n)
    for path, p in zip(paths, probability, strict=True):
        node[steps, path] += p
    return node


@given(SEEDS, TOLERANCES)
@settings(max_examples=400, deadline=None)
def test_sums_equal_enumeration_within_their_error(seed, tolerance):
    problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
    paths, objective = listed(problem)
    total = np.logaddexp.reduce(objective)
    found = chances_of(problem, Question(marginals=True), tolerance)
    assert (found.reason[0] == IMPOSSIBLE) == (total == -np.inf)
    if total == -np.inf:
        return
    error = found.error[0]
    assert error <= tolerance
    mass = float(np.exp(found.log_partition[0] - total))
    assert (1 - error) * (1 - 1e-9) <= mass <= 1 + 1e-9
    node = listed_marginals(problem, paths, np.exp(objective - total))
    np.testing.assert_allclose(found.node, node, atol=1e-9 + error)
    chance, errors = found.whole(objective.max(keepdims=True))
    assert abs(chance[0] - np.exp(objective.max() - total)) <= errors[0] + 1e-9


def test_dense_sums_equal_the_product_with_a_walk(monkeypatch):
    question, compared = Question(marginals=True, k=3), 0
    for seed in range(160):
        problem = random_problem(np.random.default_rng(seed), 6, 3, 4)
        monkeypatch.undo()
        dense = chances_of(problem, question, 0.0)
        monkeypatch.setattr(sums, "MOST_DENSE", 0)
        walked = chances_of(problem, question, 0.0)
        np.testing.assert_allclose(dense.log_partition, walked.log_partition, atol=1e-9)
        np.testing.assert_allclose(dense.node, walked.node, atol=1e-9)
        np.testing.assert_allclose(dense.best_chance, walked.best_chance, atol=1e-9)
        compared += not np.array_equal(dense.node, walked.node)  # other sums round otherwise
    assert compared >= 20


@given(SEEDS, st.integers(1, 12), TOLERANCES)
@settings(max_examples=300, deadline=None)
def test_kbest_equals_enumeration(seed, k, tolerance):
    problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
    paths, objective = listed(problem)
    total = np.logaddexp.reduce(objective)
    found = chances_of(problem, Question(k=k), tolerance)
    if total == -np.inf:
        assert found.reason[0] == IMPOSSIBLE
        return
    rows = found.best.reshape(k, -1)[found.best_chance[0] > 0]
    number = {tuple(path): j for j, path in enumerate(paths.tolist())}
    values = np.array([objective[number[tuple(row)]] for row in rows.tolist()])
    expected = np.sort(objective[objective > -np.inf])[::-1][:k]
    np.testing.assert_allclose(values, expected, atol=1e-9)
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
    chance = np.exp(values - total)
    np.testing.assert_allclose(found.best_chance[0][: len(rows)], chance, atol=1e-9 + found.error[0])


@given(SEEDS, TOLERANCES)
@settings(max_examples=200, deadline=None)
def test_segments_have_the_mass_of_the_labelings_that_hold_them(seed, tolerance):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 5, 3, 4)
    paths, objective = listed(problem)
    total = np.logaddexp.reduce(objective)
    if total == -np.inf:
        return
    n, m = problem.potentials.unary.shape
    kinds = rng.integers(-1, 2, size=(1, m)).astype(np.int32)
    starts = (rng.random((1, m + 1, m)) < 0.5) | (kinds[0][None, None, :] != np.append(kinds[0], -1)[None, :, None])
    starts[0, m] = True
    starts &= (kinds >= 0)[0]
    spans = [(a, b, kind, 0) for a in range(n) for b in range(a + 1, n + 1) for kind in (0, 1)]
    asked = Question(spans=np.array(spans), span_ptr=np.array([0, len(spans)]), starts=starts, kinds=kinds)
    found = chances_of(problem, asked, tolerance)
    expected = dict.fromkeys(spans, 0.0)
    for path, p in zip(paths.tolist(), np.exp(objective - total).tolist(), strict=True):
        begins = [starts[0, path[t - 1] if t else m, path[t]] for t in range(n)]
        for a in np.flatnonzero(begins).tolist():
            b = a + 1
            while b < n and kinds[0, path[b]] >= 0 and not begins[b]:
                b += 1
            expected[a, b, int(kinds[0, path[a]]), 0] += p
    np.testing.assert_allclose(found.span, list(expected.values()), atol=1e-9 + found.error[0])


def test_samples_follow_the_distribution():
    rng = np.random.default_rng(3)
    checked = 0
    while checked < 5:
        problem = random_problem(rng, 4, 3, 4)
        paths, objective = listed(problem)
        if (objective == -np.inf).all():
            continue
        checked += 1
        probability = np.exp(objective - np.logaddexp.reduce(objective))
        drawn = chances_of(problem, Question(uniform=rng.random(20_000 * paths.shape[1]))).drawn.reshape(20_000, -1)
        base = problem.potentials.n_states ** np.arange(paths.shape[1])[::-1]
        share = np.bincount(drawn @ base, minlength=len(paths)) / len(drawn)
        assert (share[probability == 0] == 0).all()
        np.testing.assert_allclose(share, probability, atol=0.02)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6])
def test_large_scores_and_rules_of_tiny_mass_keep_their_bounds(scale):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 5, 3, 4, hard=0.5)
        p = problem.potentials
        problem = type(problem)(type(p)(p.unary * scale, p.pairwise * scale), problem.rules)
        _, objective = listed(problem)
        total = np.logaddexp.reduce(objective)
        found = chances_of(problem, tolerance=1e-3)
        if total == -np.inf:
            assert found.reason[0] == IMPOSSIBLE
            continue
        chance, errors = found.whole(objective.max(keepdims=True))
        assert abs(chance[0] - np.exp(objective.max() - total)) <= errors[0] + 1e-8
