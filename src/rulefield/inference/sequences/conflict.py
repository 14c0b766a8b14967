"""Hard rules that cannot all be obeyed: which ones, and the labeling that breaks them least."""

from dataclasses import replace

import numpy as np

from rulefield.inference.checker import rules_broken
from rulefield.inference.limits import Deadline, deadline
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.auto import NODE_LIMIT
from rulefield.inference.sequences.check import Judged, judge_labeling
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.prepare import prepare
from rulefield.inference.sequences.progress import Progress, dual_potentials, run_soft_dd
from rulefield.inference.sequences.segments.decode import decode as decode_segments
from rulefield.inference.sequences.stages.farkas import prove_infeasible
from rulefield.inference.sequences.stages.ilp import may_be_satisfied
from rulefield.inference.sequences.stages.product import search_window
from rulefield.interrupts import check
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule
from rulefield.problem.segments import SegmentProblem

Problem = ChainProblem | SegmentProblem


def is_hard(rule: CompiledRule) -> bool:
    """Whether a rule must be obeyed."""
    return rule.weight == np.inf


def conflicting(problem: Problem, node_limit: int = NODE_LIMIT) -> tuple[CompiledRule, ...] | None:
    """Return hard rules that no labeling can obey together, or None if some labeling obeys all of them.

    The rules are those that the search had to look at, not a minimal set; with no rule at all, the potentials forbid
    every labeling by themselves.
    """
    hard = tuple(rule for rule in problem.rules if is_hard(rule))
    if problem.potentials.n_steps == 0:
        return tuple(rule for rule in hard if _breaks_empty(rule)) or None
    check()
    with deadline(None) as limit:
        found = _conflicting(problem, hard, node_limit, limit)
    check()  # what was stopped proves nothing
    return found


def _conflicting(
    problem: Problem, hard: tuple[CompiledRule, ...], node_limit: int, limit: Deadline
) -> tuple[CompiledRule, ...] | None:
    flat = replace(_unscored(problem), rules=hard)
    if isinstance(flat, SegmentProblem):
        return hard if _decode(flat, node_limit).status is Status.infeasible else None
    progress = Progress.start(prepare(flat))
    progress.deadline = limit
    run_soft_dd(progress, 1)
    if progress.best > -np.inf:
        return None
    if progress.bound == -np.inf:
        return hard
    local = set(np.flatnonzero(progress.prepared.tables.local).tolist())
    duals = prove_infeasible(progress)
    if progress.best > -np.inf:
        return None
    if duals is not None:
        return _named(progress, local | set(progress.prepared.tables.counter_rule[duals > 0].tolist()))
    by_states = not progress.prepared.flat.shared.rows_only
    if by_states and search_window(progress, dual_potentials(progress), -np.inf, node_limit):
        looked_at = {term.rule for term in progress.terms} | local
        return None if progress.best > -np.inf else _named(progress, looked_at)
    return None if may_be_satisfied(progress.prepared, node_limit) else hard


def _named(progress: Progress, read: set[int]) -> tuple[CompiledRule, ...]:
    """Return the problem's rules at these places of the tables; of rules read as one, all."""
    unread = {id(rule) for r, rule in enumerate(progress.prepared.flat.rules) if r not in read}
    return tuple(rule for rule in progress.prepared.problem.rules if id(rule) not in unread)


def _breaks_empty(rule: CompiledRule) -> bool:
    """Whether the labeling of no tokens breaks a rule."""
    nothing = ChainProblem(ChainPotentials(np.zeros((0, 1)), np.zeros((1, 1))), (rule,))
    return bool(judge_labeling(nothing, np.zeros(0, np.int64)).broken)


def minimal_conflict(problem: Problem, node_limit: int = NODE_LIMIT) -> tuple[int, ...]:
    """Numbers of hard rules that cannot be obeyed together, although without any one of them they can.

    Deletion filter: rules are dropped one by one as long as the rest stays in conflict. Empty if some labeling
    obeys all hard rules, or if the potentials alone forbid every labeling.
    """
    kept = conflicting(problem, node_limit)
    if kept is None or conflicting(replace(problem, rules=()), node_limit) is not None:
        return ()
    for rule in kept:
        rest = tuple(other for other in kept if other is not rule)
        smaller = conflicting(replace(problem, rules=rest), node_limit)
        if smaller is not None:
            kept = tuple(other for other in rest if any(other is found for found in smaller))
    return tuple(rule.rule for rule in kept)


def decode_relaxed(problem: Problem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Break hard rules as little as possible: the least total amount first, then the best objective.

    The first stage finds the least total amount V of hard rules; the second decodes with hard rules priced so high
    that no labeling with more than V can win. ``objective`` is score minus what *soft* rules cost; broken hard
    rules are listed with an infinite cost. ``infeasible`` only if the potentials forbid every labeling.
    """
    if problem.potentials.n_steps == 0:
        return _relaxed(problem, np.zeros(0, np.int64), 0.0, True, 0)
    units = tuple(replace(r, weight=1.0, once=False) for r in problem.rules if is_hard(r))
    first = _decode(replace(_unscored(problem), rules=units), node_limit, seconds)
    if not len(first.labels):
        return replace(first, engine="relaxed")
    price = _price_of_breaking(problem, first.labels)
    priced = tuple(replace(r, weight=price, once=False) if is_hard(r) else r for r in problem.rules)
    second = _decode(replace(problem, rules=priced), node_limit, seconds)
    least, steps = _hard_amount(problem, first.labels), first.iterations + second.iterations
    if (
        not len(second.labels) or _hard_amount(problem, second.labels) > least
    ):  # it was stopped before it found one as good
        bound = second.upper_bound + price * least
        found = _relaxed(problem, first.labels, 0.0, False, steps)
        return replace(found, upper_bound=max(bound, found.objective))
    proved = first.status is Status.optimal and second.status is Status.optimal
    return _relaxed(problem, second.labels, second.gap, proved, steps)


def _price_of_breaking(problem: Problem, known: np.ndarray) -> float:
    """Return more than any labeling can gain over the known one by breaking hard rules once more."""
    soft = replace(problem, rules=tuple(r for r in problem.rules if not is_hard(r)))
    best = _decode(soft, engine="viterbi").upper_bound
    return 2.0 * max(best - _judge(soft, known).objective, 0.0) + 1.0


def _hard_amount(problem: Problem, labels: np.ndarray) -> float:
    """Return the total amount by which a labeling breaks hard rules."""
    return sum(b.amount for b in _judge(problem, labels).broken if b.cost == np.inf)


def _relaxed(problem: Problem, labels: np.ndarray, gap: float, proved: bool, steps: int) -> Result:
    """Build the result of relaxed decoding, with true costs of soft rules and infinite ones of hard rules."""
    found = _judge(problem, labels)
    objective = found.score - sum(b.cost for b in found.broken if b.cost < np.inf)
    status = Status.optimal if proved else Status.bounded
    return Result(labels, found.score, objective, objective + gap, status, "relaxed", steps, found.broken)


def _decode(
    problem: Problem, node_limit: int = NODE_LIMIT, seconds: float | None = None, engine: str = "auto"
) -> Result:
    """Decode a problem of either family."""
    if isinstance(problem, SegmentProblem):
        return decode_segments(problem, engine, node_limit, seconds)
    return decode(problem, engine, node_limit, seconds)


def _judge(problem: Problem, labels: np.ndarray) -> Judged:
    """Judge a labeling of either family by its definition."""
    if isinstance(problem, ChainProblem):
        return judge_labeling(problem, labels)
    broken, cost = rules_broken(problem.rules, labels, problem.spelling.n_labels)
    score = problem.score(labels) if len(labels) else 0.0
    return Judged(score, score - cost, broken, 0.0)


def _unscored(problem: Problem) -> Problem:
    """Return the problem with potentials that allow the same labelings and prefer none."""
    if isinstance(problem, ChainProblem):
        return replace(problem, potentials=problem.potentials.flat())
    p = problem.potentials
    names = ("token", "first", "last", "length", "pairwise")
    flat = {name: np.where(getattr(p, name) > -np.inf, 0.0, -np.inf) for name in names}
    spans = replace(p.spans, score=np.where(p.spans.score > -np.inf, 0.0, -np.inf))
    return replace(problem, potentials=replace(p, **flat, spans=spans))
