"""The checker agrees with the definition and refuses wrong claims; answers do not depend on how a problem is said."""

from dataclasses import replace

import numpy as np
import pytest

from oracles.compiled import random_problem
from oracles.definition import amounts_of, judged
from oracles.labelings import labelings
from rulefield.exceptions import InternalError
from rulefield.inference.result import TOLERANCE, Status
from rulefield.inference.sequences.check import confirm, judge_labeling
from rulefield.inference.sequences.decode import ENGINES, decode
from rulefield.inference.sequences.enumerate import judge_every
from rulefield.inference.sequences.prepare import prepare
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule, Counter, Tally

EXACT = [name for name, engine in ENGINES.items() if engine.exact and "automaton" in engine.reads]


def test_the_checker_is_the_definition():
    for seed in range(400):
        problem = random_problem(np.random.default_rng(seed), 5, 3, 5)
        scores, costs = judge_every(problem)
        paths = labelings(problem.potentials)
        expected_scores, expected_costs = judged(problem, paths)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(costs, expected_costs, rtol=1e-12, atol=1e-12)
        at = int(np.random.default_rng(seed).integers(len(paths)))
        found = judge_labeling(problem, paths[at])
        np.testing.assert_allclose(found.objective, scores[at] - costs[at], rtol=1e-12, atol=1e-12)
        broken = {b.rule: b.amount for b in found.broken}
        for rule in problem.rules:
            assert broken.get(rule.rule, 0.0) == amounts_of(rule, paths[at : at + 1])[0]


def test_a_wrong_claim_is_withheld():
    problem = random_problem(np.random.default_rng(3), 5, 3, 3, hard=0.0)
    result = decode(problem)
    confirm(problem, result.labels, result.objective, 0.0)
    for claim in (result.objective + 1e-6, result.objective - 1e-6, np.inf, np.nan):
        with pytest.raises(InternalError, match="please report"):
            confirm(problem, result.labels, claim, 0.0)
    with pytest.raises(InternalError, match="labels that are not"):
        judge_labeling(problem, result.labels + 99)


def test_every_answer_passes_the_checker(monkeypatch):
    """An engine that reads a rule wrongly is caught: here the weights that engines see are not the rules' own."""
    rule = CompiledRule(
        0,
        2.0,
        False,
        np.zeros(3, np.uint16),
        None,
        (Counter(Tally(np.array([[1, 0]], np.int32)), 1),),
        None,
        lambda: 2,
        None,
    )
    problem = ChainProblem(ChainPotentials(np.array([[1.0, 0.0]] * 3), np.zeros((2, 2))), (rule,))
    honest = prepare(problem)
    assert decode(problem).objective == pytest.approx(1.0)
    wrong = replace(honest, tables=honest.tables._replace(weight=np.array([0.25])))
    monkeypatch.setattr("rulefield.inference.sequences.decode.prepare", lambda problem: wrong)
    with pytest.raises(InternalError, match="claims an objective"):
        decode(problem, "viterbi")


@pytest.mark.parametrize("engine", EXACT)
def test_a_constant_changes_nothing(engine):
    for seed in range(40):
        problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
        plain = decode(problem, engine)
        for offset in (-1e3, 1e6):
            chain = problem.potentials
            shifted = ChainProblem(ChainPotentials(chain.unary + offset, chain.pairwise - 7.0), problem.rules)
            result = decode(shifted, engine)
            assert result.status is plain.status
            if plain.status is Status.optimal:
                constant = offset * chain.n_steps - 7.0 * (chain.n_steps - 1)
                assert abs(result.objective - constant - plain.objective) <= TOLERANCE


def test_a_large_constant_loses_nothing():
    """At an offset of 1e9 the relative tolerance of old gave labelings that were nats below the best."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 5, 3, 4)
        steps = np.round(problem.potentials.unary * 2**10) / 2**10  # exact at the offset
        plain = ChainProblem(ChainPotentials(steps, np.zeros_like(problem.potentials.pairwise)), problem.rules)
        moved = ChainProblem(
            ChainPotentials(steps + 2.0**30, np.zeros_like(problem.potentials.pairwise)), problem.rules
        )
        a, b = decode(plain), decode(moved)
        assert a.status is b.status
        if a.status is Status.optimal:
            assert abs(judge_labeling(plain, b.labels).objective - a.objective) <= TOLERANCE


def test_labels_may_be_permuted():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 5, 3, 4)
        m = problem.potentials.n_states
        order = rng.permutation(m)

        def table(x, order=order):
            return None if x is None else x[:, order] if x.ndim == 2 else x[:, order][:, :, order]

        def tally(t, table=table):
            return None if t is None else Tally(table(t.node), table(t.edge), table(t.first))

        rules = []
        for rule in problem.rules:
            automaton = rule.automaton and replace(rule.automaton, letter=rule.automaton.letter[:, order])
            counters = tuple(Counter(tally(c.tally), c.bound) for c in rule.counters)
            rules.append(replace(rule, tally=tally(rule.tally), counters=counters, automaton=automaton))
        pairwise = problem.potentials.pairwise
        pairwise = pairwise[order][:, order] if pairwise.ndim == 2 else pairwise[:, order][:, :, order]
        other = ChainProblem(ChainPotentials(problem.potentials.unary[:, order], pairwise), tuple(rules))
        a, b = decode(problem), decode(other)
        assert a.status is b.status
        np.testing.assert_allclose(a.objective, b.objective, rtol=0, atol=TOLERANCE)


def test_a_rule_written_twice_at_half_its_weight_is_the_rule():
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), 5, 3, 4)
        halves = tuple(
            replace(rule, weight=rule.weight / 2, rule=2 * i + j)
            for i, rule in enumerate(problem.rules)
            for j in range(2)
        )
        a, b = decode(problem), decode(ChainProblem(problem.potentials, halves))
        assert a.status is b.status
        np.testing.assert_allclose(a.objective, b.objective, rtol=0, atol=TOLERANCE)


def impossible(n, m, weight, form, once=False):
    """A rule that every labeling breaks by the same amount."""
    every = Tally(np.ones((1, m), np.int32))
    return CompiledRule(
        99,
        weight,
        once,
        np.zeros(n, np.uint16),
        every if form == "tally" else None,
        (Counter(every, -2),) if form == "counters" else (),
        None,
        lambda: n + 2,
        None,
    )


@pytest.mark.parametrize("form", ["tally", "counters"])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("weight", [1.0, 1e6, 1e15])
def test_a_rule_that_cannot_hold_changes_nothing_else(form, once, weight):
    for seed in range(25):
        problem = random_problem(np.random.default_rng(seed), 5, 3, 3)
        n, m = problem.potentials.unary.shape
        rule = impossible(n, m, weight, form, once)
        a, b = decode(problem), decode(ChainProblem(problem.potentials, (*problem.rules, rule)))
        assert a.status is b.status
        if a.status is Status.optimal:
            assert abs(judge_labeling(problem, b.labels).objective - a.objective) <= TOLERANCE
            amount = n if form == "tally" else n + 2
            assert b.objective == pytest.approx(a.objective - weight * (1 if once else amount), rel=1e-12)


def test_an_automaton_that_cannot_be_satisfied_changes_nothing_else():
    """Its cost at a weight of 1e15 would drown the scores; what no labeling avoids is taken out."""
    tried = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 5, 3, 3)
        heavy = [r for r in problem.rules if r.automaton is not None and np.isfinite(r.weight) and not r.once]
        paths = labelings(problem.potentials)
        sure = [r for r in heavy if np.ptp(amounts_of(r, paths)) == 0 and amounts_of(r, paths)[0] > 0]
        if not sure:
            continue
        tried += 1
        raised = tuple(replace(r, weight=1e15) if r is sure[0] else r for r in problem.rules)
        a, b = decode(problem), decode(ChainProblem(problem.potentials, raised))
        assert a.status is b.status
        if a.status is Status.optimal:
            assert abs(judge_labeling(problem, b.labels).objective - a.objective) <= TOLERANCE
    assert tried > 5
