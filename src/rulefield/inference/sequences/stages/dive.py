"""A labeling from a narrow product: rule by rule, only the best part of the lattice goes on.

Improves: the labeling.
Pays: if the product did not end and its lattices fit a beam.
Charged: as the product, by arcs looked at.
Reference: beam search over the states of all rules that matter.
"""

import numpy as np

from rulefield.inference.flatten import Term
from rulefield.inference.relaxation import Relaxation
from rulefield.inference.sequences.progress import ARCS_PER_UNIT, MOST_NODES, DualPotentials, Progress
from rulefield.inference.sequences.stages.product import chain_relaxation
from rulefield.kernels.lattice.lattice import lattice_path

LEAST_WIDTH = 50
"""A dive whose lattice had to be cut below so many nodes per token is given up."""


def run_dive(progress: Progress, dual: DualPotentials, node_limit: int, width: int) -> None:
    """Add the rule that the best path is most wrongly charged with, to about ``width`` nodes per token, until none is.

    Each time only those nodes stay whose best path is among the best, so that the lattice keeps its size: a beam over the
    states of all rules that matter, with the relaxation before as its bound. Every best path met is a labeling that may be
    kept; nothing is proved.
    """
    most = min(width * len(progress.labels), MOST_NODES // 6)  # long chains would spend all their work here
    if most < LEAST_WIDTH * len(progress.labels):
        return
    lowest = progress.best if progress.best > -np.inf else progress.bound - max(1.0, abs(progress.bound))
    relaxation = chain_relaxation(progress, dual, lowest)
    goal: float | None = -np.inf
    while goal is not None and progress.nodes < node_limit and not progress.deadline.over:
        floor = progress.best + progress.slack
        if relaxation.bound(max(floor, goal)) == -np.inf:
            return
        labels = np.zeros_like(progress.labels)
        lattice_path(relaxation.lattice, labels)
        amounts, excesses = progress.offer(labels)
        if not relaxation.left or relaxation.bound(progress.best + progress.slack) == -np.inf:
            return
        term = relaxation.mischarged(labels, excesses, amounts)
        goal = _add(progress, relaxation, term, most, node_limit)


def _add(progress: Progress, relaxation: Relaxation, term: Term, most: int, node_limit: int) -> float | None:
    """Make a term exact in the best part of the lattice, smaller and smaller until it fits; return what was cut off below."""
    kept = most
    while kept >= LEAST_WIDTH * len(progress.labels):
        through = relaxation.lattice.reach + relaxation.lattice.ahead
        through = through[through > -np.inf]
        floor = progress.best + progress.slack
        if len(through) > kept:
            floor = max(floor, float(-np.partition(-through, kept)[kept]) + relaxation.constant)
        left = max(min(2 * most, node_limit - progress.nodes), 0)
        done = relaxation.add(term, floor, 2 * most, most_work=left * ARCS_PER_UNIT, stop=progress.deadline.stop)
        progress.charge_arcs(relaxation)
        if done:
            return floor
        kept //= 3
    return None
