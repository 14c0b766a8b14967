"""Checks that every graph engine makes of its scores."""

import numpy as np

from rulefield.exceptions import InputError
from rulefield.problem.graph import GraphPotentials
from rulefield.problem.graph_problem import GraphProblem


def check_scores(potentials: GraphPotentials) -> None:
    """Raise where a score is NaN or +inf (only -inf has a meaning: forbidden)."""
    for name, values in (("unary", potentials.unary), ("pairwise", potentials.pairwise)):
        wrong = np.isnan(values) | (values == np.inf)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise InputError(f"{name} scores must be finite or -inf; entry {place} is {values[place]}.")


def check_labels(potentials: GraphPotentials, labels: np.ndarray) -> None:
    """Raise where a labelling to start from does not fit the graph."""
    if labels.shape != (potentials.n_nodes,):
        raise InputError(
            f"warm_start must give one label for each of the {potentials.n_nodes} nodes; got shape {labels.shape}."
        )
    wrong = (labels < 0) | (labels >= potentials.n_labels)
    if wrong.any():
        node = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"warm_start gives node {node} the label {labels[node]}, but that node has {potentials.n_labels[node]} labels."
        )


def check_problem(problem: GraphProblem) -> None:
    """Raise where a score is NaN or +inf, a weight is negative or NaN, or a node has no label."""
    check_scores(problem.potentials)
    if problem.potentials.n_nodes and problem.potentials.n_labels.min() < 1:
        node = int(np.argmin(problem.potentials.n_labels))
        raise InputError(f"node {node} has no labels; every node needs at least one.")
    for name, weights in (("logic factor", problem.logic.weight), ("row", problem.rows.weight)):
        wrong = ~(weights >= 0)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"the weight of a {name} must be 0 or more (inf: hard); number {first} is {weights[first]}."
            )
