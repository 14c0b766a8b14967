"""Collects logic factors and rows while rules on a graph are compiled."""

from collections.abc import Sequence

import numpy as np

from rulefield.problem.logic import GraphRows, Logic, LogicFactors
from rulefield.rules.chain.rows import Affine, merged

Atom = tuple[int, int]


class FactorBuilder:
    """Logic factors, added in groups of arrays and joined at the end."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, ...]] = []

    def add(
        self,
        kind: Logic,
        size: np.ndarray,
        node: np.ndarray,
        label: np.ndarray,
        negated: np.ndarray,
        limit: np.ndarray | int,
        weight: float,
        rule: int,
    ) -> None:
        """Add factors of one kind: ``size`` (n,) atoms each, the atoms one after the other."""
        n = len(size)
        self._parts.append(
            (
                np.full(n, kind, dtype=np.uint8),
                np.asarray(size, dtype=np.int64),
                np.asarray(node, dtype=np.int64),
                np.asarray(label, dtype=np.int64),
                np.asarray(negated, dtype=bool),
                np.broadcast_to(np.asarray(limit, dtype=np.int64), (n,)),
                np.full(n, weight),
                np.full(n, rule, dtype=np.int64),
            )
        )

    def add_one(self, kind: Logic, atoms: list[tuple[Atom, bool]], weight: float, rule: int, limit: int = 0) -> None:
        """Add one factor; an atom is ((node, label), negated)."""
        node = np.array([atom[0] for atom, _ in atoms], dtype=np.int64)
        label = np.array([atom[1] for atom, _ in atoms], dtype=np.int64)
        negated = np.array([flag for _, flag in atoms], dtype=bool)
        self.add(kind, np.array([len(atoms)]), node, label, negated, limit, weight, rule)

    def build(self) -> LogicFactors:
        """Join everything."""
        if not self._parts:
            return LogicFactors.none()
        kind, size, node, label, negated, limit, weight, rule = (np.concatenate(p) for p in zip(*self._parts))
        pointer = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        return LogicFactors(kind, pointer, node, label, negated, limit, weight, rule)


LABELS = 1 << 24
"""Labels of a node, at most: an atom (node, label) is the column node x LABELS + label of a sum."""


def atoms_sum(atoms: Sequence[Atom]) -> Affine:
    """Return the sum of some atoms."""
    return Affine(np.array([node * LABELS + label for node, label in atoms], dtype=np.int64), np.ones(len(atoms)))


class GraphRowBuilder:
    """Rows over atoms and auxiliary 0/1 variables; auxiliary j is the atom (n_nodes + j, 1)."""

    def __init__(self, n_nodes: int):
        self.n_nodes, self.n_auxiliary = n_nodes, 0
        self._sums: list[Affine] = []
        self._rows: list[tuple[float, int, int]] = []  # weight, rule, the variable that it defines

    def auxiliary(self) -> Affine:
        """Return a new 0/1 variable."""
        self.n_auxiliary += 1
        return atoms_sum([(self.n_nodes + self.n_auxiliary - 1, 1)])

    def limit(self, left: Affine, weight: float, rule: int, defines: int = -1) -> None:
        """Add left <= 0, hard (``inf``) or at ``weight`` per unit of excess."""
        self._sums.append(left)
        self._rows.append((weight, rule, defines))

    def define(self, chosen: Affine, left: Affine, rule: int) -> None:
        """Let the auxiliary variable ``chosen`` be 1 only where left <= 0 (which names it)."""
        self.limit(left, np.inf, rule, int(chosen.columns[0]) // LABELS - self.n_nodes)

    def build(self) -> GraphRows:
        """Join everything."""
        if not self._rows:
            return GraphRows.none()
        row, column, value = merged(self._sums)
        weight, rule, defines = zip(*self._rows)
        return GraphRows(
            np.searchsorted(row, np.arange(len(self._rows) + 1)),
            column // LABELS,
            column % LABELS,
            value,
            np.array([0.0 - left.constant for left in self._sums]),
            np.array(weight, dtype=np.float64),
            np.array(rule, dtype=np.int64),
            self.n_auxiliary,
            np.array(defines, dtype=np.int64),
        )
