"""Answers by listing every labeling of a chain: slow, obvious, and the oracle of the other engines.

Cost grows as n_states ** n_steps; more than ``LIMIT`` labelings are refused. Under rules the checker judges them.
"""

from itertools import product

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.check import all_judged, judge_labeling
from rulefield.inference.sequences.exact import ChainMarginals, as_result
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LIMIT = 1_000_000


def labelings(potentials: ChainPotentials) -> np.ndarray:
    """Return every labeling, (n_states ** n_steps, n_steps), in lexicographic order."""
    n, m = potentials.n_steps, potentials.n_states
    _check_size(n, m)
    return np.array(list(product(range(m), repeat=n)), dtype=np.int64).reshape(m**n, n)


def _check_size(n: int, m: int) -> None:
    if m**n > LIMIT:
        raise InputError(f"enumeration lists at most {LIMIT} labelings; {m} labels on {n} tokens have {m**n}.")


def judge_every(problem: ChainProblem) -> tuple[np.ndarray, np.ndarray]:
    """Scores and costs of broken rules (m ** n,) of all labelings, in lexicographic order."""
    _check_size(problem.potentials.n_steps, problem.potentials.n_states)
    return all_judged(problem)


def labeling(number: int, potentials: ChainPotentials) -> np.ndarray:
    """Return the labeling (n_steps,) at a place of the lexicographic order."""
    n, m = potentials.n_steps, potentials.n_states
    return (number // m ** np.arange(n - 1, -1, -1, dtype=np.int64)) % m


def decode_enumerate(problem: ChainProblem) -> Result:
    """Return a best labeling under the rules by judging all m ** n of them; refused where they are too many."""
    scores, costs = judge_every(problem)
    objectives = scores - np.where(scores > -np.inf, costs, 0.0)
    best = int(np.argmax(objectives))
    if objectives[best] == -np.inf:
        none = np.zeros(0, np.int64)
        return Result(none, -np.inf, -np.inf, -np.inf, Status.infeasible, "enumerate", len(scores))
    labels = labeling(best, problem.potentials)
    found = judge_labeling(problem, labels)
    return Result(
        labels,
        found.score,
        found.objective,
        found.objective,
        Status.optimal,
        "enumerate",
        len(scores),
        found.broken,
    )


def enumerate_kbest(potentials: ChainPotentials, k: int) -> list[Result]:
    """Return the k best allowed labelings, best first: what ``chain.kbest`` must return."""
    scores, _ = judge_every(ChainProblem(potentials))
    order = [int(i) for i in np.argsort(-scores, kind="stable")[:k] if scores[i] > -np.inf]
    return [as_result(labeling(i, potentials), float(scores[i]), "enumerate") for i in order]


def enumerate_map(potentials: ChainPotentials) -> Result:
    """Return a best labeling, or the infeasible result where all are forbidden."""
    best = enumerate_kbest(potentials, 1)
    return best[0] if best else as_result(np.empty(0, np.int64), -np.inf, "enumerate")


def enumerate_log_partition(potentials: ChainPotentials) -> float:
    """Return the log of the sum of exp(score) over all labelings."""
    return float(np.logaddexp.reduce(judge_every(ChainProblem(potentials))[0]))


def enumerate_marginals(potentials: ChainPotentials) -> ChainMarginals:
    """Return the log partition function with node and edge marginals."""
    n, m = potentials.n_steps, potentials.n_states
    scores, _ = judge_every(ChainProblem(potentials))
    total = float(np.logaddexp.reduce(scores))
    node, edge = np.zeros((n, m)), np.zeros((max(n - 1, 0), m, m))
    if total == -np.inf:
        return ChainMarginals(total, node, edge, Status.infeasible)
    steps = np.arange(n)
    for path, p in zip(labelings(potentials), np.exp(scores - total), strict=True):
        node[steps, path] += p
        edge[steps[:-1], path[:-1], path[1:]] += p
    return ChainMarginals(total, node, edge, Status.optimal)
