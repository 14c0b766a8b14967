"""Branching on which labels occur: right against all labelings, and bounds that hold beside other rules."""

import numpy as np
import pytest

from rulefield import rules as r
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.facts import Facts, run_facts
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LABELS = list("abcde")


def a_fact(rng):
    """A label occurs, or does not, said in one of several ways."""
    label = LABELS[rng.integers(5)]
    ways = [
        r.present(label),
        r.not_(r.present(label)),
        r.count(label) >= 1,
        r.count(label) == 0,
        r.absent(label, level="token"),
        r.present([label, "a"]),
        r.count(label, where=r.token_equals("x")) >= 1,
    ]
    return ways[rng.integers(len(ways))]


def a_rule(rng):
    kind = [r.exactly, r.at_most, r.at_least][rng.integers(3)]
    facts = [a_fact(rng) for _ in range(rng.integers(4, 7))]
    return kind(int(rng.integers(0, len(facts) + 1)), *facts)


def begun(rules, seed, monkeypatch=None):
    """A problem of four tokens, its progress after a few dual steps; rules known by their rows only where patched."""
    rng = np.random.default_rng(seed)
    if monkeypatch is not None:
        monkeypatch.setattr("rulefield.rules.chain.automata.MAX_STATES", 1)
    tokens = [["x", "y"][i] for i in rng.integers(2, size=4)]
    pairwise = rng.normal(size=(5, 5) if seed % 2 else (3, 5, 5))
    potentials = ChainPotentials(2.0 * rng.normal(size=(4, 5)), pairwise)
    problem = ChainProblem(potentials, r.compile_rules(rules, LABELS, None, tokens))
    progress = Progress.start(prepare(problem))
    run_duals(progress, 3)
    return problem, progress


def searched(progress):
    if not progress.settled:
        run_facts(progress, dual_potentials(progress), 1_000_000)
    return progress


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_whatever_else_is_asked(seed, monkeypatch):
    """Several rules about facts, hard and soft, beside a rule that they do not know."""
    rng = np.random.default_rng(1000 + seed)
    rules = [a_rule(rng), a_rule(rng).soft(float(rng.uniform(0.2, 3.0))), (r.count("a") <= r.count("b")).soft(0.7)][
        : 1 + seed % 3
    ]
    problem, progress = begun(rules, seed, monkeypatch if seed % 4 else None)
    best = decode(problem, "enumerate")
    searched(progress)
    if best.status == "infeasible":
        assert progress.best == -np.inf
        return
    assert progress.objective_bound >= best.objective - 1e-9
    assert progress.best == -np.inf or progress.objective <= best.objective + 1e-9
    assert progress.best == -np.inf or progress.objective == pytest.approx(
        progress.prepared.value(progress.labels) + progress.prepared.offset
    )


@pytest.mark.parametrize("seed", range(40))
def test_one_rule_that_limits_labels_is_proved(seed, monkeypatch):
    """At most so many of the labels: switches off is all that it takes, so that nothing is left open."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 4))
    absent = [r.absent(label, level="token") for label in LABELS]
    rule = r.at_most(number, *map(r.present, LABELS)) if seed % 2 else r.at_least(5 - number, *absent)
    rule = rule if seed % 3 else rule.soft(1.5)
    problem, progress = begun([rule], seed, monkeypatch)
    searched(progress)
    assert progress.settled
    assert progress.objective == pytest.approx(decode(problem, "enumerate").objective)


@pytest.mark.parametrize("seed", range(30))
def test_auto_answers_as_enumeration_does(seed, monkeypatch):
    rng = np.random.default_rng(500 + seed)
    problem, _ = begun([a_rule(rng)], seed, monkeypatch if seed % 2 else None)
    found, best = decode(problem), decode(problem, "enumerate")
    assert found.status == best.status
    assert found.objective == pytest.approx(best.objective)


def test_no_choice_of_facts_is_infeasible(monkeypatch):
    """Five labels, of which six facts about five must all hold and one is the opposite of another."""
    rules = [r.exactly(6, *map(r.present, LABELS), r.not_(r.present("a")))]
    _, progress = begun(rules, 0, monkeypatch)
    searched(progress)
    assert progress.best == -np.inf
    assert decode(progress.prepared.problem).status == "infeasible"


@pytest.mark.parametrize("seed", range(40))
def test_switches_are_set_at_their_best(seed):
    """Against all settings of six switches, some of them fixed, hard and soft."""
    rng = np.random.default_rng(seed)
    worth, wanted = rng.normal(size=6), rng.random(6) < 0.6
    fixed = rng.choice([-1, -1, 0, 1], size=6)
    low, high = np.sort(rng.integers(0, 7, size=2)).tolist()
    weight = np.inf if seed % 2 else float(rng.uniform(0.1, 2.0))

    def value(switch):
        holding = int(((switch == 1) == wanted).sum())
        return worth @ switch - (0.0 if low <= holding <= high else weight)

    every = (np.arange(64)[:, None] >> np.arange(6)) & 1
    allowed = every[((fixed < 0) | (every == fixed)).all(axis=1)]
    best = max(value(switch) for switch in allowed)
    facts = Facts(
        np.zeros((6, 1, 1)), wanted, np.array([0, 6]), np.array([low]), np.array([high]), np.array([weight])
    )
    found, switch = facts.choose(worth, fixed)
    assert found == pytest.approx(best)
    assert best == -np.inf or value(switch) == pytest.approx(best)
