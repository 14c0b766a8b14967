"""Logic factors and linear rows over the labels of a graph's nodes: compiled rules, known only by number."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np


class Logic(IntEnum):
    """What a factor says of its atoms a_1, ..., a_k (the last is the output of the ``*_out`` kinds).

    The meaning is that of AD3: ``xor`` is exactly one; ``xor_out`` allows the output to equal a single true
    input and forbids two true inputs (it is not parity); ``imply`` is (all but the last) implies the last.
    """

    xor = 0
    at_most_one = 1
    any_of = 2
    xor_out = 3
    or_out = 4
    and_out = 5
    imply = 6
    budget = 7


@dataclass(frozen=True)
class LogicFactors:
    """All logic factors of one problem; atom a says "node ``atom_node[a]`` has label ``atom_label[a]``".

    Parameters
    ----------
    kind : ndarray of uint8, shape (n_factors,)
        Values of :class:`Logic`.
    pointer : ndarray of int64, shape (n_factors + 1,)
        Atoms of factor f are ``pointer[f] : pointer[f + 1]``.
    atom_node, atom_label : ndarray of int64, shape (n_atoms,)
    atom_negated : ndarray of bool, shape (n_atoms,)
    limit : ndarray of int64, shape (n_factors,)
        The k of ``budget`` (at most k atoms true); unused elsewhere.
    weight : ndarray of float64, shape (n_factors,)
        What breaking the factor costs; ``inf`` where it is hard.
    rule : ndarray of int64, shape (n_factors,)
        Number of the user's rule that the factor came from.
    """

    kind: np.ndarray
    pointer: np.ndarray
    atom_node: np.ndarray
    atom_label: np.ndarray
    atom_negated: np.ndarray
    limit: np.ndarray
    weight: np.ndarray
    rule: np.ndarray


@dataclass(frozen=True)
class GraphRows:
    """Rows over atoms: sum of ``value`` x atom <= bound, or pay ``weight`` x excess (``inf``: hard).

    Atoms as in :class:`LogicFactors`; row r has entries ``pointer[r] : pointer[r + 1]``. An atom with node
    ``n_nodes + j`` and label 1 is the j-th auxiliary 0/1 variable (nested logic).
    """

    pointer: np.ndarray
    atom_node: np.ndarray
    atom_label: np.ndarray
    value: np.ndarray
    bound: np.ndarray
    weight: np.ndarray
    rule: np.ndarray
    n_auxiliary: int = 0
