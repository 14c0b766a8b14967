"""Proofs of answers to graph problems: messages of edges, labels that they rule out, and branches on what is left."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rulefield.inference.proof.graph_statement import simple_graph, state_graph, with_auxiliary, with_tables
from rulefield.inference.proof.proof import Proof, Text, make_text
from rulefield.inference.proof.sequences import proved_bound
from rulefield.inference.result import TOLERANCE, Result, Status
from rulefield.kernels.graph.exact.plan import greedy_order
from rulefield.kernels.graph.reparametrize import edge_tops, pass_messages
from rulefield.problem.graph import GraphProblem
from rulefield.proofcheck import Graph, bits_of, in_units

ROUNDS, STAGES = 20, 8
"""Rounds of messages between two looks at the bound, and looks before a branch."""

UNIT = 2.0**-30
"""Messages are whole numbers of this."""

MOST_SCORES = 3_000_000_000
"""Scores of pairs that all messages may look at: about as many nanoseconds, or twice that."""

OVERHEAD_SCORES = 200_000
"""What a round costs beside, in the same unit: a look at the rules, and Python."""

MOST_DEPTH = 300
"""Levels of a tree: readers of JSON have a limit of their own."""

FIRST_ENTRIES, MOST_ENTRIES = 1 << 20, 50_000_000
"""Entries of the tables of an elimination before messages are tried, and of all: the checker needs a microsecond for each."""

MOST_BITS = 22.0
"""Logarithm of the entries of the largest table: the checker needs a hundred bytes for each."""

MOST_ORDERED = 2_048
"""Nodes of a component that is eliminated: to find an order takes time and memory with their square."""

MOST_MESSAGES = 4_000_000
"""Numbers that a file may hold in messages."""


@dataclass
class Bounds:
    """A reparametrization in arrays."""

    node: np.ndarray  # scores of all labels, messages added
    message: np.ndarray  # (edges, 2, most labels)
    alive: np.ndarray  # bool: labels that are not ruled out

    def copy(self) -> "Bounds":
        """Return a copy."""
        return Bounds(self.node.copy(), self.message.copy(), self.alive.copy())


@dataclass
class GraphSearch:
    """The search for a tree of branches under which every bound is below the floor."""

    problem: GraphProblem
    floor: float
    zero: bool
    looked_at: int = 0
    numbers: int = 0
    entries: float = 0.0
    rules: "Rules | None" = None
    order: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        p = self.problem.potentials
        self.sizes = np.concatenate([p.n_labels, np.full(self.problem.rows.n_auxiliary, 2)]).astype(np.int64)
        self.at = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.order = np.arange(len(self.sizes))
        self.edges = np.ascontiguousarray(p.edges, np.int64)
        self.pair = _flat(p.pairwise) if self.zero else np.ascontiguousarray(p.pairwise, np.float64)
        sides = self.edges.ravel()
        order = np.argsort(sides, kind="stable")
        self.around = order.astype(np.int64)
        self.around_ptr = np.concatenate([[0], np.cumsum(np.bincount(sides, minlength=len(self.sizes)))]).astype(
            np.int64
        )

    def start(self) -> Bounds:
        """Return scores without messages."""
        p = self.problem.potentials
        unary = np.concatenate([p.unary, np.zeros(2 * self.problem.rows.n_auxiliary)])
        node = _flat(unary) if self.zero else unary.astype(np.float64)
        shape = len(self.edges), 2, int(self.sizes.max(initial=1))
        return Bounds(node, np.zeros(shape), node > -np.inf)

    def tree(self, bounds: Bounds, depth: int = 0) -> Text | None:
        """Return a tree that proves the floor for the labels that are alive; None if a limit is met."""
        if order := self._order(bounds, FIRST_ENTRIES):
            return self._leaf([]) | {"order": order}
        stages: list[list[Any]] = []
        done, last = False, np.inf
        for _ in range(STAGES if len(self.edges) else 1):
            before = bounds.message.copy()
            total = self._settle(bounds, ROUNDS)
            stages.append(self._messages(bounds.message - before))
            done = total <= self.floor
            if done or last - total < 1e-3 * max(1.0, abs(total - self.floor)):
                break
            last = total
        inner = None
        if not done and (order := self._order(bounds, MOST_ENTRIES)):
            inner = self._leaf(stages.pop()) | {"order": order}
        elif not done:
            inner = self._branch(bounds, depth + len(stages) + 1)
            if inner is None:
                return None
        for messages in reversed(stages):
            inner = self._leaf(messages) | ({} if inner is None else {"then": inner})
        return inner

    def _leaf(self, messages: list[Any]) -> Text:
        return {"messages": messages} | ({"zero": True} if self.zero else {})

    def _order(self, bounds: Bounds, most_entries: int) -> list[int] | None:
        """Return an order in which all nodes can be eliminated; None if tables are too large, or there are rules."""
        if self.rules is not None or not len(self.edges):
            return None
        sizes = np.add.reduceat(bounds.alive.astype(np.int64), self.at[:-1])
        scopes = 2 * np.arange(len(self.edges) + 1), self.edges.ravel()
        early, most = np.zeros(len(sizes), np.bool_), min(float(np.log2(most_entries)), MOST_BITS)
        order = greedy_order(np.maximum(sizes, 1), *scopes, early, True, most, MOST_ORDERED)
        entries = _entries(order, sizes, self.edges) if len(order) else np.inf
        if entries > min(most_entries, MOST_ENTRIES - self.entries):
            return None
        self.entries += entries
        return order.tolist()

    def _branch(self, bounds: Bounds, depth: int) -> Text | None:
        """Fix the label of a node, or exclude it."""
        open_nodes = [v for v in range(len(self.sizes)) if bounds.alive[self.at[v] : self.at[v + 1]].sum() > 1]
        if not open_nodes or self._is_over(depth):
            return None
        v, label = self._choice(bounds, open_nodes)
        found = {}
        for name, keep in (("in", True), ("out", False)):
            child = bounds.copy()
            own = child.alive[self.at[v] : self.at[v + 1]]
            chosen = np.arange(len(own)) == label
            own &= chosen if keep else ~chosen
            tree = self.tree(child, depth)
            if tree is None:
                return None
            found[name] = tree
        return {"at": int(v), "labels": [int(label)], **found}

    def _is_over(self, depth: int) -> bool:
        return self.looked_at > MOST_SCORES or self.numbers > MOST_MESSAGES or depth > MOST_DEPTH

    def _choice(self, bounds: Bounds, nodes: list[int]) -> tuple[int, int]:
        """Return a node that many others depend on and whose best labels are close, and its best label."""
        best, chosen = -np.inf, (nodes[0], 0)
        for v in nodes:
            own = np.where(
                bounds.alive[self.at[v] : self.at[v + 1]], bounds.node[self.at[v] : self.at[v + 1]], -np.inf
            )
            first, second = np.partition(own, -2)[-2:][::-1] if len(own) > 1 else (own[0], -np.inf)
            degree = self.around_ptr[v + 1] - self.around_ptr[v] + (0 if self.rules is None else self.rules.degree[v])
            worth = (1 + degree) / (1e-3 + float(first - second))
            if worth > best:
                best, chosen = worth, (v, int(own.argmax()))
        return chosen

    def _settle(self, bounds: Bounds, rounds: int) -> float:
        """Pass messages, then rule out labels until none more can be; return the bound."""
        arrays = self.edges, self.at, self.problem.potentials.pairwise_offset, self.pair
        for r in range(rounds if len(self.edges) else 0):
            own = self.around_ptr, self.around, bounds.alive, bounds.node, bounds.message
            pass_messages(self.order, *arrays, *own, bool(r % 2))
        self.looked_at += rounds * (len(self.pair) + OVERHEAD_SCORES)
        self._round(bounds)
        while True:
            tops = np.array([self._top(bounds, v) for v in range(len(self.sizes))])
            pairs = np.zeros(len(self.edges))
            edge_tops(*arrays, bounds.alive, bounds.message, pairs)
            total = float(tops.sum() + pairs.sum()) + (
                0.0 if self.rules is None else self.rules.top(bounds.alive, self.at)
            )
            if not total > self.floor:
                return -np.inf
            kept = bounds.alive & (bounds.node + total - np.repeat(tops, self.sizes) > self.floor - UNIT)
            if (kept == bounds.alive).all():
                return total
            bounds.alive[:] = kept

    def _top(self, bounds: Bounds, v: int) -> float:
        span = slice(self.at[v], self.at[v + 1])
        return float(bounds.node[span][bounds.alive[span]].max(initial=-np.inf))

    def _round(self, bounds: Bounds) -> None:
        """Make all messages whole numbers of a unit, and node scores what they are with them."""
        bounds.message[:] = np.round(bounds.message / UNIT) * UNIT
        bounds.node[:] = self.start().node
        for e, (i, j) in enumerate(self.edges.tolist()):
            bounds.node[self.at[i] : self.at[i + 1]] += bounds.message[e, 0, : self.sizes[i]]
            bounds.node[self.at[j] : self.at[j + 1]] += bounds.message[e, 1, : self.sizes[j]]

    def _messages(self, moved: np.ndarray) -> list[Any]:
        """List messages for the file."""
        found = []
        for e, side in zip(*(x.tolist() for x in np.nonzero(moved.any(axis=2)))):
            row = moved[e, side, : self.sizes[self.edges[e, side]]].tolist()
            found.append([e, side, row])
            self.numbers += len(row)
        return found


class Rules:
    """What the rules of a graph cost at the least, by the checker's own reading; they send no messages."""

    def __init__(self, text: Text, n_edges: int, zero: bool):
        stated = {"unary": text["unary"], "parts": text["parts"][n_edges:]}
        self.bits = bits_of(stated)
        factor = 0 if zero else 1
        self.graph = Graph(stated, lambda value: in_units(value, self.bits, factor))
        self.degree = np.zeros(len(text["unary"]), np.int64)
        for nodes, _, _ in self.graph.parts:
            self.degree[nodes] += 1

    def top(self, alive: np.ndarray, at: np.ndarray) -> float:
        """Return the sum of the best scores of all rules over the labels that are alive; ``-inf`` if one cannot hold."""
        allowed = [set(np.flatnonzero(alive[a:b]).tolist()) for a, b in zip(at, at[1:])]
        total = 0
        for p, (nodes, _, _) in enumerate(self.graph.parts):
            found = self.graph.part(p, allowed, [[0] * self.graph.sizes[v] for v in nodes])
            if found is None:
                return -np.inf
            total += found
        return float(total / 2**self.bits)


def prove_graph(problem: GraphProblem, result: Result, words: Sequence[str] = ()) -> Proof | None:
    """Return a proof of what an engine answers to a graph problem; None if none was found within the limits."""
    flat = simple_graph(problem.pairwise)
    text = state_graph(flat)
    if text is None or result.upper_bound == np.inf or not len(flat.potentials.n_labels):
        return None
    zero = result.status is Status.infeasible
    bound = None if zero else proved_bound(result)
    witness = with_auxiliary(flat, with_tables(problem, result.labels)) if len(result.labels) else None
    if len(result.labels) and witness is None:
        return None
    search = GraphSearch(flat, -(2.0**-24) if bound is None else bound - TOLERANCE / 2, zero)
    if len(text["parts"]) > len(flat.potentials.edges):
        search.rules = Rules(text, len(flat.potentials.edges), zero)
    tree = search.tree(search.start())
    if tree is None:
        return None
    labels = None if witness is None else witness.tolist()
    return Proof(bound, partial(make_text, {"words": list(words)} | text, labels, bound, tree))


def _entries(order: np.ndarray, sizes: np.ndarray, edges: np.ndarray) -> float:
    """Return how many entries the tables of an elimination have in all."""
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in edges.tolist():
        near[i].add(j)
        near[j].add(i)
    total = 0.0
    for v in order.tolist():
        total += float(np.prod([float(sizes[u]) for u in (v, *near[v])]))
        for u in near[v]:
            near[u] |= near[v]
            near[u] -= {u, v}
    return total


def _flat(scores: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(scores > -np.inf, 0.0, -np.inf)
    return found
