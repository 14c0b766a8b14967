"""Find the steps of a leaf: multipliers of counters, and rules multiplied in one by one, until no path is worth more.

This is the product engine with a known end: the lattice of all labelings above a floor that no labeling reaches. What it
finds is recorded, not believed; the checker repeats it in exact numbers.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rulefield.inference.flatten import Flat, Term
from rulefield.inference.planes import Planes
from rulefield.inference.relaxation import Relaxation, charged_lattice
from rulefield.kernels.lattice.dual import completions, priced, soft_dd
from rulefield.kernels.lattice.lattice import Lattice, chain_lattice, lattice_path
from rulefield.kernels.lattice.rule_tables import RuleTables, rule_amounts

Step = dict[str, Any]

PASSES = 80
"""Viterbi passes that look for multipliers of the whole chain."""

MOST_NODES, MOST_ARCS = 2_500_000, 20_000_000
"""Largest lattice, and most arcs looked at, of one leaf: the checker needs microseconds for each."""

FIRST_ARCS = 4_000_000
"""Arcs of the first try."""

MOST_TERM_ARCS = 5_000_000
"""Arcs that one term may add: in all problems tried, a term that needed more led to no proof within the limit."""

LITTLE = 0.003
"""From multipliers of an engine, planes end if they promise no more than this share of what is missing."""

MOST_MULTIPLIER = 1e3
"""Where cutting planes begin: steps without a labeling to aim at may leave multipliers far out."""

UNIT = 2.0**-36
"""Multipliers are whole numbers of this: short numbers are checked faster."""


@dataclass
class LeafSearch:
    """The search for the steps of one leaf."""

    flat: Flat  # the rules as the file states them
    classes: np.ndarray  # uint16 (rules, n)
    caps: np.ndarray  # (counters,): largest multipliers that the checker accepts
    m: int  # number of labels
    floor: float  # what the best path is to be brought down to
    arcs_left: int = MOST_ARCS  # arcs that may still be looked at
    steps: list[Step] = field(default_factory=list)

    @property
    def tables(self) -> RuleTables:
        """The rules in flat arrays."""
        return self.flat.tables

    def on_chain(self, unary: np.ndarray, arriving: np.ndarray, known: np.ndarray | None = None) -> bool:
        """Search on a dense chain, local rules inside; return whether the steps prove the floor.

        A short try begins with the engine's multipliers, if they are ``known``, or those of Soft-DD; if it fails and
        counters have multipliers, a longer one follows cutting planes.
        """
        duals = np.zeros(len(self.caps))
        if not len(duals):
            return self._from_duals(unary, arriving, duals)
        taken = known is not None and known.shape == duals.shape
        if known is not None and taken:
            duals = np.minimum(known, self.caps)
        else:
            self._soft_dd(unary, arriving, duals)
        if not (self.caps > 0.0).any():
            return self._from_duals(unary, arriving, duals)
        all_arcs, self.arcs_left = self.arcs_left, min(FIRST_ARCS, self.arcs_left)
        if self._from_duals(unary, arriving, duals):
            return True
        self.arcs_left = all_arcs
        duals = np.minimum(duals, MOST_MULTIPLIER)
        planes = Planes(unary, arriving, self.tables, self.classes, self.caps)
        little = LITTLE if taken else 0.0
        duals = planes.minimize(
            duals, lambda least: little * (least - self.floor), lambda _, value: value > self.floor
        )
        return self._from_duals(unary, arriving, duals)

    def _soft_dd(self, unary: np.ndarray, arriving: np.ndarray, duals: np.ndarray) -> None:
        """Fill multipliers by Soft-DD."""
        none, labels = (unary, arriving, unary, 0.0), np.zeros(len(unary), np.int64)
        soft_dd(*none, self.tables, self.classes, self.caps, PASSES, False, duals, labels)

    def _from_duals(self, unary: np.ndarray, arriving: np.ndarray, duals: np.ndarray) -> bool:
        self.steps.clear()
        duals = self._multipliers(duals)
        charged, moved = priced(unary, arriving, self.tables, self.classes, duals)
        ahead = np.empty_like(charged)
        completions(charged, moved, ahead)
        constant = float(duals @ self.tables.counter_bound)
        return self.on_lattice(chain_lattice(charged, moved, ahead, constant, self.floor), constant, duals)

    def on_segments(self, lattice: Lattice) -> bool:
        """Search on a lattice of whole problems, ``reach`` of its first layer filled; return whether the steps prove it."""
        local = self.tables.local[self.tables.counter_rule]
        rates = np.where(local, self.tables.weight[self.tables.counter_rule], 0.0)
        lattice = charged_lattice(lattice, self.tables, self.classes, self.m, rates)
        return self.on_lattice(lattice, 0.0, np.zeros(len(self.caps)))

    def on_lattice(self, lattice: Lattice, constant: float, duals: np.ndarray) -> bool:
        """Search on a lattice that is charged by ``duals``; return whether the steps prove the floor."""
        self._note(duals)
        found = Relaxation(
            self.tables, self.classes, self.m, lattice, constant, duals.copy(), {}, self.flat.shared.terms
        )
        if not len(lattice.label):
            return True
        while found.bound(self.floor) > self.floor:
            if not found.left or not self._add(found):
                return False
        return True

    def _add(self, found: Relaxation) -> bool:
        """Multiply in the term that the best path is most mischarged for; False if a limit is met."""
        labels = np.zeros(len(found.lattice.layer) - 1, np.int64)
        lattice_path(found.lattice, labels)
        amounts, excesses = np.zeros(len(self.tables.weight), np.int64), np.zeros(len(self.caps), np.int64)
        rule_amounts(self.tables, self.classes, labels, self.m, amounts, excesses)
        term, work = found.mischarged(labels, excesses, amounts), found.work
        done = found.add(term, self.floor, MOST_NODES, most_work=max(0, min(self.arcs_left, MOST_TERM_ARCS)))
        self.arcs_left -= found.work - work
        self.steps.append({"exact": self._named(term)})
        return done

    def _named(self, term: Term) -> list[int]:
        first = int(self.tables.rule_counter[term.rule])
        return [term.rule, *range(term.low - first, term.high - first)]

    def _multipliers(self, duals: np.ndarray) -> np.ndarray:
        """Round multipliers to whole numbers of a unit; those at their caps stay there."""
        rounded = np.round(duals / UNIT) * UNIT
        found: np.ndarray = np.where(duals >= self.caps, self.caps, np.minimum(rounded, self.caps))
        return found

    def _note(self, duals: np.ndarray) -> None:
        first, rule = self.tables.rule_counter, self.tables.counter_rule
        active = np.flatnonzero(duals > 0.0).tolist()
        self.steps.append({"multipliers": [[int(rule[c]), int(c - first[rule[c]]), float(duals[c])] for c in active]})


def multiplier_caps(flat: Flat) -> np.ndarray:
    """Return the largest multipliers (counters,) that the checker accepts; a soft rule that is paid once takes none."""
    tables = flat.tables
    caps: np.ndarray = tables.weight[tables.counter_rule].astype(np.float64)
    soft_once = tables.once & np.isfinite(tables.weight)
    caps[(tables.local | soft_once)[tables.counter_rule]] = 0.0
    return caps
