"""Best segmentation under rules: plain first, then a window of the segment lattice times the rules in conflict."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from rulefield.inference.flatten import Term
from rulefield.inference.relaxation import Relaxation
from rulefield.inference.result import SLACK, Result
from rulefield.inference.segments.prepare import PreparedSegments, prepare
from rulefield.inference.soft_dd import soft_dd_oracle
from rulefield.kernels import certificate
from rulefield.kernels.lattice.lattice import Lattice, fill_ahead, lattice_path
from rulefield.kernels.segments.best import best_segments
from rulefield.kernels.segments.lattice import charge, fill_backward, segment_lattice
from rulefield.problem.segments import SegmentProblem

NODE_LIMIT = 2_000_000
"""Lattice nodes that one problem may cost, by default."""

QUICK_NODES = 3_000
"""Nodes of products that are tried before duals are."""

DUAL_ITERATIONS = 60
FIRST_WINDOW = 4.0
"""Nats below the bound in which the optimum is looked for first."""

WIDENING = 4.0
MOST_WINDOWS = 6


@dataclass
class SegmentSearch:
    """What is known of a problem so far; scores are shifted (see :class:`PreparedSegments`).

    Parameters
    ----------
    labels : ndarray, shape (n,)
        Token labels of the best segmentation known; ``best`` is its objective, ``-inf`` where none is known.
    bound : float
        No segmentation has a higher objective.
    """

    prepared: PreparedSegments
    labels: np.ndarray
    enter: np.ndarray
    best: float = -np.inf
    bound: float = np.inf
    iterations: int = 0
    nodes: int = 0
    terms: set[Term] = field(default_factory=set)
    _ahead: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @classmethod
    def start(cls, problem: SegmentProblem) -> "SegmentSearch":
        """Decode without the rules that do not fold into the scores (semi-Markov Viterbi), and judge the answer."""
        prepared = prepare(problem)
        scores = prepared.scores
        _, n, m = scores.role.shape
        enter, alpha = np.empty((n + 1, m)), np.empty((n + 1, m))
        opens, types = np.zeros(n, np.uint8), np.zeros(n, np.int64)
        scratch = np.empty(m), np.empty(scores.length.shape), np.empty(scores.length.shape)
        bound = best_segments(scores, 0, n, enter, alpha, *scratch, opens, types)
        search = cls(prepared, np.zeros(n, np.int64), enter, bound=float(bound), iterations=1)
        if bound > -np.inf:
            search.offer(problem.spelling.write(opens, types))
        return search

    @property
    def settled(self) -> bool:
        """Whether the bound proves the best segmentation, or that there is none."""
        return bool(certificate.proves(self.bound, self.best, 0.0))

    @property
    def floor(self) -> float:
        """Only what beats this is worth looking for."""
        return self.best + SLACK

    def offer(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Judge a segmentation, keep it where it is the best so far; return amounts, excesses and its objective."""
        amounts, excesses = self.prepared.amounts(labels)
        objective = self.prepared.objective(labels, amounts)
        if objective > self.best:
            self.best, self.labels = objective, labels.copy()
        return amounts, excesses, objective

    def window(self, floor: float, node_limit: int) -> Lattice | None:
        """Return the lattice of all segmentations that score above the floor; None where it would pass the limit."""
        p = self.prepared
        words = p.problem.spelling
        if self._ahead is None:
            shape = self.enter[1:].shape
            self._ahead = np.empty(shape), np.empty(shape), np.empty(shape)
            fill_backward(p.scores, *self._ahead)
        leave, alone, longer = self._ahead
        room = max(0, node_limit - self.nodes)
        done, lattice = segment_lattice(
            p.scores, p.base, p.extra, words.label, self.enter, leave, alone, longer, floor, room
        )
        self.nodes += len(lattice.label)
        return charge(lattice, p.tables, p.classes, words.n_labels, p.charges) if done else None

    def relaxation(self, lattice: Lattice, duals: np.ndarray) -> Relaxation:
        """Rules that do not fold are priced by duals (counters,)."""
        p = self.prepared
        m = p.problem.spelling.n_labels
        lattice = charge(lattice, p.tables, p.classes, m, duals)
        constant = float(duals @ p.tables.counter_bound)
        return Relaxation(p.tables, p.classes, m, lattice, constant, duals.copy(), {}, p.terms)

    def result(self, engine: str) -> Result:
        """Return the answer as it stands."""
        steps = self.iterations + self.nodes
        if self.best == -np.inf:
            return self.prepared.no_result(self.bound, engine, steps)
        return self.prepared.result(self.labels, self.bound, engine, steps)


def run_product(search: SegmentSearch, lattice: Lattice, duals: np.ndarray, floor: float, node_limit: int) -> bool:
    """Multiply a window's lattice by rules, the most mischarged first, until no path beats the floor or the best is found.

    False where a limit is met. Terms already known to matter come first, those with few states before the others.
    """
    relaxation = search.relaxation(lattice, duals)
    known = sorted(search.terms, key=lambda term: (term.states, term.rule))
    while True:
        bound = relaxation.bound(floor)
        if bound == -np.inf:
            search.bound = min(search.bound, floor)
            return True
        search.bound = min(search.bound, bound)
        if known:
            term = known.pop(0)
        else:
            labels = np.zeros_like(search.labels)
            lattice_path(relaxation.lattice, labels)
            amounts, excesses, _ = search.offer(labels)
            floor = max(floor, search.floor)
            if search.settled or not relaxation.left:
                search.bound = max(search.bound, search.best)
                return True
            term = relaxation.mischarged(labels, excesses, amounts)
        if not relaxation.add(term, floor, node_limit):
            return False
        search.nodes += len(relaxation.lattice.label)
        search.terms.add(term)


def run_duals(search: SegmentSearch, lattice: Lattice, floor: float, iterations: int) -> np.ndarray:
    """Soft-DD over a window's lattice: each call of its oracle is one pass over the segments that are left.

    Returns the duals of the best bound; what lies outside the window is bounded by the floor.
    """
    p = search.prepared
    m = p.problem.spelling.n_labels
    if fill_ahead(lattice, -np.inf) == -np.inf:  # local rules forbid the whole window
        search.bound = min(search.bound, floor)
        return np.zeros(len(p.caps))

    def oracle(duals: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        charged = charge(lattice, p.tables, p.classes, m, duals)
        value = float(fill_ahead(charged, -np.inf))
        labels = np.zeros_like(search.labels)
        lattice_path(charged, labels)
        excesses = p.amounts(labels)[1]
        return labels, value + float(duals @ (excesses + p.tables.counter_bound)), excesses.astype(np.float64)

    found = soft_dd_oracle(oracle, p.caps, iterations, lambda labels: search.offer(labels)[2])
    search.iterations += found.iterations
    search.bound = min(search.bound, max(found.upper_bound, floor))
    return found.duals


def run_auto(search: SegmentSearch, node_limit: int, seconds: float | None, first: str = "product") -> str:
    """Widen the window until it holds the optimum; return the name of the engine that finished.

    ``first`` "soft_dd" runs duals before any product.
    """
    start = monotonic()

    def over() -> bool:
        return search.settled or (seconds is not None and monotonic() - start > seconds)

    if over():
        return "viterbi"
    nothing = np.zeros(len(search.prepared.caps))
    for floor in _floors(search):
        lattice = search.window(floor, node_limit)
        if lattice is None:
            return "product"
        quick = min(search.nodes + QUICK_NODES, node_limit)
        if first == "soft_dd" or not run_product(search, lattice, nothing, floor, max(0, quick - search.nodes)):
            if over():
                return "product"
            duals = run_duals(search, lattice, floor, DUAL_ITERATIONS)
            if over():
                return "soft_dd"
            room = max(0, node_limit - search.nodes)
            if search.bound > floor and not run_product(search, lattice, duals, max(floor, search.floor), room):
                return "product"
        if over():
            return "product"
    return "product"


def _floors(search: SegmentSearch) -> Iterator[float]:
    """Floors of wider and wider windows; the last one is below everything that could still win."""
    width = max(FIRST_WINDOW, 0.01 * abs(search.bound))
    for attempt in range(MOST_WINDOWS):
        floor = max(search.bound - width, search.floor) if attempt < MOST_WINDOWS - 1 else search.floor
        yield floor
        width *= WIDENING
