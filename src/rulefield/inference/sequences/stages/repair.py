"""Local search for a labeling that obeys the hard rules, or for a better one.

Improves: the labeling.
Pays: if no labeling is known, or if half-way no proof is in sight.
Charged: each move by the counters and automata that it makes read again.
Reference: iterated local search with rising prices of broken rules (breakout, Morris 1993).
"""

import numpy as np

from rulefield.inference.sequences.progress import STEPS_PER_UNIT, DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path
from rulefield.kernels.lattice.moves import local_search

FIRST_PRICE = 3.0
"""First price of a unit of a hard rule, as a multiple of the mean loss of a label against the best one."""


def run_repair(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Improve the best labeling known by moves and kicks; keep what obeys all hard rules.

    If none is known, start from the duals' best path, and for the second half from labelings that give all tokens one label.
    """
    if progress.prepared.flat.shared.rows_only:
        return
    units = max(limit - progress.nodes, 0)
    if progress.best > -np.inf:
        _search(progress, progress.labels.copy(), units)
        return
    start = np.zeros_like(progress.labels)
    if best_path(dual.unary, dual.arriving, dual.ahead, start) == -np.inf:
        return
    _search(progress, start, units // 2)
    if progress.best == -np.inf:
        for label in range(progress.prepared.unary.shape[1]):
            progress.offer(np.full_like(start, label))
    _search(progress, start if progress.best == -np.inf else progress.labels.copy(), units - units // 2)


def _search(progress: Progress, start: np.ndarray, most_units: int) -> None:
    """Search from a labeling (n,)."""
    prepared = progress.prepared
    found = np.zeros_like(start)
    scores = prepared.unary[prepared.unary > -np.inf]
    value, steps = local_search(
        prepared.unary,
        prepared.arriving,
        prepared.tables,
        prepared.classes,
        FIRST_PRICE * max(1.0, float(-scores.mean())),
        STEPS_PER_UNIT * most_units,
        progress.nodes,
        progress.deadline.stop,
        start,
        found,
    )
    progress.charge(int(steps) // STEPS_PER_UNIT)
    if value > progress.best:
        progress.offer(found)
