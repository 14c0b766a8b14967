"""When hard rules on a graph cannot all hold: which of them are in conflict, and the least violation."""

from dataclasses import replace
from time import monotonic

import numpy as np

from rulefield.inference.graph.decode import decode_graph
from rulefield.inference.graph.evaluate import check_problem
from rulefield.inference.graph.state import SHORT_NODES
from rulefield.inference.result import TOLERANCE, Result, Status
from rulefield.problem.graph import GraphProblem

PRICES = 16.0 ** np.arange(12)
"""Of a unit of violation that are tried at most, in ranges of all scores."""


def minimal_conflict_graph(problem: GraphProblem, node_limit: int = SHORT_NODES) -> tuple[int, ...]:
    """Numbers of hard rules that cannot hold together, none of which can be left out (deletion filter).

    Empty where the problem is feasible, or where the potentials alone forbid every labeling. One feasibility
    search for each hard rule, on scores 0 and -inf; a search that reaches ``node_limit`` keeps its rule.
    """
    check_problem(problem)
    bare, hard = _flat(problem), _hard_rules(problem)
    if not _is_infeasible(_only(bare, hard), node_limit) or _is_infeasible(_only(bare, []), node_limit):
        return ()
    needed = list(hard)
    for rule in hard:
        without = [r for r in needed if r != rule]
        if _is_infeasible(_only(bare, without), node_limit):
            needed = without
    return tuple(needed)


def relax_graph(problem: GraphProblem, node_limit: int = SHORT_NODES, seconds: float | None = None) -> Result:
    """Labeling with the least total violation of hard rules, then the best objective among these.

    The least violation is found first, alone. Then each unit of it has a price, which is raised until the best
    labeling at that price violates no more than the least: at that price, none that violates as little is better.
    Rows that define auxiliary variables always hold. ``objective`` leaves hard rules out; ``broken`` lists them with
    cost ``inf``; ``status`` is ``optimal`` where both goals are proved.
    """
    check_problem(problem)
    start = monotonic()
    hard = _hard_rules(problem)
    bare = _priced(_only(_flat(problem), hard), 1.0)
    least = decode_graph(bare, node_limit=node_limit, seconds=seconds)
    if not len(least.labels):
        return least
    amount = _violation(least, hard)
    for price in (_range(problem) + 1.0) * PRICES:
        left = None if seconds is None else max(0.0, seconds - (monotonic() - start))
        found = decode_graph(_priced(problem, price), "auto", node_limit, left, least.labels)
        if _violation(found, hard) <= amount + TOLERANCE or found.status is not Status.optimal:
            break
    return _relaxed(found, least, hard, price)


def _relaxed(found: Result, least: Result, hard: list[int], price: float) -> Result:
    """Speak of a labeling found at a price in terms of the problem itself."""
    amount, more = _violation(least, hard), _violation(found, hard)
    broken = tuple(replace(b, cost=np.inf) if b.rule in hard else b for b in found.broken)
    objective = found.score - sum(b.cost for b in found.broken if b.rule not in hard)
    proved = found.status is least.status is Status.optimal and more <= amount + TOLERANCE
    return replace(
        found,
        objective=objective,
        upper_bound=objective + found.gap + price * max(0.0, amount - more),
        status=Status.optimal if proved else Status.bounded,
        broken=broken,
    )


def _violation(result: Result, hard: list[int]) -> float:
    return sum(b.amount for b in result.broken if b.rule in hard)


def _priced(problem: GraphProblem, price: float) -> GraphProblem:
    """Let each unit of hard violation cost ``price``; what defines an auxiliary variable stays hard."""
    logic, rows = problem.logic, problem.rows
    to_pay = np.isinf(rows.weight) & (rows.defines < 0)
    return replace(
        problem,
        logic=replace(logic, weight=np.where(np.isinf(logic.weight), price, logic.weight)),
        rows=replace(rows, weight=np.where(to_pay, price, rows.weight)),
    )


def _flat(problem: GraphProblem) -> GraphProblem:
    """Scores 0 where allowed, in tables as well."""
    p = problem.potentials
    unary, pairwise = (np.where(a > -np.inf, 0.0, -np.inf) for a in (p.unary, p.pairwise))
    return replace(problem, potentials=replace(p, unary=unary, pairwise=pairwise), tables=problem.tables.flat())


def _hard_rules(problem: GraphProblem) -> list[int]:
    logic, rows = problem.logic, problem.rows
    numbers = [logic.rule[np.isinf(logic.weight)], rows.rule[np.isinf(rows.weight) & (rows.defines < 0)]]
    return [int(r) for r in np.unique(np.concatenate(numbers))]


def _is_infeasible(problem: GraphProblem, node_limit: int) -> bool:
    return decode_graph(problem, node_limit=node_limit).status is Status.infeasible


def _only(problem: GraphProblem, rules: list[int]) -> GraphProblem:
    """Keep the hard factors and rows of some rules."""
    logic, rows = problem.logic, problem.rows
    keep = np.isin(logic.rule, rules) & np.isinf(logic.weight)
    keep_row = np.isin(rows.rule, rules) & np.isinf(rows.weight)
    return replace(problem, logic=logic.select(keep), rows=rows.select(keep_row))


def _range(problem: GraphProblem) -> float:
    """Bound on the difference between two objectives."""
    p = problem.potentials
    total = problem.tables.spread
    for values, start in ((p.unary, p.unary_offset), (p.pairwise, p.pairwise_offset)):
        if len(values):
            high = np.maximum.reduceat(values, start[:-1])
            low = np.minimum.reduceat(np.where(values > -np.inf, values, np.inf), start[:-1])
            total += float(np.where(np.isfinite(high - low), high - low, 0.0).sum())
    soft = problem.logic.weight[np.isfinite(problem.logic.weight)].sum()
    rows = problem.rows
    most = np.bincount(rows.atom_row, weights=np.maximum(rows.value, 0.0), minlength=rows.n_rows) - rows.bound
    finite = np.isfinite(rows.weight)
    return total + float(soft) + float((rows.weight[finite] * np.maximum(most[finite], 0.0)).sum())
