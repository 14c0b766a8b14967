"""Local search for a labelling that obeys the hard rules, or a better one: the primal side of the bounds."""

import numpy as np

from rulefield.inference.chain.dual import DualPotentials, Progress
from rulefield.kernels.lattice.dual import best_path
from rulefield.kernels.lattice.moves import counters_at, local_search

COUNTERS_PER_NODE = 4
"""A move costs a search node, and one more for so many counters that count a label."""

CELLS_PER_NODE = 1_000
"""And one for so many states times tokens of the automata."""

PENALTY = 3.0
"""What a unit of a hard rule first costs, in units of what a label is worse than the best on average."""


def run_climb(progress: Progress, dual: DualPotentials, most_nodes: int) -> None:
    """Climb from the best labelling known by moves and kicks; keep what obeys all hard rules.

    Where none is known, from the duals' best path, and in a second half from labellings that give all tokens one label.
    """
    if progress.best > -np.inf:
        _climb(progress, progress.labels.copy(), most_nodes)
        return
    if progress.hint is not None:
        _climb(progress, progress.hint, most_nodes // 2)
        most_nodes -= most_nodes // 2
    start = np.zeros_like(progress.labels)
    if progress.best == -np.inf and best_path(dual.unary, dual.arriving, dual.ahead, start) == -np.inf:
        return
    _climb(progress, start, most_nodes // 2)
    if progress.best == -np.inf:
        for label in range(progress.prepared.unary.shape[1]):
            progress.offer(np.full_like(start, label))
    _climb(progress, start if progress.best == -np.inf else progress.labels.copy(), most_nodes - most_nodes // 2)


def _climb(progress: Progress, start: np.ndarray, most_nodes: int) -> None:
    prepared = progress.prepared
    found = np.zeros_like(start)
    pointer, _ = counters_at(prepared.tables, prepared.unary.shape[1])
    runs = float(prepared.tables.states.sum()) * len(start)
    nodes_per_move = 1.0 + pointer[-1] / (len(pointer) - 1) / COUNTERS_PER_NODE + runs / CELLS_PER_NODE
    scores = prepared.unary[prepared.unary > -np.inf]
    value, moves = local_search(
        prepared.unary,
        prepared.arriving,
        prepared.tables,
        prepared.classes,
        PENALTY * max(1.0, float(-scores.mean())),
        int(most_nodes / nodes_per_move),
        progress.nodes,
        progress.deadline.stop,
        start,
        found,
    )
    progress.nodes += int(moves * nodes_per_move)
    if value > progress.best:
        progress.offer(found)
