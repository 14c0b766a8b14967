"""Variable elimination of what is left of a search: exact where its tables stay small, whatever bounds say."""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.graph.exact.sums import MOST_VARIABLES
from rulefield.inference.graph.network import lengths
from rulefield.inference.graph.parts import Connected, GraphParts, split
from rulefield.inference.graph.trws import MANY_NODES, MOST_BYTES, Search
from rulefield.inference.limits import NO_DEADLINE, Deadline
from rulefield.kernels.graph.exact.branch import reparametrized
from rulefield.kernels.graph.exact.eliminate import Tables, eliminate
from rulefield.kernels.graph.exact.plan import Plan, greedy_order, make_plan
from rulefield.kernels.graph.sweep import slack

MOST_ENTRIES = 2**18
"""Of tables to begin with: rules over many nodes are no tables."""
MOST_WORK = 2**32
"""Entries looked at: some seconds."""
MOST_TRIALS = (2, 6)
"""Trials on small graphs and on large ones: ten found nothing more on grids of 10,000 nodes."""


@dataclass(frozen=True)
class Elimination:
    """A way to solve what is left by eliminating nodes: those of ``piece`` have several labels.

    ``labels`` are those of all other nodes, in the problem's order, and ``constant`` what these are worth by themselves.
    """

    piece: Connected
    labels: np.ndarray
    constant: float
    tables: Tables
    plan: Plan

    def run(self, search: Search, limit: Deadline = NO_DEADLINE) -> None:
        """Close the search: its optimum among the labels that were left, or the proof that nothing is better."""
        total, labels = self.best(search, limit)
        if total == np.inf:
            return
        if total > search.value:
            search.value, search.labels = total, labels
        room = slack(search.network.net, search.value)
        search.bound = min(search.bound, search.value + room)

    def best(self, search: Search, limit: Deadline = NO_DEADLINE) -> tuple[float, np.ndarray]:
        """Return the best value (inf: stopped) and its labels, in the order of the network."""
        total, picks = eliminate(self.tables, self.plan, limit.stop)
        labels = self.labels.copy()
        self.piece.write(labels, picks)
        return float(total + self.constant), labels[search.network.order].astype(np.uint64)


def plan_elimination(parts: GraphParts, search: Search, most: float = MOST_WORK) -> Elimination | None:
    """Find the cheapest of three orders for the labels that are left; None if tables would be too large.

    None also if the search has branched: its scores then are a subproblem's.
    """
    alive = search.network.scores.unary > -np.inf
    return _plan(parts, search, alive, most, (False, True)) if search.stack is None else None


def propose(parts: GraphParts, search: Search, most: float) -> None:
    """Look for a better labeling among the likeliest labels, as many as elimination can take within ``most`` entries.

    Likely is what the messages leave close to the best of its node (as in CombiLP, [Savchynskyy13]), and the labels
    of the best labeling so far, so that the best mixture of these is never worse. The first trial adds half a label for each
    node, the next ones half or twice as many.
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
    found, limit = None, spare[min(len(spare) - 1, network.n_nodes // 2)]
    for _ in range(MOST_TRIALS[network.n_nodes > MANY_NODES]):
        trial = _plan(parts, search, (short <= limit) & (unary > -np.inf), most, (False,))
        if trial is None and found is not None:
            break
        found = trial
        limit *= 0.5 if trial is None else 2.0
    if found is not None:
        total, labels = found.best(search)
        if total > search.value:
            search.offer(labels)


def _plan(
    parts: GraphParts, search: Search, alive: np.ndarray, most: float, criteria: tuple[bool, ...]
) -> Elimination | None:
    """Find the cheapest order for the labels that are alive, by table or by fill, or the given one."""
    alive = search.network.by_label_of_problem(alive)
    if not np.logical_or.reduceat(alive, parts.potentials.unary_offset[:-1]).all():
        return None
    pieces, labels, constant = split(parts, alive, 1)
    tables = tables_of(pieces[0].parts) if pieces else None
    if tables is None or tables.sizes.max() > np.iinfo(np.uint8).max + 1:
        return None
    scopes, early = (tables.scope_ptr, tables.scope), np.zeros(len(tables.sizes), np.bool_)
    orders = [
        greedy_order(tables.sizes, *scopes, early, by_fill, np.log2(most), MOST_VARIABLES) for by_fill in criteria
    ]
    if len(criteria) > 1:
        orders.append(np.arange(len(tables.sizes)))
    plans = [make_plan(tables.sizes, order, *scopes) for order in orders if len(order)]
    best = min(plans, key=lambda plan: plan.work, default=None)
    if best is None or best.work > most or 8 * best.peak + best.kept > MOST_BYTES:
        return None
    return Elimination(pieces[0], labels, constant, tables, best)


def tables_of(parts: GraphParts) -> Tables | None:
    """Return the scores of nodes, edges and rules as tables; None if those of rules would be too large."""
    p, n, rules = parts.potentials, parts.potentials.n_nodes, parts.automata
    entries = [float(np.prod(p.n_labels[m.nodes].astype(float))) for m in rules]
    if sum(entries) > MOST_ENTRIES:
        return None
    widths = np.concatenate([np.ones(n), np.full(len(p.edges), 2), [len(m.nodes) for m in rules]]).astype(np.int64)
    scope = np.concatenate([np.arange(n), p.edges.ravel(), *(m.nodes for m in rules)])
    sizes = np.concatenate([p.n_labels, np.diff(p.pairwise_offset), entries]).astype(np.int64)
    values = np.concatenate([p.unary, p.pairwise, *(m.table().ravel() for m in rules)])
    scope_ptr, at = (np.concatenate([[0], np.cumsum(size)]) for size in (widths, sizes))
    return Tables(p.n_labels, scope_ptr, scope, at, values)
