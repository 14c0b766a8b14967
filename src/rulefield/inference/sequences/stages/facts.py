"""Which labels occur at all: branch and bound over facts, for rules that say how many of them hold.

``exactly(10, present(a), present(b), ...)`` has 2^20 states as an automaton, and its linear rows say little by themselves.
But whether a label may occur is a switch, and once the switches are set the rest is a Viterbi pass.

Improves: the labeling and the bound.
Pays: if a rule says how many of at least four facts hold.
Charged: 60 units and a Viterbi pass for each dual step.
Reference: Lagrangian relaxation with branch and bound (Geoffrion, 1974).
"""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from rulefield.inference.result import rounding_error
from rulefield.inference.sequences.progress import STEPS_PER_UNIT, DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path, completions

FIRST_PASSES, PASSES, PATIENCE = 300, 30, 5
"""Dual steps at the root, and at every other search node, which begins with its parent's multipliers; steps that may bring
little before they get shorter."""

UNITS_PER_PASS = 60
"""Units of work of a dual step besides its Viterbi pass: some twenty calls of numpy."""

LEAST_FACTS = 4
"""Rules about fewer facts have small automata, which the product reads better."""

OPEN, OFF, ON = range(-1, 2)
"""States of a switch."""


def run_facts(progress: Progress, dual: DualPotentials, node_limit: int) -> None:
    """Branch on whether labels may occur, best bound first, until nothing open beats the best labeling.

    A switch that is off forbids its labels; one that is on leaves them free, and multipliers tie it to them:
    ``at[f, t] >= 0`` for "token t has a cell of fact f, so its switch is on", ``some[f] >= 0`` for "the switch is on, so some
    token has one".
    Given both, labels are a Viterbi pass, and switches are chosen rule by rule, the most profitable first. Potentials are
    those that the duals of all other rules charge, so that bounds hold for the whole problem; every labeling is judged by
    all rules. O(n m^2 + facts n m) per dual step.
    """
    facts = Facts.of(progress)
    if facts is not None:
        _FactSearch(progress, dual, facts, node_limit).run()


@dataclass(frozen=True)
class Facts:
    """The rules that say how many facts hold, one after the other, on one chain."""

    cells: np.ndarray  # float64 (facts, n, m): 1 for the tokens and labels that belong to a fact
    wanted: np.ndarray  # bool (facts,): whether a fact holds where its switch is on
    rule_ptr: np.ndarray  # int64 (rules + 1,): facts of rule r are ``rule_ptr[r] : rule_ptr[r + 1]``
    low: np.ndarray  # int64 (rules,): how many of them must hold at the least
    high: np.ndarray
    weight: np.ndarray  # float64 (rules,)

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
        return cls(
            cells.astype(np.float64),
            np.concatenate([p.wanted for _, p in found]),
            np.cumsum([0] + [len(p.wanted) for _, p in found]),
            np.array([p.low for _, p in found]),
            np.array([p.high for _, p in found]),
            weight[[r for r, _ in found]],
        )

    def charged(self, unary: np.ndarray, fixed: np.ndarray, at: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Scores (n, m) minus what the multipliers take, cells of facts whose switch is off forbidden."""
        found = unary + np.einsum("ft,ftm->tm", some[:, None] - at, self.cells)
        found[self.cells[fixed == OFF].any(axis=0)] = -np.inf
        return found

    def choose(self, worth: np.ndarray, fixed: np.ndarray) -> tuple[float, np.ndarray]:
        """Set all switches (facts,) at their best if being on is worth so much: (their value, switches)."""
        total, switch = 0.0, np.zeros(len(fixed), np.int64)
        for r in range(len(self.low)):
            part = slice(int(self.rule_ptr[r]), int(self.rule_ptr[r + 1]))
            value, switch[part] = self._choose_of_rule(r, worth[part], fixed[part], self.wanted[part])
            total += value
        return total, switch

    def _choose_of_rule(
        self, r: int, worth: np.ndarray, fixed: np.ndarray, wanted: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Choose for one rule: between ``low`` and ``high`` of its facts hold, or it costs its weight."""
        open_ = fixed == OPEN
        broken = np.where(open_, worth > 0.0, fixed)
        value_broken = float(worth @ broken - self.weight[r])
        held = int(((fixed == ON) == wanted)[~open_].sum())
        gain = np.where(wanted, worth, -worth)
        order = np.flatnonzero(open_)
        order = order[np.argsort(-gain[order], kind="stable")]
        if held > self.high[r] or held + len(order) < self.low[r]:
            return value_broken, broken
        most = min(int(np.count_nonzero(gain[order] > 0.0)), int(self.high[r]) - held)
        holding = order[: max(most, int(self.low[r]) - held, 0)]
        switch = np.where(open_, ~wanted, fixed)
        switch[holding] = wanted[holding]
        value = float(worth @ switch)
        return (value_broken, broken) if value_broken > value else (value, switch)

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
        self.units = progress.pass_units + facts.cells.size // STEPS_PER_UNIT + UNITS_PER_PASS
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
        progress, dual = self.progress, self.dual
        at[fixed != OPEN] = 0.0  # nothing is left to say of a switch that is set
        some[fixed == OFF] = 0.0
        bound = np.inf
        if progress.best == -np.inf:
            bound = self._lower(fixed, at, some, 1, -np.inf)
        if bound > -np.inf:
            best = progress.best + progress.slack - dual.constant
            goal = best if best > -np.inf else bound - max(1.0, 0.1 * abs(bound))  # as Soft-DD aims
            bound = self._lower(fixed, at, some, passes, goal)
        if bound > -np.inf:
            self.made += 1
            value = bound + dual.constant + self._error(bound, at, some)
            heappush(self.open, (-value, self.made, fixed, at, some))

    def _lower(self, fixed: np.ndarray, at: np.ndarray, some: np.ndarray, passes: int, goal: float) -> float:
        """Take Polyak's steps toward a goal and offer the best bound's labeling; return the bound, -inf if nothing is left.

        The multipliers ``at``, ``some`` become those of the bound.
        """
        progress = self.progress
        passes = max(1, min(passes, (self.node_limit - progress.nodes) // self.units))
        now_at, now_some = at.copy(), some.copy()
        bound, pace, still = np.inf, 1.0, 0
        for _ in range(passes):
            progress.charge(self.units)
            value, path, switch = self._bound(fixed, now_at, now_some)
            if value == -np.inf:
                return value
            still = 0 if value < bound - 1e-3 * max(bound - goal, 0.0) else still + 1
            if value < bound:
                bound, best = value, (path, switch)
                at[:], some[:] = now_at, now_some
            if bound <= goal or goal == -np.inf or progress.deadline.over:
                break
            if still >= PATIENCE:
                pace, still = 0.7 * pace, 0
            size = pace * (value - goal)
            if not _step(self.facts.cells[:, np.arange(len(path)), path], fixed, switch, now_at, now_some, size):
                break
        self._offer(*best)
        return bound

    def _bound(self, fixed: np.ndarray, at: np.ndarray, some: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the bound under multipliers, its labels (n,) and its switches (facts,)."""
        charged = self.facts.charged(self.dual.unary, fixed, at, some)
        ahead, path = np.empty_like(charged), np.zeros(len(charged), np.int64)
        completions(charged, self.dual.arriving, ahead)
        score = best_path(charged, self.dual.arriving, ahead, path)
        value, switch = self.facts.choose(at.sum(axis=1) - some, fixed)
        return float(score) + value, path, switch

    def _offer(self, labels: np.ndarray, switch: np.ndarray) -> None:
        """Offer the bound's labeling, and the best one whose labels are among those that are switched on."""
        progress, dual = self.progress, self.dual
        progress.offer(labels)
        progress.charge(2 * self.units)
        unary = np.where(self.facts.cells[switch == OFF].any(axis=0), -np.inf, dual.unary)
        ahead, labels = np.empty_like(unary), labels.copy()
        completions(unary, dual.arriving, ahead)
        if best_path(unary, dual.arriving, ahead, labels) + dual.constant > progress.best:
            progress.offer(labels)

    def _error(self, bound: float, at: np.ndarray, some: np.ndarray) -> float:
        """Bound on what rounding hides of a node's bound."""
        n, count = at.shape[1], len(some)
        return self.dual.error + rounding_error(8 * (n + count), abs(bound) + 2.0 * at.sum() + 2.0 * n * some.sum())


def _step(
    has: np.ndarray, fixed: np.ndarray, switch: np.ndarray, at: np.ndarray, some: np.ndarray, size: float
) -> bool:
    """Move multipliers against the slope by ``size`` over its squared length; False if it is flat.

    ``has`` (facts, n) is 1 for the tokens of the labeling that have a cell of a fact.
    """
    slope_some = np.where(fixed == OFF, 0.0, has.sum(axis=1) - switch)
    slope_some[(slope_some > 0.0) & (some <= 0.0)] = 0.0
    slope_at = np.where((fixed == OPEN)[:, None], switch[:, None] - has, 0.0)
    slope_at[(slope_at > 0.0) & (at <= 0.0)] = 0.0
    square = float((slope_some**2).sum() + (slope_at**2).sum())
    if square == 0.0:
        return False
    np.maximum(some - size / square * slope_some, 0.0, out=some)
    np.maximum(at - size / square * slope_at, 0.0, out=at)
    return True
