"""What bounds leave open, as smaller problems: labels that cannot be in a better labeling are left out."""

import numpy as np

from rulefield.inference.graph.exact.eliminate import plan_elimination
from rulefield.inference.graph.parts import Connected, split
from rulefield.inference.graph.state import GraphState
from rulefield.inference.graph.trws import MANY_NODES, ROUNDS, Search, begin, descend
from rulefield.kernels.graph.exact.branch import margins

ONE_PIECE_SHARE = 0.8
"""Share of the open nodes in one piece from which on splitting does not pay."""
CLEAR_LEAD_SHARE = 0.05
"""Share of the mean lead: a label that leads by more is kept while a labeling is improved."""
PIECE_ENTRIES = 2**29
"""Entries of tables with which elimination costs about what long searches do."""


def finish_pieces(state: GraphState) -> None:
    """Forbid labels by the root's bound and the best labeling, if any, and solve what is left piece by piece."""
    search = state.search
    if search.value == -np.inf:
        return
    root = begin(state.parts)
    descend(root, deadline=state.budget.deadline)
    adopt(root, search.value, search.labels)
    descend(root, rounds=ROUNDS, deadline=state.budget.deadline)
    adopt(search, root.value, root.labels)
    search.bound, search.rounds = min(search.bound, root.bound), search.rounds + root.rounds
    if search.is_open:
        solve_pieces(state, root)


def solve_pieces(state: GraphState, root: Search | None = None) -> None:
    """Solve the pieces into which the labels that ``root`` still allows fall; the whole if they hang together."""
    search, root = state.search, state.search if root is None else root
    alive = root.network.by_label_of_problem(root.network.scores.unary > -np.inf)
    components, labels, constant = split(state.parts, alive)
    sizes = [len(piece.nodes) for piece in components]
    if max(sizes, default=0) > ONE_PIECE_SHARE * sum(sizes):
        state.branch()
        if not search.is_open or max(sizes) > MANY_NODES:
            return
    value = bound = constant
    for piece in components:
        part = _solve_piece(state.piece(piece.parts))
        search.rounds, search.nodes = search.rounds + part.rounds, search.nodes + part.nodes
        value, bound = value + part.value, bound + part.bound
        _write_labels(labels, piece, part)
    adopt(search, value, labels[root.network.order].astype(np.uint64))
    search.bound = max(search.value, min(search.bound, bound))


def _solve_piece(state: GraphState) -> Search:
    """Search one piece."""
    search = state.search
    descend(search, deadline=state.budget.deadline)
    state.eliminate(plan_elimination(state.parts, search, PIECE_ENTRIES))
    state.branch()
    return search


def improve_around_clear_nodes(state: GraphState) -> None:
    """Look for a better labeling with the nodes fixed that the bound's scores decide clearly.

    Fixing these is the idea of CombiLP ([Savchynskyy13]); it only makes a labeling, and the proof is left to bounds.
    """
    search, network = state.search, state.search.network
    leads, picks = margins(network.net, network.scores.unary, search.messages)
    finite = leads[np.isfinite(leads)]
    if not len(finite):
        return
    clear = leads > CLEAR_LEAD_SHARE * finite.mean()
    start = network.net.node_at.astype(np.int64)
    alive = search.original > -np.inf
    alive[np.repeat(clear, np.diff(start))] = False
    alive[(start[:-1] + picks)[clear]] = True
    components, labels, _ = split(state.parts, search.network.by_label_of_problem(alive), most=1)
    if not components:
        return
    piece = begin(components[0].parts)
    descend(piece, deadline=state.budget.deadline)
    search.rounds += piece.rounds
    if piece.value > -np.inf:
        _write_labels(labels, components[0], piece)
        search.offer(labels[network.order])


def adopt(search: Search, value: float, labels: np.ndarray) -> None:
    """Take a labeling (network order) if it is better."""
    if value > search.value:
        search.value, search.labels = value, labels


def _write_labels(labels: np.ndarray, piece: Connected, search: Search) -> None:
    answer = search.answer()
    if answer is not None:
        piece.write(labels, answer)
