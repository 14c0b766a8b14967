"""Judging labelings of chains: the entry point to the checker, which every answer passes before it is returned."""

from typing import NamedTuple

import numpy as np

from rulefield.exceptions import InternalError
from rulefield.inference.checker import amounts_of, breaches, costs_of, mismatch
from rulefield.inference.flatten import Flat, flatten
from rulefield.inference.result import TOLERANCE, Breach, rounding_error
from rulefield.kernels import certificate
from rulefield.problem.chain import Chains
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
    n, m = problem.potentials.unary.shape
    flat = flatten(problem.rules, m) if flat is None else flat
    if len(labels) != n or not _inside(labels, m):
        raise InternalError(f"an engine returned labels that are not {n} numbers in 0..{m - 1}: {labels}.")
    stack = problem.potentials.pairwise_stack
    chains = Chains(problem.potentials.unary, stack, np.array([0, n]), np.array([[0, len(stack)]]))
    (score,), (size,) = (found.tolist() for found in chains.scores(labels))
    amounts = amounts_of(flat, labels[None])
    cost = float(costs_of(flat, amounts)[0])
    error = rounding_error(4 * (n + len(problem.rules) + 1), size + (cost if cost < np.inf else 0.0))
    return Judged(score, score - cost, breaches(problem.rules, amounts[0]), error)


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


def certify(
    chains: Chains,
    own: Flat,
    classes: np.ndarray,
    labels: np.ndarray,
    rules: int,
    offset: np.ndarray,
    values: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Judge the labels (tokens,) of many chains: whether each labeling is proved best, and worth what its engine claims.

    ``own`` are the rules of the chains, which are the same but for the ``classes`` (own rules, tokens); the engine read so
    many ``rules``, took ``offset`` (chains,) out of the scores, and claims bounds and values, the first columns of
    ``values``. Returns score, objective and bound (chains, 3), what the labels break (chains, own rules), and which are to
    be used.
    """
    tokens, n = chains.offsets, np.diff(chains.offsets)
    if not _inside(labels, chains.unary.shape[1]):
        raise InternalError(f"an engine returned labels that are not numbers in 0..{chains.unary.shape[1] - 1}.")
    score, size = chains.scores(labels)
    amounts = own.shared.evaluator(labels[None], tokens[:-1], n, classes, tokens[:-1])
    cost, bound, value = costs_of(own, amounts), values[:, 0], values[:, 1]
    with np.errstate(invalid="ignore"):  # no labeling was found, or it is forbidden: nothing agrees
        error = certificate.rounding_error(2 * n + rules, value)
        of_sum = error + certificate.rounding_error(4, offset)
        objective = score - cost
        error_of_own = certificate.rounding_error(
            4 * (n + len(own.rules) + 1), size + np.where(cost < np.inf, cost, 0.0)
        )
        agrees = np.abs(objective - (value + offset)) <= error_of_own + of_sum
        agrees &= value <= bound + TOLERANCE + of_sum
        bound = objective + np.maximum(bound, value) - value
        sure = agrees & (bound - objective <= TOLERANCE + error) & (value > -np.inf)
    return np.stack([score, objective, bound], axis=1), amounts, sure


def _inside(labels: np.ndarray, m: int) -> bool:
    """Whether all labels are those of a chain with m labels."""
    return bool(((labels >= 0) & (labels < m)).all())
