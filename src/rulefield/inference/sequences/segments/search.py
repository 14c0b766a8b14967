"""Best segmentations under rules: plain first, then windows of the segment lattice as chains."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from rulefield.inference.checker import held_bound, mismatch, rules_broken
from rulefield.inference.flatten import flatten
from rulefield.inference.relaxation import charged_lattice
from rulefield.inference.result import TOLERANCE, Result, judge, rounding_error
from rulefield.inference.sequences.segments.exact import as_parts, as_roles
from rulefield.inference.sequences.windows import WindowChain, WindowSearch
from rulefield.kernels import certificate
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.lattice.rule_tables import fold_local, rule_amounts
from rulefield.kernels.segments.best import best_segments
from rulefield.kernels.segments.lattice import fill_backward, segment_lattice
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import CompiledRule
from rulefield.problem.segments import SegmentPotentials, SegmentProblem

MOST_CELLS = 20_000_000
"""Largest chain of a window, in tokens times slots squared (160 MB)."""


class SegmentSearch(WindowSearch):
    """What is known of a problem so far.

    Begins with the best segmentation (semi-Markov Viterbi) under the rules that fold into the scores. Every token's best
    score is taken out first, ``shift`` in all, so that a constant added to all scores changes nothing; ``best`` and
    ``bound`` are of the problem ``flat`` that is left.
    """

    def __init__(self, problem: SegmentProblem):
        super().__init__()
        self.problem, self.rules = problem, problem.rules
        p, self.m = problem.potentials, problem.spelling.n_labels
        tops = p.token.max(axis=1, initial=-np.inf)
        tops[tops == -np.inf] = 0.0
        self.shift = float(tops.sum())
        flat = SegmentPotentials(p.token - tops[:, None], p.first, p.last, p.length, p.pairwise, p.spans)
        self.flat = SegmentProblem(flat, problem.spelling, problem.rules, problem.allowed)
        self._fold()
        self._enter, alpha = np.empty((2, p.n_steps + 1, p.n_states))
        opens, types = np.zeros(p.n_steps, np.uint8), np.zeros(p.n_steps, np.int64)
        scratch = np.empty(p.n_states), np.empty(p.length.shape), np.empty(p.length.shape)
        self.bound = float(best_segments(self._scores, 0, p.n_steps, self._enter, alpha, *scratch, opens, types))
        if self.bound > -np.inf:
            plain = self._scores.role is self._base
            self.offer(problem.spelling.write(opens, types), self.bound if plain else None)

    def _fold(self) -> None:
        """Take rules about single tokens into the scores; those about steps are charged in the lattice."""
        spelling, allowed, n = self.problem.spelling, self.problem.allowed, self.problem.potentials.n_steps
        flat = flatten(self.rules, self.m)
        for r in flat.shared.rows_only:
            self.rules[r].refuse_rows_only("segments")
        self.tables, self.terms = flat.tables, flat.shared.terms.rows
        self.classes = flat.classes.reshape(len(self.rules), n)
        self._scores = as_roles(as_parts(self.flat.potentials))
        self._base = self._scores.role
        self._extra = np.zeros((n, self.m)) if allowed is None else np.where(allowed, 0.0, -np.inf)
        self._charges = np.zeros(len(self.tables.counter_rule))
        if not flat.shared.folds and allowed is None:
            return
        local = self.tables.local[self.tables.counter_rule]
        by_token = local & (self.tables.edge_at < 0)
        folded = np.zeros_like(self.tables.local)
        folded[self.tables.counter_rule[by_token]] = True
        steps = np.zeros((0, self.m, self.m))
        fold_local(self.tables._replace(local=folded), self.classes, self._extra, steps, self.m, False)
        best = self._extra[:, spelling.label].max(axis=(3, 4))  # the label may depend on the neighbors
        self._scores = self._scores._replace(role=self._base + best.transpose(1, 0, 2))
        by_step = local & ~by_token
        self._charges[by_step] = self.tables.weight[self.tables.counter_rule[by_step]]

    @property
    def settled(self) -> bool:
        """Whether the bound proves the best segmentation, or that there is none."""
        return bool(certificate.proves(self.bound, self.best, 0.0))

    def amounts(self, labels: np.ndarray) -> np.ndarray:
        """Amounts (rules,) of the segmentation that token labels spell."""
        amounts = np.zeros(len(self.rules), np.int64)
        excesses = np.zeros(len(self.tables.counter_bound), np.int64)
        rule_amounts(self.tables, self.classes, labels, self.m, amounts, excesses)
        return amounts

    def cost(self, amounts: np.ndarray) -> float:
        """Return what amounts (rules,) cost; ``inf`` if a hard rule is broken."""
        hit = np.flatnonzero(amounts)
        paid = np.where(self.tables.once[hit], 1, amounts[hit])
        return float((self.tables.weight[hit] * paid).sum())

    def offer(self, labels: np.ndarray, score: float | None = None) -> None:
        """Judge a segmentation by all rules; keep it if it is the best so far."""
        amounts = self.amounts(labels)
        self.known.update(np.flatnonzero(amounts).tolist())
        objective = (self.flat.score(labels) if score is None else score) - self.cost(amounts)
        if objective > self.best:
            self.best, self.labels = objective, labels.copy()

    def conclude(self, bound: float) -> None:
        """Take over a bound."""
        self.bound = min(self.bound, max(bound, self.best))

    @cached_property
    def _ahead(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape = self._enter[1:].shape
        ahead = np.empty(shape), np.empty(shape), np.empty(shape)
        fill_backward(self._scores, *ahead)
        return ahead

    def lattice(self, floor: float, most_nodes: int) -> Lattice | None:
        """Return the lattice of all segmentations that score above the floor; None if it has more nodes."""
        spelling = self.problem.spelling
        written = spelling.label, 2 if spelling.depends_on_neighbors else 1
        bounds = self._enter, *self._ahead, floor, max(0, most_nodes)
        done, lattice = segment_lattice(self._scores, self._base, self._extra, *written, *bounds)
        self.steps += len(lattice.label)
        if done and self._charges.any():
            return charged_lattice(lattice, self.tables, self.classes, self.m, self._charges)
        return lattice if done else None

    def window(self, floor: float, room: int) -> WindowChain | None:
        """Return the lattice of all segmentations that score above the floor as a chain over slots."""
        lattice = self.lattice(floor, room)
        if lattice is None:
            return None
        slots, letter = slots_of(lattice, self.m)
        if len(letter) ** 2 * (len(lattice.layer) - 1) > MOST_CELLS:
            return None
        return WindowChain(chain_over(lattice, slots, len(letter)), letter, floor)

    def rule_of(self, place: int, stands: np.ndarray) -> CompiledRule | None:
        """Return a rule over slots that stand for token labels; None if scores or the lattice have it inside."""
        return None if self.tables.local[place] else self.rules[place].relabeled(stands)

    def result(self) -> Result:
        """Judge the best segmentation from scratch: its score, what it breaks, and whether the bound proves it best.

        Its objective is that of the definition, in code that no engine shares; a mismatch raises.
        """
        if self.best == -np.inf:
            bound = self.bound + self.shift
            return Result(self.labels, -np.inf, -np.inf, bound, judge(-np.inf, bound), self.engine, self.steps)
        broken, cost = rules_broken(self.rules, self.labels, self.m)
        score = self.problem.score(self.labels)
        objective = score - cost
        gap, error = self.bound - self.best, 0.0
        off = abs(objective - self.best - self.shift)
        if abs(gap) > TOLERANCE or not off <= TOLERANCE:  # rounding may be all that is left of it
            terms = 6 * len(self.labels) + len(self.rules)
            error = rounding_error(terms, self._magnitude())
            if not off <= TOLERANCE + 4 * (error + rounding_error(terms, score)):
                raise mismatch(self.best + self.shift, objective)
        bound = held_bound(self.bound, self.best, 4 * error)
        status = judge(self.best, bound, error)
        reached = objective + bound - self.best
        return Result(self.labels, score, objective, reached, status, self.engine, self.steps, broken)

    def _magnitude(self) -> float:
        """Sum of the sizes of all terms of the best objective."""
        p = self.flat.potentials
        names = ("token", "first", "last", "length", "pairwise")
        sizes = {name: np.abs(getattr(p, name)) for name in names}
        absolute = replace(p, **sizes, spans=replace(p.spans, score=np.abs(p.spans.score)))
        size = replace(self.problem, potentials=absolute).score(self.labels)
        return size + self.cost(self.amounts(self.labels))


def slots_of(lattice: Lattice, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the slot of each node (nodes,) and the label that each slot stands for, at every token (slots,).

    The nodes of a layer that have the same label take one slot each.
    """
    step = np.repeat(np.arange(len(lattice.layer) - 1), np.diff(lattice.layer))
    key = step * n_labels + lattice.label
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.empty(len(key), np.int64)
    rank[order] = np.arange(len(key)) - np.repeat(begins, np.diff(begins, append=len(key)))
    widths = np.zeros(n_labels, np.int64)
    np.maximum.at(widths, lattice.label, rank + 1)
    return (np.cumsum(widths) - widths)[lattice.label] + rank, np.repeat(np.arange(n_labels), widths)


def chain_over(lattice: Lattice, slot: np.ndarray, size: int) -> ChainPotentials:
    """Return a lattice as a chain over ``size`` slots, node i at slot ``slot[i]``."""
    n = len(lattice.layer) - 1
    step = np.repeat(np.arange(n), np.diff(lattice.layer))
    unary = np.full((n, size), -np.inf)
    unary[step, slot] = np.where(step == 0, lattice.reach, 0.0)
    pairwise = np.full((max(n - 1, 1), size, size), -np.inf)
    source = np.repeat(np.arange(len(slot)), np.diff(lattice.arc_ptr))
    pairwise[step[source], slot[source], slot[lattice.arc_to]] = lattice.arc_score
    return ChainPotentials(unary, pairwise if n > 1 else np.zeros((size, size)))
