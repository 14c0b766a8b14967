"""Which labels occur at all: branch and bound over facts, for rules that say how many of them hold.

``exactly(10, present(a), present(b), ...)`` has 2^20 states as an automaton, and its linear rows say little by themselves.
But whether a label may occur is a switch, and once the switches are set the rest is a Viterbi pass.

Improves: the labeling and the bound.
Pays: if a rule says how many of at least four facts hold.
Charged: a unit for every 400 arcs of a Viterbi pass, and 100 per search node.
Reference: Lagrangian relaxation with branch and bound (Geoffrion, 1974).
"""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from rulefield.inference.result import rounding_error
from rulefield.inference.sequences.progress import STEPS_PER_UNIT, DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path, completions
from rulefield.kernels.lattice.facts import facts_dual

FIRST_PASSES, PASSES = 300, 30
"""Dual steps at the root, and at every other search node, which begins with its parent's multipliers."""

BELOW = 0.1
"""While no labeling is known, steps aim so far below the bound, as a share of it."""

LEAST_FACTS = 4
"""Rules about fewer facts have small automata, which the product reads better."""

OPEN, OFF, ON = range(-1, 2)
"""States of a switch."""


def run_facts(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Branch on whether labels may occur, best bound first, until nothing open beats the best labeling.

    A switch that is off forbids its labels; one that is on leaves them free, and a multiplier asks for them. The bound of a
    search node is that of :mod:`rulefield.kernels.lattice.facts`, over potentials that the duals of all other rules charge,
    so that it holds for the whole problem; every labeling is judged by all rules. O(n m^2) per dual step.
    """
    facts = Facts.of(progress)
    if facts is not None:
        _FactSearch(progress, dual, facts, node_limit).run()


@dataclass(frozen=True)
class Facts:
    """The rules that say how many facts hold, one after the other, on one chain.

    Parameters
    ----------
    cell_ptr, cell_fact : ndarray of int64
        The facts that each token and label belong to.
    wanted : ndarray of bool, shape (facts,)
        Whether a fact holds where its switch is on.
    rule_ptr, low, high : ndarray of int64
        Facts of each rule, and how many of them must hold.
    weight : ndarray of float64, shape (rules,)
    """

    cell_ptr: np.ndarray
    cell_fact: np.ndarray
    wanted: np.ndarray
    rule_ptr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, progress: Progress) -> "Facts | None":
        """Read them off a problem; None where it has none, or none that is worth a search."""
        prepared = progress.prepared
        rules, weight = prepared.flat.rules, prepared.tables.weight
        said = [(r, rule.presences) for r, rule in enumerate(rules) if rule.presences is not None and weight[r] > 0.0]
        found = [(r, p) for r, p in said if len(p.wanted) >= LEAST_FACTS and _is_plain(progress, r)]
        if not found:
            return None
        cells = np.concatenate([p.cells[:, prepared.classes[r], :] for r, p in found])  # (facts, n, m)
        place, fact = np.nonzero(cells.reshape(len(cells), -1).T)
        return cls(
            np.searchsorted(place, np.arange(prepared.unary.size + 1)),
            fact,
            np.concatenate([p.wanted for _, p in found]),
            np.cumsum([0] + [len(p.wanted) for _, p in found]),
            np.array([p.low for _, p in found]),
            np.array([p.high for _, p in found]),
            weight[[r for r, _ in found]],
        )

    def settle(self, fixed: np.ndarray) -> bool:
        """Set the switches that hard rules leave no choice for; False where a rule cannot hold any more."""
        for r in np.flatnonzero(np.isinf(self.weight)).tolist():
            part = slice(int(self.rule_ptr[r]), int(self.rule_ptr[r + 1]))
            mine, wanted = fixed[part], self.wanted[part]
            holding, free = int(((mine == ON) == wanted)[mine != OPEN].sum()), mine == OPEN
            if holding > self.high[r] or holding + int(free.sum()) < self.low[r]:
                return False
            if holding == self.high[r]:
                mine[free] = np.where(wanted[free], OFF, ON)
            elif holding + int(free.sum()) == self.low[r]:
                mine[free] = np.where(wanted[free], ON, OFF)
        return True

    def doubtful(self, fixed: np.ndarray, worth: np.ndarray) -> int | None:
        """Return the open switch that is nearest to being set the other way; None where all are set."""
        best, nearest = None, np.inf
        for r in range(len(self.low)):
            part = np.arange(self.rule_ptr[r], self.rule_ptr[r + 1])
            mine = part[fixed[part] == OPEN]
            if not len(mine):
                continue
            gain = np.sort(np.where(self.wanted[mine], worth[mine], -worth[mine]))[::-1]
            decided = part[fixed[part] != OPEN]
            room = int(self.high[r]) - int(((fixed[decided] == ON) == self.wanted[decided]).sum())
            edge = (gain[room - 1] + gain[room]) / 2.0 if 0 < room < len(gain) else 0.0
            doubt = np.abs(np.where(self.wanted[mine], worth[mine], -worth[mine]) - edge)
            if doubt.min() < nearest:
                nearest, best = float(doubt.min()), int(mine[doubt.argmin()])
        return best


def _is_plain(progress: Progress, r: int) -> bool:
    """Whether no price of the rule is in the potentials already: it is hard, or known by its rows only."""
    return bool(np.isinf(progress.prepared.tables.weight[r])) or r in progress.prepared.flat.shared.rows_only


class _FactSearch:
    """Open nodes, and what is known of those that are closed."""

    def __init__(self, progress: Progress, dual: DualPotentials, facts: Facts, node_limit: int):
        self.progress, self.dual, self.facts, self.node_limit = progress, dual, facts, node_limit
        n = len(dual.unary)
        self.units = progress.pass_units + n * len(facts.wanted) // STEPS_PER_UNIT
        self.closed = -np.inf
        self.open: list[tuple[float, int, np.ndarray, np.ndarray, np.ndarray]] = []
        self.made = 0

    def run(self) -> None:
        """Branch until nothing is open, or a limit is met; what is left open bounds the problem."""
        count, n = len(self.facts.wanted), len(self.dual.unary)
        self._add(np.full(count, OPEN), np.zeros((count, n)), np.zeros(count), FIRST_PASSES)
        progress = self.progress
        while self.open and progress.nodes < self.node_limit and not progress.deadline.over:
            bound, _, fixed, at, some = heappop(self.open)
            if -bound <= progress.best + progress.slack:
                self.closed = max(self.closed, -bound)
                break  # all others are below
            switch = self.facts.doubtful(fixed, at.sum(axis=1) - some)
            if switch is None:
                self.closed = max(self.closed, -bound)
                continue
            for value in (OFF, ON):
                child = fixed.copy()
                child[switch] = value
                self._add(child, at.copy(), some.copy(), PASSES)
        left = max([self.closed, *(-one[0] for one in self.open)])
        progress.bound = min(progress.bound, max(left, progress.best))

    def _add(self, fixed: np.ndarray, at: np.ndarray, some: np.ndarray, passes: int) -> None:
        """Bound a node; keep it open where it may hold something better than the best labeling."""
        progress, dual, facts = self.progress, self.dual, self.facts
        if not facts.settle(fixed):
            return
        at[fixed != OPEN] = 0.0  # nothing is left to say of a switch that is set
        some[fixed == OFF] = 0.0
        bound = np.inf
        if progress.best == -np.inf:
            bound = self._lower(fixed, at, some, 1, -np.inf)
        if bound > -np.inf:
            best = progress.best + progress.slack - dual.constant
            goal = best if best > -np.inf else bound - max(1.0, BELOW * abs(bound))
            bound = self._lower(fixed, at, some, passes, goal)
        if bound > -np.inf:
            self.made += 1
            value = bound + dual.constant + self._error(bound, at, some)
            heappush(self.open, (-value, self.made, fixed, at, some))

    def _lower(self, fixed: np.ndarray, at: np.ndarray, some: np.ndarray, passes: int, goal: float) -> float:
        """Take dual steps toward a goal, offer what they find; return the bound, -inf where nothing is left."""
        dual, facts, progress = self.dual, self.facts, self.progress
        passes = max(1, min(passes, (self.node_limit - progress.nodes) // self.units))
        labels, switch = np.zeros(len(dual.unary), np.int64), np.zeros(len(fixed), np.int64)
        bound, used = facts_dual(
            dual.unary, dual.arriving, facts.cell_ptr, facts.cell_fact, facts.wanted, facts.rule_ptr, facts.low,
            facts.high, facts.weight, fixed, at, some, passes, goal, progress.deadline.stop, labels, switch,
        )  # fmt: skip
        progress.charge((int(used) + 2) * self.units)
        if bound > -np.inf:
            self._offer(labels, switch)
        return float(bound)

    def _offer(self, labels: np.ndarray, switch: np.ndarray) -> None:
        """Offer the bound's labeling, and the best one whose labels are among those that are switched on."""
        progress, dual, facts = self.progress, self.dual, self.facts
        progress.offer(labels)
        off = np.repeat(np.arange(dual.unary.size), np.diff(facts.cell_ptr))[switch[facts.cell_fact] == OFF]
        unary = dual.unary.copy()
        unary.ravel()[off] = -np.inf
        ahead = np.empty_like(unary)
        completions(unary, dual.arriving, ahead)
        if best_path(unary, dual.arriving, ahead, labels) + dual.constant > progress.best:
            progress.offer(labels)

    def _error(self, bound: float, at: np.ndarray, some: np.ndarray) -> float:
        """Bound on what rounding hides of a node's bound."""
        n, count = at.shape[1], len(some)
        return self.dual.error + rounding_error(8 * (n + count), abs(bound) + 2.0 * at.sum() + 2.0 * n * some.sum())
