"""Logic factors and linear rows over the labels of a graph's nodes: compiled rules, known only by number."""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np


class Logic(IntEnum):
    """What a factor says of its atoms a_1, ..., a_k (the last is the output of the ``*_out`` kinds).

    The meaning is that of AD3: ``xor`` is exactly one, ``budget`` at most k.
    """

    xor = 0
    any_of = 1
    or_out = 2
    and_out = 3
    budget = 4


@dataclass(frozen=True)
class LogicFactors:
    """All logic factors of one problem; atom a says "node ``atom_node[a]`` has label ``atom_label[a]``", or the opposite.

    Factor f is of one ``kind`` (of :class:`Logic`) and has atoms ``pointer[f] : pointer[f + 1]``. ``limit`` is the k of
    ``budget``, ``weight`` what breaking the factor costs (``inf``: it is hard), ``rule`` the number of the user's rule that
    it came from. Engines keep in ``memory`` what they made of the factors, for the next problem with the same ones; a copy
    made with ``dataclasses.replace`` begins with an empty one.
    """

    kind: np.ndarray
    pointer: np.ndarray
    atom_node: np.ndarray
    atom_label: np.ndarray
    atom_negated: np.ndarray
    limit: np.ndarray
    weight: np.ndarray
    rule: np.ndarray
    memory: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.kind)

    @cached_property
    def atom_factor(self) -> np.ndarray:
        """Factor of each atom, (n_atoms,)."""
        return np.repeat(np.arange(self.n_factors), np.diff(self.pointer))

    @cached_property
    def canonical(self) -> "CountFactors":
        """The same factors said as ranges of a count of true literals."""
        return _canonical(self)

    def broken(self, labels: np.ndarray) -> np.ndarray:
        """Which factors a labeling breaks, (n_factors,) of bool."""
        same = self.canonical
        truth = (np.asarray(labels)[self.atom_node] == self.atom_label) ^ same.negated
        inputs = truth & ~same.is_output
        count = np.bincount(self.atom_factor[inputs], minlength=self.n_factors)
        outside = (count < same.low) | (count > same.high)
        output = np.bincount(self.atom_factor[truth & same.is_output], minlength=self.n_factors) > 0
        return np.where(same.has_output, output != (count > 0), outside)

    def select(self, keep: np.ndarray) -> "LogicFactors":
        """Return some of the factors (``keep`` is a mask)."""
        atoms = keep[self.atom_factor]
        return LogicFactors(
            self.kind[keep],
            np.concatenate([[0], np.cumsum(np.diff(self.pointer)[keep])]).astype(np.int64),
            self.atom_node[atoms],
            self.atom_label[atoms],
            self.atom_negated[atoms],
            self.limit[keep],
            self.weight[keep],
            self.rule[keep],
        )

    @classmethod
    def none(cls) -> "LogicFactors":
        """Return no factors at all."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        flags = np.zeros(0, np.bool_)
        return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64), whole, whole, flags, whole, real, whole)


@dataclass(frozen=True)
class CountFactors:
    """Logic factors as counts of true literals: low <= count <= high, or (count > 0) equals the output.

    ``negated`` is the negation of each atom in this form (De Morgan's laws turn ``and_out`` round), ``is_output`` marks the
    output atoms, which are not counted, only where ``has_output``.
    """

    negated: np.ndarray
    is_output: np.ndarray
    low: np.ndarray
    high: np.ndarray
    has_output: np.ndarray


def _canonical(factors: LogicFactors) -> CountFactors:
    kind, size = factors.kind, np.diff(factors.pointer)
    of_atom = kind[factors.atom_factor]
    last = np.zeros(len(of_atom), np.bool_)
    last[factors.pointer[1:][size > 0] - 1] = True
    has_output = (kind == Logic.or_out) | (kind == Logic.and_out)
    low = np.where((kind == Logic.xor) | (kind == Logic.any_of), 1, 0)
    high = np.where(kind == Logic.xor, 1, np.where(kind == Logic.budget, factors.limit, size))
    return CountFactors(
        negated=factors.atom_negated ^ (of_atom == Logic.and_out),
        is_output=last & has_output[factors.atom_factor],
        low=low.astype(np.int64),
        high=high.astype(np.int64),
        has_output=has_output,
    )


@dataclass(frozen=True)
class GraphRows:
    """Rows over atoms: sum of ``value`` x atom <= bound, or pay ``weight`` x excess (``inf``: hard).

    Atoms as in :class:`LogicFactors`; row r has entries ``pointer[r] : pointer[r + 1]``. An atom with node
    ``n_nodes + j`` and label 1 is the j-th auxiliary 0/1 variable (nested logic).

    ``defines[r] = j`` says that the hard row r defines auxiliary variable j, which may be 1 only where the row holds
    (and may always be 0; no other row is hurt by a 1). It names no later variable. -1: the row is a rule of its own.
    """

    pointer: np.ndarray
    atom_node: np.ndarray
    atom_label: np.ndarray
    value: np.ndarray
    bound: np.ndarray
    weight: np.ndarray
    rule: np.ndarray
    n_auxiliary: int = 0
    defines: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.defines) != self.n_rows:
            object.__setattr__(self, "defines", np.full(self.n_rows, -1))

    @cached_property
    def atom_row(self) -> np.ndarray:
        """Row of each entry, (n_entries,)."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.pointer))

    @cached_property
    def definitions(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Pointers (n_auxiliary + 1,) and rows that define each auxiliary variable; None if one is not defined."""
        rows = np.flatnonzero(self.defines >= 0)
        count = np.bincount(self.defines[rows], minlength=self.n_auxiliary)
        if not count.all():
            return None
        return np.concatenate([[0], np.cumsum(count)]), rows[np.argsort(self.defines[rows], kind="stable")]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.bound)

    def select(self, keep: np.ndarray) -> "GraphRows":
        """Return some of the rows (``keep`` is a mask)."""
        entries = keep[self.atom_row]
        return GraphRows(
            np.concatenate([[0], np.cumsum(np.diff(self.pointer)[keep])]).astype(np.int64),
            self.atom_node[entries],
            self.atom_label[entries],
            self.value[entries],
            self.bound[keep],
            self.weight[keep],
            self.rule[keep],
            self.n_auxiliary,
            self.defines[keep],
        )

    @classmethod
    def none(cls) -> "GraphRows":
        """Return no rows at all."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        return cls(np.zeros(1, np.int64), whole, whole, real, real, real, whole)
