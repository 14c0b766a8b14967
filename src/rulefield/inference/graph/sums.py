"""Sums over all labellings of a graph under its rules, exactly, by variable elimination.

Every rule is an automaton that reads its nodes one after the other (:mod:`rulefield.inference.graph.automata`); its
states become variables between the nodes' labels, so that the whole is a product of small tables. Variables are summed
out one by one, the cheapest first, and the marginals follow on the way back. The cost is that of the largest table:
small on small graphs, on forests under rules about few nodes or about counts, and on thin graphs; elsewhere the sum is
refused.
"""

from dataclasses import dataclass

import numpy as np

from rulefield.inference.graph.automata import ROUNDING, Automaton, automata
from rulefield.inference.graph.elimination import TableProduct, refuse_size
from rulefield.problem.graph import GraphPotentials, GraphProblem

DIRECT = 512  # a rule whose labels combine in at most so many ways is one table


@dataclass(frozen=True)
class ExactSums:
    """Marginals of p(y) proportional to exp(score - cost of broken rules) over the labellings that hard rules allow.

    Parameters
    ----------
    node : ndarray of float64, like ``potentials.unary``
    log_partition : float
        ``-inf`` where no labelling is allowed; ``node`` is then 0.
    """

    node: np.ndarray
    log_partition: float


def exact_sums(problem: GraphProblem) -> ExactSums:
    """Sum over all labellings.

    Raises
    ------
    InputError
        Where a table would have too many entries, or a rule too many states.

    Notes
    -----
    Auxiliary variables of nested rules take the values that cost least, so they are maximised out before labels are
    summed. O(variables x largest table).

    References
    ----------
    .. [1] Dechter, Bucket elimination: a unifying framework for reasoning, 1999.
    """
    p = problem.potentials
    domains = _domains(p)
    node = np.zeros(len(p.unary))
    if any(len(domain) == 0 for domain in domains):
        return ExactSums(node, -np.inf)
    marginals, log_partition = _tables(problem, domains).sum_out()
    if log_partition > -np.inf:
        for v, domain in enumerate(domains):
            node[p.unary_offset[v] + domain] = marginals.get(v, 1.0)
    return ExactSums(node, log_partition)


def _domains(p: GraphPotentials) -> list[np.ndarray]:
    """Labels that each node may have; a node whose label is known has one and costs nothing."""
    return [np.flatnonzero(np.isfinite(p.unary[a:b])) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])]


def _tables(problem: GraphProblem, domains: list[np.ndarray]) -> TableProduct:
    """Lay scores and rules out as tables, with auxiliary variables maximised out."""
    p = problem.potentials
    n_auxiliary = problem.rows.n_auxiliary
    domains = [*domains, *[np.arange(2)] * n_auxiliary]
    product = TableProduct([len(domain) for domain in domains])
    for v in range(p.n_nodes):
        product.multiply((v,), p.unary[p.unary_offset[v] + domains[v]])
    for e, (i, j) in enumerate(p.edges.tolist()):
        pair = p.pairwise[p.pairwise_offset[e] : p.pairwise_offset[e + 1]].reshape(p.n_labels[i], p.n_labels[j])
        if i == j:
            product.multiply((i,), np.diagonal(pair)[domains[i]])
        else:
            product.multiply((i, j), pair[np.ix_(domains[i], domains[j])])
    rules, rest = automata(problem)
    for r in rest:
        _add_row(product, problem, int(r), domains)
    order = reading_order(p.n_nodes, p.edges)
    place = np.concatenate([np.argsort(order), np.arange(p.n_nodes, p.n_nodes + n_auxiliary)])
    hidden = list(range(p.n_nodes, p.n_nodes + n_auxiliary))
    for automaton in rules:
        states = _add_automaton(product, automaton, domains, place)
        if len(automaton.nodes) and automaton.nodes.max() >= p.n_nodes:
            hidden += states
    product.max_out(hidden)
    return product


def _add_automaton(
    product: TableProduct, automaton: Automaton, domains: list[np.ndarray], place: np.ndarray
) -> list[int]:
    """Multiply by a rule; return the variables that stand for its states (none where it is one table)."""
    letters = [own[domains[v]] for own, v in zip(automaton.letters, automaton.nodes)]
    nodes = automaton.nodes.tolist()
    if np.prod([float(len(own)) for own in letters]) <= DIRECT:
        product.multiply(nodes, Automaton(automaton.nodes, letters, automaton.delta, automaton.final).table())
        return []
    order = np.argsort(place[automaton.nodes], kind="stable")
    before, states, made = np.zeros(1, np.int64), list[int](), list[int]()
    for i in order[:-1]:
        after = automaton.delta[letters[i][:, None], before]
        reached = np.unique(after)
        refuse_size(float(after.size) * len(reached))
        made.append(product.variable(len(reached)))
        hit = np.where(after[..., None] == reached, 0.0, -np.inf)
        scope = [nodes[i], *states, made[-1]]
        product.multiply(scope, hit if states else hit[:, 0])
        before, states = reached, made[-1:]
    last = order[-1]
    product.multiply([nodes[last], *states], automaton.final[automaton.delta[letters[last][:, None], before]])
    return made


def _add_row(product: TableProduct, problem: GraphProblem, r: int, domains: list[np.ndarray]) -> None:
    """Multiply by a row whose numbers have no small automaton: one table over all its nodes."""
    rows = problem.rows
    span = slice(rows.pointer[r], rows.pointer[r + 1])
    nodes, which = np.unique(rows.atom_node[span], return_inverse=True)
    refuse_size(float(np.prod([float(len(domains[v])) for v in nodes])))
    total = np.full((), -rows.bound[r])
    for k, v in enumerate(nodes):
        mine = which == k
        own = np.bincount(rows.atom_label[span][mine], rows.value[span][mine], int(domains[v].max()) + 1)
        total = total[..., None] + own[domains[v]]
    over = total > ROUNDING
    cost = np.zeros(total.shape)
    cost[over] = rows.weight[r] * total[over]
    product.multiply(nodes.tolist(), -cost)


def reading_order(n_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Order in which automata read nodes, such that few nodes read have neighbours that are not.

    Greedy: next comes the node that leaves the fewest nodes open, the newest neighbourhood first. O(n x open nodes).
    """
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for i, j in edges.tolist():
        if i != j:
            neighbours[i].add(j)
            neighbours[j].add(i)
    waiting = [len(own) for own in neighbours]  # neighbours not yet read
    read = np.zeros(n_nodes, dtype=bool)
    fringe: dict[int, None] = {}
    unread = sorted(range(n_nodes), key=lambda v: len(neighbours[v]), reverse=True)
    order = []
    for _ in range(n_nodes):
        while unread and read[unread[-1]]:
            unread.pop()
        best = unread[-1]
        if fringe:
            closes = {v: sum(1 for u in neighbours[v] if read[u] and waiting[u] == 1) for v in fringe}
            best = min(reversed(fringe), key=lambda v: (waiting[v] > 0) - closes[v])
        fringe.pop(best, None)
        read[best] = True
        order.append(best)
        for u in neighbours[best]:
            waiting[u] -= 1
            if not read[u]:
                fringe[u] = None
    return np.array(order, dtype=np.int64)
