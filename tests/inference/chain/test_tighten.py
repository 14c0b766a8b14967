"""Duals that are changed on a lattice, and counts that rules imply: what both say is compared with all labelings."""

from itertools import product

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages import product as windows
from rulefield.inference.sequences.stages.counts import implied_counts, run_counts
from rulefield.kernels.lattice.dual import path_score
from rulefield.kernels.lattice.sites import lattice_sites
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


@pytest.mark.parametrize("seed", range(6))
def test_a_lattice_charges_what_its_duals_say(seed):
    """Its best path is the maximum over all labelings of score - cost of exact terms - duals x excesses of the others."""
    _, progress = begun(RULES, TOKENS, seed, 1 + seed)
    prepared = progress.prepared
    relaxation = windows.chain_relaxation(progress, dual_potentials(progress), -np.inf)
    for term in np.random.default_rng(seed).permutation(len(relaxation.terms))[: seed % 4]:
        relaxation.bound(-np.inf)
        relaxation.add(relaxation.terms[term], -np.inf, 10_000)
    before = relaxation.bound(-np.inf)
    relaxation.tighten(prepared.caps, before - 20.0, 30)
    free, best, optimum = relaxation.free, -np.inf, -np.inf
    for labels in product(range(3), repeat=len(TOKENS)):
        y = np.array(labels)
        excesses = prepared.amounts(y)[1]
        paid = np.flatnonzero(~free & (excesses > 0))
        exact = float(prepared.tables.weight[prepared.tables.counter_rule[paid]] @ excesses[paid])
        score = float(path_score(prepared.unary, prepared.arriving, y))
        best = max(best, score - exact - float(relaxation.duals[free] @ excesses[free]))
        optimum = max(optimum, prepared.value(y))
    assert relaxation.bound(-np.inf) == pytest.approx(best)
    assert optimum - 1e-9 <= best <= before + 1e-9
    assert 0.0 < relaxation.error < 1e-9
    assert (relaxation.duals <= prepared.caps).all()
    assert not relaxation.duals[~free].any()


def test_better_duals_lower_the_bound():
    """Duals that begin at nothing."""
    _, progress = begun(RULES, TOKENS, 3, 1)
    progress.duals = np.zeros_like(progress.duals)
    relaxation = windows.chain_relaxation(progress, dual_potentials(progress), -np.inf)
    before = relaxation.bound(-np.inf)
    relaxation.tighten(progress.prepared.caps, before - 5.0, 30)
    assert relaxation.bound(-np.inf) < before - 0.5


@pytest.mark.parametrize("seed", range(8))
def test_windows_under_better_duals_are_exact(monkeypatch, seed):
    """Every lattice is tightened, however small; the answer is the best of all labelings."""
    monkeypatch.setattr(windows, "TIGHTENED_ARCS", 0)
    problem, progress = begun([*RULES, r.before("a", "c").soft(0.4)], TOKENS, 20 + seed, 1)
    windows.run_product(progress, dual_potentials(progress), 1_000_000)
    assert progress.settled
    assert progress.objective == pytest.approx(decode(problem, "enumerate").objective)


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


@pytest.mark.parametrize("seed", range(4))
def test_sites_collect_what_counters_count(seed):
    """Along every path of a lattice the gains of its sites are the excesses of its labeling."""
    _, progress = begun(RULES, TOKENS, seed)
    prepared = progress.prepared
    relaxation = windows.chain_relaxation(progress, dual_potentials(progress), -np.inf)
    relaxation.bound(-np.inf)
    relaxation.add(relaxation.terms[seed], -np.inf, 10_000)
    lattice, free = relaxation.lattice, relaxation.free
    sites = lattice_sites(lattice, prepared.tables, prepared.classes, 3, free, *relaxation.by_label)
    rng = np.random.default_rng(seed)
    for _ in range(50):
        node = int(rng.integers(lattice.layer[1]))
        labels, met = [lattice.label[node]], [sites.start[node]]
        while len(labels) < len(TOKENS) and lattice.arc_ptr[node] < lattice.arc_ptr[node + 1]:
            arc = rng.integers(lattice.arc_ptr[node], lattice.arc_ptr[node + 1])
            node = lattice.arc_to[arc]
            labels.append(lattice.label[node])
            met.append(sites.arc[arc])
        if len(labels) < len(TOKENS):
            continue  # an end that a hard term forbids
        tally = -prepared.tables.counter_bound.copy()
        for site in met:
            for e in range(sites.ptr[site], sites.ptr[site + 1]):
                tally[sites.counter[e]] += sites.gain[e]
        assert (tally == prepared.amounts(np.array(labels))[1])[free].all()
