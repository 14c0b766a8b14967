"""What bounds leave open, as smaller problems: labels that cannot be in a better labeling are left out."""

import numpy as np

from rulefield.inference.graph.exact.eliminate import plan_elimination
from rulefield.inference.graph.parts import Connected, split
from rulefield.inference.graph.state import GraphState
from rulefield.inference.graph.trws import MANY_NODES, ROUNDS, Search, begin, descend
from rulefield.kernels.graph.exact.branch import margins

ROOT_PROGRESS = 0.003
"""Share of the gap: sweeps end, and branching begins, if a round closes less."""
MAX_PIECES = 1_000
"""Pieces: with more, all of them are one."""
ONE_PIECE_SHARE = 0.8
"""Share of the open nodes in one piece from which on splitting does not pay."""
FEW_LABELS_SHARE = 0.5
"""Share of the labels beyond one per node: with fewer left, a smaller problem is worth building."""
CLEAR_LEAD_SHARE = 0.05
"""Share of the mean lead: a label that leads by more is kept while a labeling is improved."""
PIECE_ENTRIES = 2**29
"""Entries of tables with which elimination costs about what long searches do."""


def finish_pieces(state: GraphState) -> None:
    """Forbid labels by the root's bound and the best labeling, and solve what is left piece by piece."""
    search, root = state.search, begin(state.parts)
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
    alive = _in_problem_order(root, root.network.scores.unary > -np.inf)
    components, labels, constant = split(state.parts, alive, MAX_PIECES)
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
    state.eliminate(plan_elimination(search, PIECE_ENTRIES))
    state.branch()
    state.ask_highs()
    return search


def branch_on_open_labels(state: GraphState, nodes: float) -> None:
    """Branch on the labels that bounds leave open, as a smaller problem, if they are few and hang together."""
    search = state.search
    alive = search.network.scores.unary > -np.inf
    spare = int(alive.sum()) - search.network.n_nodes
    if search.value == -np.inf or spare > FEW_LABELS_SHARE * (len(alive) - search.network.n_nodes):
        return
    components, labels, constant = split(state.parts, _in_problem_order(search, alive))
    if len(components) != 1:
        return
    inner = state.piece(components[0].parts)
    piece = inner.search
    piece.value = least = search.value - constant
    descend(piece, progress=ROOT_PROGRESS, deadline=state.budget.deadline)
    inner.branch(nodes)
    search.rounds, search.nodes = search.rounds + piece.rounds, search.nodes + piece.nodes
    if piece.value > least:
        _write_labels(labels, components[0], piece)
        adopt(search, piece.value + constant, labels[search.network.order].astype(np.uint64))
    search.bound = max(search.value, min(search.bound, piece.bound + constant))


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
    components, labels, _ = split(state.parts, _in_problem_order(search, alive), most=1)
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


def _in_problem_order(search: Search, flags: np.ndarray) -> np.ndarray:
    out = np.empty_like(flags)
    out[search.network.unary_from] = flags
    return out


def _write_labels(labels: np.ndarray, piece: Connected, search: Search) -> None:
    """Write the labels of a piece, if it has any, where they belong (problem order)."""
    answer = search.answer()
    if answer is not None:
        sizes = np.array([len(keep) for keep in piece.labels])
        labels[piece.nodes] = np.concatenate(piece.labels)[np.cumsum(sizes) - sizes + answer]
