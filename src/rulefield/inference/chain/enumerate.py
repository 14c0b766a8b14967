"""Answers by listing every labelling of a chain: slow, obvious, and the oracle of the other engines.

Cost grows as n_states ** n_steps; more than ``LIMIT`` labellings are refused.
"""

from itertools import product

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.chain.exact import ChainMarginals, as_result
from rulefield.inference.result import Result, Status
from rulefield.problem.chain import ChainPotentials

LIMIT = 1_000_000


def labellings(potentials: ChainPotentials) -> np.ndarray:
    """Return every labelling, (n_states ** n_steps, n_steps), in lexicographic order."""
    n, m = potentials.n_steps, potentials.n_states
    if m**n > LIMIT:
        raise InputError(f"Enumeration lists at most {LIMIT} labellings; {m} labels on {n} tokens have {m**n}.")
    return np.array(list(product(range(m), repeat=n)), dtype=np.int64).reshape(m**n, n)


def enumerate_kbest(potentials: ChainPotentials, k: int) -> list[Result]:
    """Return the k best allowed labellings, best first: what ``chain.kbest`` must return."""
    paths = labellings(potentials)
    scores = np.array([potentials.score(path) for path in paths])
    order = np.argsort(-scores, kind="stable")[:k]
    return [as_result(paths[i], float(scores[i]), "enumerate") for i in order if scores[i] > -np.inf]


def enumerate_map(potentials: ChainPotentials) -> Result:
    """Return a best labelling, or the infeasible result where all are forbidden."""
    best = enumerate_kbest(potentials, 1)
    return best[0] if best else as_result(np.empty(0, np.int64), -np.inf, "enumerate")


def enumerate_log_partition(potentials: ChainPotentials) -> float:
    """Return the log of the sum of exp(score) over all labellings."""
    scores = np.array([potentials.score(path) for path in labellings(potentials)])
    return float(np.logaddexp.reduce(scores))


def enumerate_marginals(potentials: ChainPotentials) -> ChainMarginals:
    """Return the log partition function with node and edge marginals."""
    n, m = potentials.n_steps, potentials.n_states
    total = enumerate_log_partition(potentials)
    node, edge = np.zeros((n, m)), np.zeros((max(n - 1, 0), m, m))
    if total == -np.inf:
        return ChainMarginals(total, node, edge, Status.infeasible)
    steps = np.arange(n)
    for path in labellings(potentials):
        p = np.exp(potentials.score(path) - total)
        node[steps, path] += p
        edge[steps[:-1], path[:-1], path[1:]] += p
    return ChainMarginals(total, node, edge, Status.optimal)
