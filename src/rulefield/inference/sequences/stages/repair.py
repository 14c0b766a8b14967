"""A labeling that obeys the hard rules, by neighborhood search under prices of hard rules that rise if they stay broken.

Improves: the labeling.
Pays: if no labeling is known that obeys the hard rules.
Charged: as the search in neighborhoods, plus the passes of the duals of each round.
Reference: breakout (Morris, 1993) with the moves of a large neighborhood search (Shaw, 1998).
"""

from dataclasses import replace

import numpy as np

from rulefield.inference.sequences.prepare import Prepared
from rulefield.inference.sequences.progress import DualPotentials, Progress, dual_potentials, run_duals
from rulefield.inference.sequences.stages.neighbors import run_neighbors

FIRST_PRICE_NATS, RISE = 10.0, 2.0
"""First price of a unit of a hard rule, and what the price of a broken one is multiplied by after a round."""

MOST_ROUNDS, ROUND_UNITS, DUAL_PASSES = 60, 15_000, 10
"""Rounds, the work of the search of one, and Viterbi passes for the duals of its prices."""


def run_repair(progress: Progress, dual: DualPotentials, limit: int) -> None:
    """Search labelings that break hard rules at a price, in rounds; stop if one obeys them all."""
    prepared = progress.prepared
    if prepared.flat.shared.rows_only or progress.best > -np.inf:
        return
    hard = np.isinf(prepared.tables.weight) & ~prepared.tables.local
    price = np.where(hard, FIRST_PRICE_NATS, prepared.tables.weight)
    start = progress.labels.copy()
    for _ in range(MOST_ROUNDS):
        if progress.nodes >= limit or progress.deadline.over:
            return
        priced = Progress.start(_at_prices(prepared, price, hard))
        priced.deadline, priced.most_nodes = progress.deadline, progress.most_nodes
        run_duals(priced, DUAL_PASSES)
        priced.offer(start)
        if priced.best == -np.inf:
            return
        priced.charge(progress.nodes + priced.iterations * priced.pass_units)
        run_neighbors(priced, dual_potentials(priced), min(limit, priced.nodes + ROUND_UNITS))
        progress.nodes, start = priced.nodes, priced.labels
        amounts, _ = progress.offer(start)
        if progress.best > -np.inf:
            return
        price = np.where(hard & (amounts > 0), RISE, 1.0) * price


def _at_prices(prepared: Prepared, price: np.ndarray, hard: np.ndarray) -> Prepared:
    """Return the problem with other weights of rules (rules,); the ``hard`` ones cost theirs by the unit."""
    tables = prepared.tables
    caps = np.where(hard[tables.counter_rule], price[tables.counter_rule], prepared.caps)
    return replace(prepared, tables=tables._replace(weight=price, once=tables.once & ~hard), caps=caps)
