"""Where the walk on a graph stands, and the work that is left, in search nodes of about a tenth of a millisecond."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from rulefield.inference.graph.exact.eliminate import Elimination
from rulefield.inference.graph.exact.soft import SoftSearch
from rulefield.inference.graph.parts import GraphParts
from rulefield.inference.graph.trws import ENTRIES_PER_NODE, MANY_NODES, Search, begin, branch_and_bound
from rulefield.inference.limits import deadline

NODES_PER_SECOND = 10_000
"""Search nodes that take a second, by which all other work is counted."""
TABLE_ENTRIES_PER_NODE = 30_000
"""Entries of tables that elimination looks at in that time."""
EASY_ENTRIES = 4_000_000
"""Entries of tables: with fewer, elimination is tried before any search."""
LARGE_NODES = 5_000
"""Nodes of the largest network that is branched on as a whole, and search nodes that a large one gets at most."""
SHORT_NODES = 2 * NODES_PER_SECOND
"""Search nodes that a search for rules in conflict may take: there can be many of them."""
MANY_LABELS = 12
"""Labels of a node from which on searches do without sweeps, which cost the square of them."""


@dataclass
class Budget:
    """Search nodes that are left, as which other work is counted, and the moment at which work must end."""

    nodes: int
    deadline: float
    total_nodes: int = 0

    @classmethod
    def start(cls, node_limit: int, seconds: float | None) -> "Budget":
        """Start the clock."""
        return cls(int(node_limit), np.inf if seconds is None else monotonic() + seconds, int(node_limit))

    @property
    def seconds(self) -> float | None:
        """Seconds left; None if time is not limited."""
        return None if np.isinf(self.deadline) else max(0.0, self.deadline - monotonic())


@dataclass
class GraphState:
    """A problem, the search on it (the best labeling and the bound so far) and the work that is left, which its pieces share.

    ``plan`` says how to eliminate what the root leaves open, ``soft`` is the search under soft arc consistency.
    """

    parts: GraphParts
    search: Search
    budget: Budget
    plan: Elimination | None = None
    soft: SoftSearch | None = None

    def __post_init__(self) -> None:
        self.has_many_labels = int(self.parts.potentials.n_labels.max(initial=0)) >= MANY_LABELS
        forbids = self.has_many_labels or bool((self.parts.potentials.pairwise == -np.inf).any())
        self.is_tight = self.is_small and forbids
        """Whether forbidden pairs or many labels rule: sweeps then are expensive and see little."""

    @property
    def is_small(self) -> bool:
        """Whether the network may be planned and branched on as a whole."""
        return self.search.network.n_nodes <= MANY_NODES

    def piece(self, parts: GraphParts) -> "GraphState":
        """Begin a search on a piece."""
        return GraphState(parts, begin(parts), self.budget)

    def branch(self, nodes: float = np.inf) -> None:
        """Branch on the bound of sweeps; a node of a large network counts as several, and a huge one gets none."""
        search, n = self.search, self.search.network.n_nodes
        price = max(1, len(search.messages.edge) // ENTRIES_PER_NODE)
        limit = min(self.budget.nodes, nodes)
        if n > MANY_NODES:
            limit = min(limit, LARGE_NODES if n <= LARGE_NODES else 0)
        before = search.nodes
        branch_and_bound(search, -(-int(limit) // price), self.budget.deadline)
        self.budget.nodes -= (search.nodes - before) * price

    def search_softly(self, nodes: float) -> None:
        """Go on with the search under soft arc consistency ([deGivry05]), if there is one, for the time of so many nodes."""
        if self.soft is not None and self.search.is_open and self.budget.nodes > 0:
            entries = int(min(nodes, self.budget.nodes)) * ENTRIES_PER_NODE
            self.budget.nodes -= self.soft.run(self.search, entries, self.budget.deadline) // ENTRIES_PER_NODE

    def eliminate(self, plan: Elimination | None, entries: float = np.inf) -> None:
        """Solve what is left by variable elimination ([Dechter99]), if a plan looks at no more than so many entries."""
        affordable = max(EASY_ENTRIES, self.budget.nodes * TABLE_ENTRIES_PER_NODE)
        if plan is None or not self.search.is_open or plan.plan.work > min(entries, affordable):
            return
        with deadline(self.budget.seconds) as limit:
            plan.run(self.search, limit)
        self.budget.nodes -= int(plan.plan.work) // TABLE_ENTRIES_PER_NODE
