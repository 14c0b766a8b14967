"""Best segmentation under rules: plain first, then a window of the segment lattice times the rules in conflict."""

from dataclasses import dataclass, field

import numpy as np

from rulefield.inference.flatten import Term
from rulefield.inference.limits import Deadline
from rulefield.inference.relaxation import Relaxation, charged_lattice
from rulefield.inference.result import SLACK, Result
from rulefield.inference.sequences.auto import WIDTHS_NATS
from rulefield.inference.sequences.decode import decode
from rulefield.inference.sequences.segments.prepare import PreparedSegments, prepare
from rulefield.kernels import certificate
from rulefield.kernels.lattice.lattice import Lattice, lattice_path
from rulefield.kernels.segments.best import best_segments
from rulefield.kernels.segments.lattice import fill_backward, segment_lattice
from rulefield.problem.chain import ChainPotentials
from rulefield.problem.chain_rules import ChainProblem
from rulefield.problem.segments import SegmentProblem

QUICK_NODES = 3_000
"""Nodes of products that are tried before the walk: enough for most windows of a trained model, where making a chain of a
window would cost more than all else."""

MOST_CELLS = 20_000_000
"""Largest chain of a window, in tokens times slots squared (160 MB)."""


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

    def offer(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Judge a segmentation, keep it if it is the best so far; return its amounts and excesses."""
        amounts, excesses = self.prepared.amounts(labels)
        objective = self.prepared.objective(labels, amounts)
        if objective > self.best:
            self.best, self.labels = objective, labels.copy()
        return amounts, excesses

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
        if done and p.charges.any():
            return charged_lattice(lattice, p.tables, p.classes, words.n_labels, p.charges)
        return lattice if done else None

    def relaxation(self, lattice: Lattice) -> Relaxation:
        """No rule that does not fold is exact, or priced."""
        p = self.prepared
        duals = np.zeros(len(p.tables.counter_bound))
        return Relaxation(p.tables, p.classes, p.problem.spelling.n_labels, lattice, 0.0, duals, {}, p.terms)

    def result(self, engine: str) -> Result:
        """Return the answer as it stands."""
        steps = self.iterations + self.nodes
        if self.best == -np.inf:
            return self.prepared.no_result(self.bound, engine, steps)
        return self.prepared.result(self.labels, self.bound, engine, steps)


def run_product(search: SegmentSearch, lattice: Lattice, floor: float, node_limit: int) -> bool:
    """Multiply a window's lattice by rules, the most mischarged first, until no path beats the floor or the best is found.

    False where a limit is met. Terms already known to matter come first, those with few states before the others.
    """
    relaxation, known = search.relaxation(lattice), sorted(search.terms, key=lambda term: (term.states, term.rule))
    while True:
        bound = relaxation.bound(floor)
        search.bound = min(search.bound, max(bound, floor))
        if bound == -np.inf:
            return True
        if known:
            term = known.pop(0)
        else:
            labels = np.zeros_like(search.labels)
            lattice_path(relaxation.lattice, labels)
            amounts, excesses = search.offer(labels)
            floor = max(floor, search.floor)
            if search.settled or not relaxation.left:
                search.bound = max(search.bound, search.best)
                return True
            term = relaxation.mischarged(labels, excesses, amounts)
        if not relaxation.add(term, floor, node_limit):
            return False
        search.nodes += len(relaxation.lattice.label)
        search.terms.add(term)


def run_walk(
    search: SegmentSearch, lattice: Lattice, floor: float, node_limit: int, clock: Deadline, engine: str = "auto"
) -> str | None:
    """Decode a window's lattice as a chain, by default by all stages; return who finished, None if it is too large.

    What lies outside the window is bounded by the floor. Local rules are in the lattice's scores.
    """
    p = search.prepared
    if np.diff(lattice.layer).min() == 0:
        search.bound = min(search.bound, max(floor, search.best))
        return "viterbi"
    potentials, letter = chain_of(lattice, p.problem.spelling.n_labels)
    if potentials.n_states**2 * potentials.n_steps > MOST_CELLS:
        return None
    local = p.tables.local
    rules = tuple(rule.relabeled(letter) for r, rule in enumerate(p.problem.rules) if not local[r])
    result = decode(ChainProblem(potentials, rules), engine, max(node_limit - search.nodes, 1), clock.left)
    search.nodes += result.iterations
    if len(result.labels):
        search.offer(letter[result.labels])
    search.bound = min(search.bound, max(result.upper_bound, floor, search.best))
    return result.engine


def chain_of(lattice: Lattice, n_labels: int) -> tuple[ChainPotentials, np.ndarray]:
    """Return a lattice as a chain over slots, and the label of each slot (slots,).

    The nodes of a layer that have the same label take one slot each, so a slot stands for the same label at every token and
    rules read slots as they read labels.
    """
    n = len(lattice.layer) - 1
    step = np.repeat(np.arange(n), np.diff(lattice.layer))
    key = step * n_labels + lattice.label
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.empty(len(key), np.int64)
    rank[order] = np.arange(len(key)) - np.repeat(begins, np.diff(begins, append=len(key)))
    widths = np.zeros(n_labels, np.int64)
    np.maximum.at(widths, lattice.label, rank + 1)
    slot = (np.cumsum(widths) - widths)[lattice.label] + rank
    size = int(widths.sum())
    unary = np.full((n, size), -np.inf)
    unary[step, slot] = np.where(step == 0, lattice.reach, 0.0)
    pairwise = np.full((max(n - 1, 1), size, size), -np.inf)
    source = np.repeat(np.arange(len(key)), np.diff(lattice.arc_ptr))
    pairwise[step[source], slot[source], slot[lattice.arc_to]] = lattice.arc_score
    return ChainPotentials(unary, pairwise if n > 1 else np.zeros((size, size))), np.repeat(
        np.arange(n_labels), widths
    )


def run_auto(search: SegmentSearch, node_limit: int, clock: Deadline) -> str:
    """Try products in the two smallest windows, then send the widest one that fits through the walk.

    Returns the engine that learned something last.
    """
    if search.settled or node_limit <= 0:
        return "viterbi"
    for width in WIDTHS_NATS[:-3:-1]:
        floor = max(search.bound - width, search.floor)
        lattice = None if search.settled else search.window(floor, node_limit)
        if lattice is None or not run_product(search, lattice, floor, min(QUICK_NODES, node_limit)):
            break
    for width in WIDTHS_NATS:
        if search.settled or clock.over or search.nodes >= node_limit:
            break
        floor = max(search.bound - width, search.floor)
        lattice = search.window(floor, node_limit)
        engine = None if lattice is None else run_walk(search, lattice, floor, node_limit, clock)
        if engine is not None:
            return engine
    return "product"
