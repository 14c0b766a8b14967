"""Hard counts alone, as an integer programme over how often each label occurs: a labelling that obeys them, or a proof."""

import numpy as np
from scipy.sparse import csr_array

from rulefield.inference.chain.dual import DualPotentials, Progress
from rulefield.kernels.lattice.dual import completions

BRANCHINGS = 200
"""Nodes of HiGHS's branch and bound that the programme may take."""

MOST_CELLS = 50_000
"""Largest number of tokens times labels: a larger programme would take long."""

UNITS_PER_CELL, UNITS_PER_BRANCHING = 10, 1_500
"""Units of work that a cell of the programme, and a branching, are charged with."""


def run_counts(progress: Progress, dual: DualPotentials) -> None:
    """Give tokens labels so that all hard counters of labels (not those of steps) hold, with the best sum of max-marginals.

    A transport problem between tokens and labels, integral where the numbers of labels are: only those are declared so.
    Where it has no solution nothing obeys the rules: a proof that sums over the reals (``prove_infeasible``) do not give,
    like three labels that must occur equally often in ten tokens. Otherwise its labelling is offered, and kept as a place
    to climb from.
    """
    tables, classes = progress.prepared.tables, progress.prepared.classes
    n, m = progress.lowered.shape
    rule = tables.counter_rule
    hard = np.flatnonzero(np.isinf(progress.prepared.caps) & (tables.edge_at < 0))
    if not len(hard) or n * m > MOST_CELLS:
        return
    step, label = np.nonzero(progress.lowered > -np.inf)
    what = np.vstack([classes[rule[hard]].astype(np.int64), np.arange(n) == 0])
    _, group = np.unique(what, axis=1, return_inverse=True)
    numbers, place = np.unique(group.ravel()[step] * m + label, return_inverse=True)
    first_token = np.unique(group.ravel(), return_index=True)[1]
    gains = np.empty((len(hard), len(numbers)))
    for k, c in enumerate(hard):
        token, here = first_token[numbers // m], numbers % m
        at = np.where(token == 0, tables.first_at[c], tables.node_at[c])
        gains[k] = tables.node[at + classes[rule[c], token].astype(np.int64) * m + here]
    worth = _worths(dual)[step, label]
    labels, branchings = _transport(step, label, place.ravel(), gains, tables.counter_bound[hard], worth, n)
    progress.nodes += UNITS_PER_CELL * n * m + UNITS_PER_BRANCHING * branchings
    if labels is None:
        return
    if not len(labels):
        progress.bound = -np.inf
        return
    progress.offer(labels)
    progress.hint = labels


def _worths(dual: DualPotentials) -> np.ndarray:
    """Max-marginals (n, m) under the duals: the best score of a path through each label, relative to the best path."""
    backwards = np.empty_like(dual.ahead)
    arriving = np.ascontiguousarray(dual.arriving[::-1].transpose(0, 2, 1))
    unary = np.ascontiguousarray(dual.unary[::-1])
    completions(unary, arriving, backwards)
    through = dual.unary + dual.ahead + backwards[::-1]
    return through - through.max()


def _transport(
    step: np.ndarray,
    label: np.ndarray,
    place: np.ndarray,
    gains: np.ndarray,
    limits: np.ndarray,
    worth: np.ndarray,
    n: int,
) -> tuple[np.ndarray | None, int]:
    """Labels (n,) of the programme's solution; empty where it has none, None where HiGHS gave up. And its branchings.

    Columns: one per token and label, then one per group of tokens and label (``place`` of each of the former).
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    cells, numbers = len(step), gains.shape[1]
    one = np.ones(cells)
    tokens = csr_array((one, (step, np.arange(cells))), shape=(n, cells + numbers))
    sums = csr_array(
        (np.r_[one, -np.ones(numbers)], (np.r_[place, np.arange(numbers)], np.arange(cells + numbers))),
        shape=(numbers, cells + numbers),
    )
    rules = csr_array(np.c_[np.zeros((len(gains), cells)), gains])
    allowed = np.where(worth > -np.inf, worth, -1e3)
    found = milp(
        np.r_[-allowed, np.zeros(numbers)],
        integrality=np.r_[np.zeros(cells), np.ones(numbers)],
        bounds=Bounds(0.0, np.r_[one, np.full(numbers, np.inf)]),
        constraints=[
            LinearConstraint(tokens, 1.0, 1.0),
            LinearConstraint(sums, 0.0, 0.0),
            LinearConstraint(rules, -np.inf, limits),
        ],
        options={"node_limit": BRANCHINGS, "mip_rel_gap": 0.02},
    )
    branchings = int(getattr(found, "mip_node_count", 0) or 0)
    if found.status == 2:
        return np.zeros(0, np.int64), branchings
    if found.x is None:
        return None, branchings
    share = np.zeros((n, int(label.max()) + 1))
    share[step, label] = found.x[:cells]
    return share.argmax(axis=1).astype(np.int64), branchings
