"""Marginals of a graph's field. Without rules: exact on forests, tree-reweighted or loopy elsewhere.

Under rules: exact, by variable elimination. Every rule is an automaton that reads its nodes one after the other
(:mod:`rulefield.inference.graph.automata`); its states become variables between the nodes' labels, so that the whole is
a product of small tables. The cost is that of the largest table: small on small graphs, on forests under rules about few
nodes or about counts, and on thin graphs; elsewhere the sum is refused.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rulefield.data.graphs import spanning_tree
from rulefield.exceptions import InputError
from rulefield.inference.elimination import TableProduct, refuse_size
from rulefield.inference.graph.automata import ROUNDING, GraphAutomaton, automata
from rulefield.inference.graph.evaluate import check_scores
from rulefield.inference.graph.network import Network, build_network, lengths
from rulefield.inference.graph.parts import GraphParts
from rulefield.kernels.graph.bp import bp, bp_beliefs
from rulefield.kernels.graph.pair_maps import read_pair_scores
from rulefield.problem.graph import GraphPotentials, GraphProblem

METHODS = ("auto", "exact", "tree_reweighted", "loopy")
TOLERANCE = 1e-8
LOOPY_DAMPING = 0.3
TREES = 32
DIRECT = 512  # a rule whose labels combine in at most so many ways is one table


@dataclass(frozen=True)
class MarginalState:
    """Structure and messages to start from next time on the same graph."""

    network: Network
    weight: np.ndarray
    message: np.ndarray
    method: str
    n_labels: np.ndarray
    edges: np.ndarray

    def fits(self, potentials: GraphPotentials, method: str) -> bool:
        """Whether this is a state of the same graph (the same number of labels, the same edges)."""
        same = np.array_equal(self.n_labels, potentials.n_labels) and np.array_equal(self.edges, potentials.edges)
        return same and method in ("auto", self.method)


@dataclass(frozen=True)
class GraphMarginals:
    """Marginals of the field p(y) proportional to exp(score).

    Parameters
    ----------
    node : ndarray of float64, like ``potentials.unary``
    edge : ndarray of float64, like ``potentials.pairwise``
    log_partition : float
        Exact (``exact``), an upper bound at convergence (``tree_reweighted``) or the Bethe estimate (``loopy``).
    method : str
        ``exact``, ``tree_reweighted`` or ``loopy``.
    iterations : int
    converged : bool
    state : MarginalState
        Hand it to the next call on the same graph as ``warm_start``.
    """

    node: np.ndarray
    edge: np.ndarray
    log_partition: float
    method: str
    iterations: int
    converged: bool
    state: MarginalState = field(repr=False)


def graph_marginals(
    potentials: GraphPotentials,
    method: str = "auto",
    iterations: int = 500,
    tolerance: float = TOLERANCE,
    warm_start: MarginalState | None = None,
) -> GraphMarginals:
    """Marginals of a field without rules. The kernel releases the GIL.

    Parameters
    ----------
    potentials : GraphPotentials
    method : {"auto", "exact", "tree_reweighted", "loopy"}
        ``auto`` is ``exact`` (sum-product) on forests and ``tree_reweighted`` elsewhere.
    iterations : int
        Most rounds of sweeps on a graph with loops.
    tolerance : float
        Largest change of a log-message in the last round of a converged run.
    warm_start : MarginalState or None
        ``state`` of an earlier result on the same graph.

    Raises
    ------
    InputError
        Where ``exact`` is asked of a graph with loops, or no labeling is allowed.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    check_scores(potentials)
    state = warm_start if warm_start is not None and warm_start.fits(potentials, method) else None
    state = state or _prepare(potentials, method)
    network = state.network.with_scores(potentials)
    unary, pairwise = network.scores.unary, network.scores.pairwise
    message = np.where(np.isfinite(state.message), state.message, 0.0)
    rounds = 1 if state.method == "exact" else iterations
    damping = LOOPY_DAMPING if state.method == "loopy" else 0.0
    done, converged = bp(network.net, unary, pairwise, state.weight, message, rounds, tolerance, damping)
    node, edge = np.empty_like(unary), np.empty_like(pairwise)
    log_partition = bp_beliefs(network.net, unary, pairwise, state.weight, message, node, edge)
    if log_partition == -np.inf:
        raise InputError("no labeling is allowed: every one has a score of -inf; allow more labels.")
    return GraphMarginals(
        *_to_problem(network, potentials, node, edge),
        float(log_partition),
        state.method,
        int(done),
        bool(converged) or state.method == "exact",
        MarginalState(state.network, state.weight, message, state.method, potentials.n_labels, potentials.edges),
    )


def _prepare(potentials: GraphPotentials, method: str) -> MarginalState:
    network = build_network(GraphParts(potentials, []))
    if method == "auto":
        method = "exact" if network.is_forest else "tree_reweighted"
    if method == "exact" and not network.is_forest:
        raise InputError('method="exact" needs a graph without loops; use "tree_reweighted" or "loopy".')
    weight = np.ones(len(network.net.inc_other))
    if method == "tree_reweighted":
        weight = _tree_weights(network)
    message = network.new_messages().edge
    return MarginalState(network, weight, message, method, potentials.n_labels, potentials.edges)


def _tree_weights(network: Network) -> np.ndarray:
    """Share of spanning trees that hold each incident edge; trees are chosen to cover all edges evenly."""
    net = network.net
    n = network.n_nodes
    owner = np.repeat(np.arange(n), lengths(net.inc_ptr))
    other = net.inc_other.astype(np.int64)
    later = owner < other
    first, second = owner[later], other[later]
    noise = np.random.default_rng(0)
    counts, trees = np.zeros(len(first)), 0
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(n, n)).tocsr()
    key = first * n + second
    needed = len(first) // max(n - connected_components(graph, directed=False)[0], 1) + 1
    while trees < max(TREES, 4 * needed) or counts.min(initial=1) == 0:
        cost = 1.0 + counts + 0.5 * noise.random(len(first))
        tree = spanning_tree(coo_array((cost, (first, second)), shape=(n, n)).tocsr())
        counts[np.searchsorted(key, np.minimum(tree.row, tree.col) * n + np.maximum(tree.row, tree.col))] += 1
        trees += 1
    place = np.searchsorted(key, np.minimum(owner, other) * n + np.maximum(owner, other))
    return counts[place] / trees if len(counts) else np.ones(0)


def _to_problem(
    network: Network, potentials: GraphPotentials, node: np.ndarray, edge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Marginals in the order of the problem's scores; parallel edges share theirs, a loop has its node's."""
    nodes = np.empty_like(node)
    nodes[network.unary_from] = node
    pairs = np.empty(len(potentials.pairwise))
    read_pair_scores(network.places, nodes, edge, pairs)
    return nodes, pairs


# --- under rules ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactSums:
    """Marginals of p(y) proportional to exp(score - cost of broken rules) over the labelings that hard rules allow.

    Parameters
    ----------
    node : ndarray of float64, like ``potentials.unary``
    log_partition : float
        ``-inf`` where no labeling is allowed; ``node`` is then 0.
    """

    node: np.ndarray
    log_partition: float


def exact_sums(problem: GraphProblem) -> ExactSums:
    """Sum over all labelings.

    Raises
    ------
    InputError
        Where a table would have too many entries, or a rule too many states.

    Notes
    -----
    Auxiliary variables of nested rules take the values that cost least, so they are maximized out before labels are
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


def exact_draws(problem: GraphProblem, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw labelings of the distribution that :func:`exact_sums` sums, (n_draws, n_nodes); one must be allowed.

    Raises
    ------
    InputError
        Where a table would have too many entries, or no labeling is allowed.
    """
    domains = _domains(problem.potentials)
    if any(len(domain) == 0 for domain in domains) or exact_sums(problem).log_partition == -np.inf:
        raise InputError("no labeling is allowed: every one breaks a hard rule or has a score of -inf.")
    found = _tables(problem, domains).draw(n_draws, rng)
    columns = [domain[found.get(v, np.zeros(n_draws, np.int64))] for v, domain in enumerate(domains)]
    return np.stack(columns, axis=1) if columns else np.zeros((n_draws, 0), np.int64)


def _domains(p: GraphPotentials) -> list[np.ndarray]:
    """Labels that each node may have; a node whose label is known has one and costs nothing."""
    return [np.flatnonzero(np.isfinite(p.unary[a:b])) for a, b in zip(p.unary_offset[:-1], p.unary_offset[1:])]


def _tables(problem: GraphProblem, domains: list[np.ndarray]) -> TableProduct:
    """Lay scores and rules out as tables, with auxiliary variables maximized out."""
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
    for t in range(problem.tables.n_tables):
        nodes = problem.tables.node[problem.tables.pointer[t] : problem.tables.pointer[t + 1]]
        refuse_size(float(np.prod(p.n_labels[nodes].astype(float))))
        scores = problem.tables.dense(t, p.n_labels[nodes])
        product.multiply(nodes.tolist(), scores[np.ix_(*(domains[v] for v in nodes))] if len(nodes) else scores)
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
    product: TableProduct, automaton: GraphAutomaton, domains: list[np.ndarray], place: np.ndarray
) -> list[int]:
    """Multiply by a rule; return the variables that stand for its states (none where it is one table)."""
    letters = [own[domains[v]] for own, v in zip(automaton.letters, automaton.nodes)]
    nodes = automaton.nodes.tolist()
    if np.prod([float(len(own)) for own in letters]) <= DIRECT:
        product.multiply(nodes, GraphAutomaton(automaton.nodes, letters, automaton.delta, automaton.final).table())
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
    """Order in which automata read nodes, such that few nodes read have neighbors that are not.

    Greedy: next comes the node that leaves the fewest nodes open, the newest neighborhood first. O(n x open nodes).
    """
    neighbors: list[set[int]] = [set() for _ in range(n_nodes)]
    for i, j in edges.tolist():
        if i != j:
            neighbors[i].add(j)
            neighbors[j].add(i)
    waiting = [len(own) for own in neighbors]  # neighbors not yet read
    read = np.zeros(n_nodes, dtype=bool)
    fringe: dict[int, None] = {}
    unread = sorted(range(n_nodes), key=lambda v: len(neighbors[v]), reverse=True)
    order = []
    for _ in range(n_nodes):
        while unread and read[unread[-1]]:
            unread.pop()
        best = unread[-1]
        if fringe:
            closes = {v: sum(1 for u in neighbors[v] if read[u] and waiting[u] == 1) for v in fringe}
            best = min(reversed(fringe), key=lambda v: (waiting[v] > 0) - closes[v])
        fringe.pop(best, None)
        read[best] = True
        order.append(best)
        for u in neighbors[best]:
            waiting[u] -= 1
            if not read[u]:
                fringe[u] = None
    return np.array(order, dtype=np.int64)
