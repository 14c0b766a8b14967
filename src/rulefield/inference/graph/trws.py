"""TRW-S and branch and bound on it, from potentials and automata to labels, value and bound."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from rulefield.inference.graph.network import Network, build_network
from rulefield.inference.graph.parts import GraphParts
from rulefield.inference.result import TOLERANCE
from rulefield.kernels.graph.exact.branch import Stack, branch, push
from rulefield.kernels.graph.local import cross, improve, total_value
from rulefield.kernels.graph.sweep import Messages, slack, start_messages, trws, workspace

MANY_NODES = 1_000
"""Nodes: a graph with more is large. Its gap is a sum of many small ones, which branching on one node does not see."""
ROUNDS = 200
"""Rounds of sweeps at most, if no other number is asked for."""
STAGE_ROUNDS = (20, 5)
"""Rounds between two looks at the labeling, on small graphs and on large ones (more labelings to mix)."""
GAP_PROGRESS = 0.004
"""Share of the gap: sweeps end if a round, or on large graphs two stages in a row, close less."""
LOCAL_SWEEPS = 20
"""Passes of local search over all nodes; it is taken to cost as many rounds until it was tried."""
BRANCH_ROUNDS = 10
"""Rounds at most at a node of the search."""
CHUNK = 64
"""Nodes of the search between two looks at the clock: some milliseconds."""
ENTRIES_PER_NODE = 3_000
"""Entries of messages, or of soft arc consistency, that count as a search node: what is swept in a tenth of a millisecond."""
MOST_BYTES = 2**30
"""Of memory that a search may take (open subproblems, states, tables): a gigabyte."""


@dataclass
class Search:
    """Where the work on one network stands; ``labels`` (in network order, uint64) belong to ``value``.

    ``network.scores.unary`` loses labels that cannot beat ``value``; ``original`` keeps the scores. ``dual`` is the
    bound that the messages stand for, by which labels are forbidden; ``bound`` may be better, by other means.
    ``round_seconds`` and ``local_seconds`` are what a round and local search took last.
    """

    network: Network
    original: np.ndarray
    messages: Messages
    labels: np.ndarray
    value: float = -np.inf
    bound: float = np.inf
    dual: float = np.inf
    rounds: int = 0
    nodes: int = 0
    stack: Stack | None = None
    depth: int = 0
    round_seconds: float = 0.0
    local_seconds: float = 0.0

    def affordable(self, rounds: int, deadline: float) -> int:
        """Return how many of some rounds there is time for on a large network, as rounds cost so far; at least one."""
        if self.network.n_nodes <= MANY_NODES or deadline == np.inf:
            return rounds
        if self.round_seconds == 0.0:
            return 1
        return max(1, min(rounds, int((deadline - monotonic()) / self.round_seconds)))

    @property
    def price(self) -> float:
        """More than any finite score: what local search pays for breaking a hard rule."""
        s = self.network.scores
        return 1.0 + 4.0 * max(
            np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in (self.original, s.pairwise, s.final)
        )

    @property
    def is_open(self) -> bool:
        """Whether a labeling may exist that is better by more than the tolerance."""
        return self.bound > self.value + slack(self.network.net, self.value)

    def answer(self) -> np.ndarray | None:
        """Labels in the problem's order, auxiliary values last; None where none was found."""
        return self.network.to_problem(self.labels.astype(np.int64)) if self.value > -np.inf else None

    def offer(self, labels: np.ndarray) -> None:
        """Take a labeling (network order) if it is better after local search, or what is better of it.

        Of the groups of nodes in which it differs from the best one, those that are worth more are taken over.
        """
        candidate = labels.astype(np.uint64)
        scores, net = self.network.scores._replace(unary=self.original), self.network.net
        value = improve(net, scores, candidate, LOCAL_SWEEPS, self.price)
        if value > -np.inf and self.value > -np.inf and len(self.labels):
            mixed = self.labels.copy()
            cross(net, self.original, scores.pairwise, scores.final, mixed, candidate)
            candidate, value = mixed, total_value(net, scores, mixed)
        if value > self.value:
            self.value, self.labels = value, candidate


def begin(parts: GraphParts) -> Search:
    """Set up the search on one problem."""
    return begin_network(build_network(parts))


def begin_network(network: Network, messages: Messages | None = None) -> Search:
    """Set up the search on a compiled problem; old messages are kept where given.

    An old -inf says that a label was forbidden under old scores, so it is not kept.
    """
    fresh = network.new_messages()
    start_messages(network.net, network.scores, fresh)
    if messages is not None:
        for new, old in zip(fresh, messages):
            new[:] = np.where(np.isfinite(old) & np.isfinite(new), old, new)
    labels = np.zeros(network.n_nodes, np.uint64)
    return Search(network, network.scores.unary.copy(), fresh, labels)


def descend(search: Search, rounds: int = ROUNDS, progress: float = 0.0, deadline: float = np.inf) -> None:
    """Run TRW-S: tighten the bound, find labelings, forbid labels; one round is exact on forests.

    Every ``STAGE_ROUNDS`` rounds local search is tried; with ``progress``, rounds end when one closes less of the gap.
    """
    if search.network.is_forest:
        if search.is_open:
            _stage(search, 1, 0.0, deadline)
        return
    if search.value > -np.inf and monotonic() > deadline:
        return
    target = search.rounds + rounds
    large = search.network.n_nodes > MANY_NODES
    stage, least = STAGE_ROUNDS[large], GAP_PROGRESS if large else 0.0
    stalled = 0
    while search.rounds < target and search.is_open and stalled < 2:
        before, gap = search.rounds, search.bound - search.value
        wanted = min(stage, target - search.rounds)
        asked = search.affordable(wanted, deadline)
        in_time = deadline if asked == wanted else -np.inf
        _stage(search, asked, progress if search.value > -np.inf else 0.0, in_time)
        closed = gap - (search.bound - search.value)
        stalled = stalled + 1 if closed < max(TOLERANCE, least * gap) else 0
        if search.rounds < before + asked or (stalled and not large) or monotonic() > deadline:
            break


def _stage(search: Search, rounds: int, progress: float, deadline: float) -> None:
    """Do some rounds, then local search where they leave a gap and it will end in time, or there is no labeling yet."""
    net, scores = search.network.net, search.network.scores
    best, before = search.labels.copy(), search.value
    work, begun = workspace(net), monotonic()
    search.dual, value, done = trws(
        net, scores, search.messages, rounds, TOLERANCE, progress, search.dual, before, best, work
    )
    swept = monotonic()
    search.rounds += done
    search.round_seconds = (swept - begun) / max(done, 1)
    found = search.dual if search.network.is_forest else max(search.dual, value + slack(net, value))
    search.bound = min(search.bound, found)
    if value > before:
        search.value, search.labels = value, best
    in_time = swept + max(search.local_seconds, LOCAL_SWEEPS * search.round_seconds) <= deadline
    if search.is_open and (in_time or search.value == -np.inf):
        search.offer(best if value > before else work[0])
        search.local_seconds = monotonic() - swept


def branch_and_bound(search: Search, node_limit: int, deadline: float = np.inf) -> None:
    """Close the gap by branching, as far as the limits (and a gigabyte) allow; another call goes on from there."""
    if not search.is_open:
        return
    net, scores, messages = search.network.net, search.network.scores, search.messages
    if search.stack is None:
        arrays = (scores.unary, messages.edge, messages.prefix, messages.suffix)
        unary, edge, prefix, suffix = (np.empty((8, len(a))) for a in arrays)
        search.stack = Stack(unary, edge, prefix, suffix, np.empty(8))
        push(search.stack, 0, scores.unary, messages, search.dual)
        search.depth = 1
    spent = 0
    while search.depth and spent < node_limit and monotonic() < deadline:
        if search.depth + 2 > len(search.stack.bound):
            if 2 * sum(a.nbytes for a in search.stack) > MOST_BYTES:
                break
            search.stack = _wider(search.stack)
        chunk = min(CHUNK, node_limit - spent)
        search.depth, search.value, nodes = branch(
            net, scores, messages, search.stack, search.depth, search.value, search.labels, chunk, BRANCH_ROUNDS
        )
        spent += nodes
    search.nodes += spent
    left = float(search.stack.bound[: search.depth].max(initial=-np.inf))
    search.bound = min(search.bound, max(search.value + slack(net, search.value), left))


def _wider(stack: Stack) -> Stack:
    return Stack(*(np.concatenate([a, np.empty_like(a)]) for a in stack))
