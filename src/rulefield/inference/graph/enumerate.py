"""Every labelling of a small graph: the oracle of every other graph engine."""

from itertools import product

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.evaluate import finish, nothing, objective
from rulefield.inference.result import Result
from rulefield.problem.graph import GraphProblem

LIMIT = 2_000_000


def enumerate_graph(problem: GraphProblem) -> Result:
    """Best labelling by trying all of them, auxiliary variables included.

    Raises
    ------
    InputError
        Where there are more than two million labellings.
    """
    sizes = [int(m) for m in problem.potentials.n_labels] + [2] * problem.rows.n_auxiliary
    count = float(np.prod(np.array(sizes, dtype=np.float64)))
    if count > LIMIT:
        raise InputError(f'engine="enumerate" tries at most {LIMIT:,} labellings, here are {count:.3g}; use "auto".')
    best, best_value = None, -np.inf
    for choice in product(*(range(m) for m in sizes)):
        labels = np.array(choice, dtype=np.int64)
        value = objective(problem, labels)
        if value > best_value:
            best, best_value = labels, value
    if best is None:
        return nothing(-np.inf, "enumerate", int(count))
    return finish(problem, best, best_value, "enumerate", int(count))
