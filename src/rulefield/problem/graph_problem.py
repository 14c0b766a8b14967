"""Potentials, logic factors and rows of one graph: what a graph engine is given."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.exceptions import InputError
from rulefield.problem.graph import GraphPotentials
from rulefield.problem.logic import GraphRows, LogicFactors


@dataclass(frozen=True)
class GraphProblem:
    """Maximise the score minus what the broken soft factors and rows cost; hard ones must hold.

    Parameters
    ----------
    potentials : GraphPotentials
    logic : LogicFactors
        A broken soft factor costs its weight once.
    rows : GraphRows
        A soft row costs weight x excess. Its auxiliary 0/1 variables take the values that cost least.
    """

    potentials: GraphPotentials
    logic: LogicFactors = field(default_factory=LogicFactors.none)
    rows: GraphRows = field(default_factory=GraphRows.none)

    def __post_init__(self) -> None:
        n = self.potentials.n_nodes
        sizes = np.concatenate([self.potentials.n_labels, np.full(self.rows.n_auxiliary, 2)])
        _check_atoms("logic factor", self.logic.atom_node, self.logic.atom_label, sizes[:n])
        _check_atoms("row", self.rows.atom_node, self.rows.atom_label, sizes)

    @property
    def n_rules(self) -> int:
        """One more than the largest rule number in use."""
        numbers = np.concatenate([self.logic.rule, self.rows.rule])
        return int(numbers.max()) + 1 if len(numbers) else 0


def _check_atoms(what: str, node: np.ndarray, label: np.ndarray, sizes: np.ndarray) -> None:
    wrong = (node < 0) | (node >= len(sizes))
    if wrong.any():
        raise InputError(
            f"an atom of a {what} names node {node[wrong][0]}, but the graph has nodes 0 to {len(sizes) - 1}; "
            "number nodes from 0."
        )
    wrong = (label < 0) | (label >= sizes[node])
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"an atom of a {what} gives node {node[first]} the label {label[first]}, but that node has "
            f"{sizes[node[first]]} labels; number labels from 0."
        )
