"""Hard counts as an integer programme: what it calls impossible is, and what it offers obeys, against enumeration."""

import numpy as np

from rulefield import rules as r
from rulefield.inference.chain.dual import Progress, dual_potentials, run_duals
from rulefield.inference.chain.enumerate import decode_enumerate
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.chain.search.counts import run_counts
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LABELS = list("abc")


def counted(seed):
    """A problem of hard counts, some that real numbers could meet and whole ones cannot; labels forbidden here and there."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    a, b, c = (r.count(label) for label in rng.permutation(LABELS))
    pool = [
        a == b,
        b == c,
        a + b == 2 * c,
        a >= 2,
        b <= 1,
        a == c + 1,
        2 * a == b + 1,
        r.count("a", r.token_in("x")) == b,
    ]
    rules = [pool[k] for k in rng.choice(len(pool), int(rng.integers(1, 4)), replace=False)]
    unary = rng.normal(size=(n, 3))
    unary[rng.random((n, 3)) < 0.1] = -np.inf
    unary[np.isinf(unary).all(axis=1)] = 0.0
    tokens = [str(rng.choice(["x", "y"])) for _ in range(n)]
    return ChainProblem(ChainPotentials(unary, rng.normal(size=(3, 3))), r.RuleCompiler(rules, LABELS)(tokens))


def test_counts_are_proved_impossible_or_met():
    impossible = met = 0
    for seed in range(150):
        problem = counted(seed)
        exact, progress = decode_enumerate(problem), Progress.start(prepare(problem))
        run_duals(progress, 3)
        run_counts(progress, dual_potentials(progress))
        if progress.bound == -np.inf:
            assert exact.status == "infeasible"
            impossible += 1
        elif progress.hint is not None:
            assert not progress.prepared.amounts(progress.hint)[0].any()
            assert progress.best <= exact.objective - progress.prepared.offset + 1e-9
            met += 1
    assert impossible > 10
    assert met > 30
