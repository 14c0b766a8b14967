"""When hard rules on a graph cannot all hold: which of them are in conflict, and the least violation."""

from dataclasses import replace

import numpy as np

from rulefield.inference.graph.auto import auto_graph
from rulefield.inference.graph.evaluate import check_problem
from rulefield.inference.result import Result, Status
from rulefield.problem.graph import GraphPotentials, GraphProblem
from rulefield.problem.logic import GraphRows, LogicFactors

NODE_LIMIT = 20_000


def minimal_conflict_graph(problem: GraphProblem, node_limit: int = NODE_LIMIT) -> tuple[int, ...]:
    """Numbers of hard rules that cannot hold together, none of which can be left out (deletion filter).

    Empty where the problem is feasible, or where the potentials alone forbid every labelling. One feasibility
    search for each hard rule, on scores 0 and -inf; a search that reaches ``node_limit`` keeps its rule.
    """
    check_problem(problem)
    bare = replace(problem, potentials=_flat(problem.potentials))
    hard = _hard_rules(problem)
    if not _is_infeasible(_only(bare, hard), node_limit) or _is_infeasible(_only(bare, []), node_limit):
        return ()
    needed = list(hard)
    for rule in hard:
        without = [r for r in needed if r != rule]
        if _is_infeasible(_only(bare, without), node_limit):
            needed = without
    return tuple(needed)


def relax_graph(problem: GraphProblem, node_limit: int = NODE_LIMIT, seconds: float | None = None) -> Result:
    """Labelling with the least total violation of hard rules, then the best objective.

    Each unit of hard violation costs more than the whole range of the objective (so real-valued rows whose
    excesses differ by less than one unit may be traded against it). ``objective`` leaves hard rules out; ``broken``
    lists them with cost ``inf``; ``status`` speaks of both goals together.
    """
    check_problem(problem)
    price = _range(problem) + 1.0
    soft = replace(
        problem,
        logic=replace(problem.logic, weight=np.where(np.isinf(problem.logic.weight), price, problem.logic.weight)),
        rows=replace(problem.rows, weight=np.where(np.isinf(problem.rows.weight), price, problem.rows.weight)),
    )
    result = auto_graph(soft, node_limit, seconds)
    if result.status == Status.infeasible or not len(result.labels):
        return result
    hard = set(_hard_rules(problem))
    broken = tuple(replace(b, cost=np.inf) if b.rule in hard else b for b in result.broken)
    paid = sum(b.cost for b in result.broken if b.rule in hard)
    return replace(result, objective=result.objective + paid, upper_bound=result.upper_bound + paid, broken=broken)


def _flat(p: GraphPotentials) -> GraphPotentials:
    """Scores 0 where allowed."""
    unary, pairwise = (np.where(a > -np.inf, 0.0, -np.inf) for a in (p.unary, p.pairwise))
    return GraphPotentials(p.n_labels, unary, p.edges, pairwise)


def _hard_rules(problem: GraphProblem) -> list[int]:
    numbers = [problem.logic.rule[np.isinf(problem.logic.weight)], problem.rows.rule[np.isinf(problem.rows.weight)]]
    return [int(r) for r in np.unique(np.concatenate(numbers))]


def _is_infeasible(problem: GraphProblem, node_limit: int) -> bool:
    return auto_graph(problem, node_limit, None).status == Status.infeasible


def _only(problem: GraphProblem, rules: list[int]) -> GraphProblem:
    """Keep the hard factors and rows of some rules."""
    logic, rows = problem.logic, problem.rows
    keep = np.isin(logic.rule, rules) & np.isinf(logic.weight)
    keep_row = np.isin(rows.rule, rules) & np.isinf(rows.weight)
    return replace(problem, logic=select_factors(logic, keep), rows=select_rows(rows, keep_row))


def select_factors(logic: LogicFactors, keep: np.ndarray) -> LogicFactors:
    """Return some of the factors (``keep`` is a mask)."""
    atoms = keep[logic.atom_factor]
    return LogicFactors(
        logic.kind[keep],
        np.concatenate([[0], np.cumsum(np.diff(logic.pointer)[keep])]).astype(np.int64),
        logic.atom_node[atoms],
        logic.atom_label[atoms],
        logic.atom_negated[atoms],
        logic.limit[keep],
        logic.weight[keep],
        logic.rule[keep],
    )


def select_rows(rows: GraphRows, keep: np.ndarray) -> GraphRows:
    """Return some of the rows (``keep`` is a mask)."""
    entries = keep[rows.atom_row]
    return GraphRows(
        np.concatenate([[0], np.cumsum(np.diff(rows.pointer)[keep])]).astype(np.int64),
        rows.atom_node[entries],
        rows.atom_label[entries],
        rows.value[entries],
        rows.bound[keep],
        rows.weight[keep],
        rows.rule[keep],
        rows.n_auxiliary,
    )


def _range(problem: GraphProblem) -> float:
    """Bound on the difference between two objectives."""
    p = problem.potentials
    total = 0.0
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
