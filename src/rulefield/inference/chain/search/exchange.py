"""Better labellings with the same counts: the best exchange of labels among tokens, or pieces, that are no neighbours."""

import numpy as np

from rulefield.inference.chain.dual import Progress
from rulefield.kernels.lattice.dual import path_score

LONGEST_PIECE, MOST_PIECES = 4, 60

PATIENCE = 15
"""After so many exchanges that brought nothing the labelling is shaken."""

ACCEPTED = 0.1
"""A shaken labelling goes on where it loses, on average, no more than this share of the gap."""

MOST_SHAKES = 300
"""After so many without a better labelling the search goes back to the best."""

NODES_PER_EXCHANGE = 60
"""Units of work of one exchange."""


def run_exchanges(progress: Progress, node_limit: int, start_from: np.ndarray | None = None) -> None:
    """Exchange labels of the best labelling, or of another, where rules only count labels, so that no exchange breaks one.

    Pieces of one length with tokens between them do not see each other, so what each would score at each place is one matrix,
    and the best of all their permutations is an assignment problem (an exponentially large neighbourhood in polynomial time;
    for tours: Gutin, 1999). Where many draws bring nothing, a piece is moved or shuffled, and the search goes on from there
    (iterated local search). Proves nothing.
    """
    labels = progress.labels.copy() if start_from is None else start_from
    if (progress.best == -np.inf and start_from is None) or not _only_counts(progress):
        return
    prepared = progress.prepared
    rng = np.random.default_rng(progress.nodes)
    value = start = _score(progress, labels)
    kept, idle, shakes = labels, 0, 0
    while progress.nodes < node_limit and not progress.settled and not progress.deadline.over:
        progress.nodes += NODES_PER_EXCHANGE
        gain = _exchange(rng, prepared.unary, prepared.arriving, labels)
        value, idle = value + gain, 0 if gain > 0.0 else idle + 1
        if idle < PATIENCE:
            continue
        known = progress.best
        progress.offer(labels)
        shakes = 0 if progress.best > known else shakes + 1
        if shakes == MOST_SHAKES:
            kept, shakes = progress.labels.copy(), 0
            start = _score(progress, kept)
        elif value >= start - ACCEPTED * (progress.bound - progress.best) * rng.exponential():
            start, kept = value, labels
        labels, idle = _shaken(rng, kept), 0
        value = _score(progress, labels)
    progress.offer(labels)


def _only_counts(progress: Progress) -> bool:
    """Whether all rules outside the potentials count labels, all tokens alike, and some are hard."""
    tables = progress.prepared.tables
    acting = ~tables.local[tables.counter_rule]
    counted = bool(tables.counter_plain[acting].all()) and not progress.prepared.flat.shared.automaton_rules
    return counted and not progress.prepared.flat.shared.rows_only and bool(np.isinf(progress.prepared.caps).any())


def _score(progress: Progress, labels: np.ndarray) -> float:
    return float(path_score(progress.prepared.unary, progress.prepared.arriving, labels))


def _exchange(rng: np.random.Generator, unary: np.ndarray, arriving: np.ndarray, labels: np.ndarray) -> float:
    """Draw pieces, permute them at their best, in place; return what that gains."""
    from scipy.optimize import linear_sum_assignment

    n = len(labels)
    length = int(rng.integers(1, min(LONGEST_PIECE, n) + 1))
    starts = _starts(rng, n, length)
    if len(starts) < 2:
        return 0.0
    own = labels[starts[:, None] + np.arange(length)]  # (pieces, length)
    worth = np.zeros((len(starts), len(starts)))  # [place, piece]
    for d in range(length):
        worth += unary[(starts + d)[:, None], own[:, d]]
        if d and len(arriving) > 1:
            worth += arriving[(starts + d - 1)[:, None], own[:, d], own[:, d - 1]]
    last = len(arriving) - 1
    entered, left = starts > 0, starts + length < n
    before, after = starts[entered] - 1, starts[left] + length
    worth[entered] += arriving[np.minimum(before, last)[:, None], own[:, 0], labels[before][:, None]]
    worth[left] += arriving[np.minimum(after - 1, last)[:, None], labels[after][:, None], own[:, -1]]
    if not np.isfinite(now := float(np.trace(worth))):
        return 0.0
    _, chosen = linear_sum_assignment(worth, maximize=True)
    gain = float(worth[np.arange(len(starts)), chosen].sum()) - now
    if gain <= 1e-9:
        return 0.0
    labels[starts[:, None] + np.arange(length)] = own[chosen]
    return gain


def _starts(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
    """First tokens of pieces, at least one token apart."""
    room = n // (length + 1) + 1
    steps = length + 1 + (rng.random(room) < 0.3) + np.where(rng.random(room) < 0.2, rng.integers(0, 6, room), 0)
    starts = int(rng.integers(0, length + 2)) + np.cumsum(steps) - steps[0]
    starts = starts[starts + length <= n]
    return starts if len(starts) <= MOST_PIECES else np.sort(rng.choice(starts, MOST_PIECES, replace=False))


def _shaken(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Return the labelling with a piece moved, shuffled, or exchanged with another."""
    n = len(labels)
    length = int(rng.integers(1, min(7, n)))
    start, other = (int(x) for x in rng.integers(0, n - length + 1, 2))
    piece = np.arange(start, start + length)
    kind = int(rng.integers(3))
    shaken = labels.copy()
    if kind == 0:
        place = int(np.clip(start + rng.integers(-8, 9), 0, n - length))
        shaken = np.insert(np.delete(labels, piece), place, labels[piece])
    elif kind == 1:
        shaken[piece] = rng.permutation(labels[piece])
    elif abs(start - other) >= length:
        shaken[piece], shaken[piece - start + other] = labels[piece - start + other], labels[piece]
    return shaken
