"""Search under soft arc consistency, beside branch and bound on sweeps: where pairs are forbidden and labels are many."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from rulefield.inference.graph.trws import MOST_BYTES, Search
from rulefield.kernels.graph.exact.soft import OpenDecisions, soft_search
from rulefield.kernels.graph.exact.soft_tables import Soft, soft_problem
from rulefield.kernels.graph.sweep import slack

SLICE = 5_000_000
"""Entries looked at between two looks at the clock: some hundredths of a second."""


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
                self.soft, self.rows, self.depth, least, self.labels, room, min(SLICE, work - spent), self.last
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

    None where it has rules, would take too much memory, or has branched: scores and messages then are a subproblem's.
    """
    network = search.network
    net = network.net
    if len(net.n_states) or search.stack is not None or not search.is_open or _bytes(search) > MOST_BYTES:
        return None
    constant, at, ptr, to, back, cost_at, cost, half, unary = soft_problem(
        net, network.scores.unary, network.scores.pairwise, search.messages.edge
    )
    if constant == -np.inf:
        return None
    n, sizes = len(at) - 1, np.diff(at)
    f = np.zeros(int(half[-1]) + 1)
    f[: at[-1]] = unary
    inside = np.arange(at[-1]) - np.repeat(at[:-1], sizes)
    soft = Soft(
        at=at,
        ptr=ptr,
        to=to,
        back=back,
        cost_at=cost_at,
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
    return SoftSearch(soft, rows, float(constant), np.zeros(n, np.int64))


def _bytes(search: Search) -> int:
    """Bytes that a search would ask for."""
    scores = search.network.scores
    state = len(scores.unary) + len(search.messages.edge)
    return 8 * (search.network.n_nodes * state + 2 * len(scores.pairwise))
