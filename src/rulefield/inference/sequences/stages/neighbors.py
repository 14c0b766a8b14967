"""Better labelings by exact searches in small parts: some tokens are free, all others keep their labels.

Improves: the labeling.
Pays: if a labeling is known that no stage could prove.
Charged: as the product, by arcs looked at.
Reference: large neighborhood search (Shaw, 1998).
"""

import numpy as np

from rulefield.inference.sequences.progress import ARCS_PER_UNIT, DualPotentials, Progress
from rulefield.inference.sequences.stages.product import chain_relaxation
from rulefield.kernels.lattice.dual import completions
from rulefield.kernels.lattice.lattice import lattice_path

FIRST_FREE, GROWTH = 12, 1.1
"""Tokens that are free at first (a third of them at least). A part that was searched to its end lets the next be larger by
the factor; one that was not, smaller by its square."""

PART_UNITS, IDLE_PARTS = 10_000, 60
"""What a part may cost; after so many that brought nothing, twice as much."""


def run_neighbors(progress: Progress, dual: DualPotentials, node_limit: int, patience: float = np.inf) -> None:
    """Free some tokens of the best labeling, search all that they can be exactly, and again with others.

    A large neighborhood search (Shaw, 1998) with the product of the free tokens and the rules in conflict as its engine.
    Free are stretches of tokens or all tokens of a few labels, drawn in proportion to what the labeling loses there against
    the duals' bound: what one place has too much of, another can take. Parts grow if they are searched to their end. It
    ends after ``patience`` units of work without a better labeling. Proves nothing.
    """
    if progress.best == -np.inf:
        return
    rng = np.random.default_rng(progress.nodes)
    free, work, idle, since = float(FIRST_FREE), PART_UNITS, 0, progress.nodes
    while progress.nodes < min(node_limit, since + patience) and not progress.settled and not progress.deadline.over:
        before = progress.best
        tokens = _part(rng, dual, progress.labels, int(free))
        done = _search(progress, dual, tokens, min(node_limit, progress.nodes + work))
        if done and tokens.all():
            return
        free = free * GROWTH if done else max(free / GROWTH**2, FIRST_FREE / 3)
        if progress.best > before:
            idle, since = -1, progress.nodes
        idle += 1
        if idle == IDLE_PARTS:
            work, idle = 2 * work, 0


def _part(rng: np.random.Generator, dual: DualPotentials, labels: np.ndarray, free: int) -> np.ndarray:
    """Tokens (n,) of bool that are free."""
    odds = regrets(dual, labels)
    odds += odds.mean() + 1e-9
    odds /= odds.sum()
    return (_stretches if rng.random() < 0.5 else _labels)(rng, odds, labels, free)


def regrets(dual: DualPotentials, labels: np.ndarray) -> np.ndarray:
    """Return what a labeling loses at each token (n,) to the best path under the duals from the label before."""
    through = dual.unary + dual.ahead
    here = through[np.arange(len(labels)), labels]
    lost = np.empty(len(labels))
    lost[0] = through[0].max() - here[0]
    which = np.minimum(np.arange(len(labels) - 1), len(dual.arriving) - 1)
    step = dual.arriving[which, labels[1:], labels[:-1]]
    lost[1:] = dual.ahead[np.arange(len(labels) - 1), labels[:-1]] - step - here[1:]
    return np.maximum(lost, 0.0)


def _stretches(rng: np.random.Generator, odds: np.ndarray, labels: np.ndarray, free: int) -> np.ndarray:
    """Tokens (n,) of bool in a few stretches of equal length."""
    n = len(labels)
    count = min(int(rng.integers(1, FIRST_FREE)), n)
    length = max(free // count, 1)
    chosen = np.zeros(n, bool)
    for center in rng.choice(n, count, replace=False, p=odds):
        start = center - int(rng.integers(length))
        chosen[max(start, 0) : start + length] = True
    return chosen


def _labels(rng: np.random.Generator, odds: np.ndarray, labels: np.ndarray, free: int) -> np.ndarray:
    """Tokens (n,) of bool: all that have one of so many labels that at least ``free`` tokens do."""
    chosen = np.zeros(len(labels), bool)
    for token in rng.choice(len(labels), len(labels), replace=False, p=odds):
        chosen |= labels == labels[token]
        if np.count_nonzero(chosen) >= free:
            break
    return chosen


def _search(progress: Progress, dual: DualPotentials, free: np.ndarray, node_limit: int) -> bool:
    """Search all labelings that differ from the best in free tokens only; False where a limit was met."""
    unary = np.full_like(dual.unary, -np.inf)
    places = np.arange(len(free))
    unary[places, progress.labels] = dual.unary[places, progress.labels]
    unary[free] = dual.unary[free]
    ahead = np.empty_like(unary)
    completions(unary, dual.arriving, ahead)
    part = DualPotentials(unary, dual.arriving, ahead, dual.constant, dual.duals, progress)
    progress.charge(progress.pass_units)
    relaxation = chain_relaxation(progress, part, progress.best + progress.slack)
    labels = np.zeros_like(progress.labels)
    while relaxation.bound(progress.best + progress.slack) > -np.inf:
        lattice_path(relaxation.lattice, labels)
        amounts, excesses = progress.offer(labels)
        if progress.settled or not relaxation.left:
            break
        term = relaxation.mischarged(labels, excesses, amounts)
        left = max(0, node_limit - progress.nodes)
        floor = progress.best + progress.slack
        done = relaxation.add(term, floor, node_limit, most_work=ARCS_PER_UNIT * left, stop=progress.deadline.stop)
        progress.charge_arcs(relaxation)
        if not done:
            return False
    return True
