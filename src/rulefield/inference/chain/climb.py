"""Local search for a labelling that obeys the hard rules, or a better one: the primal side of the bounds."""

import numpy as np

from rulefield.inference.chain.dual import DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path
from rulefield.kernels.lattice.moves import local_search

MOVES_PER_NODE = 1
"""Moves that cost as much as a search node."""


def run_climb(progress: Progress, dual: DualPotentials, most_moves: int) -> None:
    """Climb from the best labelling known (or the duals' best path) by moves and kicks; keep what obeys all hard rules."""
    prepared = progress.prepared
    start, found = progress.labels.copy(), np.zeros_like(progress.labels)
    if progress.best == -np.inf and best_path(dual.unary, dual.arriving, dual.ahead, start) == -np.inf:
        return
    scores = prepared.unary[prepared.unary > -np.inf]
    value, moves = local_search(
        prepared.unary,
        prepared.arriving,
        prepared.tables,
        prepared.classes,
        max(1.0, float(-scores.mean())),
        most_moves,
        progress.nodes,
        progress.deadline.stop,
        start,
        found,
    )
    progress.nodes += moves // MOVES_PER_NODE
    if value > progress.best:
        progress.offer(found)
