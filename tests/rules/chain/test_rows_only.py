"""Rules whose automaton would be too large are decoded by their rows: nothing is refused, and proofs stay true."""

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.result import Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.sums import DRAWN, Question, chances_of
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LABELS = ["a", "b", "c"]


def facts(rng):
    """Some facts whose automata have many states."""
    one, two, three = rng.permutation(LABELS)
    choices = [
        r.exactly(1, r.present(one), r.count(two) >= 2, r.before(one, three)),
        r.implies(r.count(one) <= r.count(two), r.count(three) + 1 <= r.count(two)),
        r.any_of(r.count(one) == r.count(two), r.segments(three) >= 2),
        r.at_most(1, r.present(one), r.present(two), r.segments(three) >= 2),
    ]
    return [choices[i] for i in rng.choice(len(choices), 2, replace=False)]


def problems(rng, monkeypatch, n=5):
    """The same problem with automata, and with rows only."""
    rules = [rule if rng.random() < 0.5 else rule.soft(float(rng.uniform(0.3, 3.0))) for rule in facts(rng)]
    rules += [r.count("a") <= 2, r.segments("b") <= 1]
    potentials = ChainPotentials(2 * rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))
    known = ChainProblem(potentials, r.compile_rules(rules, LABELS, None, n))
    with monkeypatch.context() as patch:
        patch.setattr("rulefield.rules.chain.automata.MAX_STATES", 3)
        return known, ChainProblem(potentials, r.compile_rules(rules, LABELS, None, n))


@pytest.mark.parametrize("engine", ["auto", "milp", "reduced_milp", "enumerate", "soft_dd"])
def test_rows_alone_give_the_same_optimum(engine, monkeypatch):
    for seed in range(25):
        known, bare = problems(np.random.default_rng(seed), monkeypatch)
        assert any(rule.find_amount is not None for rule in bare.rules)
        exact, result = decode(known, "enumerate"), decode(bare, engine)
        if engine == "soft_dd":
            assert result.upper_bound >= exact.objective - 1e-6
            assert result.objective <= exact.objective + 1e-6
            continue
        assert result.status is exact.status
        assert result.objective == pytest.approx(exact.objective, abs=1e-6)
        assert result.broken == exact.broken


def test_conflicts_and_least_violations_are_found_by_rows(monkeypatch):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        known, bare = problems(rng, monkeypatch, 4)
        one, two = (decode_relaxed(problem) for problem in (known, bare))
        assert one.objective == pytest.approx(two.objective, abs=1e-6)
        if decode(known).status is Status.infeasible:
            assert minimal_conflict(bare)


def test_sums_draw_labelings_and_say_so(monkeypatch):
    near = []
    for seed in range(12):
        known, bare = problems(np.random.default_rng(seed), monkeypatch)
        exact, found = chances_of(known, Question(marginals=True)), chances_of(bare, Question(marginals=True))
        if found.reason[0] == DRAWN:
            near.append(abs(found.log_partition[0] - exact.log_partition[0]) <= 3 * found.error[0] + 1e-9)
            np.testing.assert_allclose(found.node, exact.node, atol=5 * found.error[0])
    assert len(near) > 5
    assert np.mean(near) > 0.9
