"""Counts that rules imply, and the last window of the product: what both say is compared with all labelings."""

from itertools import product

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages import product as windows
from rulefield.inference.sequences.stages.counts import implied_counts, run_counts
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LABELS = ["a", "b", "c"]
TOKENS = ["x", "y", "x", "y", "x", "x"]
RULES = [
    r.count("a") == r.count("b"),
    (r.segments("c") - r.segments("a") <= 0).soft(1.5),
    r.segments("b") >= 1,
    (r.count("c", where=r.token_equals("x")) <= 1).soft(0.8),
    (r.count("a") + r.segments("b") <= 3).soft(0.6),
]


def begun(rules, tokens, seed, passes=5):
    rng = np.random.default_rng(seed)
    potentials = ChainPotentials(2.0 * rng.normal(size=(len(tokens), 3)), rng.normal(size=(3, 3)))
    problem = ChainProblem(potentials, r.compile_rules(rules, LABELS, None, tokens))
    progress = Progress.start(prepare(problem))
    run_duals(progress, passes)
    return problem, progress


@pytest.mark.parametrize("seed", range(20))
def test_implied_counts_hold(seed):
    """No whole counts that obey the rows are outside the bounds."""
    rng = np.random.default_rng(seed)
    n, m = 6, 4
    rows = rng.integers(-2, 3, (3, m)).astype(float)
    limits = rng.integers(-1, 4, 3).astype(float)
    most = rng.integers(2, n + 1, m).astype(float)
    found = implied_counts(rows, limits, n, most, np.arange(m))
    obeying = np.array([x for x in product(range(n + 1), repeat=m) if sum(x) == n and (rows @ x <= limits).all()])
    obeying = obeying[(obeying <= most).all(axis=1)] if len(obeying) else obeying
    if found is None or (found[0] > found[1]).any():
        assert not len(obeying)
    elif len(obeying):
        assert (found[0] <= obeying.min(axis=0)).all()
        assert (obeying.max(axis=0) <= found[1]).all()


@pytest.mark.parametrize("seed", range(4))
def test_equal_counts_are_said_label_by_label(seed):
    """Three labels equally often in six tokens: twice each; a soft rule stays, the optimum is that of all labelings."""
    rules = [r.count("a") == r.count("b"), r.count("b") == r.count("c"), r.before("b", "a").soft(1.0)]
    problem, progress = begun(rules, TOKENS, 40 + seed)
    run_counts(progress, dual_potentials(progress))
    said = [c.bound for rule in progress.prepared.flat.rules for c in rule.counters if rule.weight == np.inf]
    assert said == [2, -2] * 3
    windows.run_product(progress, dual_potentials(progress), 1_000_000)
    result = progress.result("product", 0)
    assert result.status == "optimal"
    assert result.objective == pytest.approx(decode(problem, "enumerate").objective)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_bound_does_not_imply_is_still_read(seed):
    """Label a at most as often as b, b as c: at most two and three times, but not any two of these numbers."""
    problem, progress = begun([r.count("a") <= r.count("b"), r.count("b") <= r.count("c")], TOKENS, seed)
    run_counts(progress, dual_potentials(progress))
    assert len(progress.prepared.flat.rules) > 3
    windows.run_product(progress, dual_potentials(progress), 1_000_000)
    assert progress.objective == pytest.approx(decode(problem, "enumerate").objective)


@pytest.mark.parametrize("seed", range(30))
def test_said_label_by_label_all_labelings_are_worth_the_same(seed):
    """Hard counts that compare labels beside such of one label, which bounds follow from and must not be lost."""
    rng = np.random.default_rng(seed)
    single = [
        r.count("a") <= int(rng.integers(0, 4)),
        r.count("b") >= int(rng.integers(0, 3)),
        r.count("c") == int(rng.integers(1, 4)),
    ]
    compared = [
        r.count("a") == r.count("b"),
        r.count("b") <= r.count("c"),
        r.count("a") + r.count("b") <= int(rng.integers(2, 6)),
    ]
    chosen = [*rng.permutation(single)[: 1 + seed % 3], *rng.permutation(compared)[: 1 + seed % 2]]
    _, progress = begun([*chosen, (r.count("a") <= 1).soft(0.7)], TOKENS, seed)
    before = progress.prepared
    run_counts(progress, dual_potentials(progress))
    for labels in product(range(3), repeat=len(TOKENS)):
        assert progress.prepared.value(np.array(labels)) == pytest.approx(before.value(np.array(labels)))


@pytest.mark.parametrize("seed", range(8))
def test_the_last_window_holds_all_that_beats_a_labeling(seed):
    """From any labeling, under the limit: what it leaves is the optimum, proved; over it: a true bound."""
    problem, progress = begun([*RULES, r.before("a", "c").soft(0.4)], TOKENS, 60 + seed, 3)
    progress.offer(np.random.default_rng(seed).integers(0, 3, len(TOKENS)))
    limited = seed % 2
    windows.run_last_window(progress, dual_potentials(progress), 2 if limited else 1_000_000)
    optimum = decode(problem, "enumerate").objective
    assert progress.prepared.offset + progress.bound >= optimum - 1e-9
    if not limited:
        assert progress.settled
        assert progress.objective == pytest.approx(optimum)
