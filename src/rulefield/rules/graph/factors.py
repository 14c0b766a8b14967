"""Collects logic factors and rows while rules on a graph are compiled."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.problem.logic import GraphRows, Logic, LogicFactors

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


@dataclass
class GraphAffine:
    """A sum of multiples of atoms, and a constant."""

    terms: dict[Atom, float] = field(default_factory=dict)
    constant: float = 0.0

    def plus(self, other: "GraphAffine", factor: float = 1.0) -> "GraphAffine":
        """Return self + factor x other."""
        terms = dict(self.terms)
        for atom, value in other.terms.items():
            terms[atom] = terms.get(atom, 0.0) + factor * value
        return GraphAffine(terms, self.constant + factor * other.constant)


class GraphRowBuilder:
    """Rows over atoms and auxiliary 0/1 variables; auxiliary j is the atom (n_nodes + j, 1)."""

    def __init__(self, n_nodes: int):
        self.n_nodes, self.n_auxiliary = n_nodes, 0
        self._rows: list[tuple[list[Atom], list[float], float, float, int, int]] = []

    def auxiliary(self) -> GraphAffine:
        """Return a new 0/1 variable."""
        self.n_auxiliary += 1
        return GraphAffine({(self.n_nodes + self.n_auxiliary - 1, 1): 1.0})

    def limit(self, left: GraphAffine, right: GraphAffine, weight: float, rule: int, defines: int = -1) -> None:
        """Add left <= right, hard (``inf``) or at ``weight`` per unit of excess."""
        difference = left.plus(right, -1.0)
        terms = [(atom, value) for atom, value in difference.terms.items() if value != 0.0]
        self._rows.append(([a for a, _ in terms], [v for _, v in terms], -difference.constant, weight, rule, defines))

    def define(self, chosen: GraphAffine, left: GraphAffine, right: GraphAffine, rule: int) -> None:
        """Let the auxiliary variable ``chosen`` be 1 only where left <= right (which names it)."""
        ((node, _),) = chosen.terms
        self.limit(left, right, np.inf, rule, node - self.n_nodes)

    def build(self) -> GraphRows:
        """Join everything."""
        if not self._rows:
            return GraphRows.none()
        atoms = np.array([atom for row in self._rows for atom in row[0]], dtype=np.int64).reshape(-1, 2)
        return GraphRows(
            np.concatenate([[0], np.cumsum([len(row[0]) for row in self._rows])]).astype(np.int64),
            np.ascontiguousarray(atoms[:, 0]),
            np.ascontiguousarray(atoms[:, 1]),
            np.array([value for row in self._rows for value in row[1]], dtype=np.float64),
            np.array([row[2] for row in self._rows], dtype=np.float64),
            np.array([row[3] for row in self._rows], dtype=np.float64),
            np.array([row[4] for row in self._rows], dtype=np.int64),
            self.n_auxiliary,
            np.array([row[5] for row in self._rows], dtype=np.int64),
        )
