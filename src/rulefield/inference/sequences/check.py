"""Judging labelings of chains: the entry point to the checker, which every answer passes before it is returned."""

from itertools import product
from typing import NamedTuple

import numpy as np

from rulefield.exceptions import InternalError
from rulefield.inference.checker import breaches, definitions_of, mismatch
from rulefield.inference.flatten import Flat, flatten
from rulefield.inference.result import Breach, rounding_error
from rulefield.kernels.chain.check import OUTSIDE, judge_all, judge_one
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem


class Judged(NamedTuple):
    """What a labeling is worth."""

    score: float
    objective: float
    broken: tuple[Breach, ...]
    error: float
    """Rounding error that sums in another order may differ by."""


def judge_labeling(problem: ChainProblem, labels: np.ndarray, flat: Flat | None = None) -> Judged:
    """Return score, objective and broken rules of a labeling (n,), from the definition; O(n x rules).

    ``flat`` holds the problem's rules, where a caller has looked them up already.
    """
    unary, pairwise = _arrays(problem.potentials)
    n, m = unary.shape
    flat = flatten(problem.rules, m) if flat is None else flat
    classes, weight = flat.classes.reshape(len(problem.rules), n), flat.tables.weight
    amounts = np.zeros(len(problem.rules), np.int64)
    score, size, cost, n_broken = judge_one(unary, pairwise, definitions_of(flat), weight, classes, labels, amounts)
    if n_broken == OUTSIDE:
        raise InternalError(f"an engine returned labels that are not {n} numbers in 0..{m - 1}: {labels}.")
    for r in flat.shared.rows_only:
        amounts[r] = problem.rules[r].find_amount(labels)  # type: ignore[misc]
        if amounts[r]:
            n_broken += 1
            cost += weight[r] * (1.0 if problem.rules[r].once else float(amounts[r]))
    broken = breaches(problem.rules, amounts) if n_broken else ()
    size += cost if cost < np.inf else 0.0
    error = rounding_error(4 * (n + len(amounts) + 1), size)
    return Judged(score, score - cost, broken, error)


def confirm(
    problem: ChainProblem, labels: np.ndarray, objective: float, error: float, flat: Flat | None = None
) -> Judged:
    """Judge an engine's labeling; raise where its objective is not the one that the engine claims.

    ``error`` is the rounding error of the engine's own sum.
    """
    found = judge_labeling(problem, labels, flat)
    if not abs(found.objective - objective) <= found.error + error:
        raise mismatch(objective, found.objective)
    return found


def all_judged(problem: ChainProblem) -> tuple[np.ndarray, np.ndarray]:
    """Scores and costs (m ** n,) of all labelings, in lexicographic order."""
    unary, pairwise = _arrays(problem.potentials)
    n, m = unary.shape
    flat = flatten(problem.rules, m)
    scores, costs = np.empty(m**n), np.empty(m**n)
    classes = flat.classes.reshape(len(problem.rules), n)
    judge_all(unary, pairwise, definitions_of(flat), flat.tables.weight, classes, scores, costs)
    for r in flat.shared.rows_only:
        rule = problem.rules[r]
        for number, labels in enumerate(product(range(m), repeat=n)):
            amount = rule.find_amount(np.array(labels))  # type: ignore[misc]
            if amount:
                costs[number] += rule.weight * (1.0 if rule.once else float(amount))
    return scores, costs


def _arrays(potentials: ChainPotentials) -> tuple[np.ndarray, np.ndarray]:
    unary = np.ascontiguousarray(potentials.unary, dtype=np.float64)
    return unary, np.ascontiguousarray(potentials.pairwise_stack, dtype=np.float64)
