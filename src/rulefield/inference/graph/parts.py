"""A graph problem as potentials and automata, and what is left of it when labels are ruled out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rulefield.inference.graph.automata import GraphAutomaton, automata
from rulefield.problem.graph import GraphPotentials, GraphProblem

AUTOMATA = "automata"


@dataclass(frozen=True)
class GraphParts:
    """Potentials without loops whose last nodes are the auxiliary variables (two labels, score 0), and rules as automata.

    ``memory`` is where networks of the same automata are kept, by graph; None where they are not worth keeping.
    """

    potentials: GraphPotentials
    automata: list[GraphAutomaton]
    memory: dict[Any, Any] | None = None


@dataclass(frozen=True)
class Connected:
    """A piece of a problem that shares nothing with the others.

    Parameters
    ----------
    parts : GraphParts
        Its own nodes 0, 1, ... with only the labels that are left.
    nodes : ndarray of int64
        The problem's node for each of them.
    labels : list of ndarray of int64
        The problem's label for each label that is left.
    """

    parts: GraphParts
    nodes: np.ndarray
    labels: list[np.ndarray]


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
    if problem.rows.n_rows or problem.rows.n_auxiliary or not problem.logic.n_factors:
        made, rest = automata(problem)
        return GraphParts(extend(problem), made), rest
    memory = problem.logic.memory.setdefault(problem.potentials.n_labels.tobytes(), {})
    if AUTOMATA not in memory:
        memory[AUTOMATA] = automata(problem)[0]
    return GraphParts(extend(problem), memory[AUTOMATA], memory), np.zeros(0, dtype=np.int64)


def split(parts: GraphParts, alive: np.ndarray, most: int | None = None) -> tuple[list[Connected], np.ndarray, float]:
    """Cut a problem down to what is left when only ``alive`` labels may be used (at least one for each node).

    With more than ``most`` pieces, all of them are one component.

    Returns
    -------
    components : list of Connected
        The nodes with two labels or more, in pieces that share no edge and no rule.
    labels : ndarray of int64, shape (n_nodes,)
        The label of each node that has only one; 0 elsewhere.
    constant : float
        What the nodes with one label add by themselves.
    """
    p = parts.potentials
    start = p.unary_offset
    is_open = np.add.reduceat(alive.astype(np.int64), start[:-1]) > 1
    only = _first_alive(alive, start)
    folded, entry_alive, constant = _fold(p, alive, is_open)
    constant += float(folded.unary[start[:-1][~is_open] + only[~is_open]].sum())
    made = [_condition(m, only, is_open, alive, start) for m in parts.automata]
    constant += float(sum(m.final[0] for m in made if not len(m.nodes)))
    left = GraphParts(folded, [m for m in made if len(m.nodes)])
    piece = _pieces(p.n_nodes, folded.edges, left.automata)
    if most is not None and len(np.unique(piece[is_open])) > most:
        piece = np.zeros(p.n_nodes, np.int64)
    components = [
        _component(left, alive, entry_alive, piece, np.flatnonzero(is_open & (piece == c)))
        for c in np.unique(piece[is_open])
    ]
    return components, np.where(is_open, 0, only), constant


def _first_alive(alive: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the first living label of each node."""
    places = np.flatnonzero(alive)
    return places[np.searchsorted(places, start[:-1])] - start[:-1]


def _fold(p: GraphPotentials, alive: np.ndarray, is_open: np.ndarray) -> tuple[GraphPotentials, np.ndarray, float]:
    """Put the edges to fixed nodes into the nodes' scores; returns that, which entries live, and what is constant."""
    i, j = p.edges[:, 0], p.edges[:, 1]
    edge = np.repeat(np.arange(len(p.edges)), np.diff(p.pairwise_offset))
    inside = np.arange(len(p.pairwise)) - p.pairwise_offset[edge]
    at_i = p.unary_offset[i[edge]] + inside // p.n_labels[j[edge]]
    at_j = p.unary_offset[j[edge]] + inside % p.n_labels[j[edge]]
    lives = alive[at_i] & alive[at_j]
    open_i, open_j = is_open[i], is_open[j]
    unary = p.unary.copy()
    to_i = lives & (open_i & ~open_j)[edge]
    to_j = lives & (open_j & ~open_i)[edge]
    np.add.at(unary, at_i[to_i], p.pairwise[to_i])
    np.add.at(unary, at_j[to_j], p.pairwise[to_j])
    constant = float(p.pairwise[lives & ~(open_i | open_j)[edge]].sum())
    kept = open_i & open_j
    folded = GraphPotentials(p.n_labels, unary, p.edges[kept], p.pairwise[kept[edge]])
    return folded, lives[kept[edge]], constant


def _condition(
    m: GraphAutomaton, only: np.ndarray, is_open: np.ndarray, alive: np.ndarray, start: np.ndarray
) -> GraphAutomaton:
    """Read the fixed nodes first; the state reached becomes state 0."""
    state = 0
    nodes, letters = [], []
    for v, letter in zip(m.nodes, m.letters):
        if is_open[v]:
            nodes.append(v)
            letters.append(letter[alive[start[v] : start[v + 1]]])
        else:
            state = int(m.delta[letter[only[v]], state])
    swap = np.arange(len(m.final))
    swap[[0, state]] = swap[[state, 0]]
    return GraphAutomaton(np.array(nodes, dtype=np.int64), letters, swap[m.delta[:, swap]], m.final[swap])


def _pieces(n: int, edges: np.ndarray, made: list[GraphAutomaton]) -> np.ndarray:
    """Return the number of the connected piece of each node; an automaton connects its nodes."""
    links = [edges] + [np.stack([np.full(len(m.nodes) - 1, m.nodes[0]), m.nodes[1:]], axis=1) for m in made]
    both = np.concatenate(links)
    graph = coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _component(
    left: GraphParts, alive: np.ndarray, entry_alive: np.ndarray, piece: np.ndarray, nodes: np.ndarray
) -> Connected:
    """Cut the nodes of one piece out of what is left."""
    p = left.potentials
    number = np.full(p.n_nodes, -1)
    number[nodes] = np.arange(len(nodes))
    kept = np.flatnonzero(alive & np.repeat(number >= 0, p.n_labels))
    unary = p.unary[kept]
    sizes = np.add.reduceat(alive.astype(np.int64), p.unary_offset[:-1])[nodes]
    labels = np.split(kept - np.repeat(p.unary_offset[nodes], sizes), np.cumsum(sizes)[:-1])
    here = number[p.edges[:, 0]] >= 0
    entries = np.repeat(here, np.diff(p.pairwise_offset)) & entry_alive
    potentials = GraphPotentials(sizes, unary, number[p.edges[here]], p.pairwise[entries])
    made = [replace(m, nodes=number[m.nodes]) for m in left.automata if piece[m.nodes[0]] == piece[nodes[0]]]
    return Connected(GraphParts(potentials, made), nodes, labels)
