"""Every labelling of a small graph: the oracle of every other graph engine."""

import numpy as np

from rulefield.exceptions import InputError
from rulefield.inference.graph.evaluate import Answer, evaluate, no_answer
from rulefield.problem.graph import GraphProblem

LIMIT = 2_000_000


def enumerate_graph(problem: GraphProblem) -> Answer:
    """Best labelling by trying all of them, auxiliary variables included.

    Raises
    ------
    InputError
        Where there are more than two million labellings.
    """
    sizes = np.concatenate([problem.potentials.n_labels, np.full(problem.rows.n_auxiliary, 2)]).astype(np.int64)
    count = float(np.prod(sizes.astype(np.float64)))
    if count > LIMIT:
        raise InputError(f'engine="enumerate" tries at most {LIMIT:,} labellings, here are {count:.3g}; use "auto".')
    best, best_value = None, -np.inf
    for code in range(int(count)):
        labels = np.array(np.unravel_index(code, sizes), dtype=np.int64) if len(sizes) else np.zeros(0, np.int64)
        value = evaluate(problem, labels).objective
        if value > best_value:
            best, best_value = labels, value
    if best is None:
        return no_answer(-np.inf, "enumerate", int(count))
    return Answer(best, best_value, best_value, "enumerate", int(count))
