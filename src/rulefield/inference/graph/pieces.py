"""What bounds leave open, as smaller problems: labels that cannot be in a better labeling are left out."""

import numpy as np

from rulefield.inference.graph.budget import Budget
from rulefield.inference.graph.exact.eliminate import plan_elimination
from rulefield.inference.graph.exact.milp import milp_parts
from rulefield.inference.graph.parts import Connected, GraphParts, split
from rulefield.inference.graph.trws import MANY_NODES, MOVES, ROUNDS, Search, begin, descend
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
"""Entries of tables with which a piece is eliminated rather than searched."""


def finish_pieces(parts: GraphParts, search: Search, budget: Budget, use_milp: bool = False) -> None:
    """Forbid labels by the root's bound and the best labeling, and solve what is left piece by piece."""
    root = begin(parts)
    descend(root, deadline=budget.deadline)
    adopt(root, search.value, search.labels)
    descend(root, rounds=ROUNDS, deadline=budget.deadline)
    adopt(search, root.value, root.labels)
    search.bound, search.rounds = min(search.bound, root.bound), search.rounds + root.rounds
    if search.is_open:
        solve_pieces(parts, search, root, budget, use_milp)


def solve_pieces(parts: GraphParts, search: Search, root: Search, budget: Budget, use_milp: bool = False) -> None:
    """Solve the pieces into which the labels that ``root`` still allows fall; the whole if they hang together."""
    alive = _in_problem_order(root, root.network.scores.unary > -np.inf)
    components, labels, constant = split(parts, alive, MAX_PIECES)
    sizes = [len(piece.nodes) for piece in components]
    if not use_milp and max(sizes, default=0) > ONE_PIECE_SHARE * sum(sizes):
        budget.branch(search)
        if not search.is_open or max(sizes) > MANY_NODES:
            return
    value = bound = constant
    for piece in components:
        part = _solve_piece(piece, budget, use_milp)
        search.rounds, search.nodes = search.rounds + part.rounds, search.nodes + part.nodes
        value, bound = value + part.value, bound + part.bound
        _write_labels(labels, piece, part)
    adopt(search, value, labels[root.network.order].astype(np.uint64))
    search.bound = max(search.value, min(search.bound, bound))


def _solve_piece(piece: Connected, budget: Budget, use_milp: bool) -> Search:
    """Search one piece; by HiGHS alone if asked for."""
    search = begin(piece.parts)
    descend(search, deadline=budget.deadline)
    if use_milp and search.is_open:
        milp_parts(piece.parts, search, None, budget.seconds)
        return search
    budget.eliminate(search, plan_elimination(search, PIECE_ENTRIES))
    budget.branch(search)
    budget.ask_highs(search, piece.parts)
    return search


def branch_on_open_labels(parts: GraphParts, search: Search, budget: Budget, nodes: float) -> None:
    """Branch on the labels that bounds leave open, as a smaller problem, if they are few and hang together."""
    alive = search.network.scores.unary > -np.inf
    spare = int(alive.sum()) - search.network.n_nodes
    if search.value == -np.inf or spare > FEW_LABELS_SHARE * (len(alive) - search.network.n_nodes):
        return
    components, labels, constant = split(parts, _in_problem_order(search, alive))
    if len(components) != 1:
        return
    piece = begin(components[0].parts)
    piece.value = least = search.value - constant
    descend(piece, progress=ROOT_PROGRESS, deadline=budget.deadline)
    budget.branch(piece, nodes)
    search.rounds, search.nodes = search.rounds + piece.rounds, search.nodes + piece.nodes
    if piece.value > least:
        _write_labels(labels, components[0], piece)
        adopt(search, piece.value + constant, labels[search.network.order].astype(np.uint64))
    search.bound = max(search.value, min(search.bound, piece.bound + constant))


def improve_around_clear_nodes(parts: GraphParts, search: Search, budget: Budget) -> None:
    """Look for a better labeling with the nodes fixed that the bound's scores decide clearly.

    Fixing these is the idea of CombiLP ([Savchynskyy13]); it only makes a labeling, and the proof is left to bounds.
    """
    network = search.network
    leads, picks = margins(network.net, network.scores.unary, search.messages)
    finite = leads[np.isfinite(leads)]
    if not len(finite):
        return
    clear = leads > CLEAR_LEAD_SHARE * finite.mean()
    start = network.net.node_at.astype(np.int64)
    alive = search.original > -np.inf
    alive[np.repeat(clear, np.diff(start))] = False
    alive[(start[:-1] + picks)[clear]] = True
    components, labels, _ = split(parts, _in_problem_order(search, alive), most=1)
    if not components:
        return
    piece = begin(components[0].parts)
    descend(piece, deadline=budget.deadline)
    search.rounds += piece.rounds
    if piece.value > -np.inf:
        _write_labels(labels, components[0], piece)
        search.offer(labels[network.order], MOVES)


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
