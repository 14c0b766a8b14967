"""Search under soft arc consistency, beside branch and bound on sweeps: where pairs are forbidden and labels are many."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from rulefield.inference.graph.network import lengths
from rulefield.inference.graph.trws import CHUNK, ENTRIES_PER_NODE, MOST_BYTES, Search
from rulefield.kernels.graph.exact.branch import reparametrized
from rulefield.kernels.graph.exact.soft import OpenDecisions, soft_search
from rulefield.kernels.graph.exact.soft_moves import Soft
from rulefield.kernels.graph.sweep import slack


@dataclass
class SoftSearch:
    """A search that goes on where it stopped; its scores are ``constant`` minus costs."""

    soft: Soft
    rows: OpenDecisions
    constant: float
    labels: np.ndarray
    depth: int = -1
    last: int = -1

    def run(self, search: Search, work: int, deadline: float = np.inf) -> int:
        """Look at about ``work`` entries, put what is found into ``search``; returns the entries looked at."""
        spent = 0
        while self.depth and spent < work and search.is_open and monotonic() < deadline:
            least = self.constant - search.value
            room = slack(search.network.net, search.value)
            self.depth, best, self.last = soft_search(
                self.soft,
                self.rows,
                self.depth,
                least,
                self.labels,
                room,
                min(CHUNK * ENTRIES_PER_NODE, work - spent),
                self.last,
            )
            spent += int(self.soft.work[0]) + 1
            if best < least:
                search.offer(self.labels)
        if self.depth >= 0:
            left = self.constant - float(self.rows.f[: self.depth, -1].min(initial=np.inf))
            done = search.value + slack(search.network.net, search.value) if search.value > -np.inf else -np.inf
            search.bound = min(search.bound, max(done, left))
        return spent


def begin_soft(search: Search) -> SoftSearch | None:
    """Set up a search on the labels that ``search`` leaves open, with its messages as a start.

    None if it has rules, would take too much memory, or has branched: scores and messages then are a subproblem's.
    """
    network = search.network
    net = network.net
    if len(net.n_states) or search.stack is not None or not search.is_open or _bytes(search) > MOST_BYTES:
        return None
    at, to = net.node_at.astype(np.int64), net.inc_other.astype(np.int64)
    n, sizes = len(at) - 1, np.diff(at)
    owner = np.repeat(np.arange(n), lengths(net.inc_ptr))
    theta = reparametrized(net, network.scores.unary, search.messages)
    tops = np.maximum.reduceat(theta, at[:-1])
    found = _costs(search, theta, owner, to)
    if found is None or not (tops > -np.inf).all():
        return None
    cost, constant = found
    back = np.empty(len(to), np.int64)
    back[np.lexsort((owner, to))] = np.arange(len(to))  # arcs are sorted by owner, then by the other end
    half = at[-1] + np.concatenate([[0], np.cumsum(sizes[owner])])
    unary = np.repeat(tops, sizes) - theta
    f = np.zeros(int(half[-1]) + 1)
    f[: at[-1]] = unary
    inside = np.arange(at[-1]) - np.repeat(at[:-1], sizes)
    soft = Soft(
        at=at,
        ptr=net.inc_ptr.astype(np.int64),
        to=to,
        back=back,
        cost_at=np.concatenate([[0], np.cumsum(sizes[owner] * sizes[to])]),
        cost=cost,
        half=half,
        unary=unary,
        f=f,
        vals=inside.copy(),
        pos=np.arange(at[-1]),
        size=sizes.copy(),
        hint=np.zeros(int(half[-1] - at[-1]), np.int64),
        pick=np.zeros(n, np.int64),
        weight=np.ones(len(to)),
        flags=np.zeros((4, n), np.uint8),
        work=np.zeros(1, np.int64),
        room=np.zeros(int(sizes.max())),
    )
    rows = OpenDecisions(
        np.empty((n + 1, len(f))),
        np.empty((n + 1, n), np.int64),
        np.zeros(n + 1, np.int64),
        np.zeros(n + 1, np.int64),
    )
    return SoftSearch(soft, rows, constant + float(tops.sum()), np.zeros(n, np.int64))


def _costs(search: Search, theta: np.ndarray, owner: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Costs of the pairs of each arc by what messages leave, and the sum of each edge's best (None: an edge forbids all)."""
    net, edge = search.network.net, search.messages.edge
    at, sizes = net.node_at.astype(np.int64), lengths(net.node_at)
    n_pairs = sizes[owner] * sizes[to]
    arc = np.repeat(np.arange(len(owner)), n_pairs)
    start = np.cumsum(n_pairs) - n_pairs
    wide = sizes[to][arc]
    a, b = np.divmod(np.arange(len(arc)) - start[arc], wide)
    place = np.where((to > owner)[arc], a * wide + b, b * sizes[owner][arc] + a)
    score = search.network.scores.pairwise[net.inc_pair.astype(np.int64)[arc] + place]
    alive = (theta[at[owner][arc] + a] > -np.inf) & (theta[at[to][arc] + b] > -np.inf) & (score > -np.inf)
    sent = edge[net.inc_recv.astype(np.int64)[arc] + a] + edge[net.inc_send.astype(np.int64)[arc] + b]
    left = np.where(alive, score - np.where(alive, sent, 0.0), -np.inf)
    best = np.maximum.reduceat(left, start) if len(start) else np.zeros(0)
    if not (best > -np.inf).all():
        return None
    return best[arc] - left, float(best[to > owner].sum())


def _bytes(search: Search) -> int:
    """Bytes that a search would ask for."""
    scores = search.network.scores
    state = len(scores.unary) + len(search.messages.edge)
    return 8 * (search.network.n_nodes * state + 2 * len(scores.pairwise))
