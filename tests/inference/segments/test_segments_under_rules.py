"""Segmentations under rules: decoding, limits, sums and conflicts against lists of all segmentations."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.definition import amounts_of, costs_of
from oracles.rules import CONDITIONS, PATTERNS, TOKENS, pick
from oracles.rules import random_rule as random_language_rule
from oracles.segmentations import all_segmentations, judge_all
from oracles.segments import (
    SCHEMES,
    random_segment_problem,
    random_segments,
    random_spelling,
    scheme_coder,
)
from rulefield import rules as r
from rulefield.exceptions import InternalError
from rulefield.inference.result import Status
from rulefield.inference.sequences.conflict import decode_relaxed, minimal_conflict
from rulefield.inference.sequences.decode import decode as decode_chain
from rulefield.inference.sequences.segments.decode import ENGINES, decode
from rulefield.inference.sequences.segments.search import SegmentSearch
from rulefield.inference.sequences.segments.sums import segment_chances
from rulefield.inference.sequences.sums import IMPOSSIBLE, Question
from rulefield.problem.chain_rules import ChainProblem, CompiledRule, Counter, Tally
from rulefield.problem.segments import SegmentProblem, Spelling
from rulefield.rules import RuleCompiler
from rulefield.rules.expression import LabeledTokens
from rulefield.rules.labels import CutLabels

OFFSETS = (0.0, 0.0, 1e3, 1e6, 1e9)
WEIGHTS = (1e-9, 1e-3, 1.0, 1.0, 1e3, 1e6)


def weighed(problem, weight):
    """The same problem with all weights times ``weight``."""
    return replace(problem, rules=tuple(replace(rule, weight=rule.weight * weight) for rule in problem.rules))


def check(problem, result, everything, digits=1e-6):
    """The status is true, the objective is that of the labels, no hard rule is broken, the bound is one."""
    best = everything.objectives.max(initial=-np.inf)
    token = problem.potentials.token
    room = digits + 1e-14 * len(token) * np.abs(token[token > -np.inf]).max(initial=0.0)  # doubles cannot tell more
    assert result.upper_bound >= best - room
    if result.status is Status.infeasible:
        assert best == -np.inf
    if not len(result.labels):
        assert result.status is not Status.optimal
        return
    row = np.flatnonzero((everything.labels == result.labels).all(axis=1) & (everything.scores > -np.inf))
    assert len(row) == 1
    assert_allclose(result.objective, everything.objectives[row[0]], rtol=1e-12, atol=room)
    assert_allclose(result.score, everything.scores[row[0]], rtol=1e-12, atol=room)
    amounts = {rule.rule: a[row[0]] for rule, a in zip(problem.rules, everything.amounts) if a[row[0]]}
    assert {b.rule: b.amount for b in result.broken} == amounts
    paid = sum(costs_of(rule, a)[row[0]] for rule, a in zip(problem.rules, everything.amounts))
    assert_allclose(sum(b.cost for b in result.broken), paid, rtol=1e-12)
    if result.status is Status.optimal:
        assert result.objective >= best - room


@pytest.mark.parametrize("part", range(4))
def test_answers_are_the_best_of_all_segmentations(part):
    rng = np.random.default_rng(part)
    statuses = []
    for _ in range(525):
        problem = weighed(random_segment_problem(rng, offsets=OFFSETS), rng.choice(WEIGHTS))
        result = decode(problem)
        check(problem, result, judge_all(problem))
        assert result.status is not Status.bounded
        statuses.append((result.status, result.engine))
    assert {engine == "viterbi" for status, engine in statuses if status is Status.optimal} == {True, False}
    assert any(status is Status.infeasible for status, _ in statuses)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_engine_keeps_its_word(engine):
    rng = np.random.default_rng(7)
    proved = 0
    for _ in range(150):
        problem = random_segment_problem(rng, offsets=OFFSETS)
        result = decode(problem, engine)
        check(problem, result, judge_all(problem))
        proved += result.status is not Status.bounded
    assert proved == 150 if ENGINES[engine].exact else proved > 30


@pytest.mark.parametrize("limit", [0, 1, 3, 20, 60])
def test_limits_leave_a_true_gap(limit):
    rng = np.random.default_rng(limit)
    open_ends = 0
    for _ in range(80):
        problem = random_segment_problem(rng, max_rules=5)
        result = decode(problem, node_limit=limit)
        check(problem, result, judge_all(problem))
        open_ends += result.status is Status.bounded
    assert open_ends > 2


def retyped(problem, rng):
    """The same problem with the types of segments under other numbers."""
    p, turn = problem.potentials, rng.permutation(problem.potentials.n_states)
    spans = replace(p.spans, score=p.spans.score.take(turn, axis=1))
    tables = {name: getattr(p, name).take(turn, axis=1) for name in ("token", "first", "last", "length")}
    potentials = replace(p, pairwise=p.pairwise[np.ix_(turn, turn)], spans=spans, **tables)
    spelling = Spelling(problem.spelling.label.take(turn, axis=1), problem.spelling.n_labels)
    return replace(problem, potentials=potentials, spelling=spelling)


def hopeless(n, m):
    """A rule that every labeling breaks by n + 2, at 1e5 a unit."""
    counter = Counter(Tally(np.ones((1, m), np.int32)), -2)
    return CompiledRule(99, 1e5, False, np.zeros(n, np.uint16), None, (counter,), None, lambda: n + 2, dict)


@pytest.mark.parametrize("seed", range(60))
def test_what_changes_nothing(seed):
    """A constant, permuted types, a rule twice at half its weight, a rule that cannot hold."""
    rng = np.random.default_rng(2000 + seed)
    problem = random_segment_problem(rng)
    found, p = decode(problem), problem.potentials

    def agrees(other, constant=0.0):
        again = decode(other)
        assert again.status is found.status
        if found.status is Status.optimal:
            assert_allclose(again.objective - constant, found.objective, rtol=0, atol=2e-6)

    constant = 1e6 * rng.normal()
    agrees(replace(problem, potentials=replace(p, token=p.token + constant)), constant * p.n_steps)
    agrees(retyped(problem, rng))
    agrees(replace(problem, rules=weighed(problem, 0.5).rules * 2))
    lost = hopeless(p.n_steps, problem.spelling.n_labels)
    agrees(replace(problem, rules=(*problem.rules, lost)), -1e5 * (p.n_steps + 2))


def test_seconds_are_a_limit_too():
    problem = random_segment_problem(np.random.default_rng(3), max_rules=5, hard=0.0)
    check(problem, decode(problem, seconds=0.0), judge_all(problem))


def test_a_long_sequence_is_proved():
    """Forty tokens, eight types, twelve rules: what enumeration cannot check, two engines tell each other."""
    rng = np.random.default_rng(0)
    types = "abcdefgh"
    potentials = random_segments(rng, 40, 8, 12)
    coder = scheme_coder("BIO", types, False)
    rules = [(r.segments(t) <= 1) if t in "abcd" else (r.segments(t) == 1).soft(3.0) for t in types]
    rules += [r.before("a", "b"), r.eventually("c", "d").soft(1.0), r.followed_by("e", ["f", "g"]).soft(2.0)]
    rules += [r.implies(r.present("a"), r.first("a")).soft(4.0)]
    problem = SegmentProblem(potentials, coder.spelling, RuleCompiler(rules, coder.labels, "BIO")(40))
    window = SegmentSearch(replace(problem, rules=())).window(-np.inf, 10**7)
    whole = ChainProblem(window.chain, tuple(rule.relabeled(window.stands) for rule in problem.rules))
    auto, program = decode(problem), decode_chain(whole, "milp")
    shift = SegmentSearch(problem).shift
    assert auto.status is program.status is Status.optimal
    assert_allclose(auto.objective, program.objective + shift, atol=1e-6)
    assert not any(np.isinf(b.cost) for b in auto.broken)


# --- how segments are spelled -------------------------------------------------------------------------


def test_spelling_can_be_read_back():
    rng = np.random.default_rng(0)
    for _ in range(60):
        m = int(rng.integers(1, 4))
        spelling = random_spelling(rng, m)
        outside = [y for y in range(m) if len(np.unique(spelling.label[:, y])) == 1]
        opens, types = all_segmentations(4, m, 4)
        for row in zip(opens, types):
            back = spelling.read(spelling.write(*row))
            longer = np.isin(row[1], outside) & ~row[0]  # O is one token long
            assert (back[0] == (row[0] | longer)).all()
            assert (back[1] == row[1]).all()


def definition(rules, tokens, labels, scheme):
    world = LabeledTokens(tokens, labels, scheme)
    return [rule.body.amount(world) for rule in rules]


@pytest.mark.parametrize("scheme", [None, *SCHEMES])
def test_rules_read_segments_as_they_are_written(scheme):
    """Amounts by the language's own definition; without a scheme, neighbors of one type are two segments."""
    rng = np.random.default_rng(len(SCHEMES[scheme]) if scheme else 0)
    for _ in range(60):
        tokens = [pick(rng, TOKENS) for _ in range(rng.integers(1, 5))]
        n, types = len(tokens), ["a", "b"]
        patterns = ["a", "b", ["a", "b"], "*"]
        rules = [random_language_rule(rng, patterns) for _ in range(3)]
        if scheme is None:
            table, spelling = CutLabels(types), Spelling.of_types(2)
            names, written_in = ["B-a", "B-b", "I-a", "I-b"], "BIO"
        else:
            coder = scheme_coder(scheme, types, False)
            table, spelling, names, written_in = coder.labels, coder.spelling, coder.labels, scheme
        compiled = RuleCompiler(rules, table, scheme)(tokens)
        potentials = random_segments(rng, n, 2, n)
        everything = judge_all(SegmentProblem(potentials, spelling, compiled))
        for labels, amounts in zip(everything.labels, everything.amounts.T):
            assert definition(rules, tokens, [names[k] for k in labels], written_in) == amounts.tolist()


def test_paths_are_runs_above_their_last_name():
    rules = [r.segments("x") <= 0, r.segments("a") <= 0, r.segments("x/b") <= 0, r.count("x") <= 0]
    table, spelling = CutLabels(["x/a", "x/b", "c"]), Spelling.of_types(3)
    labels = spelling.write(np.array([1, 0, 1, 1, 1], bool), np.array([0, 0, 0, 1, 2]))
    assert [amounts_of(rule, labels[None])[0] for rule in RuleCompiler(rules, table)(5)] == [1, 2, 1, 4]
    with pytest.raises(r.RuleError if hasattr(r, "RuleError") else Exception, match="did you mean"):
        RuleCompiler([r.segments("x/aa") <= 1], table)


def test_token_conditions_and_every_family_are_decoded():
    rng = np.random.default_rng(5)
    for _ in range(150):
        tokens = [pick(rng, TOKENS) for _ in range(rng.integers(1, 5))]
        rules = [random_language_rule(rng, PATTERNS["flat"]) for _ in range(3)]
        rules.append(r.at(pick(rng, CONDITIONS), here="a").soft(1.5))
        compiled = RuleCompiler(rules, CutLabels(["a", "b", "c"]))(tokens)
        problem = SegmentProblem(random_segments(rng, len(tokens), 3, 3), Spelling.of_types(3), compiled)
        check(problem, decode(problem), judge_all(problem))


# --- sums -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0.0, 1e-6, 1e-3, 0.3])
def test_sums_marginals_and_kbest_equal_enumeration(tolerance):
    rng = np.random.default_rng(11)
    for _ in range(100):
        problem = random_segment_problem(rng, max_steps=4, offsets=(0.0, 1e3))
        everything = judge_all(problem)
        total = np.logaddexp.reduce(everything.objectives) if len(everything.objectives) else -np.inf
        k = int(rng.integers(1, 12))
        found = segment_chances(problem, Question(k=k), tolerance)
        if total == -np.inf:
            assert found.reason[0] == IMPOSSIBLE
            continue
        error = found.error[0]
        assert error <= tolerance
        assert (1 - error) * (1 - 1e-8) <= np.exp(found.log_partition[0] - total) <= 1 + 1e-8
        best = found.best.reshape(k, -1)[found.best_chance[0] > 0]
        at = {
            tuple(row): value
            for row, value in zip(everything.labels.tolist(), everything.objectives)
            if value > -np.inf
        }
        ranked = np.sort(everything.objectives)[::-1]
        assert_allclose([at[tuple(row)] for row in best.tolist()], ranked[ranked > -np.inf][:k], atol=1e-8)
        assert len({tuple(row) for row in best.tolist()}) == len(best)
        label = np.zeros_like(found.node)
        for labels, p in zip(everything.labels, np.exp(everything.objectives - total)):
            label[np.arange(len(labels)), labels] += p
        assert_allclose(found.node, label, atol=1e-8 + error)


@pytest.mark.parametrize("tolerance", [0.0, 1e-6, 1e-3, 0.3])
def test_sums_that_list_no_segmentations_equal_enumeration(tolerance):
    rng = np.random.default_rng(12)
    for _ in range(150):
        problem = random_segment_problem(rng, max_steps=4, offsets=(0.0, 1e3))
        everything = judge_all(problem)
        total = np.logaddexp.reduce(everything.objectives) if len(everything.objectives) else -np.inf
        found = segment_chances(problem, Question(), tolerance)
        if total == -np.inf:
            assert found.reason[0] == IMPOSSIBLE
            continue
        error = found.error[0]
        assert error <= tolerance
        assert (1 - error) * (1 - 1e-8) <= np.exp(found.log_partition[0] - total) <= 1 + 1e-8
        label = np.zeros_like(found.node)
        for labels, p in zip(everything.labels, np.exp(everything.objectives - total)):
            label[np.arange(len(labels)), labels] += p
        assert_allclose(found.node, label, atol=1e-8 + error)


def test_samples_follow_the_distribution():
    rng = np.random.default_rng(2)
    checked = 0
    while checked < 4:
        problem = random_segment_problem(rng, max_steps=3, max_rules=3)
        everything = judge_all(problem)
        if len(everything.objectives) < 3 or (everything.objectives == -np.inf).all():
            continue
        checked += 1
        p = np.exp(everything.objectives - np.logaddexp.reduce(everything.objectives))
        n = everything.labels.shape[1]
        base = problem.spelling.n_labels ** np.arange(n)
        drawn = segment_chances(problem, Question(uniform=rng.random(20_000 * n))).drawn.reshape(-1, n) @ base
        share = np.array([(drawn == code).mean() for code in everything.labels @ base])
        assert (share[p == 0] == 0).all()
        assert_allclose(share, p, atol=0.02)


# --- conflicts ------------------------------------------------------------------------------------------


def possible(problem, rules):
    everything = judge_all(replace(problem, rules=tuple(rules)))
    return bool(len(everything.objectives)) and everything.objectives.max() > -np.inf


def test_conflicts_are_minimal_and_relaxed_answers_break_least():
    rng = np.random.default_rng(4)
    clashes = 0
    for _ in range(250):
        problem = random_segment_problem(rng, max_steps=4, hard=0.7)
        hard = [rule for rule in problem.rules if rule.weight == np.inf]
        conflict = minimal_conflict(problem)
        named = [rule for rule in hard if rule.rule in conflict]
        if possible(problem, hard) or not possible(problem, []):
            assert conflict == ()
        else:
            clashes += 1
            assert not possible(problem, named)
            assert all(possible(problem, [x for x in named if x is not rule]) for rule in named)
        check_relaxed(problem, decode_relaxed(problem))
    assert clashes > 40


def check_relaxed(problem, result):
    """Least total amount of hard rules, then the best objective."""
    free = judge_all(replace(problem, rules=tuple(rule for rule in problem.rules if rule.weight < np.inf)))
    hard = [rule for rule in problem.rules if rule.weight == np.inf]
    ok = free.scores > -np.inf
    if not ok.any():
        assert result.status is Status.infeasible
        return
    total = sum((amounts_of(rule, free.labels) for rule in hard), np.zeros(len(ok)))
    least = total[ok].min()
    best = free.objectives[ok & (total == least)].max()
    assert result.status is Status.optimal
    assert sum(b.amount for b in result.broken if np.isinf(b.cost)) == least
    assert_allclose(result.objective, best, atol=1e-6)
    soft = sum(b.cost for b in result.broken if np.isfinite(b.cost))
    assert_allclose(result.objective, result.score - soft, atol=1e-6)


@pytest.mark.parametrize("part", ["cost", "amounts"])
def test_a_wrong_claim_is_withheld(monkeypatch, part):
    """What an engine thinks of its answer is held against the definition on every answer."""
    rng = np.random.default_rng(3)
    problems = [random_segment_problem(rng) for _ in range(20)]
    plain = getattr(SegmentSearch, part)
    wrong = {"cost": lambda self, amounts: plain(self, amounts) - 0.01, "amounts": lambda self, y: plain(self, y) * 0}
    monkeypatch.setattr(SegmentSearch, part, wrong[part])
    withheld = 0
    for problem in problems:
        try:
            decode(problem)
        except InternalError:
            withheld += 1
    assert withheld > 3
