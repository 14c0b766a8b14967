"""Hard rules that no segmentation obeys together: which ones, and the segmentation that breaks them least."""

from dataclasses import replace

import numpy as np

from rulefield.inference.definition import amounts_of
from rulefield.inference.result import Breach, Result, Status, judge
from rulefield.inference.segments.prepare import prepare
from rulefield.inference.segments.search import NODE_LIMIT, SegmentSearch, run_auto
from rulefield.problem.chain_rules import CompiledRule
from rulefield.problem.segments import SegmentPotentials, SegmentProblem


def is_hard(rule: CompiledRule) -> bool:
    """Whether a rule must be obeyed."""
    return rule.weight == np.inf


def _flat(p: SegmentPotentials) -> SegmentPotentials:
    """Potentials that allow the same segmentations and prefer none."""
    names = ("token", "first", "last", "length", "pairwise")
    flat = {name: np.where(getattr(p, name) > -np.inf, 0.0, -np.inf) for name in names}
    return replace(p, **flat, spans=replace(p.spans, score=np.where(p.spans.score > -np.inf, 0.0, -np.inf)))


def _searched(problem: SegmentProblem, node_limit: int, seconds: float | None = None) -> SegmentSearch:
    search = SegmentSearch.start(problem)
    run_auto(search, node_limit, seconds)
    return search


def minimal_conflict(problem: SegmentProblem, node_limit: int = NODE_LIMIT) -> tuple[int, ...]:
    """Numbers of hard rules that cannot be obeyed together, although without any one of them they can.

    Deletion filter: rules are dropped one by one as long as the rest stays in conflict. Empty where some segmentation
    obeys all hard rules, or where the potentials and what is known forbid every segmentation by themselves.
    """
    kept = tuple(rule for rule in problem.rules if is_hard(rule))
    if problem.potentials.n_steps == 0:
        return tuple(rule.rule for rule in kept if amounts_of(rule, np.zeros((1, 0), np.int64))[0] > 0)[:1]
    flat = replace(problem, potentials=_flat(problem.potentials))

    def clash(rules: tuple[CompiledRule, ...]) -> bool:
        return _searched(replace(flat, rules=rules), node_limit).bound == -np.inf

    if not clash(kept) or clash(()):
        return ()
    for rule in kept:
        rest = tuple(other for other in kept if other is not rule)
        kept = rest if clash(rest) else kept
    return tuple(rule.rule for rule in kept)


def decode_relaxed(problem: SegmentProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Break hard rules as little as possible: the least total amount first, then the best objective.

    The first stage finds the least total amount of hard rules; the second decodes with hard rules priced so high that
    no segmentation with more can win. ``objective`` is score minus what *soft* rules cost; broken hard rules are listed
    with an infinite cost. ``infeasible`` only where the potentials forbid every segmentation.
    """
    if problem.potentials.n_steps == 0:
        return _empty(problem)
    units = tuple(replace(rule, weight=1.0, once=False) for rule in problem.rules if is_hard(rule))
    first = _searched(replace(problem, potentials=_flat(problem.potentials), rules=units), node_limit, seconds)
    soft = SegmentSearch.start(replace(problem, rules=tuple(rule for rule in problem.rules if not is_hard(rule))))
    if first.best == -np.inf or soft.bound == -np.inf:
        return soft.prepared.no_result(first.bound, "relaxed", first.iterations + first.nodes)
    known = soft.prepared.objective(first.labels, soft.prepared.amounts(first.labels)[0])
    price = max(soft.bound - known, 0.0) + 1.0
    priced = tuple(replace(rule, weight=price, once=False) if is_hard(rule) else rule for rule in problem.rules)
    second = _searched(replace(problem, rules=priced), node_limit, seconds)
    return _judged(problem, first, second)


def _empty(problem: SegmentProblem) -> Result:
    """Return the only labelling of no tokens, and what it breaks."""
    none = np.zeros(0, np.int64)
    amounts = [float(amounts_of(rule, none[None])[0]) for rule in problem.rules]
    broken = tuple(
        Breach(rule.rule, amount, rule.weight * (1.0 if rule.once else amount))
        for rule, amount in zip(problem.rules, amounts)
        if amount > 0
    )
    objective = -sum(b.cost for b in broken if np.isfinite(b.cost))
    return Result(none, 0.0, objective, objective, Status.optimal, "relaxed", 0, broken)


def _judged(problem: SegmentProblem, first: SegmentSearch, second: SegmentSearch) -> Result:
    """Build the result of relaxed decoding: true costs, and a bound that is proved only if both stages were."""
    free = tuple(replace(rule, weight=0.0) if is_hard(rule) else rule for rule in problem.rules)
    hard = {rule.rule for rule in problem.rules if is_hard(rule)}
    plain = prepare(replace(problem, rules=free)).result(second.labels, np.inf, "relaxed", 0)
    broken = tuple(Breach(b.rule, b.amount, np.inf) if b.rule in hard else b for b in plain.broken)
    over = max(second.bound - second.best, 0.0)
    bound = plain.objective + over
    status = judge(plain.objective, bound) if first.settled else Status.bounded
    steps = sum(search.iterations + search.nodes for search in (first, second))
    return replace(plain, upper_bound=bound, status=status, broken=broken, iterations=steps)
