"""Best segmentations under rules: plain first, then windows of the segment lattice as chains."""

import numpy as np

from rulefield.inference.relaxation import charged_lattice
from rulefield.inference.result import Result
from rulefield.inference.sequences.segments.prepare import prepare
from rulefield.inference.sequences.windows import WindowChain, WindowSearch
from rulefield.kernels import certificate
from rulefield.kernels.lattice.lattice import Lattice
from rulefield.kernels.segments.best import best_segments
from rulefield.kernels.segments.lattice import fill_backward, segment_lattice
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import CompiledRule
from rulefield.problem.segments import SegmentProblem

MOST_CELLS = 20_000_000
"""Largest chain of a window, in tokens times slots squared (160 MB)."""


class SegmentSearch(WindowSearch):
    """What is known of a problem so far; scores are shifted (see :class:`PreparedSegments`).

    Begins with the best segmentation (semi-Markov Viterbi) without the rules that do not fold into the scores.
    """

    def __init__(self, problem: SegmentProblem):
        super().__init__()
        self.prepared, self.rules = prepare(problem), problem.rules
        scores = self.prepared.scores
        _, n, m = scores.role.shape
        self._enter, alpha = np.empty((n + 1, m)), np.empty((n + 1, m))
        opens, types = np.zeros(n, np.uint8), np.zeros(n, np.int64)
        scratch = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
        self.bound = float(best_segments(scores, 0, n, self._enter, alpha, *scratch, opens, types))
        self._ahead: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        if self.bound > -np.inf:
            self.offer(problem.spelling.write(opens, types))

    @property
    def settled(self) -> bool:
        """Whether the bound proves the best segmentation, or that there is none."""
        return bool(certificate.proves(self.bound, self.best, 0.0))

    def offer(self, labels: np.ndarray) -> None:
        """Judge a segmentation by all rules; keep it if it is the best so far."""
        amounts = self.prepared.amounts(labels)
        self.known.update(np.flatnonzero(amounts).tolist())
        objective = self.prepared.objective(labels, amounts)
        if objective > self.best:
            self.best, self.labels = objective, labels.copy()

    def conclude(self, bound: float) -> None:
        """Take over a bound."""
        self.bound = min(self.bound, max(bound, self.best))

    def lattice(self, floor: float, most_nodes: int) -> Lattice | None:
        """Return the lattice of all segmentations that score above the floor; None if it has more nodes."""
        p = self.prepared
        words = p.problem.spelling
        if self._ahead is None:
            shape = self._enter[1:].shape
            self._ahead = np.empty(shape), np.empty(shape), np.empty(shape)
            fill_backward(p.scores, *self._ahead)
        done, lattice = segment_lattice(
            p.scores, p.base, p.extra, words.label, self._enter, *self._ahead, floor, max(0, most_nodes)
        )
        self.steps += len(lattice.label)
        if done and p.charges.any():
            return charged_lattice(lattice, p.tables, p.classes, words.n_labels, p.charges)
        return lattice if done else None

    def window(self, floor: float, room: int) -> WindowChain | None:
        """Return the lattice of all segmentations that score above the floor as a chain over slots."""
        lattice = self.lattice(floor, room)
        if lattice is None:
            return None
        slots, letter = slots_of(lattice, self.prepared.problem.spelling.n_labels)
        if len(letter) ** 2 * (len(lattice.layer) - 1) > MOST_CELLS:
            return None
        return WindowChain(chain_over(lattice, slots, len(letter)), letter, floor)

    def rule_of(self, place: int, stands: np.ndarray) -> CompiledRule | None:
        """Return a rule over slots that stand for token labels; None if scores or the lattice have it inside."""
        return None if self.prepared.tables.local[place] else self.rules[place].relabeled(stands)

    def result(self) -> Result:
        """Return the answer as it stands."""
        if self.best == -np.inf:
            return self.prepared.no_result(self.bound, self.engine, self.steps)
        return self.prepared.result(self.labels, self.bound, self.engine, self.steps)


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
