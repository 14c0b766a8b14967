"""The work that one graph problem may cost, counted in search nodes of about a tenth of a millisecond."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from rulefield.inference.graph.exact.eliminate import Elimination
from rulefield.inference.graph.exact.milp import milp_parts
from rulefield.inference.graph.exact.soft import SoftSearch
from rulefield.inference.graph.exact.toulbar2 import finish_with_toulbar2
from rulefield.inference.graph.parts import GraphParts
from rulefield.inference.graph.trws import MANY_NODES, Search, branch_and_bound
from rulefield.inference.limits import deadline

ENTRIES_PER_NODE = 3_000
"""Message entries that a search node may have to count as one: a tenth of a millisecond."""
SOFT_ENTRIES_PER_NODE = 5_000
"""Entries that soft arc consistency looks at in that time."""
TABLE_ENTRIES_PER_NODE = 30_000
"""Entries of tables that elimination looks at in that time."""
EASY_ENTRIES = 4_000_000
"""Entries of tables: with fewer, elimination is tried before any search."""
LARGE_SEARCH_NODES = 5_000
"""Nodes of branch and bound on a large network: its gap is a sum of many small ones, which branching does not see."""
BRANCHABLE_NODES = 5_000
"""Nodes of the largest network that is branched on as a whole."""
MILP_COLUMNS = 20_000
"""Columns of the largest piece that HiGHS is asked for."""
MILP_ITERATIONS = 20_000
"""Simplex iterations of its relaxation, and about as many in all branchings together: some seconds."""
TOULBAR2_BACKTRACKS = 1_000
"""Backtracks in toulbar2's first turn, four times as many in each further one."""
TIMED_BACKTRACKS = 30_000
"""The same if time is limited anyway."""
TOULBAR2_SECONDS = 4.0
"""Seconds of its first turn if time is limited, four times as long in each further one."""
TOULBAR2_TIME_SHARE = 0.4
"""Share of the time left that one turn may take."""


@dataclass
class Budget:
    """Search nodes and time that are left.

    Parameters
    ----------
    nodes : int
        Search nodes; other work is counted as so many of them.
    deadline : float
        The moment at which work must end, by ``time.monotonic``.
    total_nodes : int
        Search nodes at the start.
    """

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

    def branch(self, search: Search, nodes: float = np.inf) -> None:
        """Branch and bound within the budget; a node of a large network counts as several, and a huge one gets none."""
        price = node_price(search)
        limit = min(self.nodes, nodes)
        if search.network.n_nodes > MANY_NODES:
            limit = min(limit, LARGE_SEARCH_NODES if search.network.n_nodes <= BRANCHABLE_NODES else 0)
        before = search.nodes
        branch_and_bound(search, -(-int(limit) // price), self.deadline)
        self.nodes -= (search.nodes - before) * price

    def search_softly(self, search: Search, soft: SoftSearch | None, nodes: float) -> None:
        """Search under soft arc consistency, for the time of so many nodes."""
        if soft is not None and search.is_open and self.nodes > 0:
            entries = int(min(nodes, self.nodes)) * SOFT_ENTRIES_PER_NODE
            self.nodes -= soft.run(search, entries, self.deadline) // SOFT_ENTRIES_PER_NODE

    def eliminate(self, search: Search, plan: Elimination | None, entries: float = np.inf) -> None:
        """Solve what is left by variable elimination, if a plan looks at no more than so many entries."""
        affordable = max(EASY_ENTRIES, self.nodes * TABLE_ENTRIES_PER_NODE)
        if plan is None or not search.is_open or plan.work > min(entries, affordable):
            return
        with deadline(self.seconds) as limit:
            plan.run(search, limit)
        self.nodes -= int(plan.work) // TABLE_ENTRIES_PER_NODE

    def ask_highs(self, search: Search, parts: GraphParts) -> None:
        """Let HiGHS go on with a small piece; a simplex iteration counts as a search node."""
        small = search.network.n_nodes <= MANY_NODES and len(parts.potentials.pairwise) <= MILP_COLUMNS
        if search.is_open and small and self.nodes > 0:
            self.nodes -= milp_parts(parts, search, min(MILP_ITERATIONS, self.nodes), self.seconds)

    def ask_toulbar2(self, search: Search, parts: GraphParts, turn: int) -> None:
        """Let toulbar2 go on if it is installed; two backtracks count as a search node.

        It starts again whenever it is asked, so each turn is four times as long. A backtrack may take it long: if time is
        limited, so is that of a turn.
        """
        price, left, factor = node_price(search), self.seconds, 4**turn
        backtracks = factor * (TOULBAR2_BACKTRACKS if left is None else TIMED_BACKTRACKS)
        seconds = None if left is None else min(TOULBAR2_TIME_SHARE * left, factor * TOULBAR2_SECONDS)
        limit = min(2 * self.nodes // price, backtracks)
        self.nodes -= price * finish_with_toulbar2(parts, search, limit, seconds) // 2


def node_price(search: Search) -> int:
    """Return what a search node of a network counts as: one for small networks, more for large ones."""
    return max(1, len(search.messages.edge) // ENTRIES_PER_NODE)
