"""Hard rules that cannot all be obeyed: which ones, and the labelling that breaks them least."""

from dataclasses import replace

import numpy as np

from rulefield.inference.chain.auto import NODE_LIMIT, run_auto
from rulefield.inference.chain.check import judge_labelling
from rulefield.inference.chain.dual import Progress, dual_potentials, run_soft_dd
from rulefield.inference.chain.milp import all_parts, solve
from rulefield.inference.chain.prepare import prepare
from rulefield.inference.chain.product import search_window
from rulefield.inference.chain.search.columns import prove_infeasible
from rulefield.inference.result import Breach, Result, Status
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem, CompiledRule


def is_hard(rule: CompiledRule) -> bool:
    """Whether a rule must be obeyed."""
    return rule.weight == np.inf


def _flat(potentials: ChainPotentials) -> ChainPotentials:
    """Potentials that allow the same labellings and prefer none."""
    return ChainPotentials(*(np.where(x > -np.inf, 0.0, -np.inf) for x in (potentials.unary, potentials.pairwise)))


def conflicting(problem: ChainProblem, node_limit: int = NODE_LIMIT) -> tuple[CompiledRule, ...] | None:
    """Return hard rules that no labelling can obey together, or None where some labelling obeys all of them.

    The rules are those that the search had to look at, not a minimal set; with no rule at all, the potentials forbid
    every labelling by themselves.
    """
    hard = tuple(rule for rule in problem.rules if is_hard(rule))
    if problem.potentials.n_steps == 0:
        return tuple(rule for rule in hard if _breaks_empty(rule)) or None
    flat = ChainProblem(_flat(problem.potentials), hard)
    progress = Progress.start(prepare(flat))
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
    labels, _, _ = solve(progress.prepared, all_parts(progress.prepared))
    return hard if labels is None else None


def _named(progress: Progress, read: set[int]) -> tuple[CompiledRule, ...]:
    """Return the problem's rules at these places of the tables; of rules read as one, all."""
    unread = {id(rule) for r, rule in enumerate(progress.prepared.flat.rules) if r not in read}
    return tuple(rule for rule in progress.prepared.problem.rules if id(rule) not in unread)


def _breaks_empty(rule: CompiledRule) -> bool:
    """Whether the labelling of no tokens breaks a rule."""
    nothing = ChainProblem(ChainPotentials(np.zeros((0, 1)), np.zeros((1, 1))), (rule,))
    return bool(judge_labelling(nothing, np.zeros(0, np.int64)).broken)


def minimal_conflict(problem: ChainProblem, node_limit: int = NODE_LIMIT) -> tuple[int, ...]:
    """Numbers of hard rules that cannot be obeyed together, although without any one of them they can.

    Deletion filter: rules are dropped one by one as long as the rest stays in conflict. Empty where some labelling
    obeys all hard rules, or where the potentials alone forbid every labelling.
    """
    kept = conflicting(problem, node_limit)
    if kept is None:
        return ()
    for rule in kept:
        rest = tuple(other for other in kept if other is not rule)
        smaller = conflicting(ChainProblem(problem.potentials, rest), node_limit)
        if smaller is not None:
            kept = tuple(other for other in rest if any(other is found for found in smaller))
    return tuple(rule.rule for rule in kept)


def decode_relaxed(problem: ChainProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Break hard rules as little as possible: the least total amount first, then the best objective.

    The first stage finds the least total amount V of hard rules; the second decodes with hard rules priced so high
    that no labelling with more than V can win. ``objective`` is score minus what *soft* rules cost; broken hard
    rules are listed with an infinite cost. ``infeasible`` only where the potentials forbid every labelling.
    """
    if problem.potentials.n_steps == 0:
        return _relaxed_empty(problem)
    as_units = tuple(replace(r, weight=1.0, once=False) for r in problem.rules if is_hard(r))
    first = Progress.start(prepare(ChainProblem(_flat(problem.potentials), as_units)))
    run_auto(first, node_limit, seconds)
    steps = first.iterations + first.nodes
    if first.best == -np.inf:
        return first.result("relaxed", steps)
    price = _price_of_breaking(problem, first.labels)
    priced = tuple(replace(r, weight=price, once=False) if is_hard(r) else r for r in problem.rules)
    second = Progress.start(prepare(ChainProblem(problem.potentials, priced)))
    run_auto(second, node_limit, seconds)
    steps += second.iterations + second.nodes
    return _judged(problem, first, second, price, steps)


def _relaxed_empty(problem: ChainProblem) -> Result:
    """Return the labelling of no tokens, with the rules that it breaks."""
    soft = ChainProblem(problem.potentials, tuple(r for r in problem.rules if not is_hard(r)))
    found, labels = judge_labelling(problem, np.zeros(0, np.int64)), np.zeros(0, np.int64)
    value = judge_labelling(soft, labels).objective
    return Result(labels, 0.0, value, value, Status.optimal, "relaxed", 0, found.broken)


def _price_of_breaking(problem: ChainProblem, known: np.ndarray) -> float:
    """Return more than any labelling can gain over the known one by breaking hard rules once more."""
    soft = ChainProblem(problem.potentials, tuple(r for r in problem.rules if not is_hard(r)))
    best = Progress.start(prepare(soft))
    run_soft_dd(best, 1)
    return 2.0 * max(best.bound - best.prepared.value(known), 0.0) + 1.0


def _judged(problem: ChainProblem, first: Progress, second: Progress, price: float, steps: int) -> Result:
    """Build the result of relaxed decoding: true costs, and a bound that is proved only if both stages were."""
    hard = {rule.rule for rule in problem.rules if is_hard(rule)}
    unpriced = ChainProblem(
        problem.potentials, tuple(replace(r, weight=0.0) if is_hard(r) else r for r in problem.rules)
    )

    def broken_hard(labels: np.ndarray) -> float:
        return sum(b.amount for b in judge_labelling(unpriced, labels).broken if b.rule in hard)

    least, labels = broken_hard(first.labels), second.labels
    if second.best == -np.inf or broken_hard(labels) > least:
        labels = first.labels  # the second stage was stopped before it found one as good
    value = second.prepared.value(labels)
    checked = second.prepared.answer(labels, value, second.bound, "relaxed", steps)
    found = judge_labelling(unpriced, labels)
    broken = tuple(Breach(b.rule, b.amount, np.inf) if b.rule in hard else b for b in found.broken)
    proved = first.settled and broken_hard(labels) == least
    return replace(
        checked,
        objective=found.objective,
        upper_bound=found.objective + max(second.bound - value, 0.0),
        status=checked.status if proved else Status.bounded,
        broken=broken,
    )
