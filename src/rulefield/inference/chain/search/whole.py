"""Counts as whole numbers: a bound that knows that labels occur a whole number of times, and labellings with such counts."""

import numpy as np

from rulefield.inference.chain.dual import Progress
from rulefield.inference.chain.search.exchange import run_exchanges
from rulefield.inference.highs import HIGHS_SCALE, proved_cost
from rulefield.inference.result import rounding_error
from rulefield.kernels.lattice.dual import best_path, completions, priced

MOST_PASSES, PATIENCE = 80, 4
"""Dual steps, and how many may bring nothing before they get shorter."""

MOST_TOKENS = 400
"""Longest chain for which labellings of given counts are made."""

KINDS = 3
"""So many of the best vectors of counts are tried."""

NODES_PER_PASS, NODES_PER_KIND = 2_500, 200_000


def run_whole_counts(progress: Progress, node_limit: int) -> None:
    """Bound the objective by whole counts of labels, then try labellings of the counts that the bound likes.

    With lambda (m,) a price of each label, max over labellings of (score - lambda' counts) plus max over *whole* counts that
    obey all hard counts of labels and add up to n of (lambda' counts) bounds every labelling's value. The first is a
    Viterbi pass, the second a small integer programme. Multipliers of the rules alone see only the sums over the reals: where
    35 labels must occur equally often in 60 tokens they allow 12/7 times each, whole numbers once. Steps are Polyak's.
    """
    prepared, tables = progress.prepared, progress.prepared.tables
    n, m = prepared.unary.shape
    hard = np.isinf(prepared.caps) & tables.counter_plain
    if not hard.any():
        return
    rows = np.array([tables.node[at : at + m] for at in tables.node_at[hard]], dtype=np.float64)
    limits = tables.counter_bound[hard].astype(np.float64)
    others = np.where(hard, 0.0, progress.duals)
    unary, arriving = priced(progress.lowered, prepared.arriving, tables, prepared.classes, others)
    constant = progress.constant + float(others @ tables.counter_bound)
    price, now = progress.duals[hard] @ rows, np.inf
    tried: list[tuple[float, np.ndarray, np.ndarray]] = []
    pace, still = 1.0, 0
    for _ in range(MOST_PASSES):
        if progress.nodes >= node_limit or progress.settled or progress.deadline.over:
            break
        progress.nodes += NODES_PER_PASS
        found = _dual(progress, unary - price, arriving, price, rows, limits)
        if found is None:
            return
        value, labels, counts = found
        value += constant
        still = 0 if value < now - 1e-6 * (1.0 + abs(now)) else still + 1
        if still == PATIENCE:
            pace, still = 0.6 * pace, 0
        now = min(now, value)
        tried.append((value, price, counts))
        progress.offer(labels)
        slope = np.bincount(labels, minlength=m) - counts
        square = float(slope @ slope)
        error = rounding_error(8 * (n + m + len(limits)), abs(value) + abs(constant) + 2.0 * n * np.abs(price).max())
        progress.bound = min(progress.bound, value + error)
        if square == 0.0:
            break
        goal = progress.best if progress.best > -np.inf else now - 1.0 - 0.02 * abs(now)
        price = price + pace * max(value - goal, 0.0) / square * slope
    _try_counts(progress, unary, arriving, tried, node_limit)


def _dual(
    progress: Progress,
    unary: np.ndarray,
    arriving: np.ndarray,
    price: np.ndarray,
    rows: np.ndarray,
    limits: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Bound under prices, its labelling (n,) and its whole counts (m,); None where nothing is left, or HiGHS gave up."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, m = unary.shape
    labels, ahead = np.zeros(n, np.int64), np.empty_like(unary)
    completions(unary, arriving, ahead)
    value = float(best_path(unary, arriving, ahead, labels))
    found = milp(
        -HIGHS_SCALE * price,
        integrality=np.ones(m),
        bounds=Bounds(0.0, n),
        constraints=[LinearConstraint(rows, -np.inf, limits), LinearConstraint(np.ones((1, m)), n, n)],
        options={"mip_rel_gap": 0.0, "node_limit": 1_000},
    )
    least = proved_cost(found, [price * n])
    if value == -np.inf or least == np.inf:
        progress.bound = -np.inf
        return None
    if found.x is None or least == -np.inf:
        return None
    return value - least, labels, np.round(found.x)


def _try_counts(
    progress: Progress,
    unary: np.ndarray,
    arriving: np.ndarray,
    tried: list[tuple[float, np.ndarray, np.ndarray]],
    node_limit: int,
) -> None:
    """Make labellings of the counts behind the best bounds, and exchange their labels."""
    from scipy.optimize import linear_sum_assignment

    n, m = unary.shape
    seen: set[bytes] = set()
    for _, price, counts in sorted(tried, key=lambda one: one[0]) if n <= MOST_TOKENS else []:
        if counts.tobytes() in seen or progress.settled or progress.nodes >= node_limit:
            continue
        if len(seen) == KINDS:
            return
        seen.add(counts.tobytes())
        worth = (unary - price)[:, np.repeat(np.arange(m), counts.astype(np.int64))]
        if worth.shape != (n, n):
            continue
        try:
            _, place = linear_sum_assignment(np.where(worth > -np.inf, worth, -1e6), maximize=True)
        except ValueError:  # nothing finite
            continue
        labels = np.repeat(np.arange(m), counts.astype(np.int64))[place]
        progress.offer(labels)
        run_exchanges(progress, min(progress.nodes + NODES_PER_KIND, node_limit), labels)
