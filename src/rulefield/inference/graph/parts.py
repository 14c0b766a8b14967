"""A graph problem as potentials and automata, and what is left of it when labels are ruled out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rulefield.inference.graph.automata import GraphAutomaton, automata
from rulefield.problem.graph import GraphPotentials, GraphProblem

RULES = "rules"
MAX_PIECES = 1_000
"""Pieces: with more, all of them are one, since each has to be set up by itself."""


@dataclass(frozen=True)
class GraphParts:
    """Potentials without loops whose last nodes are the auxiliary variables (two labels), and rules as automata.

    Rules of one or two nodes are scores of nodes and edges; ``automata`` are the others.
    ``memory`` is where networks of the same rules are kept, by graph; None if they are not worth keeping.
    """

    potentials: GraphPotentials
    automata: list[GraphAutomaton]
    memory: dict[Any, Any] | None = None


@dataclass(frozen=True)
class Connected:
    """A piece of a problem that shares nothing with the others.

    It has nodes 0, 1, ... with only the labels that are left; ``nodes`` and ``labels`` are the problem's numbers for these.
    """

    parts: GraphParts
    nodes: np.ndarray
    labels: np.ndarray

    def write(self, labels: np.ndarray, picks: np.ndarray) -> None:
        """Write a labeling of the piece where it belongs among the labels of the problem."""
        labels[self.nodes] = self.labels[self.parts.potentials.unary_offset[:-1] + picks]


def extend(problem: GraphProblem) -> GraphPotentials:
    """Potentials without loops, with the auxiliary variables as more nodes."""
    p, k = problem.potentials.without_loops(), problem.rows.n_auxiliary
    if not k:
        return p
    sizes = np.concatenate([p.n_labels, np.full(k, 2)])
    return GraphPotentials(sizes, np.concatenate([p.unary, np.zeros(2 * k)]), p.edges, p.pairwise)


def parts_of(problem: GraphProblem) -> tuple[GraphParts, np.ndarray]:
    """Potentials and automata of a problem, and the numbers of rows that have no automaton (bounds ignore them).

    Automata of logic factors alone are made once for all problems that hold the same factors.
    """
    p = extend(problem)
    if problem.rows.n_rows or problem.rows.n_auxiliary or not problem.logic.n_factors:
        made, rest = automata(problem)
        return with_rules(p, *as_scores(p.n_labels, made)), rest
    memory = problem.logic.memory.setdefault(problem.potentials.n_labels.tobytes(), {})
    if RULES not in memory:
        memory[RULES] = as_scores(p.n_labels, automata(problem)[0])
    rules, large = memory[RULES]
    return with_rules(p, rules, large, memory), np.zeros(0, dtype=np.int64)


def as_scores(
    n_labels: np.ndarray, made: list[GraphAutomaton]
) -> tuple[GraphPotentials | None, list[GraphAutomaton]]:
    """Return the rules of one or two nodes as potentials (None: there are none), and the other rules."""
    small, large = [m for m in made if len(m.nodes) <= 2], [m for m in made if len(m.nodes) > 2]
    if not small:
        return None, large
    start = np.concatenate([[0], np.cumsum(n_labels)])
    unary, pairs = np.zeros(start[-1]), [m for m in small if len(m.nodes) == 2]
    for m in small:
        if len(m.nodes) == 1:
            unary[start[m.nodes[0]] : start[m.nodes[0] + 1]] += m.table()
    edges = np.array([m.nodes for m in pairs], dtype=np.int64).reshape(-1, 2)
    pairwise = np.concatenate([np.zeros(0), *(m.table().ravel() for m in pairs)])
    return GraphPotentials(n_labels, unary, edges, pairwise), large


def with_rules(
    p: GraphPotentials,
    rules: GraphPotentials | None,
    large: list[GraphAutomaton],
    memory: dict[Any, Any] | None = None,
) -> GraphParts:
    """Return potentials and the rules of :func:`as_scores` together."""
    if rules is not None:
        edges, pairwise = np.concatenate([p.edges, rules.edges]), np.concatenate([p.pairwise, rules.pairwise])
        p = GraphPotentials(p.n_labels, p.unary + rules.unary, edges, pairwise)
    return GraphParts(p, large, memory)


def split(parts: GraphParts, alive: np.ndarray, most: int = MAX_PIECES) -> tuple[list[Connected], np.ndarray, float]:
    """Cut a problem down to what is left when only ``alive`` labels may be used (at least one for each node).

    Returns the nodes with two labels or more, in pieces that share no edge and no rule (one piece, if there are more than
    ``most``); the label of each node that has only one (0 elsewhere); and what these nodes add by themselves.
    """
    p = parts.potentials
    start = p.unary_offset
    n_alive = np.add.reduceat(alive.astype(np.int64), start[:-1])
    is_open, only = n_alive > 1, _first_alive(alive, start)
    unary, kept, constant = _fold(p, alive, is_open)
    constant += float(unary[(start[:-1] + only)[~is_open]].sum())
    made = [_condition(m, alive, start) for m in parts.automata]
    constant += float(sum(m.final[0] for m in made if not len(m.nodes)))
    left = [m for m in made if len(m.nodes)]
    piece = np.where(is_open, 0, -1)
    if most > 1:
        found = _pieces(p.n_nodes, p.edges[is_open[p.edges].all(axis=1)], left)
        piece[is_open] = found[is_open] if len(np.unique(found[is_open])) <= most else 0
    components = [_component(p, unary, left, alive, kept, n_alive, piece == c) for c in np.unique(piece[is_open])]
    return components, np.where(is_open, 0, only), constant


def _first_alive(alive: np.ndarray, start: np.ndarray) -> np.ndarray:
    places = np.flatnonzero(alive)
    return places[np.searchsorted(places, start[:-1])] - start[:-1]


def _fold(p: GraphPotentials, alive: np.ndarray, is_open: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Put the edges to fixed nodes into the nodes' scores; returns these, which entries are left, and what is constant."""
    edge, at_i, at_j = p.pair_places
    lives = alive[at_i] & alive[at_j]
    open_i, open_j = is_open[p.edges[:, 0]], is_open[p.edges[:, 1]]
    unary = p.unary.copy()
    for at, folds in ((at_i, open_i & ~open_j), (at_j, open_j & ~open_i)):
        chosen = np.flatnonzero(lives & folds[edge])
        np.add.at(unary, at[chosen], p.pairwise[chosen])
    constant = float(p.pairwise[lives & ~(open_i | open_j)[edge]].sum())
    return unary, lives & (open_i & open_j)[edge], constant


def _condition(m: GraphAutomaton, alive: np.ndarray, start: np.ndarray) -> GraphAutomaton:
    """Read the nodes first whose living labels are one letter; the state reached becomes state 0."""
    sizes = np.diff(start)[m.nodes]
    end = np.cumsum(sizes)
    begin, letter = end - sizes, np.concatenate(m.letters)
    living = alive[np.arange(end[-1]) + np.repeat(start[m.nodes] - begin, sizes)]
    lowest = np.minimum.reduceat(np.where(living, letter, len(m.delta)), begin)
    fixed = lowest == np.maximum.reduceat(np.where(living, letter, -1), begin)
    state = 0
    for read in lowest[fixed].tolist():
        state = int(m.delta[read, state])
    letters = [letter[a:b][living[a:b]] for a, b in zip(begin[~fixed], end[~fixed])]
    swap = np.arange(len(m.final))
    swap[[0, state]] = swap[[state, 0]]
    return GraphAutomaton(m.nodes[~fixed], letters, swap[m.delta[:, swap]], m.final[swap])


def _pieces(n: int, edges: np.ndarray, made: list[GraphAutomaton]) -> np.ndarray:
    """Return the number of the connected piece of each node; an automaton connects its nodes."""
    links = [edges] + [np.stack([np.full(len(m.nodes) - 1, m.nodes[0]), m.nodes[1:]], axis=1) for m in made]
    both = np.concatenate(links)
    graph = coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _component(
    p: GraphPotentials,
    unary: np.ndarray,
    automata: list[GraphAutomaton],
    alive: np.ndarray,
    kept: np.ndarray,
    n_alive: np.ndarray,
    inside: np.ndarray,
) -> Connected:
    """Cut the nodes ``inside`` one piece out of what is left; ``kept``: entries of its edges."""
    nodes, number = np.flatnonzero(inside), np.cumsum(inside) - 1
    labels = np.flatnonzero(alive & np.repeat(inside, p.n_labels))
    here = inside[p.edges].all(axis=1)
    entries = kept & here[p.pair_places[0]]
    sizes = n_alive[nodes]
    potentials = GraphPotentials(sizes, unary[labels], number[p.edges[here]], p.pairwise[entries])
    made = [replace(m, nodes=number[m.nodes]) for m in automata if inside[m.nodes[0]]]
    labels -= np.repeat(p.unary_offset[nodes], sizes)
    return Connected(with_rules(potentials, *as_scores(sizes, made)), nodes, labels)
