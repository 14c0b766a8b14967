"""Variable elimination of what is left of a search: exact where its tables stay small, whatever bounds say."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.graph.network import lengths
from rulefield.inference.graph.trws import MANY_NODES, Search
from rulefield.inference.limits import NO_DEADLINE, Deadline
from rulefield.kernels.graph.exact.branch import reparametrized
from rulefield.kernels.graph.exact.eliminate import eliminate
from rulefield.kernels.graph.exact.living import Tables, living_tables
from rulefield.kernels.graph.exact.plan import Plan, greedy_order, make_plan
from rulefield.kernels.graph.sweep import slack

MOST_ORDERED = 2_048
"""Nodes of a component that is eliminated: to find an order takes time and memory with their square."""
MOST_LABELS = 256
"""Of a node: a best label is kept in a byte."""
MOST_BYTES = 2**29
"""Of all tables at one time, and of the best labels."""
MOST_ENTRIES = 2**18
"""Of tables to begin with: rules over many nodes are no tables."""
MOST_WORK = 2**32
"""Entries looked at: some seconds."""
FIRST_SHARE = 0.4
"""Labels per node, beyond one, with which looking for a labeling begins; half or twice as many in each further trial."""
MOST_TRIALS = (4, 10)
"""Trials on small graphs and on large ones."""
STEEP = 64
"""Factor by which twice as many labels may make tables grow: with less room than this, small graphs get no more trials."""


@dataclass(frozen=True)
class Elimination:
    """A way to solve what is left by eliminating nodes; ``work`` is the number of entries it looks at."""

    tables: Tables
    plan: Plan

    @property
    def work(self) -> float:
        """Entries that are looked at."""
        return self.plan.work

    def labels(self, picks: np.ndarray) -> np.ndarray:
        """Labels of the whole network (uint64) from numbers of living labels of the open nodes."""
        t = self.tables
        labels = t.only.astype(np.uint64)
        labels[t.node] = t.label[t.label_at[:-1] + picks]
        return labels

    def run(self, search: Search, limit: Deadline = NO_DEADLINE) -> None:
        """Close the search: its optimum among the labels that were left, or the proof that nothing is better."""
        total, picks = eliminate(self.tables, self.plan, limit.stop)
        if total == np.inf:
            return
        if total > search.value:
            search.value, search.labels = float(total), self.labels(picks)
        room = slack(search.network.net, search.value)
        search.bound = min(search.bound, search.value + room)


def plan_elimination(search: Search, most: float = MOST_WORK) -> Elimination | None:
    """Find the cheapest of three orders for the labels that are left; None where tables would be too large.

    None also where the search has branched: its scores then are a subproblem's.
    """
    return _plan(search, search.network.scores.unary, most, (False, True)) if search.stack is None else None


def propose(search: Search, most: float) -> None:
    """Look for a better labeling among the likeliest labels, as many as elimination can take within ``most`` entries.

    Likely is what the messages leave close to the best of its node (as in CombiLP, [Savchynskyy13]), and the labels
    of the best labeling so far, so that the best mixture of these is never worse.
    """
    network, unary = search.network, search.network.scores.unary
    if search.stack is not None:
        return
    theta = reparametrized(network.net, unary, search.messages)
    tops = np.maximum.reduceat(theta, network.net.node_at[:-1].astype(np.int64))
    short = np.repeat(np.where(tops > -np.inf, tops, 0.0), lengths(network.net.node_at)) - theta
    if search.value > -np.inf:
        start = network.net.node_at[:-1].astype(np.int64)
        short[start + search.labels.astype(np.int64)] = 0.0
        unary = search.original
    spare = np.sort(short[(short > 0.0) & (short < np.inf)])
    if not len(spare):
        return
    found, limit = None, spare[min(len(spare) - 1, int(FIRST_SHARE * network.n_nodes))]
    large = network.n_nodes > MANY_NODES
    for _ in range(MOST_TRIALS[large]):
        trial = _plan(search, np.where(short <= limit, unary, -np.inf), most, (False,))
        if trial is None and found is not None:
            break
        found = trial
        if trial is not None and not large and STEEP * trial.work > most:
            break
        limit *= 0.5 if trial is None else 2.0
    if found is not None:
        total, picks = eliminate(found.tables, found.plan, NO_DEADLINE.stop)
        if total > search.value:
            search.offer(found.labels(picks))


def _plan(search: Search, unary: np.ndarray, most: float, criteria: tuple[bool, ...]) -> Elimination | None:
    """Find the cheapest order for the labels that ``unary`` allows, by table or by fill, or the given one."""
    scores, net = search.network.scores, search.network.net
    tables = living_tables(net, unary, scores.pairwise, scores.final, MOST_ENTRIES)
    sizes = np.diff(tables.label_at)
    if not len(tables.at) or not len(sizes) or sizes.max() > MOST_LABELS:
        return None
    scopes, early = (tables.scope_ptr, tables.scope), np.zeros(len(sizes), np.bool_)
    orders = [greedy_order(sizes, *scopes, early, by_fill, np.log2(most), MOST_ORDERED) for by_fill in criteria]
    if len(criteria) > 1:
        orders.append(np.arange(len(sizes)))
    plans = [make_plan(sizes, order, *scopes) for order in orders if len(order)]
    best = min(plans, key=lambda plan: plan.work, default=None)
    if best is None or best.work > most or 8 * best.peak + best.kept > MOST_BYTES:
        return None
    return Elimination(tables, best)
