"""Answers by listing every labeling of a chain: slow, obvious, and the oracle of the other engines.

Cost grows as n_states ** n_steps; more than ``LIMIT`` labelings are refused. Under rules the checker judges them.
"""

from itertools import product

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.checker import amounts_of, costs_of
from rulefield.inference.flatten import flatten
from rulefield.inference.result import Result, Status
from rulefield.inference.sequences.check import judge_labeling
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem

LIMIT = 1_000_000


def labelings(potentials: ChainPotentials) -> np.ndarray:
    """Return every labeling, (n_states ** n_steps, n_steps), in lexicographic order."""
    n, m = potentials.n_steps, potentials.n_states
    if m**n > LIMIT:
        raise InputError(f"enumeration lists at most {LIMIT} labelings; {m} labels on {n} tokens have {m**n}.")
    return np.array(list(product(range(m), repeat=n)), dtype=np.int64).reshape(m**n, n)


def judge_every(problem: ChainProblem) -> tuple[np.ndarray, np.ndarray]:
    """Scores and costs of broken rules (m ** n,) of all labelings, in lexicographic order."""
    paths, flat = labelings(problem.potentials), flatten(problem.rules, problem.potentials.n_states)
    return problem.potentials.scores(paths), costs_of(flat, amounts_of(flat, paths))


def decode_enumerate(problem: ChainProblem) -> Result:
    """Return a best labeling under the rules by judging all m ** n of them; refused where they are too many."""
    scores, costs = judge_every(problem)
    objectives = scores - np.where(scores > -np.inf, costs, 0.0)
    best = int(np.argmax(objectives))
    if objectives[best] == -np.inf:
        none = np.zeros(0, np.int64)
        return Result(none, -np.inf, -np.inf, -np.inf, Status.infeasible, "enumerate", len(scores))
    labels = labelings(problem.potentials)[best]
    found = judge_labeling(problem, labels)
    return Result(
        labels, found.score, found.objective, found.objective, Status.optimal, "enumerate", len(scores), found.broken
    )
